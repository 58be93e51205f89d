"""Nodes that are one gateway: an agent on one answers for all, and an answer finds the node that waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from uuid import uuid4

import msgspec
import pytest

from bus.on_nats import NATS, need_nats, remove_streams
from deadline import DEADLINE
from sabir.agent import Agent, agent
from sabir.aio import cancel_and_wait
from sabir.bus import Bus, BusLimits, open_bus
from sabir.bus.memory import MemoryBus
from sabir.card import Card
from sabir.cluster.peer import BusPeer
from sabir.errors import Cancelled, DeadlineExceeded, Forbidden, PeerUnavailable, RateLimited, TurnFailed
from sabir.events import Delta, Event, Progress, Question, Reply
from sabir.exchange.request import EventSink, TurnRequest
from sabir.gateway.gateway import Gateway
from sabir.guard import Credentials, Quotas, Rights, Rule
from sabir.message import Message, Part, json_part
from sabir.observe.settings import ObserveSettings
from sabir.stores.memory import MemoryStore
from sabir.turn import Caller, Turn

SOON = BusLimits(alive_seconds=0.5)  # when a node is lost, that is noticed within two seconds
SECRET = "c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0LXNlY3JldA"


class Cluster:
    """Gateways that share a store and a bus."""

    def __init__(self, kind: str, home: Path) -> None:
        self.kind = kind
        self.prefix = f"test{uuid4().hex[:12]}"
        self.store = MemoryStore()
        self.gateways: list[Gateway] = []
        self._home = home
        self._shared = MemoryBus()

    def _bus(self) -> Bus:
        return self._shared if self.kind == "memory" else open_bus(f"{NATS}?prefix={self.prefix}", limits=SOON)

    async def node(self, *agents: Agent, **options: object) -> Gateway:
        name = f"n{len(self.gateways) + 1}"
        gateway = Gateway(
            *agents, home=self._home / name, store=self.store, bus=self._bus(), node=name, secrets=(SECRET,), **options
        )  # type: ignore[arg-type]
        await gateway.start()
        self.gateways.append(gateway)
        return gateway

    async def close(self) -> None:
        for gateway in self.gateways:
            await self.store.open()  # the first that stops closes what is shared
            await self._shared.open()
            await gateway.stop()
        if self.kind == "nats":
            await remove_streams(NATS, self.prefix)


@pytest.fixture(params=["memory", "nats"])
async def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Cluster]:
    if request.param == "nats":
        need_nats()
    cluster = Cluster(request.param, tmp_path)
    yield cluster
    await cluster.close()


class Asker:
    """Somebody at a door of a node; keeps what comes down the line."""

    def __init__(self, gateway: Gateway, caller: Caller | None = None) -> None:
        self.gateway = gateway
        self.caller = caller or Caller("key:ann", "key", roles=frozenset({"guest"}), claims={"secret": "s3cret"})
        self.events: list[Event] = []
        self.came = asyncio.Event()

    async def ask(self, message: Message | str, to: str | None = None, **options: object) -> Message:
        if isinstance(message, str):
            message = Message.text(message)
        ask = TurnRequest(message, "nlip-http", to, Credentials(caller=self.caller), **options)  # type: ignore[arg-type]
        await self.gateway.exchange.ask(ask, EventSink(self._send))
        last = self.events[-1]
        assert isinstance(last, Reply)
        return last.message

    async def _send(self, event: Event) -> None:
        self.events.append(event)
        self.came.set()

    async def question(self) -> Question:
        async with asyncio.timeout(DEADLINE):
            while not (self.events and isinstance(self.events[-1], Question)):
                self.came.clear()
                await self.came.wait()
        last = self.events[-1]
        assert isinstance(last, Question)
        return last


@agent(name="local", description="is on every node")
async def local(turn: Turn) -> str:
    return "local"


def token_for(gateway: Gateway, conversation: str, caller: Caller) -> Part:
    """The token that the caller got with the question."""
    conversations = gateway.exchange.conversations
    return conversations.token(conversation, caller, conversations.sort((), caller))


async def until(condition: Callable[[], bool | Awaitable[bool]]) -> None:
    async with asyncio.timeout(DEADLINE):
        while not condition():
            await asyncio.sleep(0.01)


async def test_an_agent_on_one_node_answers_for_another(cluster: Cluster) -> None:
    @agent(name="hotel", description="Rooms")
    async def hotel(turn: Turn) -> AsyncIterator[object]:
        yield Progress(0.5, "looking")
        yield "a room "
        yield "by the lake"

    a = await cluster.node(local)
    b = await cluster.node(local, hotel)
    await until(lambda: "hotel" in a.agents)
    assert isinstance(a.agents["hotel"], BusPeer)
    assert a.agents["hotel"].card == hotel.card
    asker = Asker(a)
    reply = await asker.ask("a room", "hotel")
    assert reply.text == "a room by the lake"
    assert asker.events[:-1] == [Progress(0.5, "looking"), Delta.text("a room "), Delta.text("by the lake")]
    assert [card.name for card in b.services.cards(asker.caller, "nlip-http")] == ["local", "hotel"]


async def test_a_node_that_comes_later_knows_what_is_there_at_once(cluster: Cluster) -> None:
    await cluster.node(agent(name="hotel")(lambda turn: "a room"))
    late = await cluster.node(local)
    assert (await Asker(late).ask("?", "hotel")).text == "a room"


async def test_the_conversation_goes_with_the_turn_and_is_recorded_once(cluster: Cluster) -> None:
    seen: list[list[str]] = []

    @agent(name="hotel")
    async def hotel(turn: Turn) -> str:
        seen.append([past.asked.text for past in turn.conversation.turns])
        return f"re: {turn.text}"

    b = await cluster.node(hotel, local)
    a = await cluster.node(local)
    first = await Asker(a).ask("one", "hotel")
    second = await Asker(b).ask(Message.text("two").with_parts(first.tokens), "hotel")
    await Asker(a).ask(Message.text("three").with_parts(second.tokens), "hotel")
    assert seen == [[], ["one"], ["one", "two"]]
    (row,) = await cluster.store.conversations("key:ann")
    assert row.turns == 3


async def test_trace_and_hops_are_forwarded_and_credentials_are_not(cluster: Cluster) -> None:
    turns: list[Turn] = []

    @agent(name="hotel")
    async def hotel(turn: Turn) -> str:
        turns.append(turn)
        return "ok"

    await cluster.node(hotel, local)
    a = await cluster.node(local)
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    await Asker(a).ask("?", "hotel", trace=trace, hops=2, seen=("guide",))
    (turn,) = turns
    assert (turn.trace, turn.hops, turn.seen) == (trace, 3, ("guide", "hotel"))
    assert (turn.caller.claims, turn.caller.address) == ({}, "")
    assert turn.message.tokens == ()


@pytest.mark.parametrize(
    "caller",
    [
        Caller("key:ann", "key", frozenset({"admin"}), "10.0.0.1", "Ann", {"email": "ann@example.com"}),
        Caller(address="10.0.0.1"),
        Caller("local:operator", "local", frozenset({"operator"}), name="operator"),
        Caller("agent:guide", "agent", frozenset({"anonymous", "known", "id:key:ann"}), on_behalf_of="key:ann"),
    ],
    ids=lambda caller: caller.kind,
)
async def test_an_agent_sees_the_same_of_its_caller_on_either_node(cluster: Cluster, caller: Caller) -> None:
    seen: list[Caller] = []

    @agent(name="hotel")
    async def hotel(turn: Turn) -> str:
        seen.extend((turn.caller, turn.sub(turn.message, local).caller))
        return "ok"

    there = await cluster.node(hotel, local)
    here = await cluster.node(local)
    for gateway in (there, here):
        await Asker(gateway, caller).ask("?", "hotel")
    at_home, below, away, below_away = seen
    assert away == msgspec.structs.replace(at_home, address="", claims={}, handed_on=True)
    assert away.effective_roles == at_home.effective_roles
    assert below_away == below


async def test_a_request_is_counted_on_the_node_that_received_it_and_not_again_on_the_other(cluster: Cluster) -> None:
    hotel = agent(name="hotel")(lambda turn: "a room")
    there = await cluster.node(hotel, local, quotas=Quotas(rate_per_caller=0.01, burst=1))
    here = await cluster.node(local)
    for _ in range(3):
        assert (await Asker(here).ask("?", "hotel")).text == "a room"
    assert (await Asker(there).ask("?", "hotel")).text == "a room"
    with pytest.raises(RateLimited):
        await Asker(there).ask("?", "hotel")


async def test_rights_hold_on_the_other_node_too(cluster: Cluster) -> None:
    hotel = agent(name="hotel")(lambda turn: "a room")
    await cluster.node(hotel, local, rights=Rights((Rule(("boss",)),)))
    a = await cluster.node(local)
    with pytest.raises(Forbidden, match="no right to use this agent"):
        await Asker(a).ask("?", "hotel")
    assert (await Asker(a, Caller("key:bo", "key", roles=frozenset({"boss"}))).ask("?", "hotel")).text == "a room"


async def test_an_error_of_the_agent_is_reported_without_internals(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    @agent(name="hotel")
    async def hotel(turn: Turn) -> str:
        if turn.text == "refuse":
            raise Forbidden("not for you")
        raise KeyError("a secret")

    await cluster.node(hotel, local)
    a = await cluster.node(local)
    with pytest.raises(Forbidden, match="not for you"):
        await Asker(a).ask("refuse", "hotel")
    with pytest.raises(TurnFailed) as raised:
        await Asker(a).ask("break", "hotel")
    assert "secret" not in str(raised.value)


def endless_hotel() -> tuple[Agent, asyncio.Event, asyncio.Event]:
    """An agent that never answers, and events for when it has begun and ended."""
    begun, ended = asyncio.Event(), asyncio.Event()

    @agent(name="hotel")
    async def hotel(turn: Turn) -> str:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return ""

    return hotel, begun, ended


async def test_a_deadline_on_this_node_ends_the_turn_on_the_other(cluster: Cluster) -> None:
    hotel, _, ended = endless_hotel()
    await cluster.node(hotel, local)
    a = await cluster.node(local)
    with pytest.raises(DeadlineExceeded):
        await Asker(a).ask("?", "hotel", seconds=1.0)
    async with asyncio.timeout(DEADLINE):
        await ended.wait()


async def test_cancelling_on_this_node_cancels_on_the_other(cluster: Cluster) -> None:
    hotel, begun, ended = endless_hotel()
    await cluster.node(hotel, local)
    a = await cluster.node(local)
    asking = asyncio.create_task(Asker(a).ask("?", "hotel"))
    async with asyncio.timeout(DEADLINE):
        await begun.wait()
        asking.cancel()
        await ended.wait()


async def test_a_question_of_an_agent_on_another_node_is_asked_on_this_one(cluster: Cluster) -> None:
    @agent(name="hotel")
    async def hotel(turn: Turn) -> str:
        nights = await turn.ask(Question("How many nights?", schema={"type": "integer"}))
        return f"booked for {nights.text}"

    await cluster.node(hotel, local)
    a = await cluster.node(local)
    asker, answering = Asker(a), Asker(a)
    asking = asyncio.create_task(asker.ask("a room", "hotel"))
    question = await asker.question()
    assert (question.text, question.schema) == ("How many nights?", {"type": "integer"})
    (row,) = await cluster.store.conversations("key:ann")
    token = a.exchange.conversations.token(row.id, asker.caller, a.exchange.conversations.sort((), asker.caller))
    reply = await answering.ask(Message.text("three").with_part(token), "hotel")
    assert reply.text == "booked for three"
    await asking_ends(asking)


async def asking_ends(asking: asyncio.Task[Message]) -> None:
    """The request that brought the question ends when its turn does, with nothing more sent down its line."""
    async with asyncio.timeout(DEADLINE):
        await asyncio.wait([asking])
    if not asking.cancelled():
        asking.exception()


async def test_an_answer_that_comes_to_another_node_reaches_the_turn_that_waits(cluster: Cluster) -> None:
    runs = 0

    @agent(name="clerk")
    async def clerk(turn: Turn) -> AsyncIterator[object]:
        nonlocal runs
        runs += 1
        first = await turn.ask("First?")
        yield Delta(json_part({"first": first.text}))
        second = await turn.ask("Second?")
        yield f"{turn.text}, {first.text}, {second.text}"

    a = await cluster.node(clerk)
    b = await cluster.node(clerk)
    asker = Asker(a)
    asking = asyncio.create_task(asker.ask("begin", "clerk"))
    await asker.question()
    (row,) = await cluster.store.conversations("key:ann")
    token = token_for(a, row.id, asker.caller)
    there = Asker(b)
    bringing = asyncio.create_task(there.ask(Message.text("one").with_part(token), "clerk"))
    assert (await there.question()).text == "Second?"
    assert there.events[0] == Delta(json_part({"first": "one"}))
    await asking_ends(bringing)
    again = Asker(b)
    reply = await again.ask(Message.text("two").with_part(token), "clerk")
    assert reply.parts[-2].content == "begin, one, two"
    assert reply.tokens == (token,)
    assert runs == 1
    await asking_ends(asking)
    assert await cluster.store.get("waiting", row.id) is None


async def test_a_question_asked_on_one_node_is_cancelled_through_another(cluster: Cluster) -> None:
    @agent(name="clerk")
    async def clerk(turn: Turn) -> str:
        return (await turn.ask("Well?")).text

    a = await cluster.node(clerk)
    b = await cluster.node(clerk)
    asker = Asker(a)
    asking = asyncio.create_task(asker.ask("begin", "clerk"))
    await asker.question()
    (row,) = await cluster.store.conversations("key:ann")
    token = token_for(a, row.id, asker.caller)
    wish = Message.text("cancel", messagetype="control").with_part(token)
    assert (await Asker(b).ask(wish, "clerk")).text.startswith("It is cancelled.")
    with pytest.raises(Cancelled):
        await asking
    assert (await Asker(b).ask(wish, "clerk")).text.startswith("Nothing is under way")


async def test_what_is_asked_on_one_node_before_it_is_erased_is_confirmed_by_way_of_another(cluster: Cluster) -> None:
    @agent(name="clerk")
    async def clerk(turn: Turn) -> str:
        return f"{len(turn.conversation.turns)}"

    a = await cluster.node(clerk)
    b = await cluster.node(clerk)
    await Asker(a).ask("my secret", "clerk")
    (row,) = await cluster.store.conversations("key:ann")
    token = token_for(a, row.id, Asker(a).caller)

    async def asked_back() -> asyncio.Task[Message]:
        asker = Asker(a)
        wish = Message.text("Erase this conversation.", messagetype="control").with_part(token)
        asking = asyncio.create_task(asker.ask(wish, "clerk"))
        assert (await asker.question()).text.endswith("Reply yes to confirm.")
        return asking

    asking = await asked_back()
    limits = Message.text("What are your limits?", messagetype="control").with_part(token)
    assert "bytes" in (await Asker(b).ask(limits, "clerk")).text  # another message: the question is withdrawn
    with pytest.raises(Cancelled):
        await asking
    assert (await Asker(b).ask(Message.text("yes").with_part(token), "clerk")).text.startswith("1")
    asking = await asked_back()
    reply = await Asker(b).ask(Message.text("yes", messagetype="control").with_part(token), "clerk")
    assert "is erased" in reply.text
    await asking_ends(asking)


async def test_an_answer_for_a_node_that_is_gone_begins_a_new_turn(cluster: Cluster) -> None:
    @agent(name="clerk")
    async def clerk(turn: Turn) -> str:
        return f"new: {turn.text}" if turn.text != "begin" else (await turn.ask("Well?")).text

    a = await cluster.node(clerk)
    b = await cluster.node(clerk)
    asker = Asker(a)
    asking = asyncio.create_task(asker.ask("begin", "clerk"))
    await asker.question()
    (row,) = await cluster.store.conversations("key:ann")
    record = await cluster.store.get("waiting", row.id)
    assert record is not None and record.value == b"n1"
    token = token_for(a, row.id, asker.caller)
    await cluster.store.put(type(record)("waiting", row.id, b"gone"))
    reply = await Asker(b).ask(Message.text("answer").with_part(token), "clerk")
    assert reply.text == "new: answer"
    asking.cancel()
    await asking_ends(asking)


class Discreet:
    """An agent that passes questions on, and agrees to anonymity or not."""

    def __init__(self, name: str, objection: str | None) -> None:
        self.card = Card(name)
        self.objection = objection
        self.proposed: list[str] = []

    async def __call__(self, turn: Turn, /) -> AsyncIterator[Event]:
        yield Reply(Message.text("done"))

    async def propose_anonymous(self, conversation: str) -> str | None:
        self.proposed.append(conversation)
        return self.objection


async def test_an_agent_on_another_node_is_asked_whether_it_agrees_to_anonymity(cluster: Cluster) -> None:
    """PAPER-ANON: whoever passes questions on agrees only if everyone behind it does."""
    refusing, agreeing = Discreet("refusing", "it keeps names"), Discreet("agreeing", None)
    b = await cluster.node(refusing, agreeing, agent(name="hotel")(lambda turn: "a room"))
    a = await cluster.node(local)

    async def objection(name: str) -> str | None:
        remote = a.exchange.agents[name]
        assert isinstance(remote, BusPeer)
        return await remote.propose_anonymous(f"conversation with {name}")

    assert await objection("refusing") == "it keeps names"
    assert await objection("agreeing") is None
    assert await objection("hotel") is None
    assert refusing.proposed == ["conversation with refusing"]
    (door,) = [door for door in b.doors if door.name == "bus"]
    for receiver in door._receivers.values():  # type: ignore[attr-defined]
        await receiver.stop()
    with pytest.raises(PeerUnavailable):
        await objection("agreeing")


async def test_an_agent_whose_node_stopped_is_no_longer_offered(cluster: Cluster) -> None:
    b = await cluster.node(agent(name="hotel")(lambda turn: "a room"))
    a = await cluster.node(local)
    assert "hotel" in a.agents
    (door,) = [door for door in b.doors if door.name == "bus"]
    await cancel_and_wait(door._tasks)  # type: ignore[attr-defined]  # or it would offer it again
    await b.directory.deregister("hotel", "gateway", node=b.node)
    await until(lambda: "hotel" not in a.agents)


async def test_an_agent_that_no_node_serves_any_more_says_so(cluster: Cluster) -> None:
    b = await cluster.node(agent(name="hotel")(lambda turn: "a room"))
    a = await cluster.node(local)
    (door,) = [door for door in b.doors if door.name == "bus"]
    for receiver in door._receivers.values():  # type: ignore[attr-defined]
        await receiver.stop()

    async def refused() -> bool:
        with pytest.raises(PeerUnavailable, match="hotel: no node answers for it now"):
            await Asker(a).ask("?", "hotel")
        return True

    assert await refused()


@pytest.mark.parametrize("cluster", ["nats"], indirect=True)  # one process does not lose half of itself
async def test_a_repeatable_agent_is_asked_on_another_node_when_the_first_is_lost(cluster: Cluster) -> None:
    calls: list[str] = []
    begun = asyncio.Event()

    def worker_on(node: str) -> Agent:
        @agent(name="worker", repeatable=True)
        async def worker(turn: Turn) -> str:
            calls.append(node)
            if len(calls) == 1:
                begun.set()
                await asyncio.Event().wait()
            return f"done on {node}"

        return worker

    nodes = [await cluster.node(worker_on(name), local) for name in ("n1", "n2")]
    a = await cluster.node(local)
    asking = asyncio.create_task(Asker(a).ask("?", "worker"))
    async with asyncio.timeout(DEADLINE):
        await begun.wait()
        died = nodes[0] if calls == ["n1"] else nodes[1]
        await died.bus.close()  # type: ignore[union-attr]
        reply = await asking
    assert reply.text == f"done on {calls[1]}"
    assert calls[0] != calls[1]


async def test_a_forwarded_turn_is_counted_once_and_its_usage_is_charged_to_its_caller(
    cluster: Cluster,
) -> None:
    @agent(name="hotel")
    async def hotel(turn: Turn) -> str:
        turn.meter.add(1, 70, 0.0)
        return "a room"

    quotas = Quotas(daily_turns=2, daily_tokens=1000, rate_per_caller=0.001, burst=3)
    await cluster.node(hotel, local, quotas=quotas)
    a = await cluster.node(local, quotas=quotas)
    ann = Asker(a)
    for _ in range(2):
        await ann.ask("?", "hotel")
    left = {item.name: item.remaining for item in await a.guard.usage.left(ann.caller)}
    assert left == {"daily-turns": 0, "daily-tokens": 860}
    with pytest.raises(RateLimited, match="the quota of 2 turns a day is used up"):
        await ann.ask("?", "hotel")
    for name in ("bo", "cy"):  # others are not held back by what the nodes say to each other
        other = Asker(a, Caller(f"key:{name}", "key"))
        assert (await other.ask("?", "hotel")).text == "a room"


async def test_one_key_on_two_nodes_at_once_has_one_answer(cluster: Cluster) -> None:
    gate, running = asyncio.Event(), 0

    def on(node: str) -> Agent:
        @agent(name="slow")
        async def slow(turn: Turn) -> str:
            nonlocal running
            running += 1
            await gate.wait()
            return f"answered on {node}"

        return slow

    a, b = [await cluster.node(on(name)) for name in ("a", "b")]
    asking = [asyncio.create_task(Asker(node).ask("?", "slow", key="k1")) for node in (a, b)]
    await until(lambda: running == 2)
    gate.set()
    first, second = await asyncio.gather(*asking)
    assert first.text == second.text
    (row,) = await cluster.store.conversations("key:ann")
    assert row.turns == 1
    ids = {a.exchange.conversations.opened(reply.tokens[-1], Asker(a).caller) for reply in (first, second)}
    assert ids == {row.id}


async def test_metrics_show_what_the_bus_has_under_way(cluster: Cluster) -> None:
    node = await cluster.node(local, observe=ObserveSettings(metrics=True))
    assert node.exchange.observer is not None
    shown = node.exchange.observer.metrics.text()
    for what in ("in_hand", "sending", "calls", "serving"):
        assert f"sabir_bus_{what} 0" in shown


async def test_a_node_that_is_about_to_stop_leaves_its_turns_to_others(cluster: Cluster) -> None:
    asked: list[str] = []

    def on(node: str) -> Agent:
        @agent(name="hotel")
        async def hotel(turn: Turn) -> str:
            asked.append(node)
            return node

        return hotel

    stopping = await cluster.node(on("n1"), local)
    await cluster.node(on("n2"), local)
    a = await cluster.node(local)
    stopping.exchange.closing = True
    for _ in range(6):
        assert (await Asker(a).ask("?", "hotel")).text == "n2"
    assert asked == ["n2"] * 6


async def test_when_every_node_is_about_to_stop_that_is_said(cluster: Cluster) -> None:
    only = await cluster.node(agent(name="hotel")(lambda turn: "a room"), local)
    a = await cluster.node(local)
    only.exchange.closing = True
    with pytest.raises(PeerUnavailable, match=r"hotel: (all nodes that serve it are stopping|no node answers)"):
        await Asker(a).ask("?", "hotel")

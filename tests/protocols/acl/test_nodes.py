"""The scenarios of ACL over real sockets: on one gateway, and on two nodes that share PostgreSQL and NATS.

Whoever asks is connected to the first node, whoever answers to the last.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path
from uuid import uuid4

import asyncpg
import httpx
import pytest

from bus.on_nats import NATS, need_nats, remove_streams
from conftest import Served, serving
from deadline import DEADLINE
from gates import Gate
from sabir.agent import agent
from sabir.card import Card
from sabir.gateway.gateway import Gateway
from sabir.protocols.acl.peer.codons import contract_net, delegate
from sabir.protocols.acl.peer.messenger import AclConversation, Messenger
from sabir.protocols.acl.wire.envelope import Envelope, stamp
from sabir.turn import Turn
from stores.places import POSTGRES

SECRET = "c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0LXNlY3JldA"
RESULT = {"task_status": "success", "result_details": {}}


def weather(gate: Gate) -> list[object]:
    @agent(card=Card("weather", "Watches the sky", publishes=("storms",)))
    async def weather(turn: Turn) -> str:
        return f"sunny: {turn.text}"

    @agent(description="Takes its time")
    async def slow(turn: Turn) -> str:
        await gate.passed()
        return "done at last"

    return [weather, slow]


def sql(statement: str) -> None:
    async def run() -> None:
        connection = await asyncpg.connect(POSTGRES, timeout=5)
        try:
            await connection.execute(statement)
        finally:
            await connection.close()

    asyncio.run(run())


@pytest.fixture(scope="module", params=["one gateway", "two nodes"])
def nodes(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, gate: Gate
) -> Iterator[list[Served]]:
    folder: Path = tmp_path_factory.mktemp("nodes")
    with ExitStack() as stack:
        if request.param == "one gateway":
            yield [stack.enter_context(serving(Gateway(*weather(gate), home=folder)))]  # type: ignore[arg-type]
            return
        need_nats()
        name = f"acl_{uuid4().hex[:12]}"
        sql(f"CREATE SCHEMA {name}")
        stack.callback(lambda: asyncio.run(remove_streams(NATS, name)))
        stack.callback(sql, f"DROP SCHEMA {name} CASCADE")
        yield [stack.enter_context(serving(_node(folder, name, node, gate))) for node in ("a", "b")]


def _node(folder: Path, name: str, node: str, gate: Gate) -> Gateway:
    return Gateway(
        *weather(gate),  # type: ignore[arg-type]
        home=folder / node,
        store=f"{POSTGRES}?search_path={name}",
        bus=f"{NATS}?prefix={name}",
        node=node,
        secrets=(SECRET,),
    )


Make = Callable[..., Messenger]


@pytest.fixture
async def make(nodes: list[Served]) -> AsyncIterator[Make]:
    """Messengers with names of their own, at the first node or at the last."""
    async with AsyncExitStack() as stack:

        def made(name: str, *, node: int = 0) -> Messenger:
            messenger = Messenger(f"{nodes[node].url}/acl", f"{name}-{uuid4().hex[:8]}")
            messenger.start()
            stack.push_async_callback(messenger.close)
            return messenger

        yield made


async def known(*messengers: Messenger) -> None:
    """Let the gateway know them, so that messages wait for them."""
    for messenger in messengers:
        await messenger.link.waiting(messenger.name)


async def test_a_task_is_delegated_and_done(make: Make) -> None:  # ACL-37, ACL-52
    eddy, jules = make("eddy"), make("jules", node=-1)

    @jules.on("TASK_REQUEST")
    async def work(conversation: AclConversation, message: Envelope) -> None:
        await conversation.say("TASK_ACCEPT", {"status": "accepted"})
        answer = await _asked(conversation)
        await conversation.say("INFORM_RESULT", {**RESULT, "result_summary": f"painted it {answer}"})

    await known(jules)
    conversation = await eddy.request(jules.name, "paint")
    acts: list[str] = []
    async with asyncio.timeout(60):
        async for message in conversation:
            acts.append(message.performative)
            if message.performative == "REQUEST_INPUT":
                await conversation.answer("blue")
    assert acts == ["TASK_ACCEPT", "REQUEST_INPUT", "INFORM_RESULT"]
    assert message.payload["result_summary"] == "painted it blue"
    ended = await delegate(eddy, "weather", "today", seconds=60)
    assert ended.payload["result_summary"] == "sunny: today"


async def _asked(conversation: AclConversation) -> str:
    await conversation.say("REQUEST_INPUT", {"question": "Which colour?"})
    answer = await conversation.next(60)
    assert answer is not None
    return str(answer.payload["answer"])


@pytest.mark.timeout(900)
async def test_of_twenty_bidders_five_are_silent_and_two_crash(make: Make) -> None:  # ACL-28, ACL-52
    bidders = [make(f"bidder{n}", node=-1) for n in range(20)]

    def bid(messenger: Messenger, number: int) -> None:
        @messenger.on("CALL_FOR_PROPOSALS")
        async def call(conversation: AclConversation, message: Envelope) -> None:
            if number < 5:
                return  # silent
            if number < 7:
                raise RuntimeError("crashed")
            await conversation.say("PROPOSE", {"proposal": {"n": number}, "price": 100.0 - number})
            decision = await conversation.next(60)
            if decision is not None and decision.performative == "ACCEPT_PROPOSAL":
                await conversation.say("INFORM_RESULT", {**RESULT, "result_summary": f"done by {number}"})

    for number, bidder in enumerate(bidders):
        bid(bidder, number)
    await known(*bidders)
    names = [bidder.name for bidder in bidders]
    awarded = await contract_net(make("eddy"), names, "paint a heron", reply_seconds=15.0, result_seconds=60.0)
    assert len(awarded.proposals) == 13
    assert set(awarded.silent) == set(names[:5])
    assert [ended.payload["result_summary"] for ended in awarded.results] == ["done by 19"]


async def test_a_lost_subscriber_gets_nothing_after_its_lease(make: Make, nodes: list[Served]) -> None:  # ACL-19
    kept, lost = make("kept"), make("lost")
    for messenger, seconds in ((kept, 600.0), (lost, 1.0)):
        conversation = await messenger.open("SUBSCRIBE", "weather", {"topic": "storms", "lease_seconds": seconds})
        first = await conversation.next(30)
        assert first is not None and first.performative == "TASK_ACCEPT"
    ended = await conversation.next(30)
    assert ended is not None and (ended.performative, ended.payload["error_code"]) == ("FAILURE", "timeout")
    last = nodes[-1]
    assert last.server.loop is not None
    sending = last.gateway.notify("weather", "storms", {"wind": 9})
    sent = asyncio.run_coroutine_threadsafe(sending, last.server.loop)
    assert await asyncio.to_thread(sent.result, DEADLINE) == 1


async def test_a_result_that_crosses_a_cancel_wins_on_both_sides(make: Make, nodes: list[Served]) -> None:  # ACL-28
    eddy, jules = make("eddy"), make("jules", node=-1)
    crossing = asyncio.Event()
    ended: list[str] = []

    @jules.on("TASK_REQUEST")
    async def work(conversation: AclConversation, message: Envelope) -> None:
        await conversation.say("TASK_ACCEPT", {"status": "accepted"})
        await crossing.wait()  # the cancellation is on its way, and has not been read
        await conversation.say("INFORM_RESULT", {**RESULT, "result_summary": "done"})
        ended.append(conversation.state)

    await known(jules)
    conversation = await eddy.request(jules.name, "work")
    async with asyncio.timeout(60):
        assert (await anext(conversation)).performative == "TASK_ACCEPT"
        await conversation.cancel("never mind")
        crossing.set()
        last = await conversation.result()
        while not ended:  # the result may be read before its sender has the acknowledgement
            await asyncio.sleep(0.01)
    assert (last.performative, conversation.state, ended) == ("INFORM_RESULT", "done", ["done"])
    view = httpx.get(f"{nodes[0].url}/acl/conversations/{conversation.id}").json()
    assert view["dialogues"][0]["state"] == "done"


async def test_a_cancelled_task_of_the_gateway_ends(make: Make, gate: Gate) -> None:  # ACL-37
    gate.reset()
    conversation = await make("eddy").request("slow", "work")
    async with asyncio.timeout(60):
        assert (await anext(conversation)).performative == "TASK_ACCEPT"
        await conversation.cancel()
        assert (await conversation.result()).performative == "INFORM_DONE"
    gate.open()


async def test_one_of_all_nodes_fires_a_timer(make: Make, nodes: list[Served]) -> None:  # ACL-27
    eddy, silent = make("eddy"), make("silent", node=-1)

    @silent.on("TASK_REQUEST")
    async def nothing(conversation: AclConversation, message: Envelope) -> None:
        return

    await known(silent)
    conversation = await eddy.request(silent.name, "work", reply_by=stamp(time.time() + 0.5))
    ended = await conversation.result(60)
    assert (ended.performative, ended.sender_id) == ("FAILURE", "gateway")
    view = httpx.get(f"{nodes[0].url}/acl/conversations/{conversation.id}").json()
    assert [message["performative"] for message in view["messages"]] == ["TASK_REQUEST", "FAILURE"]

"""ACL from Python: agents of functions, conversations, and the codons, over real sockets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, aclosing
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from joserfc.jwk import KeySet, OKPKey

from conftest import Served
from deadline import DEADLINE
from gates import Gate
from sabir.errors import Conflict, PeerRefused
from sabir.protocols.acl.peer.codons import (
    Saga,
    cheapest,
    contract_net,
    delegate,
    results,
    run_saga,
    subscribe,
    whispering_wind,
)
from sabir.protocols.acl.peer.messenger import AclConversation, Messenger
from sabir.protocols.acl.wire.envelope import Envelope
from sabir.protocols.acl.wire.signatures import encrypted
from sabir.protocols.connect import connect

Make = Callable[..., Messenger]


@pytest.fixture
async def make(served: Served) -> AsyncIterator[Make]:
    """Messengers with names of their own."""
    async with AsyncExitStack() as stack:

        def made(name: str, **options: Any) -> Messenger:
            messenger = Messenger(f"{served.url}/acl", f"{name}-{uuid4().hex[:8]}", **options)
            messenger.start()
            stack.push_async_callback(messenger.close)
            return messenger

        yield made


async def test_a_request_is_a_conversation(make: Make) -> None:  # ACL-40
    conversation = await make("eddy").request("jules", "hello")
    acts = [message.performative async for message in conversation]
    assert acts == ["TASK_ACCEPT", "INFORM_PROGRESS", "INFORM_PROGRESS", "INFORM_RESULT"]
    assert conversation.state == "done"


async def test_a_question_is_answered_and_a_task_cancelled(make: Make, gate: Gate) -> None:  # ACL-40
    eddy = make("eddy")
    conversation = await eddy.request("asker", "paint")
    async for message in conversation:
        if message.performative == "REQUEST_INPUT":
            await conversation.answer("blue")
    assert message.payload["result_summary"] == "You chose blue."
    gate.reset()
    slow = await eddy.request("slow", "work")
    assert (await anext(slow)).performative == "TASK_ACCEPT"
    await slow.cancel("never mind")
    assert (await slow.result(DEADLINE)).performative == "INFORM_DONE"
    gate.open()


class LateResponses(Messenger):
    """Gets the response to a post only after the answer to its message, as a fast agent on a busy machine causes it."""

    conversation: AclConversation | None = None
    posted: tuple[str, ...] = ()

    async def post(self, envelope: Envelope) -> dict[str, Any]:
        said = self.conversation.state if self.conversation is not None else ""
        response = await super().post(envelope)
        self.posted += (envelope.performative,)
        async with asyncio.timeout(DEADLINE):
            while self.conversation is not None and "NOT_UNDERSTOOD" not in self.posted:
                if self.conversation.state != said:
                    break
                await asyncio.sleep(0.01)
        return response


async def test_an_answer_may_come_before_the_response_to_the_act(served: Served, gate: Gate) -> None:  # ACL-24
    gate.reset()
    async with LateResponses(f"{served.url}/acl", f"eddy-{uuid4().hex[:8]}") as eddy:
        slow = await eddy.request("slow", "work")
        assert (await anext(slow)).performative == "TASK_ACCEPT"
        eddy.conversation = slow
        await slow.cancel("never mind")
        assert (await slow.result(DEADLINE)).performative == "INFORM_DONE"
        assert "NOT_UNDERSTOOD" not in eddy.posted
    gate.open()


async def test_an_act_that_could_not_be_sent_does_not_count(make: Make, gate: Gate) -> None:  # ACL-24
    gate.reset()
    eddy = make("eddy")
    slow = await eddy.request("slow", "work")
    assert (await anext(slow)).performative == "TASK_ACCEPT"
    with pytest.raises(PeerRefused):
        await slow.say("CANCEL", {"reason_text": "x" * 2_000_000})
    await slow.cancel("never mind")
    assert (await slow.result(DEADLINE)).performative == "INFORM_DONE"
    gate.open()


async def test_what_is_out_of_sequence_is_refused_before_it_is_sent(make: Make) -> None:  # ACL-24
    conversation = await make("eddy").request("jules", "hello")
    with pytest.raises(Conflict, match="INFORM_INPUT by the initiator is out of sequence"):
        await conversation.answer("too early")
    await conversation.result(DEADLINE)


async def test_an_agent_is_one_function_for_each_act(make: Make) -> None:  # ACL-40, A-10
    worker, eddy = make("worker"), make("eddy")

    @worker.on("TASK_REQUEST")
    async def work(conversation: AclConversation, message: Envelope) -> None:
        await conversation.say("TASK_ACCEPT", {"status": "accepted"})
        await conversation.say("INFORM_PROGRESS", {"fraction": 0.5})
        payload = {"task_status": "success", "result_summary": message.payload["task_description"].upper()}
        await conversation.say("INFORM_RESULT", {**payload, "result_details": {}})

    await worker.link.post(worker.make("QUERY_CAPABILITIES", "jules", {"query_type": "summary"}))  # it is known now
    ended = await delegate(eddy, worker.name, "shout", seconds=30)
    assert ended.payload["result_summary"] == "SHOUT"
    with pytest.raises(PeerRefused, match="does not take CALL_FOR_PROPOSALS"):
        conversation = await eddy.open("CALL_FOR_PROPOSALS", worker.name, {"task_type": "x", "task_description": "x"})
        reply = await conversation.next(30)
        assert reply is not None
        raise PeerRefused(reply.sender_id, reply.payload["reason_text"])


async def test_a_handler_that_raises_is_a_failure(make: Make, caplog: pytest.LogCaptureFixture) -> None:  # ACL-12
    worker, eddy = make("worker"), make("eddy")

    @worker.on("TASK_REQUEST")
    async def work(conversation: AclConversation, message: Envelope) -> None:
        await conversation.say("TASK_ACCEPT", {"status": "accepted"})
        raise RuntimeError("a secret")

    await worker.link.post(worker.make("QUERY_CAPABILITIES", "jules", {"query_type": "summary"}))
    with pytest.raises(PeerRefused, match=f"{worker.name} failed"):
        await delegate(eddy, worker.name, "x", seconds=30)


async def test_queries_have_functions_of_their_own(make: Make) -> None:  # ACL-40
    eddy = make("eddy")
    assert await eddy.query_if("jules", {"capacity": 1}) is True
    assert await eddy.query_ref("german", "agent.ontologies") == ["my:term"]
    assert (await eddy.capabilities("jules"))["status"] == "success"


async def test_a_remote_acl_agent_is_an_agent(served: Served) -> None:  # ACL-38
    async with connect(f"{served.url}/acl/jules") as jules:
        reply = await jules.ask("hello")
        await jules.discover()
    assert reply.text == "You said: hello"
    assert jules.card.description == "Debugs and explains code"
    assert jules.card.skills[0].id == "EXECUTE_DELEGATED_CODING_TASK"
    async with connect(f"{served.url}/acl", agent="counter") as counter:
        assert [(await counter.ask("x")).text for _ in range(2)] == ["turn 1", "turn 2"]


# -- codons ---------------------------------------------------------------------------------------


async def test_whispering_wind_ranks_those_who_can(make: Make) -> None:  # ACL-52, C-9
    found = await whispering_wind(make("eddy"), ["jules", "painter", "slow"], ["python", "explain", "cobol"])
    assert [(item.name, item.matched) for item in found] == [("jules", ("python", "explain"))]
    assert found[0].score == pytest.approx(2 / 3)


async def test_a_contract_net_with_silent_and_crashing_bidders(make: Make) -> None:  # ACL-52, ACL-28
    bidders = [make(f"bidder{n}") for n in range(20)]

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
                result = {"task_status": "success", "result_summary": f"done by {number}", "result_details": {}}
                await conversation.say("INFORM_RESULT", result)

    for number, bidder in enumerate(bidders):
        bid(bidder, number)
        await bidder.link.post(bidder.make("QUERY_CAPABILITIES", "jules", {"query_type": "summary"}))
    names = [bidder.name for bidder in bidders]
    awarded = await contract_net(make("eddy"), names, "paint a heron", reply_seconds=4.0, result_seconds=30.0)
    assert len(awarded.proposals) == 13
    assert set(awarded.silent) == set(names[:5])
    assert [ended.payload["result_summary"] for ended in awarded.results] == ["done by 19"]


async def test_a_subscription_follows_a_topic_and_ends_its_lease(make: Make) -> None:  # ACL-52, ACL-19
    eddy, skill = make("eddy"), uuid4().hex
    events = subscribe(eddy, "df", "directory", {"skills": [skill]}, lease_seconds=30)
    waiting = asyncio.create_task(anext(events))
    while not any(c.state == "active" for c in eddy._conversations.values()):
        await asyncio.sleep(0.01)
    await delegate(eddy, "df", "register", {"name": f"n-{skill[:8]}", "skills": [skill]}, task_type="register")
    async with asyncio.timeout(DEADLINE):
        event = await waiting
    assert (event["kind"], event["entry"]["skills"]) == ("registered", [skill])
    await events.aclose()


async def test_a_lease_is_renewed_while_events_keep_arriving(make: Make) -> None:  # ACL-52, ACL-19
    source, eddy = make("source"), make("eddy")

    @source.on("SUBSCRIBE")
    async def publish(conversation: AclConversation, message: Envelope) -> None:
        await conversation.say("TASK_ACCEPT", {"status": "accepted"})
        while await conversation.next(0.1) is None:  # until it is renewed
            await conversation.say("NOTIFY", {"topic": "ticks", "event": "tick"})
        await conversation.say("NOTIFY", {"topic": "ticks", "event": "renewed"})

    await source.link.waiting(source.name)  # known from now on
    async with asyncio.timeout(DEADLINE), aclosing(subscribe(eddy, source.name, "ticks", lease_seconds=3.0)) as events:
        async for event in events:
            if event == "renewed":
                break


async def test_what_cannot_be_decrypted_is_not_understood(make: Make) -> None:  # ACL-48, C-2
    eddy, worker = make("eddy"), make("worker", decryption_key=OKPKey.generate_key("X25519"))
    await worker.link.waiting(worker.name)
    closed = encrypted({"task_type": "x", "task_description": "x"}, KeySet([OKPKey.generate_key("X25519")]))
    conversation = await eddy.open("TASK_REQUEST", worker.name, closed)
    answer = await conversation.result(DEADLINE)
    assert (answer.performative, answer.payload["reason_code"]) == ("NOT_UNDERSTOOD", "invalid_payload_structure")


async def test_a_decrypted_payload_is_handled_as_any_other(make: Make) -> None:  # ACL-48, C-2
    key = OKPKey.generate_key("X25519")
    eddy, worker = make("eddy"), make("worker", decryption_key=key)
    await worker.link.waiting(worker.name)
    read: list[str] = []

    @worker.on("TASK_REQUEST")
    async def work(conversation: AclConversation, message: Envelope) -> None:
        read.append(message.payload["task_description"])
        await conversation.say("TASK_REJECT", {"status": "rejected"})

    closed = eddy.encrypt({"task_type": "x", "task_description": "a secret"}, KeySet([key]))
    await (await eddy.open("TASK_REQUEST", worker.name, closed)).result(DEADLINE)
    assert read == ["a secret"]


SAGA = """
id: trip
steps:
  - {name: flight, agent: jules, task: book a flight, undo: cancel the flight}
  - {name: hotel, agent: painter, task: book a hotel, undo: cancel the hotel}
  - {name: dance, agent: LAST, task: dance}
"""


@pytest.mark.parametrize(
    ("last", "outcome", "undone"), [("counter", "done", ()), ("broken", "failed", ("hotel", "flight"))]
)
async def test_a_saga_is_done_or_undone(
    make: Make, tmp_path: Path, last: str, outcome: str, undone: tuple[str, ...]
) -> None:  # ACL-52
    file = tmp_path / "saga.yaml"
    file.write_text(SAGA.replace("LAST", last))
    state = await run_saga(make("eddy"), Saga.load(file), tmp_path / "state.json")
    assert (state.outcome, state.undone) == (outcome, undone)
    assert list(state.done)[:2] == ["flight", "hotel"]


async def test_a_step_whose_undo_fails_is_not_undone(make: Make, tmp_path: Path) -> None:  # ACL-52
    """What could not be undone is named, and is asked for again when the saga is run again."""
    eddy, hotel = make("eddy"), make("hotel")

    @hotel.on("TASK_REQUEST")
    async def work(conversation: AclConversation, message: Envelope) -> None:
        done = message.payload["task_description"] == "book a hotel"
        status = "success" if done else "failure"
        await conversation.say("INFORM_RESULT", {"task_status": status, "result_summary": "", "result_details": {}})

    await hotel.link.waiting(hotel.name)
    file = tmp_path / "saga.yaml"
    file.write_text(SAGA.replace("painter", hotel.name).replace("LAST", "broken"))
    for _ in range(2):
        state = await run_saga(eddy, Saga.load(file), tmp_path / "state.json")
        assert (state.outcome, state.undone, state.stuck) == ("failed", ("flight",), ("hotel",))


async def test_a_saga_continues_after_a_restart_and_repeats_nothing(served: Served, tmp_path: Path) -> None:  # ACL-52
    file, name = tmp_path / "saga.yaml", f"eddy-{uuid4().hex[:8]}"
    file.write_text(SAGA.replace("LAST", "counter"))
    saga = Saga.load(file)
    for attempt in range(3):  # each time what was written is lost from some step on
        async with Messenger(f"{served.url}/acl", name) as eddy:
            state = await run_saga(eddy, saga, tmp_path / f"state-{attempt}.json")
        assert state.outcome == "done"
        assert state.done["dance"]["result_summary"] == "turn 1"  # the same turn, not another one


async def test_all_results_or_the_deadline(make: Make, gate: Gate) -> None:  # ACL-28
    gate.reset()
    eddy = make("eddy")
    asked = await eddy.open_many("TASK_REQUEST", ["jules", "slow"], {"task_type": "x", "task_description": "x"})
    ended = await results(asked, 2.0)
    assert [(c.peer, m.performative) for c, m in ended] == [("jules", "INFORM_RESULT")]
    gate.open()


def test_the_cheapest_of_proposals_with_any_prices() -> None:
    def proposals(*prices: object) -> list[Envelope]:
        return [
            Envelope(
                message_id=str(number),
                performative="PROPOSE",
                sender={"agent_id": "a"},
                receiver={"agent_id": "b"},
                payload={} if price is None else {"price": price},
            )
            for number, price in enumerate(prices)
        ]

    for prices, first in (((5, 3, 4.5), "1"), ((None, 2), "1"), ((10**400, 7), "1"), (("cheap", [1], None), "0")):
        assert [found.message_id for found in cheapest(proposals(*prices))] == [first]

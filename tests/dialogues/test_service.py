"""Conversations in a store: sequence, duplicates, timers, full inboxes; in memory, SQLite and PostgreSQL."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import msgspec
import pytest

from acl_messages import message
from sabir.bus.store import StoreBus, letter_of
from sabir.dialogues.service import Dialogues, limits_for
from sabir.dialogues.settings import DialogueSettings
from sabir.errors import BadMessage, Conflict, RateLimited, TooLarge
from sabir.protocols.acl.wire.envelope import Envelope, decode, envelope_of, stamp
from sabir.stores import Store, open_store
from sabir.stores.base import AuditLine
from sabir.stores.letters import Letters
from stores.places import schema

NOW = 1_800_000_000.0
SETTINGS = DialogueSettings(inbox_messages=6, sender_messages=4, message_bytes=4096)


class Clock:
    now = NOW

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    async with AsyncExitStack() as stack:
        address = {"memory": "memory:", "sqlite": f"sqlite:///{tmp_path}/sabir.db"}.get(request.param, "")
        if not address:
            address = await stack.enter_async_context(schema())
        opened = open_store(address)
        await opened.open()
        yield opened
        await opened.close()


@pytest.fixture
def dialogues(store: Store, clock: Clock) -> Dialogues:
    assert isinstance(store, Letters)
    return Dialogues(store, StoreBus(store, limits_for(SETTINGS)), SETTINGS, clock=clock)


def said(act: str = "TASK_REQUEST", **more: Any) -> Envelope:
    """A message of eddy, or with ``sender="jules"`` of jules to eddy."""
    sender = more.pop("sender", "eddy")
    other = "jules" if sender == "eddy" else "eddy"
    given = message(act, sender={"agent_id": sender}, receiver={"agent_id": other}, **more)
    return envelope_of(given)


async def inbox(dialogues: Dialogues, agent: str) -> list[Envelope]:
    return [decode(letter_of(row).body) for row in await dialogues.store.waiting_letters(agent)]


async def ask(dialogues: Dialogues, **more: Any) -> None:
    await dialogues.post(said(message_id="m1", reply_with="r1", **more), "jules")


async def test_a_request_and_its_result_go_through_both_inboxes(dialogues: Dialogues) -> None:  # ACL-24
    await ask(dialogues)
    accepted = await dialogues.post(said("TASK_ACCEPT", sender="jules", message_id="m2", in_reply_to="m1"), "eddy")
    ended = await dialogues.post(said("INFORM_RESULT", sender="jules", message_id="m3", in_reply_to="m1"), "eddy")
    assert (accepted.dialogue.state, ended.dialogue.state) == ("accepted", "done")
    assert [m.performative for m in await inbox(dialogues, "jules")] == ["TASK_REQUEST"]
    replies = await inbox(dialogues, "eddy")
    assert [(m.performative, m.conversation_id) for m in replies] == [("TASK_ACCEPT", "m1"), ("INFORM_RESULT", "m1")]


@pytest.mark.parametrize("reference", ["m1", "r1"])
async def test_a_reply_names_the_message_or_its_reply_with(dialogues: Dialogues, reference: str) -> None:
    await ask(dialogues)  # A-3, ACL-9
    posted = await dialogues.post(said("TASK_ACCEPT", sender="jules", message_id="m2", in_reply_to=reference), "eddy")
    assert posted.dialogue.conversation == "m1"


async def test_a_reply_to_nothing_of_the_conversation_is_refused(dialogues: Dialogues) -> None:  # ACL-15
    await ask(dialogues)
    for more in ({"in_reply_to": "other"}, {"in_reply_to": "m1", "conversation_id": "elsewhere"}):
        with pytest.raises(BadMessage, match=r"\$.in_reply_to: expected the id of a message of this conversation"):
            await dialogues.post(said("TASK_ACCEPT", sender="jules", message_id="m2", **more), "eddy")


async def test_an_act_out_of_sequence_changes_nothing(dialogues: Dialogues) -> None:  # ACL-24
    await ask(dialogues)
    before = await dialogues.store.dialogue("m1", "eddy", "jules")
    for act, sender in (("INFORM_PROGRESS", "jules"), ("INFORM_INPUT", "eddy"), ("NOTIFY", "jules")):
        other = "eddy" if sender == "jules" else "jules"
        with pytest.raises(Conflict, match="out of sequence"):
            await dialogues.post(said(act, sender=sender, message_id=f"x{act}", in_reply_to="m1"), other)
    assert await dialogues.store.dialogue("m1", "eddy", "jules") == before
    assert await inbox(dialogues, "eddy") == []


async def test_a_duplicate_is_dropped_before_the_transition_and_after_the_end(dialogues: Dialogues) -> None:  # ACL-25
    await ask(dialogues)
    result = said("INFORM_RESULT", sender="jules", message_id="m2", in_reply_to="m1")
    assert not (await dialogues.post(result, "eddy")).duplicate
    for again in (result, said(message_id="m1", reply_with="r1")):
        assert (await dialogues.post(again, again.receiver_ids[0])).duplicate
    assert len(await inbox(dialogues, "eddy")) == 1


async def test_another_request_continues_an_ended_conversation(dialogues: Dialogues) -> None:
    await ask(dialogues, conversation_id="c")
    await dialogues.post(said("INFORM_RESULT", sender="jules", message_id="m2", in_reply_to="m1"), "eddy")
    again = await dialogues.post(said(message_id="m3", conversation_id="c"), "jules")
    assert (again.dialogue.state, again.dialogue.opener) == ("sent", "m3")
    with pytest.raises(Conflict):
        await dialogues.post(said(message_id="m4", conversation_id="c"), "jules")


async def test_one_message_writes_one_audit_line(dialogues: Dialogues, store: Store) -> None:  # ACL-26
    line = AuditLine(NOW, "message", "ada", "acl", "jules")
    for _ in range(2):
        await dialogues.post(said(message_id="m1"), "jules", audit=line)
    assert [audit_line.line for audit_line in await store.audit_lines()] == [line]


@pytest.mark.parametrize(
    ("acts", "wait", "state", "text"),
    [
        ((), 300.0, "timeout", ("eddy", "FAILURE", "jules did not reply in time")),
        (("TASK_ACCEPT",), 86_400.0, "timeout", ("eddy", "FAILURE", "jules did not finish in time")),
    ],
)
async def test_a_timer_fires_once_and_the_initiator_learns_it(
    dialogues: Dialogues, clock: Clock, acts: tuple[str, ...], wait: float, state: str, text: tuple[str, str, str]
) -> None:  # ACL-27
    await ask(dialogues)
    for n, act in enumerate(acts):
        await dialogues.post(said(act, sender="jules", message_id=f"a{n}", in_reply_to="m1"), "eddy")
    clock.now += wait - 1
    assert await dialogues.fire() == 0
    clock.now += 2
    assert sum(await asyncio.gather(*(dialogues.fire() for _ in range(4)))) == 1
    row = await dialogues.store.dialogue("m1", "eddy", "jules")
    assert row is not None and row.state == state
    receiver, act, words = text
    last = (await inbox(dialogues, receiver))[-1]
    assert (last.performative, last.sender_id, last.payload["error_text"]) == (act, "gateway", words)
    assert last.payload["error_code"] == "timeout"


async def test_reply_by_and_result_by_set_the_timers(dialogues: Dialogues, clock: Clock) -> None:  # ACL-27
    payload = {"task_type": "ask", "task_description": "x", "result_by": stamp(NOW + 50)}
    await dialogues.post(said(message_id="m1", reply_by=stamp(NOW + 5), payload=payload), "jules")
    row = await dialogues.store.dialogue("m1", "eddy", "jules")
    assert row is not None and (row.timer, row.due) == ("reply_by", NOW + 5)
    await dialogues.post(said("TASK_ACCEPT", sender="jules", message_id="m2", in_reply_to="m1"), "eddy")
    row = await dialogues.store.dialogue("m1", "eddy", "jules")
    assert row is not None and (row.timer, row.due) == ("result", NOW + 50)


@pytest.mark.parametrize(
    ("at", "due"),
    [
        ("1950-01-01T00:00:00Z", NOW),
        ("1970-01-01T00:00:00Z", NOW),
        (stamp(NOW - 5), NOW),
        ("9999-12-31", NOW + 604_800),
    ],
)
async def test_a_past_deadline_counts_as_now_and_every_deadline_ends(
    dialogues: Dialogues, at: str, due: float
) -> None:  # ACL-27
    payload = {"task_type": "ask", "task_description": "x", "result_by": at}
    await dialogues.post(said(message_id="m1", reply_by=at, payload=payload), "jules")
    row = await dialogues.store.dialogue("m1", "eddy", "jules")
    assert row is not None and (row.timer, row.due) == ("reply_by", due)
    await dialogues.post(said("TASK_ACCEPT", sender="jules", message_id="m2", in_reply_to="m1"), "eddy")
    row = await dialogues.store.dialogue("m1", "eddy", "jules")
    assert row is not None and (row.timer, row.due) == ("result", due)


async def test_a_lease_is_renewed_and_ends(dialogues: Dialogues, clock: Clock) -> None:  # ACL-19, ACL-27
    await dialogues.post(said("SUBSCRIBE", message_id="m1"), "jules")  # for 60 seconds
    await dialogues.post(said("TASK_ACCEPT", sender="jules", message_id="m2", in_reply_to="m1"), "eddy")
    clock.now += 50
    await dialogues.post(said("RENEW", message_id="m3", in_reply_to="m1"), "jules")
    clock.now += 50
    assert await dialogues.fire() == 0
    clock.now += 20
    assert await dialogues.fire() == 1
    with pytest.raises(Conflict):
        await dialogues.post(said("NOTIFY", sender="jules", message_id="m4", in_reply_to="m1"), "eddy")


async def test_a_proposal_that_nobody_accepts_in_time_is_rejected(dialogues: Dialogues, clock: Clock) -> None:
    await dialogues.post(said("CALL_FOR_PROPOSALS", message_id="m1"), "jules")  # ACL-27
    await dialogues.post(said("PROPOSE", sender="jules", message_id="m2", in_reply_to="m1"), "eddy")
    clock.now += 301
    await dialogues.fire()
    assert (await inbox(dialogues, "jules"))[-1].performative == "REJECT_PROPOSAL"


async def test_a_result_that_crosses_the_cancel_wins(dialogues: Dialogues) -> None:  # ACL-28
    await ask(dialogues)
    await dialogues.post(said("CANCEL", message_id="m2", in_reply_to="m1"), "jules")
    ended = await dialogues.post(said("INFORM_RESULT", sender="jules", message_id="m3", in_reply_to="m1"), "eddy")
    assert ended.dialogue.state == "done"
    with pytest.raises(Conflict):
        await dialogues.post(said("INFORM_DONE", sender="jules", message_id="m4", in_reply_to="m2"), "eddy")


async def test_a_full_inbox_pushes_back_and_one_sender_cannot_fill_it(dialogues: Dialogues) -> None:  # ACL-33
    for n in range(4):
        await dialogues.post(said(message_id=f"e{n}"), "jules")
    with pytest.raises(RateLimited, match="4 messages of eddy wait for jules, which is its share") as raised:
        await dialogues.post(said(message_id="e4"), "jules")
    assert raised.value.retry_after > 0
    ada = {"agent_id": "ada"}
    for n in range(2):
        await dialogues.post(envelope_of(message(sender=ada, message_id=f"a{n}")), "jules")
    with pytest.raises(RateLimited, match=r"the inbox of jules is full \(6 messages\)"):
        await dialogues.post(envelope_of(message(sender=ada, message_id="a2")), "jules")
    assert len(await inbox(dialogues, "jules")) == 6
    row = (await dialogues.store.waiting_letters("jules"))[0]
    await dialogues.store.finish_letters((row.number,))
    await dialogues.post(envelope_of(message(sender=ada, message_id="a2")), "jules")  # there is room again


async def test_a_message_over_the_limit_is_refused(dialogues: Dialogues) -> None:  # ACL-31
    payload = {"task_type": "ask", "task_description": "x" * 5000}
    with pytest.raises(TooLarge, match="expected a message of at most 4096 bytes"):
        await dialogues.post(said(payload=payload), "jules")


async def test_a_remark_is_passed_on_and_ends_nothing(dialogues: Dialogues) -> None:  # ACL-13
    await ask(dialogues)
    await dialogues.post(said("TASK_ACCEPT", sender="jules", message_id="m2", in_reply_to="m1"), "eddy")
    posted = await dialogues.post(said("NOT_UNDERSTOOD", message_id="m3", in_reply_to="m2"), "jules")
    assert posted.dialogue.state == "accepted"


async def test_whoever_waits_for_a_reply_gets_the_first_or_the_last(dialogues: Dialogues) -> None:  # ACL-43
    await ask(dialogues)
    waiting = [asyncio.create_task(dialogues.reply("m1", "m1", "eddy", 30.0, last=last)) for last in (False, True)]
    for n, act in enumerate(("TASK_ACCEPT", "INFORM_PROGRESS", "INFORM_RESULT")):
        await dialogues.post(said(act, sender="jules", message_id=f"r{n}", in_reply_to="m1"), "eddy")
    first, last = await asyncio.gather(*waiting)
    assert first is not None and first.performative == "TASK_ACCEPT"
    assert last is not None and last.performative == "INFORM_RESULT"
    assert await dialogues.reply("m1", "none", "eddy", 0.0) is None


async def test_people_see_who_said_what_and_until_when_it_waits(dialogues: Dialogues) -> None:  # ACL-29
    await ask(dialogues)
    view = await dialogues.view("m1")
    assert view["dialogues"] == [
        {
            "initiator": "eddy",
            "participant": "jules",
            "protocol": "request",
            "state": "sent",
            "waits_for": "reply_by",
            "until": stamp(NOW + 300),
        }
    ]
    assert [m["performative"] for m in view["messages"]] == ["TASK_REQUEST"]


@pytest.mark.parametrize(("wanted", "payload"), [("all", "Say hello"), ("envelopes", None), ("off", "")])
async def test_messages_are_logged_as_the_draft_has_it(
    store: Store, wanted: Any, payload: str | None, caplog: pytest.LogCaptureFixture
) -> None:  # ACL-51, A-11
    caplog.set_level(logging.INFO, "sabir.acl")
    settings = msgspec.structs.replace(SETTINGS, log_messages=wanted)
    assert isinstance(store, Letters)
    await Dialogues(store, StoreBus(store), settings).post(said(), "jules")
    lines = [record.getMessage() for record in caplog.records if record.name == "sabir.acl"]
    if wanted == "off":
        assert lines == []
        return
    (line,) = lines
    shown = json.loads(line.removeprefix("MCP_MESSAGE_SENT: "))
    assert (shown["message_id"], shown["payload"].get("task_description")) == ("msg_eddy_1", payload)


async def test_a_proposal_that_comes_after_the_call_was_cancelled_is_out_of_sequence(dialogues: Dialogues) -> None:
    """ACL-24, ACL-28: it used to be taken for the opening of another conversation, and failed as busy."""
    payload = {"task_type": "paint", "task_description": "Paint a heron"}
    await dialogues.post(said("CALL_FOR_PROPOSALS", message_id="m1", payload=payload), "jules")
    await dialogues.post(said("CANCEL", message_id="m2", in_reply_to="m1", payload={}), "jules")
    await dialogues.post(said("INFORM_DONE", message_id="m3", in_reply_to="m1", sender="jules", payload={}), "eddy")
    late = said("PROPOSE", message_id="m4", in_reply_to="m1", sender="jules", payload={"proposal": {"price": 3}})
    with pytest.raises(Conflict):
        await dialogues.post(late, "eddy")

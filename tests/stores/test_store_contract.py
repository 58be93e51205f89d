"""The contract of ``sabir.stores.base.Store``: every test runs on every store, PostgreSQL on the real server."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from itertools import pairwise
from typing import Any

import msgspec
import pytest

from sabir.errors import StoreUnavailable
from sabir.message import Message, Part, binary_part, json_part, location_part
from sabir.stores import Store
from sabir.stores.base import (
    GENESIS,
    AuditLine,
    ChainedLine,
    ConversationRow,
    Record,
    TaskEvent,
    TaskRow,
    TurnEntry,
    chain,
)
from sabir.stores.letters import Letters
from sabir.turn import PastTurn

from .conftest import Another

NOW = 1_800_000_000.0
LATER = NOW + 3600
ECHO = ("echo",)


def row(item_id: str = "c1", owner: str = "ada", **fields: Any) -> ConversationRow:
    return msgspec.structs.replace(ConversationRow(item_id, owner, NOW, NOW, LATER), **fields)


def entry(
    turn: str, conversation: ConversationRow | None = None, *, at: float = NOW, audit: bool = True, size: int = 7
) -> TurnEntry:
    conversation = conversation or row()
    past = PastTurn(turn, at, "echo", Message.text(f"ask {turn}"), Message.text(f"say {turn}"), "Ada", conversation.id)
    line = AuditLine(at, "turn", conversation.owner, "nlip", "echo", "ok", turn, conversation.id) if audit else None
    return TurnEntry(conversation, past, line, size)


def task(item_id: str = "t1", **fields: Any) -> TaskRow:
    made = TaskRow(item_id, "ada", "echo", "submitted", NOW, NOW, LATER, Message.text("work"), door="nlip")
    return msgspec.structs.replace(made, **fields)


def assert_chained(lines: list[ChainedLine]) -> None:
    """The same check as ``sabir audit verify``: numbers without a gap, each hash over the one before."""
    for before, line in pairwise(lines):
        assert line.number == before.number + 1
        assert line.previous == before.hash
    for line in lines:
        assert line.hash == chain(line.previous, msgspec.json.encode(line.line))


# -- turns and conversations -----------------------------------------------------------------------


async def test_a_recorded_turn_and_its_conversation_are_found(store: Store) -> None:
    given = entry("a", row(agreed={"context": {"window": 3}}, peer_token="digest"))
    assert await store.record(given) is True
    assert await store.turn("a") == given.turn
    assert await store.turns("c1", 10) == (given.turn,)
    assert await store.conversation("c1") == msgspec.structs.replace(given.conversation, turns=1, bytes=7)


async def test_missing_rows_are_none_or_empty(store: Store) -> None:
    assert await store.turn("a") is None
    assert await store.conversation("c1") is None
    assert await store.conversation_by_token("ada", "digest") is None
    assert await store.conversations("ada") == []
    assert await store.count_conversations("ada") == 0
    assert await store.turns("c1", 5) == ()
    assert await store.task("t1") is None
    assert await store.tasks() == []
    assert await store.task_events("t1") == []
    assert await store.claim_task("n1", 10, ECHO) is None
    assert await store.renew_tasks("n1", ("t1",), 10) == {}
    assert await store.audit_lines() == []
    assert await store.get("keys", "a") is None
    assert await store.list("keys") == []
    assert await store.delete("keys", "a") is False
    await store.forget("c1")


async def test_a_message_comes_back_unchanged(store: Store) -> None:
    said = Message.text("grüß Gott 👋 \u0000 end", "german").with_parts(
        [
            json_part({"a": [1, 2.5, None, True, "x"], "b": {"c": 2**53}}, label="data"),
            binary_part(bytes(range(256)), "image/png"),
            location_part(46.2, 6.15),
            Part("generic", "x-own", "…", extra={"unknown": 1}),
        ]
    )
    answered = msgspec.structs.replace(said, messagetype="control", control="true", label="l", extra={"k": [1]})
    given = msgspec.structs.replace(
        entry("a"), turn=PastTurn("a", NOW, "echo", said, answered, speaker="Ada", conversation="c1")
    )
    await store.record(given)
    assert await store.turn("a") == given.turn


async def test_turns_come_oldest_first_and_only_the_last_ones(store: Store) -> None:
    for name in "abcde":
        await store.record(entry(name))
    assert [t.id for t in await store.turns("c1", 3)] == ["c", "d", "e"]
    assert [t.id for t in await store.turns("c1", 99)] == list("abcde")
    assert await store.turns("c1", 0) == ()
    assert await store.turns("c1", -1) == ()


async def test_a_turn_id_is_recorded_once(store: Store) -> None:
    assert await store.record(entry("a")) is True
    again = entry("a", row(touched=NOW + 5), size=1000)
    assert await store.record(again) is False
    found = await store.conversation("c1")
    assert found is not None and (found.turns, found.bytes, found.touched) == (1, 7, NOW)
    assert len(await store.audit_lines()) == 1


async def test_a_turn_id_is_recorded_once_also_for_another_conversation(store: Store) -> None:
    await store.record(entry("a", row("c1")))
    assert await store.record(entry("a", row("c2"))) is False
    assert await store.conversation("c2") is None


async def test_a_turn_id_is_recorded_once_by_many_writers_at_once(store: Store, another: Another) -> None:
    other = await another()
    tries = [item.record(entry("a", row(f"c{n % 3}"))) for n, item in enumerate([store, other] * 20)]
    assert Counter(await asyncio.gather(*tries)) == {True: 1, False: 39}
    rows = [await store.conversation(f"c{n}") for n in range(3)]
    assert sum(found.turns for found in rows if found) == 1
    assert len(await store.audit_lines()) == 1


async def test_writers_of_two_nodes_lose_nothing(store: Store, another: Another) -> None:
    other = await another()
    names = [f"{n:03d}" for n in range(200)]
    answers = await asyncio.gather(
        *((store, other)[n % 2].record(entry(name, row(f"c{n % 7}"))) for n, name in enumerate(names))
    )
    assert all(answers)
    rows = [await other.conversation(f"c{n}") for n in range(7)]
    assert sum(found.turns for found in rows if found) == 200
    assert sum(found.bytes for found in rows if found) == 1400
    turns = [turn.id for n in range(7) for turn in await store.turns(f"c{n}", 99)]
    assert sorted(turns) == names
    lines = await store.audit_lines()
    assert len(lines) == 200
    assert_chained(lines)


async def test_the_same_conversation_twice_in_one_group_counts_both(store: Store) -> None:
    assert await asyncio.gather(*(store.record(entry(name, size=5)) for name in "abcdef")) == [True] * 6
    found = await store.conversation("c1")
    assert found is not None and (found.turns, found.bytes) == (6, 30)


async def test_a_later_turn_moves_the_times_and_nothing_else(store: Store) -> None:
    await store.record(entry("a", row(peer_token="p", agreed={"x": 1})))
    await store.record(entry("b", row(owner="eve", touched=NOW + 9, expires=LATER + 9, peer_token="q", agreed={})))
    assert await store.conversation("c1") == row(
        touched=NOW + 9, expires=LATER + 9, peer_token="p", agreed={"x": 1}, turns=2, bytes=14
    )


async def test_one_that_fails_does_not_fail_the_others_of_its_group(store: Store) -> None:
    unstorable = entry("bad", row(owner="\ud800"))
    answers = await asyncio.gather(
        store.record(entry("a")), store.record(unstorable), store.record(entry("b")), return_exceptions=True
    )
    assert (answers[0], answers[2]) == (True, True)
    assert isinstance(answers[1], ValueError)
    assert await store.turn("bad") is None
    assert [t.id for t in await store.turns("c1", 9)] == ["a", "b"]
    assert len(await store.audit_lines()) == 2


async def test_conversations_of_an_owner_come_latest_first_without_the_ended(store: Store) -> None:
    for n, item_id in enumerate("abcd"):
        await store.record(entry(f"t{item_id}", row(item_id, touched=NOW + n)))
    await store.record(entry("te", row("e", owner="eve")))
    await store.agree(row("b", ended=True))
    assert [found.id for found in await store.conversations("ada")] == ["d", "c", "a"]
    assert [found.id for found in await store.conversations("ada", limit=2)] == ["d", "c"]
    assert await store.count_conversations("ada") == 3
    assert await store.count_conversations("eve") == 1


async def test_a_peers_token_finds_only_its_owners_latest_open_conversation(store: Store) -> None:
    await store.record(entry("a", row("old", touched=NOW, peer_token="p")))
    await store.record(entry("b", row("new", touched=NOW + 1, peer_token="p")))
    await store.record(entry("c", row("hers", owner="eve", touched=NOW + 2, peer_token="p")))
    found = await store.conversation_by_token("ada", "p")
    assert found is not None and found.id == "new"
    await store.agree(msgspec.structs.replace(found, ended=True))
    found = await store.conversation_by_token("ada", "p")
    assert found is not None and found.id == "old"
    assert await store.conversation_by_token("bob", "p") is None


async def test_an_agreement_makes_the_row_or_changes_what_was_agreed(store: Store) -> None:
    await store.agree(row(agreed={"policy": "p1"}, peer_token="d"))
    assert await store.conversation("c1") == row(agreed={"policy": "p1"}, peer_token="d")
    await store.record(entry("a"))
    await store.agree(row(owner="eve", agreed={"policy": "p2"}, expires=LATER + 1, ended=True, turns=99, bytes=99))
    assert await store.conversation("c1") == row(
        agreed={"policy": "p2"}, peer_token="d", expires=LATER + 1, ended=True, turns=1, bytes=7
    )


async def test_a_forgotten_conversation_is_gone_with_its_turns(store: Store) -> None:
    await store.record(entry("a"))
    await store.record(entry("b", row("c2")))
    await store.forget("c1")
    assert (await store.conversation("c1"), await store.turn("a"), await store.turns("c1", 9)) == (None, None, ())
    assert await store.turn("b") is not None
    assert len(await store.audit_lines()) == 2


# -- expiry ----------------------------------------------------------------------------------------


async def test_a_sweep_removes_what_has_expired_and_only_that(store: Store) -> None:
    await store.record(entry("a", row("old", expires=NOW)))
    await store.record(entry("b", row("new", expires=NOW + 1)))
    await store.put_task(task("ended", state="completed", expires=NOW))
    await store.add_task_event("ended", TaskEvent(0, NOW, "reply", {}))
    await store.put_task(task("live", state="working", expires=NOW))
    await store.put_task(task("kept", state="failed", expires=NOW + 1))
    await store.put(Record("s", "old", b"", expires=NOW))
    await store.put(Record("s", "new", b"", expires=NOW + 1))
    await store.put(Record("s", "ever", b""))
    assert await store.sweep(NOW) == 3
    assert (await store.conversation("old"), await store.turn("a"), await store.task("ended")) == (None, None, None)
    assert await store.task_events("ended") == []
    assert await store.conversation("new") is not None and await store.turn("b") is not None
    assert await store.task("live") is not None and await store.task("kept") is not None
    assert [found.key for found in await store.list("s")] == ["ever", "new"]
    assert await store.sweep(NOW) == 0


async def test_a_sweep_removes_any_number(store: Store) -> None:
    await asyncio.gather(*(store.agree(row(f"c{n}", expires=NOW)) for n in range(1203)))
    await store.agree(row("kept"))
    assert await store.sweep(NOW) == 1203
    assert await store.count_conversations("ada") == 1


# -- tasks -----------------------------------------------------------------------------------------


async def test_a_task_comes_back_unchanged(store: Store) -> None:
    given = task(
        state="input-required",
        conversation="token",
        progress=0.5,
        note="half",
        reply=Message.text("so far"),
        question={"text": "which?", "fields": []},
        fault="none",
        fault_code="failed",
        detail={"caller": {"id": "ada"}},
        answers=(Message.text("red"), Message.text("blue")),
    )
    assert await store.put_task(given) is True
    assert await store.task("t1") == msgspec.structs.replace(given, version=1)


async def test_a_task_is_replaced_only_at_the_expected_version(store: Store) -> None:
    assert await store.put_task(task(), expect=1) is False
    assert await store.put_task(task(), expect=0) is True
    assert await store.put_task(task(), expect=0) is False
    assert await store.put_task(task(state="working"), expect=1) is True
    assert await store.put_task(task(state="failed"), expect=1) is False
    assert await store.put_task(task(note="any"), expect=None) is True
    found = await store.task("t1")
    assert found is not None and (found.state, found.note, found.version) == ("submitted", "any", 3)


async def test_of_many_changes_at_one_version_one_wins(store: Store, another: Another) -> None:
    other = await another()
    await store.put_task(task())
    answers = await asyncio.gather(
        *((store, other)[n % 2].put_task(task(note=str(n)), expect=1) for n in range(20)),
    )
    assert Counter(answers) == {True: 1, False: 19}
    found = await store.task("t1")
    assert found is not None and found.note == str(answers.index(True)) and found.version == 2


async def test_tasks_are_found_by_owner_state_conversation_and_time(store: Store) -> None:
    await store.put_task(task("a", updated=NOW + 1, expires=NOW + 10))
    await store.put_task(task("b", updated=NOW + 3, state="working", conversation="c"))
    await store.put_task(task("c", updated=NOW + 2, state="completed", owner="eve", conversation="c"))

    async def ids(**wanted: Any) -> list[str]:
        return [found.id for found in await store.tasks(**wanted)]

    assert await ids() == ["b", "c", "a"]
    assert await ids(limit=2) == ["b", "c"]
    assert await ids(owner="ada") == ["b", "a"]
    assert await ids(states=("submitted", "completed")) == ["c", "a"]
    assert await ids(conversation="c") == ["b", "c"]
    assert await ids(before=NOW + 3) == ["c", "a"]
    assert await ids(expired=NOW + 10) == ["a"]
    assert await ids(owner="ada", conversation="c", states=("working",), before=NOW + 4, expired=LATER) == ["b"]
    assert (await store.count_tasks("ada"), await store.count_tasks("eve")) == (2, 0)
    assert await store.count_submitted() == 1


async def test_a_new_task_may_be_held_from_the_start(store: Store) -> None:
    await store.put_task(task(node="n1"), lease=60.0)
    found = await store.task("t1")
    assert found is not None and (found.node, found.attempts) == ("n1", 1) and found.lease > 0
    assert await store.claim_task("n2", 60.0, ECHO) is None


async def test_a_task_that_nobody_holds_is_claimed_oldest_first(store: Store) -> None:
    await store.put_task(task("new", created=NOW + 1))
    await store.put_task(task("old", created=NOW, state="working"))
    for state in ("input-required", "completed", "failed", "cancelled", "expired"):
        await store.put_task(task(state, state=state, created=NOW - 1))
    first = await store.claim_task("n1", 60.0, ECHO)
    second = await store.claim_task("n2", 60.0, ECHO)
    assert first is not None and (first.id, first.node, first.attempts, first.version) == ("old", "n1", 1, 2)
    assert first == await store.task("old")
    assert second is not None and (second.id, second.node) == ("new", "n2")
    assert await store.claim_task("n1", 60.0, ECHO) is None


async def test_of_waiting_tasks_the_highest_priority_is_claimed_first(store: Store) -> None:  # MW-19
    for number, priority in enumerate((0, 5, 10, 5)):
        await store.put_task(task(f"t{number}", priority=priority, created=NOW + number))
    changed = await store.task("t0")
    assert changed is not None
    await store.put_task(msgspec.structs.replace(changed, priority=7))
    claimed = [await store.claim_task("n", 30.0, ("echo",)) for _ in range(4)]
    assert [item.id for item in claimed if item is not None] == ["t2", "t0", "t1", "t3"]
    assert claimed[0] is not None
    assert claimed[0].priority == 10


async def test_a_task_is_claimed_only_for_agents_that_are_there(store: Store) -> None:
    await store.put_task(task("a", agent="painter"))
    await store.put_task(task("b", created=NOW + 1))
    assert await store.claim_task("n1", 60.0, ()) is None
    taken = await store.claim_task("n1", 60.0, ("echo", "other"))
    assert taken is not None and taken.id == "b"
    assert await store.claim_task("n1", 60.0, ("echo", "other")) is None
    taken = await store.claim_task("n1", 60.0, ("painter",))
    assert taken is not None and taken.id == "a"


async def test_a_task_whose_lease_ran_out_is_claimed_again(store: Store) -> None:
    await store.put_task(task(node="n1"), lease=-1.0)
    taken = await store.claim_task("n2", 60.0, ECHO)
    assert taken is not None and (taken.node, taken.attempts) == ("n2", 2)


async def test_a_lease_far_in_the_future_holds_nothing_because_the_clock_was_set_back(store: Store) -> None:
    await store.put_task(task(node="n1"), lease=86400.0)
    taken = await store.claim_task("n2", 60.0, ECHO)
    assert taken is not None and taken.node == "n2"


async def test_each_task_is_claimed_by_exactly_one_of_many_nodes(store: Store, another: Another) -> None:
    other = await another()
    for n in range(30):
        await store.put_task(task(f"t{n}", created=NOW + n))

    async def node(name: str, item: Store) -> list[str]:
        mine = []
        while (taken := await item.claim_task(name, 60.0, ECHO)) is not None:
            mine.append(taken.id)
        return mine

    taken = await asyncio.gather(*(node(f"n{n}", (store, other)[n % 2]) for n in range(8)))
    assert sorted(item_id for mine in taken for item_id in mine) == sorted(f"t{n}" for n in range(30))


async def test_a_lease_is_renewed_only_by_its_holder_and_while_the_task_lives(store: Store) -> None:
    for item_id, state in (("a", "working"), ("b", "input-required"), ("c", "cancelled")):
        await store.put_task(task(item_id, state=state, node="n1"), lease=0.0)
    await store.put_task(task("d", node="n2"), lease=0.0)
    assert await store.renew_tasks("n1", ("a", "b", "c", "d", "none"), 60.0) == {"a": 1, "b": 1}
    taken = await store.claim_task("n3", 60.0, ECHO)
    assert taken is not None and taken.id == "d"
    assert await store.claim_task("n3", 60.0, ECHO) is None


async def test_a_lease_that_is_let_go_can_be_claimed_at_once(store: Store) -> None:
    await store.put_task(task(node="n1"), lease=60.0)
    assert await store.renew_tasks("n1", ("t1",), 0.0) == {"t1": 1}
    taken = await store.claim_task("n2", 60.0, ECHO)
    assert taken is not None and taken.node == "n2"
    assert await store.renew_tasks("n1", ("t1",), 60.0) == {}


async def test_a_change_of_a_task_leaves_its_lease_alone(store: Store) -> None:
    await store.put_task(task(node="n1"), lease=60.0)
    stale = await store.task("t1")
    assert stale is not None
    await store.renew_tasks("n1", ("t1",), 600.0)
    await store.put_task(msgspec.structs.replace(stale, state="working", node="x", lease=0.0, attempts=9), expect=1)
    found = await store.task("t1")
    assert found is not None and (found.state, found.node, found.attempts) == ("working", "n1", 1)
    assert found.lease > stale.lease + 500


async def test_events_are_numbered_and_read_on_from_a_cursor(store: Store) -> None:
    for n in range(5):
        assert await store.add_task_event("t1", TaskEvent(0, NOW + n, "progress", {"n": n, "raw": b"\x00"})) == n + 1
    assert await store.add_task_event("t2", TaskEvent(77, NOW, "reply", {})) == 1
    assert await store.task_events("t1", since=3) == [
        TaskEvent(4, NOW + 3, "progress", {"n": 3, "raw": b"\x00"}),
        TaskEvent(5, NOW + 4, "progress", {"n": 4, "raw": b"\x00"}),
    ]
    assert [event.number for event in await store.task_events("t1", limit=2)] == [1, 2]


async def test_events_of_two_nodes_get_numbers_without_a_gap(store: Store, another: Another) -> None:
    other = await another()
    numbers = await asyncio.gather(
        *((store, other)[n % 2].add_task_event("t1", TaskEvent(0, NOW, "delta", {"n": n})) for n in range(60))
    )
    assert sorted(numbers) == list(range(1, 61))
    events = await store.task_events("t1")
    assert [event.number for event in events] == list(range(1, 61))
    assert sorted(event.body["n"] for event in events) == list(range(60))


# -- audit -----------------------------------------------------------------------------------------


async def test_audit_entries_are_chained_in_order(store: Store) -> None:
    await store.audit(AuditLine(NOW, "refused", "eve", outcome="Forbidden", detail={"n": 1}))
    await store.record(entry("a"))
    await store.record(entry("b", audit=False))
    await store.audit(AuditLine(NOW + 1, "key", "ada"))
    lines = await store.audit_lines()
    assert [(line.number, line.line.kind) for line in lines] == [(1, "refused"), (2, "turn"), (3, "key")]
    assert lines[0].previous == GENESIS
    assert lines[0].line == AuditLine(NOW, "refused", "eve", outcome="Forbidden", detail={"n": 1})
    assert_chained(lines)
    assert [line.number for line in await store.audit_lines(since=1, limit=1)] == [2]


async def test_the_chain_holds_when_many_write_at_once(store: Store, another: Another) -> None:
    other = await another()
    await asyncio.gather(
        *((store, other)[n % 2].audit(AuditLine(NOW + n, "turn", f"caller {n} 👋")) for n in range(100)),
        *((store, other)[n % 2].record(entry(f"t{n}", row(f"c{n}"))) for n in range(50)),
    )
    lines = await store.audit_lines()
    assert len(lines) == 150
    assert_chained(lines)


async def test_old_audit_lines_go_from_the_front_and_the_chain_continues(store: Store) -> None:
    assert await store.audit_head() == (0, GENESIS)
    for at in (NOW, NOW + 1, NOW + 9, NOW + 2, NOW + 3):
        await store.audit(AuditLine(at, "turn", "ada"))
    assert await store.audit_prune(2) == 2
    lines = await store.audit_lines()
    assert [line.line.at - NOW for line in lines] == [9, 2, 3]
    assert await store.audit_prune(99) == 2  # the newest always stays
    assert await store.audit_head() == (5, lines[-1].hash)
    await store.audit(AuditLine(LATER, "turn", "ada"))
    lines = await store.audit_lines()
    assert [line.number for line in lines] == [5, 6]
    assert_chained(lines)
    assert await store.audit_prune(4) == 0


async def test_the_columns_of_an_audit_line_equal_the_line(store: Store) -> None:
    given = entry("a")
    assert given.audit is not None
    later = msgspec.structs.replace(given.audit, at=NOW + 0.25)  # told a moment after the turn
    await store.record(msgspec.structs.replace(given, audit=later))
    [line] = await store.audit_lines()
    assert (line.at, line.line.at, line.written) == (NOW + 0.25, NOW + 0.25, msgspec.json.encode(later))


# -- records ---------------------------------------------------------------------------------------


async def test_a_record_is_kept_and_its_version_grows(store: Store) -> None:
    given = Record("keys", "k", b"\x00\xff", owner="ada")
    assert await store.put(given) is True
    assert await store.get("keys", "k") == given
    await store.put(msgspec.structs.replace(given, value=b"2", version=99))
    assert await store.get("keys", "k") == Record("keys", "k", b"2", owner="ada", version=2)
    assert await store.get("other", "k") is None


async def test_a_record_is_replaced_only_at_the_expected_version(store: Store) -> None:
    assert await store.put(Record("s", "k", b"1"), expect=1) is False
    assert await store.put(Record("s", "k", b"1"), expect=0) is True
    assert await store.put(Record("s", "k", b"2"), expect=0) is False
    assert await store.put(Record("s", "k", b"2"), expect=1) is True
    found = await store.get("s", "k")
    assert found is not None and (found.value, found.version) == (b"2", 2)


async def test_of_many_that_create_a_record_one_wins(store: Store, another: Another) -> None:
    other = await another()
    answers = await asyncio.gather(
        *((store, other)[n % 2].put(Record("s", "k", str(n).encode()), expect=0) for n in range(20))
    )
    assert Counter(answers) == {True: 1, False: 19}
    found = await store.get("s", "k")
    assert found is not None and found.value == str(answers.index(True)).encode()


async def test_an_expired_record_is_not_found_and_can_be_created_again(store: Store) -> None:
    await store.put(Record("s", "k", b"old", expires=time.time() - 1))
    assert await store.get("s", "k") is None
    assert await store.list("s") == []
    assert await store.put(Record("s", "k", b"new", expires=time.time() + 60), expect=0) is True
    found = await store.get("s", "k")
    assert found is not None and found.value == b"new"


async def test_records_are_listed_by_key_prefix_and_owner(store: Store) -> None:
    for key in ("b", "a:2", "a:1", "a%", "A:3", "ä"):
        await store.put(Record("s", key, b"", owner="eve" if key == "a:1" else "ada"))
    await store.put(Record("s2", "a:9", b""))

    async def keys(**wanted: Any) -> list[str]:
        return [found.key for found in await store.list("s", **wanted)]

    assert await keys() == ["A:3", "a%", "a:1", "a:2", "b", "ä"]
    assert await keys(prefix="a:") == ["a:1", "a:2"]
    assert await keys(prefix="a%") == ["a%"]
    assert await keys(owner="ada", prefix="a") == ["a%", "a:2"]
    assert await keys(limit=2) == ["A:3", "a%"]


async def test_a_deleted_record_is_gone(store: Store) -> None:
    await store.put(Record("s", "k", b""))
    assert await store.delete("s", "k") is True
    assert (await store.get("s", "k"), await store.delete("s", "k")) == (None, False)


async def test_a_counter_adds_up(store: Store) -> None:
    assert await store.count("q", "ada", 2.5) == 2.5
    assert await store.count("q", "ada", 1) == 3.5
    assert await store.count("q", "ada", -0.5) == 3.0
    assert await store.count("q", "eve", 1e18) == 1e18
    found = await store.get("q", "ada")
    assert found is not None and float(found.value) == 3.0


async def test_a_counter_loses_nothing_among_many_callers_and_nodes(store: Store, another: Another) -> None:
    other = await another()
    seen = await asyncio.gather(*((store, other)[n % 2].count("q", f"k{n % 3}", 1) for n in range(150)))
    assert Counter(seen) == {float(n): 3 for n in range(1, 51)}


async def test_an_expired_counter_starts_from_zero(store: Store) -> None:
    past, future = time.time() - 1, time.time() + 60
    assert await store.count("q", "k", 5, expires=past) == 5
    assert await store.count("q", "k", 1, expires=future) == 1
    assert await store.count("q", "k", 1, expires=past) == 2  # its life was set when it began
    found = await store.get("q", "k")
    assert found is not None and found.expires == pytest.approx(future)


# -- life ------------------------------------------------------------------------------------------


async def test_an_open_store_answers_and_a_closed_one_says_so(store: Store) -> None:
    await store.ping()
    await store.close()
    for call in (
        store.ping,
        lambda: store.record(entry("a")),
        lambda: store.turn("a"),
        lambda: store.audit(AuditLine(NOW, "turn", "ada")),
        lambda: store.put(Record("s", "k", b"")),
        lambda: store.count("s", "k", 1),
    ):
        with pytest.raises(StoreUnavailable, match="closed"):
            await call()
    await store.close()


@pytest.mark.parametrize("text", ["\0", "a\0b", "\ud800"])
async def test_what_no_row_can_have_is_not_found(store: Store, text: str) -> None:
    await store.record(entry("a"))
    await store.put_task(task())
    await store.put(Record("s", "k", b"v"))
    found = (
        await store.conversation(text),
        await store.conversation_by_token("ada", text),
        await store.turns(text, 9),
        await store.turn(text),
        await store.task(text),
        await store.tasks(conversation=text),
        await store.task_events(text),
        await store.get("s", text),
        await store.list("s", prefix=text),
        await store.delete("s", text),
    )
    assert not any(found), found
    assert await store.turn("a") is not None  # and the store still works
    assert isinstance(store, Letters)
    letters = (
        await store.dialogue(text, "eddy", "jules"),
        await store.dialogues(conversation=text),
        await store.utterance(text, "eddy", "jules"),
        await store.utterances(text),
        await store.waiting_letters(text),
        await store.count_letters(text),
        await store.dead_letters(text),
    )
    assert not any(letters), letters


@pytest.mark.parametrize("since", [2**63, 10**30])
async def test_after_a_number_that_no_row_can_have_comes_nothing(store: Store, since: int) -> None:
    await store.put_task(task())
    await store.add_task_event("t1", TaskEvent(0, NOW, "note", {}))
    assert await store.task_events("t1", since) == []
    assert isinstance(store, Letters)
    assert await store.waiting_letters("jules", after=since) == []


async def test_what_was_recorded_is_there_when_the_store_is_opened_again(
    address: str, store: Store, another: Another
) -> None:
    if address == "memory:":
        pytest.skip("memory forgets with the process; that is what it is for")
    await store.record(entry("a"))
    await store.put_task(task(node="n1"), lease=60.0)
    await store.count("q", "k", 4)
    await store.close()
    again = await another()
    assert await again.turn("a") == entry("a").turn
    assert await again.count("q", "k", 1) == 5
    found = await again.task("t1")
    assert found is not None and found.node == "n1"
    assert_chained(await again.audit_lines())


async def test_writes_that_were_handed_in_are_finished_by_close(address: str, store: Store, another: Another) -> None:
    handed_in = [asyncio.ensure_future(store.record(entry(f"t{n}"))) for n in range(50)]
    await asyncio.sleep(0)
    await store.close()
    assert await asyncio.gather(*handed_in) == [True] * 50
    if address != "memory:":
        assert len(await (await another()).turns("c1", 99)) == 50

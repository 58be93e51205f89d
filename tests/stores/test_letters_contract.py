"""Inboxes and conversations in every store: the contract of ``sabir.stores.letters``."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sabir.stores import Store, open_store
from sabir.stores.base import AuditLine
from sabir.stores.copy import copy
from sabir.stores.letters import (
    HIGH,
    LANE,
    LOW,
    MEDIUM,
    DeadRow,
    DialogueEntry,
    DialogueRow,
    LetterRow,
    Letters,
    MessageEntry,
    UtteranceRow,
)
from sabir.stores.postgres.schema import PUT_LETTERS_BY_LANE
from sabir.stores.sql import SWEPT_AT_ONCE
from sabir.stores.sqlite.bulk import with_rows
from sabir.stores.sqlite.letters import _BY_LANE, _LANES, _TAKE
from sabir.stores.sqlite.schema import MIGRATIONS
from stores.places import schema

from .conftest import Another

NOW = 1_800_000_000.0
FAR = NOW * 2


def letter(item_id: str, box: str = "jules", **more: Any) -> LetterRow:
    order = more.pop("order", "")
    sender = more.pop("sender", "eddy")
    lane = f"{sender}{LANE}{order}" if order else ""
    given = LetterRow(box, item_id, item_id.encode(), NOW, FAR, sender, lane)
    return msgspec.structs.replace(given, **more)


def dialogue(state: str = "sent", **more: Any) -> DialogueRow:
    given = DialogueRow("c1", "eddy", "jules", "request", state, "m1", NOW, NOW, FAR, timer="reply_by", due=NOW + 5)
    return msgspec.structs.replace(given, **more)


def said(item_id: str = "m1", **more: Any) -> UtteranceRow:
    given = UtteranceRow(item_id, "eddy", "jules", "c1", "eddy", "jules", "TASK_REQUEST", NOW, FAR, b"{}", "r1")
    return msgspec.structs.replace(given, **more)


LINE = AuditLine(NOW, "acl", "ada", "acl", "jules", "ok")


@pytest.fixture
def letters(store: Store) -> Letters:
    assert isinstance(store, Letters)
    return store


async def taken(letters: Letters, holder: str = "n1", lease: float = 60.0, limit: int = 10) -> list[str]:
    return [row.id for row in await letters.take_letters("jules", "", holder, lease, limit)]


# -- letters --------------------------------------------------------------------------------------


async def test_letters_are_taken_in_order_and_held(letters: Letters) -> None:  # ACL-30
    await letters.put_letters((letter("a"), letter("b"), letter("x", box="other")))
    assert await taken(letters) == ["a", "b"]
    assert await taken(letters, "n2") == []
    (row, _) = await letters.waiting_letters("jules")
    assert (row.id, row.body, row.deliveries) == ("a", b"a", 1)


async def test_a_letter_whose_lease_ran_out_is_taken_by_another(letters: Letters) -> None:  # ACL-30
    await letters.put_letters((letter("a"),))
    assert await taken(letters, lease=-1.0) == ["a"]
    (again,) = await letters.take_letters("jules", "", "n2", 60.0, 10)
    assert again.deliveries == 2


async def test_a_letter_that_was_given_back_is_taken_again(letters: Letters) -> None:
    await letters.put_letters((letter("a"),))
    (row,) = await letters.take_letters("jules", "", "n1", 60.0, 10)
    assert await letters.hold_letters("n2", (row.number,), 60.0) == 0
    assert await letters.hold_letters("n1", (row.number,), 0.0) == 1
    assert await taken(letters, "n2") == ["a"]


async def test_the_same_id_waits_once_in_a_box(letters: Letters) -> None:  # ACL-25
    await letters.put_letters((letter("a"), letter("a"), letter("a", member="m")))
    assert await letters.count_letters("jules") == {"eddy": 1}
    assert await letters.count_letters("jules", "m") == {"eddy": 1}


async def test_priority_goes_first_and_never_breaks_the_order_of_a_lane(letters: Letters) -> None:  # ACL-34, C-5
    await letters.put_letters(
        (
            letter("low", priority=LOW, order="c1"),
            letter("urgent in the same lane", priority=HIGH, order="c1"),
            letter("medium", priority=MEDIUM),
            letter("high", priority=HIGH, order="c2"),
        )
    )
    assert await taken(letters) == ["high", "medium", "low", "urgent in the same lane"]


async def test_a_lane_of_which_another_holds_a_letter_is_left_to_it(letters: Letters) -> None:  # ACL-31
    await letters.put_letters((letter("1", order="c"), letter("2", order="c"), letter("other", order="d")))
    assert await taken(letters, "n1", limit=1) == ["1"]
    assert await taken(letters, "n2") == ["other"]
    assert await taken(letters, "n1") == ["2"]


async def test_two_nodes_never_take_the_same_letter(letters: Letters, another: Another) -> None:  # ACL-30
    other = await another()
    assert isinstance(other, Letters)
    await letters.put_letters(tuple(letter(f"{n}", order=f"c{n % 5}") for n in range(200)))

    async def drain(node: Letters, holder: str) -> list[str]:
        mine: list[str] = []
        while rows := await node.take_letters("jules", "", holder, 60.0, 7):
            mine += [row.id for row in rows]
            await node.finish_letters(tuple(row.number for row in rows))
        return mine

    one, two = await asyncio.gather(drain(letters, "n1"), drain(other, "n2"))
    left = await drain(letters, "n1")
    assert sorted(one + two + left, key=int) == [f"{n}" for n in range(200)]


async def test_acknowledging_a_number_removes_what_was_given_before_it_and_nothing_else(letters: Letters) -> None:
    await letters.put_letters((letter("a"), letter("b")))  # ACL-43
    rows = await letters.take_letters("jules", "", "n1", 60.0, 1)
    await letters.put_letters((letter("c"),))
    assert await letters.acknowledge_letters("jules", rows[-1].number) == 1
    assert [row.id for row in await letters.waiting_letters("jules")] == ["b", "c"]


async def test_what_is_given_out_after_an_urgent_letter_is_not_acknowledged_with_it(letters: Letters) -> None:
    await letters.put_letters((letter("slow", priority=LOW), letter("fast", priority=HIGH)))  # ACL-34, ACL-43
    fast, _ = await letters.take_letters("jules", "", "n1", 60.0, 10)  # the reader is lost before it has both
    for _ in range(2):  # and says it again after it has come back
        await letters.acknowledge_letters("jules", fast.number)
        assert [row.id for row in await letters.waiting_letters("jules")] == ["slow"]


async def test_letters_of_another_box_are_not_dropped(letters: Letters) -> None:  # ACL-47
    await letters.put_letters((letter("a"), letter("b", box="jane")))
    numbers = tuple([row.number for box in ("jules", "jane") for row in await letters.waiting_letters(box)])
    assert await letters.drop_letters(numbers, "jules") == 1
    assert [row.id for row in await letters.waiting_letters("jane")] == ["b"]


async def test_numbers_grow_also_after_everything_was_dropped(letters: Letters) -> None:
    await letters.put_letters((letter("a"),))
    (row,) = await letters.waiting_letters("jules")
    await letters.finish_letters((row.number,))
    await letters.put_letters((letter("b"),))
    (later,) = await letters.waiting_letters("jules")
    assert later.number > row.number
    assert await letters.last_letter() == later.number


async def test_dead_letters_are_listed_counted_and_removed(letters: Letters) -> None:  # ACL-35
    await letters.put_letters((letter("a"), letter("b")))
    for row in await letters.take_letters("jules", "", "n1", 60.0, 10):
        await letters.move_to_dead(row.number, DeadRow("jules", row.body, "no", 3, NOW))
    assert await letters.waiting_letters("jules") == []
    first, second = await letters.dead_letters("jules")
    assert (first.body, first.reason, first.attempts) == (b"a", "no", 3)
    assert await letters.count_dead() == {"jules": 2}
    assert await letters.take_dead("jules", (second.number,)) == [second]
    assert await letters.take_dead("jules") == [first]
    assert await letters.count_dead() == {}


async def test_a_letter_that_nobody_fetched_is_dead(store: Store, letters: Letters) -> None:  # ACL-32
    await letters.put_letters((letter("old", expires=NOW - 1), letter("young")))
    await store.sweep(NOW)
    assert [row.id for row in await letters.waiting_letters("jules")] == ["young"]
    (dead,) = await letters.dead_letters("jules")
    assert dead.reason == "it expired before it was received"


async def test_a_box_is_cleared(letters: Letters) -> None:
    await letters.put_letters((letter("a"), letter("b", box="other")))
    assert await letters.clear_letters("jules") == 1
    assert await letters.count_letters("other") == {"eddy": 1}


# -- dialogues ------------------------------------------------------------------------------------


async def test_a_message_writes_all_it_changes_in_one_commit(store: Store, letters: Letters) -> None:  # ACL-26
    entry = DialogueEntry(dialogue(), 0, (said(),), (letter("m1"),), LINE)
    assert await letters.converse(entry) == "done"
    assert await letters.dialogue("c1", "eddy", "jules") == dialogue(version=1)
    assert await letters.utterances("c1") == [said()]
    assert await taken(letters) == ["m1"]
    assert [line.line for line in await store.audit_lines()] == [LINE]


def shared(item_id: str, **more: Any) -> MessageEntry:
    """A message whose letter continues with it."""
    people = ("eddy", "jules")
    said = (item_id, *people, item_id, *people, "TASK_REQUEST", NOW, FAR, b"message\x00\xff", "")
    state = (0, "request", "sent", "m1", NOW, FAR, "", "reply_by", NOW + 5)
    given = MessageEntry(*said, b"\x00head ", FAR, MEDIUM, True, *state)
    return msgspec.structs.replace(given, **more)


WHOLE = b"\x00head message\x00\xff"


@pytest.mark.parametrize("count", [1, 2, 40])
async def test_a_letter_that_continues_with_its_message_is_read_whole(letters: Letters, count: int) -> None:
    entries = [shared(f"m{n}") for n in range(count)]
    await letters.put_letters((letter("alone"),))
    await asyncio.gather(*(letters.converse_and_hand(entry, "n1", 0.0) for entry in entries))
    waiting = await letters.waiting_letters("jules")
    assert [row.body for row in waiting] == [b"alone"] + [WHOLE] * count
    given = await letters.take_letters("jules", "", "n2", 60.0, 100)
    assert [(row.number, row.body) for row in given] == [(row.number, row.body) for row in waiting]
    assert {row.body for row in await letters.utterances("m0")} == {b"message\x00\xff"}


async def test_a_letter_that_continues_with_its_message_is_whole_among_duplicates(letters: Letters) -> None:
    once, other, again = await asyncio.gather(*(letters.converse(shared(item_id)) for item_id in ("m1", "m2", "m1")))
    assert other == "done"
    assert {once, again} == {"done", "duplicate"}  # either may be written first
    assert [row.body for row in await letters.waiting_letters("jules")] == [WHOLE, WHOLE]


async def test_an_expired_letter_is_whole_even_if_its_message_expires_with_it(store: Store, letters: Letters) -> None:
    count = SWEPT_AT_ONCE + 20
    entries = [shared(f"m{n}", expires=NOW - 1, letter_expires=NOW - 1) for n in range(count)]
    await asyncio.gather(*(letters.converse(entry) for entry in entries))
    await store.sweep(NOW)
    assert [row.body for row in await letters.dead_letters("jules", count)] == [WHOLE] * count
    assert await letters.utterances("m0") == []


@pytest.mark.parametrize("count", [1, 3])
async def test_a_flat_entry_writes_what_its_rows_would(store: Store, letters: Letters, count: int) -> None:
    more: dict[str, Any] = {"detail": b"{\x00}", "cancel": "m0", "audit": LINE, "priority": HIGH, "reply_with": "r1"}
    flat = [shared(f"m{n}", **more) for n in range(count)]
    moved = [msgspec.structs.replace(entry, id=f"{entry.id}-2", expect=1, state="accepted") for entry in flat]
    remark = msgspec.structs.replace(flat[0], id="remark", expect=-1)
    for entries in (flat, moved, [remark]):
        assert await asyncio.gather(*(letters.converse(entry) for entry in entries)) == ["done"] * len(entries)
        waiting = {row.id: msgspec.structs.replace(row, number=0) for row in await letters.waiting_letters("jules")}
        for entry in entries:
            rows = entry.whole
            assert await letters.utterance(entry.id, "eddy", "jules") == rows.said[0]
            assert [waiting[row.id] for row in rows.whole_letters] == list(rows.whole_letters)
            if rows.dialogue is not None:
                stored = await letters.dialogue(entry.conversation, "eddy", "jules")
                assert stored == msgspec.structs.replace(rows.dialogue, version=entry.expect + 1)
    assert len(await store.audit_lines()) == 2 * count + 1


@pytest.mark.parametrize("again", ["the same", "another version"])
async def test_what_is_not_new_writes_nothing(store: Store, letters: Letters, again: str) -> None:  # ACL-25, ACL-26
    await letters.converse(DialogueEntry(dialogue(), 0, (said(),), (letter("m1"),), LINE))
    more = (said() if again == "the same" else said("m2"),)
    entry = DialogueEntry(dialogue("accepted"), 7, more, (letter("m2"),), LINE)
    assert await letters.converse(entry) == ("duplicate" if again == "the same" else "changed")
    assert await letters.dialogue("c1", "eddy", "jules") == dialogue(version=1)
    assert await taken(letters) == ["m1"]
    assert len(await store.audit_lines()) == 1


async def test_one_of_many_at_once_changes_a_dialogue(letters: Letters, another: Another) -> None:  # ACL-26, ACL-27
    other = await another()
    assert isinstance(other, Letters)
    await letters.converse(DialogueEntry(dialogue()))
    entries = [DialogueEntry(dialogue("timeout", due=0.0, timer=""), 1, (), (letter(f"t{n}"),)) for n in range(8)]
    outcomes = await asyncio.gather(*((other if n % 2 else letters).converse(e) for n, e in enumerate(entries)))
    assert sorted(outcomes) == ["changed"] * 7 + ["done"]
    assert len(await taken(letters)) == 1


# What has an audit entry is written in other statements on SQLite.
with_and_without_audit = pytest.mark.parametrize("audit", [LINE, None], ids=["with audit", "without audit"])


def opening(item_id: str, audit: AuditLine | None = LINE, **more: Any) -> DialogueEntry:
    """A request that opens a conversation of its own."""
    row = dialogue(conversation=item_id, opener=item_id)
    one = said(item_id, conversation=item_id, reply_with="")
    return DialogueEntry(row, 0, (one,), (letter(item_id, order=item_id, **more),), audit)


@with_and_without_audit
async def test_a_letter_is_handed_to_a_receiver_in_the_commit_that_puts_it(
    letters: Letters, audit: AuditLine | None
) -> None:  # ACL-26
    outcome, number = await letters.converse_and_hand(opening("m1", audit), "n1", 60.0)
    assert outcome == "done"
    (row,) = await letters.waiting_letters("jules")
    if number:  # on PostgreSQL whichever node is woken first takes it
        assert (row.number, row.deliveries) == (number, 1)
        assert await taken(letters, holder="n2") == []
        assert await letters.release_letter("n2", "jules", "m1") == 0
        assert await letters.release_letter("n1", "jules", "m1") == 1
    assert await taken(letters, holder="n2") == ["m1"]


@with_and_without_audit
async def test_a_letter_is_not_handed_over_before_others_of_its_lane(
    letters: Letters, audit: AuditLine | None
) -> None:  # ACL-31
    await letters.put_letters((letter("m0", order="m1"),))
    assert await letters.converse_and_hand(opening("m1", audit), "n1", 60.0) == ("done", 0)
    assert await taken(letters, holder="n2") == ["m0", "m1"]


@with_and_without_audit
async def test_a_letter_follows_those_that_its_receiver_holds(
    letters: Letters, audit: AuditLine | None
) -> None:  # ACL-31
    await letters.put_letters((letter("m0", order="m1", priority=LOW),))
    assert await taken(letters, holder="n1") == ["m0"]
    _, number = await letters.converse_and_hand(opening("m1", audit, priority=HIGH), "n1", 60.0)
    assert await taken(letters, holder="n2") == []
    assert await taken(letters, holder="n1") == ([] if number else ["m1"])
    assert [row.priority for row in await letters.waiting_letters("jules")] == [LOW, LOW]


@with_and_without_audit
@pytest.mark.parametrize("count", [8, 330])
async def test_a_duplicate_among_many_does_not_disturb_the_others(
    store: Store, letters: Letters, count: int, audit: AuditLine | None
) -> None:  # ACL-25
    await letters.converse(opening("m3", audit))
    entries = [opening(f"m{n}", audit) for n in range(count)]
    outcomes = await asyncio.gather(*(letters.converse_and_hand(entry, "n1", 60.0) for entry in entries))
    assert [outcome for outcome, _ in outcomes] == ["done"] * 3 + ["duplicate"] + ["done"] * (count - 4)
    numbers = {row.id: row.number for row in await letters.waiting_letters("jules", limit=count + 1)}
    assert sorted(numbers) == sorted(f"m{n}" for n in range(count))
    assert all(number in (0, numbers[f"m{n}"]) for n, (_, number) in enumerate(outcomes))
    assert len(await store.audit_lines(limit=count + 1)) == (count if audit else 0)


@with_and_without_audit
async def test_only_those_behind_others_of_their_lanes_wait(
    letters: Letters, audit: AuditLine | None
) -> None:  # ACL-31
    await letters.put_letters((letter("before m2", order="m2"), letter("before m5", order="m5"), letter("handled")))
    (handled,) = [row.number for row in await letters.waiting_letters("jules") if row.id == "handled"]
    entries = [opening(f"m{n}", audit) for n in range(7)]
    remark = DialogueEntry(None, 0, (said("remark", conversation="m0", reply_with=""),), (letter("remark"),), audit)
    outcomes, _ = await asyncio.gather(
        asyncio.gather(*(letters.converse_and_hand(entry, "n1", 60.0) for entry in (*entries, remark))),
        letters.finish_letters((handled,)),
    )
    assert [outcome for outcome, _ in outcomes] == ["done"] * 8
    rows = {row.id: row for row in await letters.waiting_letters("jules")}
    assert "handled" not in rows
    names = [*(f"m{n}" for n in range(7)), "remark"]
    assert all(number in (0, rows[name].number) for name, (_, number) in zip(names, outcomes, strict=True))
    assert [bool(rows[name].deliveries) for name in names] == [bool(number) for _, number in outcomes]
    assert (outcomes[2][1], outcomes[5][1]) == (0, 0)


@pytest.mark.parametrize("count", [8, 330])
async def test_many_dialogues_move_at_once(letters: Letters, count: int) -> None:  # ACL-26
    opened = await asyncio.gather(*(letters.converse(opening(f"m{n}", None)) for n in range(count)))
    assert opened == ["done"] * count

    def moved(n: int, expect: int) -> DialogueEntry:
        row = dialogue("accepted", conversation=f"m{n}", due=0.0, timer="")
        return DialogueEntry(row, expect, (said(f"a{n}", reply_with=""),), (letter(f"a{n}", order=f"a{n}"),))

    outcomes = await asyncio.gather(*(letters.converse(moved(n, 1)) for n in range(count)))
    assert outcomes == ["done"] * count
    states = {(await letters.dialogue(f"m{n}", "eddy", "jules") or dialogue()).state for n in range(count)}
    assert states == {"accepted"}
    # A dialogue that was swept in the meantime is not opened again by a message that moves it.
    outcomes = await asyncio.gather(letters.converse(moved(count, 1)), letters.converse(moved(count + 1, 1)))
    assert outcomes == ["changed", "changed"]


async def test_due_timers_are_found_the_oldest_first(letters: Letters) -> None:  # ACL-27
    for n, due in enumerate((NOW + 9, NOW + 1, 0.0, NOW + 5)):
        await letters.converse(DialogueEntry(dialogue(conversation=f"c{n}", due=due)))
    assert [row.conversation for row in await letters.due_dialogues(NOW + 6)] == ["c1", "c3"]
    assert await letters.count_open("jules") == 4


async def test_a_message_is_found_by_its_id_and_by_its_reply_with(letters: Letters) -> None:  # ACL-15, A-3
    await letters.converse(DialogueEntry(None, 0, (said(),)))
    for reference in ("m1", "r1"):
        found = await letters.utterance(reference, "eddy", "jules")
        assert found == said()
        assert await letters.utterance(reference, "jules", "eddy") is None
    assert await letters.utterance("", "eddy", "jules") is None


async def test_conversations_are_listed_for_people(letters: Letters) -> None:  # ACL-29
    await letters.converse(DialogueEntry(dialogue(updated=NOW + 1)))
    await letters.converse(DialogueEntry(dialogue(participant="ada", updated=NOW + 2)))
    await letters.converse(DialogueEntry(dialogue(conversation="c2", initiator="bob", participant="ada")))
    assert [row.participant for row in await letters.dialogues(conversation="c1")] == ["ada", "jules"]
    assert [row.conversation for row in await letters.dialogues(agent="ada")] == ["c1", "c2"]


async def test_what_has_ended_is_forgotten_in_time(store: Store, letters: Letters) -> None:  # ACL-25
    await letters.converse(DialogueEntry(dialogue(expires=NOW - 1), 0, (said(expires=NOW - 1),)))
    await letters.converse(DialogueEntry(dialogue(conversation="c2"), 0, (said("m2", conversation="c2"),)))
    await store.sweep(NOW)
    assert await letters.dialogue("c1", "eddy", "jules") is None
    assert await letters.utterances("c1") == []
    assert await letters.dialogue("c2", "eddy", "jules") is not None


async def test_inboxes_and_conversations_are_copied(tmp_path: Path) -> None:  # ACL-26
    source = f"sqlite:///{tmp_path}/old.db"
    async with schema() as target:
        old = open_store(source)
        await old.open()
        assert isinstance(old, Letters)
        await old.converse(DialogueEntry(dialogue(), 0, (said(),), (letter("m1"), letter("m2")), LINE))
        (row, _) = await old.take_letters("jules", "", "n1", 60.0, 10)
        await old.move_to_dead(row.number, DeadRow("jules", b"m1", "no", 1, NOW))
        await old.converse(shared("m4"))
        await old.close()
        counts = await copy(source, target)
        assert {name: counts[name] for name in ("letters", "dead_letters", "dialogues", "utterances")} == {
            "letters": 2,
            "dead_letters": 1,
            "dialogues": 2,
            "utterances": 2,
        }
        new = open_store(target)
        await new.open()
        try:
            assert isinstance(new, Letters)
            assert await new.dialogue("c1", "eddy", "jules") == dialogue(version=1)
            await new.put_letters((letter("m3"),))  # goes on with the numbers
            waiting = [(row.id, row.body) for row in await new.waiting_letters("jules")]
            assert waiting == [("m2", b"m2"), ("eddy/m4", WHOLE), ("m3", b"m3")]
        finally:
            await new.close()


def test_a_letter_is_compared_with_its_lane_and_not_with_the_whole_inbox() -> None:  # ACL-54
    connection = sqlite3.connect(":memory:")
    for script in MIGRATIONS:
        connection.executescript(script)
    for sql, values in ((with_rows(_LANES, 3, 2, _BY_LANE), 6), (_TAKE, 6)):
        plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {sql}", (0,) * values)]
        assert any("letters_by_lane (box=? AND member=? AND lane=?)" in step for step in plan)
        assert not [step for step in plan if step.startswith("SCAN letters")]
    connection.close()
    assert "l.lane <> ''" in PUT_LETTERS_BY_LANE


async def _shortest_take(store: Letters, count: int) -> float:
    """The seconds of the fastest of 20 takes from an inbox of so many letters: a busy machine delays some of them."""
    box = f"box-{count}"
    await store.put_letters(tuple(letter(f"{box}-{n}", box=box, order=f"c{n}") for n in range(count)))
    times = []
    for _ in range(20):
        begun = time.perf_counter()
        assert await store.take_letters(box, "", "n1", 60.0, 1)
        times.append(time.perf_counter() - begun)
    return min(times)


async def test_reading_a_long_inbox_costs_no_more_than_reading_a_short_one(tmp_path: Path) -> None:  # ACL-54
    store = open_store(f"sqlite:///{tmp_path}/sabir.db")
    await store.open()
    assert isinstance(store, Letters)
    try:
        short = await _shortest_take(store, 30)
        long = await _shortest_take(store, 10_000)
        assert long < 10 * short, (short, long)
    finally:
        await store.close()

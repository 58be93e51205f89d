"""Unreadable rows, for whatever reason: what is left of them is returned, and the others are read."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sabir.cli import main
from sabir.errors import Conflict
from sabir.message import Message
from sabir.stores import Store, open_store
from sabir.stores.base import ConversationRow, TaskEvent, TaskRow, TurnEntry
from sabir.stores.rows import LOST_TASK, LOST_WORDS, UNREADABLE
from sabir.turn import PastTurn
from stores.places import by_hand, kept

pack = msgspec.msgpack.encode
GARBAGE = b"\xc1\xff\x00"


@pytest.fixture(params=["sqlite", "postgresql"])
async def address(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[str]:
    """Memory holds values and no rows."""
    async with kept(request.param, tmp_path) as address:
        yield address


@pytest.fixture
async def store(address: str) -> AsyncIterator[Store]:
    opened = open_store(address)
    await opened.open()
    yield opened
    await opened.close()


def a_task(item_id: str, **changes: Any) -> TaskRow:
    now = time.time()
    row = TaskRow(
        item_id, "ada", "echo", "working", now, now, now + 60, Message.text(f"for {item_id}"), "nlip", detail={"a": 1}
    )
    return msgspec.structs.replace(row, **changes)


async def spoil(address: str, task: TaskRow, **fields: Any) -> None:
    """The task's row with these fields as they should never be."""
    await by_hand(
        address, "UPDATE tasks SET body = $1 WHERE id = $2", pack({**msgspec.to_builtins(task), **fields}), task.id
    )


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"progress": "step 1"}, "Expected `float | null`, got `str` - at `$.progress`"),
        ({"note": 5}, "Expected `str`, got `int` - at `$.note`"),
        ({"reply": {"format": 5}}, "Expected `str`, got `int` - at `$.reply.format`"),
        ({"question": {"text": 5}}, "Expected `str`, got `int` - at `$.text`"),
        ({"state": "paused"}, "there is no state 'paused'"),
    ],
)
async def test_a_task_with_a_wrong_field_has_failed_and_keeps_what_can_be_read(
    address: str, store: Store, fields: dict[str, Any], why: str
) -> None:
    task = a_task("one")
    await store.put_task(task, expect=0)
    await spoil(address, task, **fields)
    left = await store.task("one")
    assert left is not None
    assert (left.id, left.owner, left.agent, left.state, left.version) == ("one", "ada", "echo", "failed", 1)
    assert (left.fault, left.fault_code, left.unreadable) == (LOST_TASK, "failed", why)
    assert (left.message.text, left.door, left.detail) == ("for one", "nlip", {"a": 1})
    assert left.expires == task.expires


@pytest.mark.parametrize("body", [GARBAGE, b"", pack(5), pack({}), pack({"message": 5, "detail": []})])
async def test_of_a_task_that_is_garbage_its_columns_are_left(address: str, store: Store, body: bytes) -> None:
    await store.put_task(a_task("one"), expect=0)
    await by_hand(address, "UPDATE tasks SET body = $1", body)
    left = await store.task("one")
    assert left is not None and left.unreadable
    assert (left.id, left.owner, left.agent, left.state, left.message.text) == ("one", "ada", "echo", "failed", "")


async def test_a_cancelled_task_that_cannot_be_read_stays_cancelled(address: str, store: Store) -> None:
    await store.put_task(a_task("one", state="cancelled", fault="no longer wanted"), expect=0)
    await spoil(address, a_task("one", state="cancelled", fault="no longer wanted"), progress="x")
    left = await store.task("one")
    assert left is not None and (left.state, left.fault) == ("cancelled", "no longer wanted")


async def test_the_others_are_listed_and_claimed(address: str, store: Store) -> None:
    tasks = [a_task(item_id, created=number, updated=100.0 + number) for number, item_id in enumerate("abc")]
    for task in tasks:
        await store.put_task(task, expect=0)
    await spoil(address, tasks[1], progress="step 1")
    assert [(row.id, bool(row.unreadable)) for row in await store.tasks(states=("working",))] == [
        ("c", False), ("b", True), ("a", False),
    ]  # fmt: skip
    claimed = [await store.claim_task("here", 60.0, ("echo",)) for _ in range(4)]
    assert [row and (row.id, bool(row.unreadable), row.node) for row in claimed] == [
        ("a", False, "here"), ("b", True, "here"), ("c", False, "here"), None,
    ]  # fmt: skip


async def test_an_event_that_cannot_be_read_keeps_its_number(address: str, store: Store) -> None:
    await store.put_task(a_task("one"), expect=0)
    for text in ("a", "b", "c"):
        await store.add_task_event("one", TaskEvent(0, 1.0, "progress", {"note": text}))
    await by_hand(address, "UPDATE task_events SET body = $1 WHERE number = 2", GARBAGE)
    read = await store.task_events("one")
    assert [(event.number, event.kind) for event in read] == [(1, "progress"), (2, UNREADABLE), (3, "progress")]


async def test_a_turn_that_cannot_be_read_says_so_and_its_conversation_continues(
    address: str, store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    now = time.time()
    there = ConversationRow("talk", "ada", now, now, now + 60)
    for item_id in ("t1", "t2"):
        turn = PastTurn(item_id, now, "echo", Message.text("hi"), Message.text("hello"), "ada", "talk")
        await store.record(TurnEntry(there, turn))
    await by_hand(address, "UPDATE turns SET answered = $1 WHERE id = 't1'", pack({"format": 5}))
    with caplog.at_level(logging.ERROR, "sabir"):
        turns = await store.turns("talk", 9)
        again = await store.turn("t1")
    assert [(turn.asked.text, turn.answered.text) for turn in turns] == [("hi", LOST_WORDS), ("hi", "hello")]
    assert again is not None and again.answered.text == LOST_WORDS
    assert caplog.messages[0].startswith("Turn t1 cannot be read from the store: ")


async def test_a_conversation_whose_terms_are_lost_does_not_continue_without_them(
    address: str, store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    now = time.time()
    for item_id in ("one", "two"):
        await store.agree(ConversationRow(item_id, "ada", now, now, now + 60, agreed={"anonymous": True}))
    await by_hand(address, "UPDATE conversations SET agreed = $1 WHERE id = 'one'", GARBAGE)
    with pytest.raises(Conflict, match="start a new one"):
        await store.conversation("one")
    assert [row.id for row in await store.conversations("ada")] == ["two"]
    assert caplog.messages[0].startswith("Conversation one cannot be read from the store: ")


async def test_a_copy_has_such_a_task_too_and_says_so(
    address: str, store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    for item_id in ("one", "two"):
        await store.put_task(a_task(item_id), expect=0)
    await spoil(address, a_task("two"), progress="step 1")
    assert await asyncio.to_thread(main, ["store", "copy", address, f"sqlite:///{tmp_path}/copy.db"]) == 0
    [logged] = caplog.messages
    assert logged.startswith(
        "Task two cannot be read (Expected `float | null`, got `str` - at `$.progress`); it is copied"
    )
    copied = open_store(f"sqlite:///{tmp_path}/copy.db")
    await copied.open()
    assert await copied.task("two") == await store.task("two")
    await copied.close()

"""Groups of messages in one write statement: all or nothing, and nothing is left for the next group."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from sabir.stores.letters import DialogueEntry, DialogueRow, LetterRow, UtteranceRow
from sabir.stores.sqlite.one_statement import Finish, OneStatement, Write
from sabir.stores.sqlite.store import SQLiteStore

NOW = 1_800_000_000.0


def write(name: str, expect: int = 0, holder: str = "n1") -> Write:
    row = DialogueRow(name, "eddy", "jules", "request", "sent", name, NOW, NOW, NOW)
    said = UtteranceRow(f"{name}-{expect}", "eddy", "jules", name, "eddy", "jules", "TASK_REQUEST", NOW, NOW, b"{}")
    letter = LetterRow("jules", f"eddy/{name}-{expect}", b"{}", NOW, NOW, "eddy", f"eddy/{name}-{expect}")
    return Write(DialogueEntry(row, expect, (said,), (letter,)), None, holder, 60.0)


@pytest.fixture
async def connection(tmp_path: Path) -> AsyncIterator[sqlite3.Connection]:
    store = SQLiteStore(tmp_path / "sabir.db")
    await store.open()
    await store.close()
    made = store.connect()
    yield made
    made.close()


@pytest.fixture
def messages(connection: sqlite3.Connection) -> OneStatement:
    made = OneStatement()
    made.prepare(connection)
    return made


def counts(connection: sqlite3.Connection) -> list[int]:
    tables = ("dialogues", "utterances", "letters", "batch", "behind", "batches")
    return [connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in tables]


@pytest.mark.parametrize("count", [1, 16, 17, 512])
def test_a_group_is_written_and_committed(connection: sqlite3.Connection, messages: OneStatement, count: int) -> None:
    done = messages.write(connection, [write(f"c{n}") for n in range(count)])
    assert done == [("done", n + 1) for n in range(count)]
    assert not connection.in_transaction
    assert counts(connection) == [count, count, count, 0, 0, 0]
    moved = [write(f"c{n}", 1, holder="") for n in range(count)]
    assert messages.write(connection, [Finish((1, 2)), *moved]) == [None, *[("done", 0)] * count]
    assert counts(connection) == [count, 2 * count, 2 * count - min(2, count), 0, 0, 0]


@pytest.mark.parametrize("again", ["a duplicate", "a changed dialogue"])
def test_a_group_that_cannot_be_written_leaves_nothing(
    connection: sqlite3.Connection, messages: OneStatement, again: str
) -> None:
    messages.write(connection, [write("c1")])
    before = counts(connection)
    faulty = write("c1") if again == "a duplicate" else write("c1", 7)
    assert messages.write(connection, [write("c0"), faulty, Finish((1,))]) is None
    assert counts(connection) == before
    assert messages.write(connection, [write("c0"), write("c2")]) == [("done", 2), ("done", 3)]


def test_a_locked_store_is_reported_and_leaves_nothing(
    connection: sqlite3.Connection, messages: OneStatement, tmp_path: Path
) -> None:
    connection.execute("PRAGMA busy_timeout = 1")
    other = sqlite3.connect(tmp_path / "sabir.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(sqlite3.OperationalError, match="locked"):
        messages.write(connection, [write("c0")])
    other.execute("ROLLBACK")
    other.close()
    assert counts(connection) == [0] * 6
    assert messages.write(connection, [write("c0")]) == [("done", 1)]


def test_two_messages_of_a_lane_and_other_jobs_are_for_another_path(
    connection: sqlite3.Connection, messages: OneStatement
) -> None:
    assert messages.write(connection, [write("c1"), write("c1")]) is None
    assert messages.write(connection, [write("c1"), lambda connection: None]) is None
    assert messages.write(connection, [write("c1")._replace(line=(NOW, b"{}"))]) is None
    assert counts(connection) == [0] * 6

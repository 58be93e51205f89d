"""Groups of messages in one write statement: all or nothing, and nothing is left for the next group."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from sabir.stores.base import GENESIS, chain
from sabir.stores.letters import MessageEntry
from sabir.stores.sqlite.bulk import append_audit
from sabir.stores.sqlite.one_statement import Finish, OneStatement, Write
from sabir.stores.sqlite.store import SQLiteStore

NOW = 1_800_000_000.0


def write(name: str, expect: int = 0, holder: str = "n1", **more: Any) -> Write:
    said = (f"{name}-{expect}", "eddy", "jules", name, "eddy", "jules", "TASK_REQUEST", NOW, NOW, b"{}", "")
    state = (expect, "request", "sent", name, NOW, NOW)
    return Write(MessageEntry(*said, b"{}", NOW, 1, True, *state), holder=holder, lease=60.0, **more)


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
    handled = [Finish((1,)), Finish(tuple(range(2, count + 1)))]
    assert messages.write(connection, [*handled, *moved]) == [None, None, *[("done", 0)] * count]
    assert counts(connection) == [count, 2 * count, count, 0, 0, 0]


@pytest.mark.parametrize("count", [1, 20])
def test_audited_messages_continue_the_chain(
    connection: sqlite3.Connection, messages: OneStatement, count: int
) -> None:
    lines = [(NOW + n, b'{"n": %d}' % n) for n in range(3 * count)]
    audited = [write(f"c{n}", line=line) for n, line in enumerate(lines)]
    assert messages.write(connection, audited[:count]) == [("done", n + 1) for n in range(count)]
    append_audit(connection, [lines[count]])  # by another path
    assert messages.write(connection, [*audited[count + 1 :], write("not audited")]) is not None
    rows = connection.execute("SELECT number, at, line, previous, hash FROM audit ORDER BY number").fetchall()
    assert [(row[1], row[2]) for row in rows] == lines
    previous = GENESIS
    for number, row in enumerate(rows, 1):
        assert row[0] == number and row[3] == previous and row[4] == chain(previous, row[2])
        previous = row[4]
    assert connection.execute("SELECT number, hash FROM audit_head").fetchall() == [(len(lines), previous)]


@pytest.mark.parametrize("what", ["letters", "audit entries"])
def test_a_group_follows_what_another_process_wrote(
    connection: sqlite3.Connection, messages: OneStatement, tmp_path: Path, what: str
) -> None:
    messages.write(connection, [write("c0", line=(NOW, b"{}"))])
    other = SQLiteStore(tmp_path / "sabir.db").connect()
    if what == "letters":
        others = OneStatement()
        others.prepare(other)
        assert others.write(other, [write("c1")]) == [("done", 2)]
    else:
        append_audit(other, [(NOW, b"[]")])
    other.close()
    number = 3 if what == "letters" else 2
    assert messages.write(connection, [write("c2", line=(NOW, b"{}"))]) == [("done", number)]
    rows = connection.execute("SELECT previous, hash FROM audit ORDER BY number").fetchall()
    assert [row[0] for row in rows[1:]] == [row[1] for row in rows[:-1]]


def test_letters_behind_others_of_their_lane_are_reported(
    connection: sqlite3.Connection, messages: OneStatement
) -> None:
    asked: list[str] = []
    connection.set_trace_callback(asked.append)

    def follows(name: str, holder: str) -> Write:
        return write(name, 1, holder)

    assert messages.write(connection, [write(name) for name in "abcd"]) == [("done", n) for n in (1, 2, 3, 4)]
    assert not any("FROM behind" in sql and sql.startswith("SELECT") for sql in asked)
    group = [Finish((4,)), follows("a", "n1"), follows("b", "n2"), follows("c", ""), follows("d", "n2"), write("e")]
    assert messages.write(connection, group) == [None, ("done", 5), ("done", 0), ("done", 0), ("done", 8), ("done", 9)]
    assert messages.write(connection, [write("f")]) == [("done", 10)]  # what was behind does not stay so
    assert counts(connection)[3:] == [0, 0, 0]


@pytest.mark.parametrize("again", ["a duplicate", "a changed dialogue", "a letter that is gone"])
def test_a_group_that_cannot_be_written_leaves_nothing(
    connection: sqlite3.Connection, messages: OneStatement, again: str
) -> None:
    messages.write(connection, [write("c1")])
    before = counts(connection)
    faulty = {"a duplicate": write("c1"), "a changed dialogue": write("c1", 7)}.get(again, Finish((9,)))
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
    assert counts(connection) == [0] * 6

"""The writer thread of SQLite: one failure is one caller's, and nobody waits for ever."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from sabir.errors import StoreUnavailable
from sabir.stores.base import Record
from sabir.stores.sqlite.group_commit import GroupCommit
from sabir.stores.sqlite.store import SQLiteStore


def refuse(connection: sqlite3.Connection) -> None:
    raise ValueError("not this one")


def broken(connection: sqlite3.Connection) -> None:
    raise KeyError("a bug")


def insert(connection: sqlite3.Connection, rows: list[Any]) -> list[int]:
    return [connection.execute("INSERT INTO t VALUES (?)", row).rowcount for row in rows]


@pytest.fixture
async def writer(tmp_path: Path) -> Any:
    made = GroupCommit({tuple: insert})
    connection = sqlite3.connect(tmp_path / "t.db", isolation_level=None, check_same_thread=False)
    connection.execute("CREATE TABLE t (n)")
    made.start(connection)
    yield made
    await made.stop()


def count(connection: sqlite3.Connection) -> int:
    return int(connection.execute("SELECT count(*) FROM t").fetchone()[0])


async def test_jobs_that_wait_together_are_committed_together(writer: GroupCommit) -> None:
    await writer.submit(count)
    before = writer.groups
    await asyncio.gather(*(writer.submit((n,)) for n in range(100)))
    assert await writer.submit(count) == 100
    assert writer.groups - before < 20


async def test_a_job_that_fails_is_told_to_its_caller_alone(writer: GroupCommit) -> None:
    told = await asyncio.gather(
        writer.submit((1,)), writer.submit(refuse), writer.submit((2,)), writer.submit((3,)), return_exceptions=True
    )
    assert [type(each).__name__ for each in told] == ["int", "ValueError", "int", "int"]
    assert await writer.submit(count) == 3


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
async def test_a_bug_in_a_job_stops_the_store_and_leaves_nobody_waiting(writer: GroupCommit) -> None:
    waiting = [writer.submit((1,)), writer.submit(broken), writer.submit((2,))]
    async with asyncio.timeout(30):
        told = await asyncio.gather(*waiting, return_exceptions=True)
    assert StoreUnavailable in {type(each) for each in told}
    with pytest.raises(StoreUnavailable, match="closed"):
        writer.submit((3,))


async def test_writes_of_many_callers_share_commits(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "sabir.db")
    await store.open()
    await asyncio.gather(*(store.put(Record("s", str(n), b"")) for n in range(200)))
    assert store.group_size > 5
    await store.close()

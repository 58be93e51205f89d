"""The writer thread of SQLite: a failure affects one caller only, and nobody waits forever."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from deadline import DEADLINE
from sabir.errors import StoreUnavailable
from sabir.stores.base import Record
from sabir.stores.sqlite.checkpoints import CHECKPOINT_BYTES
from sabir.stores.sqlite.group_commit import AT_ONCE, LARGE, GroupCommit
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


async def test_the_writer_begins_while_more_jobs_are_coming(writer: GroupCommit) -> None:
    jobs = [writer.submit((n,)) for n in range(AT_ONCE + 1)]
    # Nothing was waited for, so the event loop has not run; the writer has the first all the same.
    end = time.monotonic() + DEADLINE
    while writer.groups == 0 and time.monotonic() < end:
        time.sleep(0.001)
    assert writer.groups
    await asyncio.gather(*jobs)
    assert await writer.submit(count) == AT_ONCE + 1


async def test_a_failed_job_is_reported_to_its_caller_alone(writer: GroupCommit) -> None:
    answers = await asyncio.gather(
        writer.submit((1,)), writer.submit(refuse), writer.submit((2,)), writer.submit((3,)), return_exceptions=True
    )
    assert [type(item).__name__ for item in answers] == ["int", "ValueError", "int", "int"]
    assert await writer.submit(count) == 3


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
async def test_a_bug_in_a_job_stops_the_store_and_leaves_nobody_waiting(writer: GroupCommit) -> None:
    waiting = [writer.submit((1,)), writer.submit(broken), writer.submit((2,))]
    async with asyncio.timeout(DEADLINE):
        answers = await asyncio.gather(*waiting, return_exceptions=True)
    assert StoreUnavailable in {type(item) for item in answers}
    with pytest.raises(StoreUnavailable, match="closed"):
        writer.submit((3,))


async def test_writes_of_many_callers_share_commits(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "sabir.db")
    await store.open()
    await asyncio.gather(*(store.put(Record("s", str(n), b"")) for n in range(200)))
    assert store.group_size > 5
    await store.close()


async def test_large_jobs_are_committed_one_at_a_time_with_all_small_ones(writer: GroupCommit) -> None:
    """Seven turns of 1.8 MB in one commit kept everybody else waiting for half a second (issue 11, D15)."""
    sizes: list[list[str]] = []
    commit = writer._commit

    def noted(connection: sqlite3.Connection, group: Any) -> None:
        sizes.append([job[0] for job, _ in group if isinstance(job, tuple)])
        commit(connection, group)

    writer._commit = noted  # type: ignore[method-assign]
    begun, all_there = threading.Event(), threading.Event()

    def wait_for_all(connection: sqlite3.Connection) -> None:
        begun.set()
        all_there.wait(60)

    first = writer.submit(wait_for_all)
    await asyncio.to_thread(begun.wait, 60)  # nothing else is committed before all of it is there
    large = [writer.submit((f"large {n}",), LARGE) for n in range(5)]
    small = [writer.submit((f"small {n}",)) for n in range(5)]
    while writer._gathering:  # small jobs are handed over by the loop
        await asyncio.sleep(0)
    all_there.set()
    await asyncio.gather(first, *large, *small)
    assert await writer.submit(count) == 10
    assert max(sum(name.startswith("large") for name in group) for group in sizes) == 1
    last_small = max(index for index, group in enumerate(sizes) if any(name.startswith("small") for name in group))
    assert last_small < len(sizes) - 2  # they did not wait for all large ones


async def test_a_large_job_that_must_stay_in_order_does(writer: GroupCommit) -> None:
    futures = [writer.submit((1,), LARGE, in_order=True), writer.submit((2,)), writer.submit((3,), LARGE)]
    await asyncio.gather(*futures)
    rows = await writer.submit(lambda connection: connection.execute("SELECT n FROM t ORDER BY rowid").fetchall())
    assert [n for (n,) in rows].index(1) < [n for (n,) in rows].index(2)


async def test_checkpoints_run_beside_the_writer(tmp_path: Path) -> None:
    """A checkpoint of 64 MB within a commit kept everybody waiting for half a second (issue 11, D15)."""
    store = SQLiteStore(tmp_path / "store.db")
    await store.open()
    try:
        for n in range(1 + CHECKPOINT_BYTES // 1_000_000):
            await store.put(Record("t", str(n), bytes(1_000_000)))
        async with asyncio.timeout(DEADLINE):
            while not store._checkpoints.checkpoints:
                await asyncio.sleep(0.01)
        copied = (tmp_path / "store.db").stat().st_size
        assert copied > 4_000_000  # what is in the log alone is not here
        assert len(await store.list("t", limit=100)) == 1 + CHECKPOINT_BYTES // 1_000_000
    finally:
        await store.close()

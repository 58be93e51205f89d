"""Durable turns per second: our stores compared with one commit each through the plain driver, in one run.

    python bench/store.py [--seconds 3] [--callers 1 16 64] [--postgres postgresql://postgres@127.0.0.1/test]

A turn is what the exchange writes when an agent has answered: the turn, its conversation and an audit entry, durable
when the call returns. The plain driver writes the same rows with the same statements, each turn in its own transaction:
for SQLite in threads with a connection each, because a commit blocks; for PostgreSQL through asyncpg's own pool,
without the audit entry: a chain has one end, and commits that take turns at it would be too easy to beat. Both write to
a fresh file or schema.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import sqlite3
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from threading import local
from uuid import uuid4

import asyncpg
import msgspec
import uvloop

from sabir.message import Message
from sabir.stores import Store
from sabir.stores.base import GENESIS, AuditLine, ConversationRow, TurnEntry, chain
from sabir.stores.postgres.store import PostgresStore
from sabir.stores.sqlite.store import DURABILITY, SQLiteStore
from sabir.turn import PastTurn

TO_REACH = 3.0  # times the plain driver, at 64 callers
ROUNDS = 4
Write = Callable[[TurnEntry], Awaitable[object]]
Figures = tuple[float, float]  # turns a second, p99 in milliseconds
QUESTION = Message.text("What is the capital of France, and how far is it from Geneva by train?")
ANSWER = Message.text("Paris. By train it is about three hours and ten minutes. " * 4)


def entry(conversation: str) -> TurnEntry:
    now, item_id = time.time(), uuid4().hex
    row = ConversationRow(conversation, "bench", now, now, now + 86400)
    audit = AuditLine(now, "turn", "bench", "nlip", "echo", "ok", item_id, conversation, {"bytes": 300})
    return TurnEntry(row, PastTurn(item_id, now, "echo", QUESTION, ANSWER, "bench", conversation), audit, 300)


async def measure(write: Write, callers: int, seconds: float) -> tuple[int, float, list[float]]:
    """How many turns in how many seconds, and the duration of each."""
    took: list[float] = []
    end = time.perf_counter() + seconds

    async def caller() -> None:
        conversation = uuid4().hex
        while (begun := time.perf_counter()) < end:
            await write(entry(conversation))
            took.append(time.perf_counter() - begun)

    begun = time.perf_counter()
    await asyncio.gather(*(caller() for _ in range(callers)))
    return len(took), time.perf_counter() - begun, took


async def side_by_side(ours: Write, plain: Write, callers: int, seconds: float) -> tuple[Figures, Figures]:
    """Alternate both in small blocks, so that other work on the machine affects both."""
    sums: list[tuple[int, float, list[float]]] = [(0, 0.0, []), (0, 0.0, [])]
    for _ in range(ROUNDS):
        for side, write in enumerate((ours, plain)):
            turns, elapsed, took = await measure(write, callers, seconds / ROUNDS)
            before = sums[side]
            sums[side] = (before[0] + turns, before[1] + elapsed, before[2] + took)
    one, other = ((turns / elapsed, _p99(took) * 1000) for turns, elapsed, took in sums)
    return one, other


def _p99(took: list[float]) -> float:
    return statistics.quantiles(took, n=100)[98] if len(took) > 1 else took[0]


# -- one commit each through the plain driver ------------------------------------------------------

TURN = (
    "INSERT INTO turns (id, conversation, at, agent, speaker, asked, answered) VALUES ({}) ON CONFLICT (id) DO NOTHING"
)
CONVERSATION = (
    "INSERT INTO conversations (id, owner, created, touched, expires, turns, bytes) VALUES ({})"
    " ON CONFLICT (id) DO UPDATE SET touched = excluded.touched, expires = excluded.expires,"
    " turns = conversations.turns + 1, bytes = conversations.bytes + excluded.bytes"
)
LAST = "SELECT number, hash FROM audit ORDER BY number DESC LIMIT 1"
AUDIT = "INSERT INTO audit (number, at, line, previous, hash) VALUES ({})"
pack = msgspec.msgpack.encode


def values(entry: TurnEntry) -> tuple[tuple[object, ...], tuple[object, ...], bytes]:
    turn, row = entry.turn, entry.conversation
    return (
        (turn.id, row.id, turn.at, turn.agent, turn.speaker, pack(turn.asked), pack(turn.answered)),
        (row.id, row.owner, row.created, row.touched, row.expires, 1, entry.size),
        msgspec.json.encode(entry.audit),
    )


@asynccontextmanager
async def plain_sqlite(path: Path, durability: str, callers: int) -> AsyncIterator[Write]:
    marks, mine = ",".join("?" * 7), local()

    def connection() -> sqlite3.Connection:
        if not hasattr(mine, "connection"):
            made = mine.connection = sqlite3.connect(path, isolation_level=None, timeout=60, check_same_thread=False)
            made.execute("PRAGMA journal_mode = WAL")
            made.execute(f"PRAGMA synchronous = {DURABILITY[durability]}")
        return mine.connection  # type: ignore[no-any-return]

    def commit(given: TurnEntry) -> None:
        turn, row, line = values(given)
        database = connection()
        database.execute("BEGIN IMMEDIATE")
        database.execute(TURN.format(marks), turn)
        database.execute(CONVERSATION.format(marks), row)
        number, previous = database.execute(LAST).fetchone() or (0, GENESIS)
        database.execute(AUDIT.format("?,?,?,?,?"), (number + 1, given.turn.at, line, previous, chain(previous, line)))
        database.execute("COMMIT")

    threads = ThreadPoolExecutor(callers)
    loop = asyncio.get_running_loop()
    try:
        yield lambda given: loop.run_in_executor(threads, commit, given)
    finally:
        threads.shutdown()


@asynccontextmanager
async def plain_postgres(address: str, callers: int) -> AsyncIterator[Write]:
    seven = ",".join(f"${n}" for n in range(1, 8))
    turn_sql, row_sql = TURN.format(seven), CONVERSATION.format(seven)
    async with asyncpg.create_pool(address, min_size=1, max_size=min(callers, 32)) as pool:

        async def commit(given: TurnEntry) -> None:
            turn, row, _ = values(given)
            async with pool.acquire() as connection, connection.transaction():
                await connection.execute(turn_sql, *turn)
                await connection.execute(row_sql, *row)

        yield commit


# -- the run -----------------------------------------------------------------------------------------


@asynccontextmanager
async def opened(store: Store) -> AsyncIterator[Write]:
    await store.open()
    try:
        yield store.record
    finally:
        await store.close()


@asynccontextmanager
async def schema(address: str) -> AsyncIterator[str]:
    name = f"bench_{uuid4().hex[:12]}"
    connection = await asyncpg.connect(address)
    await connection.execute(f"CREATE SCHEMA {name}")
    try:
        yield f"{address}{'&' if '?' in address else '?'}search_path={name}"
    finally:
        await connection.execute(f"DROP SCHEMA {name} CASCADE")
        await connection.close()


async def sqlite_rows(durability: str, callers: int, seconds: float) -> tuple[Figures, Figures]:
    home = Path(tempfile.mkdtemp(prefix="sabir-bench-"))
    try:
        async with opened(SQLiteStore(home / "plain.db")):
            pass  # the same tables
        async with (
            opened(SQLiteStore(home / "ours.db", durability=durability)) as ours,
            plain_sqlite(home / "plain.db", durability, callers) as plain,
        ):
            return await side_by_side(ours, plain, callers, seconds)
    finally:
        shutil.rmtree(home)


async def postgres_rows(address: str, callers: int, seconds: float) -> tuple[Figures, Figures]:
    async with schema(address) as first, schema(address) as second:
        async with opened(PostgresStore(second)):
            pass
        async with opened(PostgresStore(first)) as ours, plain_postgres(second, callers) as plain:
            return await side_by_side(ours, plain, callers, seconds)


async def run(callers: list[int], seconds: float, postgres: str) -> bool:
    kinds = {
        "SQLite process": partial(sqlite_rows, "process"),
        "SQLite power": partial(sqlite_rows, "power"),
        **({"PostgreSQL": partial(postgres_rows, postgres)} if postgres else {}),
    }
    print(f"{'store':16} {'callers':>7} {'turns/s':>9} {'p99 ms':>8}   {'plain/s':>9} {'p99 ms':>8}   {'ratio':>6}")
    reached = True
    for kind, rows in kinds.items():
        for count in callers:
            ours, plain = await rows(count, seconds)
            ratio = ours[0] / plain[0]
            reached = reached and (count != 64 or ratio >= TO_REACH)
            print(
                f"{kind:16} {count:7d} {ours[0]:9,.0f} {ours[1]:8.2f}  "
                f" {plain[0]:9,.0f} {plain[1]:8.2f}   {ratio:5.1f}x",
                flush=True,
            )
    print(f"at least {TO_REACH:.0f}x at 64 callers: {'reached' if reached else 'NOT reached'}")
    return reached


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--callers", type=int, nargs="+", default=[1, 16, 64])
    parser.add_argument("--postgres", default="postgresql://postgres@127.0.0.1:5432/test", help="empty: leave it out")
    given = parser.parse_args()
    return 0 if uvloop.run(run(given.callers, given.seconds, given.postgres)) else 1


if __name__ == "__main__":
    raise SystemExit(main())

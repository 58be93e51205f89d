"""One writer that sends the writes of many callers in one round trip and one commit of PostgreSQL.

A caller submits a write and awaits it; writes that arrive while a batch is under way form the next one. If the
connection breaks and it is unknown whether a batch was committed, it is sent again under its number, and the server
applies it once (``postgres_schema.WRITE``).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from time import time as now
from typing import Any, TypeAlias
from uuid import uuid4

import asyncpg

from sabir.errors import StoreUnavailable

from .retry import ERRORS, Outage

MAX_BATCH = 512
_GOODBYE = 5.0  # seconds for closing the connection
_SQL = f"SELECT fresh, counts, numbers FROM write_batch({', '.join(f'${n}' for n in range(1, 27))})"
_TURN, _LINE, _COUNT, _EVENT = 14, 3, 4, 2  # arrays that each kind of write fills

Connect: TypeAlias = Callable[[], Awaitable["asyncpg.Connection[asyncpg.Record]"]]


@dataclass(slots=True, eq=False)
class BatchedWrite:
    """A turn with or without an audit entry, an audit entry alone, a counter, or a task's event."""

    turn: tuple[Any, ...] | None = None
    line: tuple[float, bytes] | None = None
    count: tuple[str, str, float, float] | None = None
    event: tuple[str, bytes] | None = None
    done: asyncio.Future[Any] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class Batches:
    """Collects writes and sends them, one batch at a time."""

    def __init__(self, connect: Connect, outage: Outage) -> None:
        self._connect = connect
        self._outage = outage
        self._connection: asyncpg.Connection[asyncpg.Record] | None = None
        self._waiting: list[BatchedWrite] = []
        self._wake = asyncio.Event()
        self._closing = False
        self._number = 0
        self._writer = uuid4().hex
        self._loop: asyncio.Task[None] | None = None
        self.batches = 0
        self.writes = 0

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def start(self) -> None:
        self._loop = asyncio.create_task(self._run(), name="sabir-store")

    async def stop(self) -> None:
        """Finish submitted writes, then close the connection."""
        self._closing = True
        self._wake.set()
        if self._loop is not None:
            await self._loop
        if self._connection is not None:
            with suppress(*ERRORS):
                await self._connection.close(timeout=_GOODBYE)

    def submit(self, write: BatchedWrite) -> asyncio.Future[Any]:
        """Submit a write. The future resolves after its commit."""
        if self._closing or self._loop is None:
            raise StoreUnavailable("the store is closed")
        self._waiting.append(write)
        self._wake.set()
        return write.done

    async def _run(self) -> None:
        batch: list[BatchedWrite] = []
        try:
            while True:
                batch, self._waiting = self._waiting[:MAX_BATCH], self._waiting[MAX_BATCH:]
                if batch:
                    await self._commit(batch)
                elif self._closing:
                    return
                else:
                    self._wake.clear()
                    await self._wake.wait()
        finally:
            # If something unexpected ended this task, nobody must wait for it forever.
            self._closing = True
            _fail([*batch, *self._waiting], StoreUnavailable("the store has stopped; the log says why"))

    async def _commit(self, batch: list[BatchedWrite]) -> None:
        self._number += 1
        self.batches += 1
        self.writes += len(batch)
        outcome = _Outcome(batch)
        values = (self._writer, self._number, now(), *outcome.arrays())
        try:
            given, _ = await self._outage.ride_out(lambda: self._send(values))
        except ValueError as exc:
            if len(batch) == 1:
                _fail(batch, exc)
            else:  # only the faulty one fails
                for one in batch:
                    await self._commit([one])
        except StoreUnavailable as away:
            _fail(batch, away)
        else:
            outcome.resolve(given)

    async def _send(self, values: tuple[Any, ...]) -> asyncpg.Record:
        try:
            if self._connection is None:
                self._connection = await self._connect()
                await self._connection.execute(
                    "INSERT INTO writers VALUES ($1, 0, $2, '{}', '{}', '{}') ON CONFLICT DO NOTHING",
                    self._writer,
                    now(),
                    timeout=self._outage.seconds,
                )
            row = await self._connection.fetchrow(_SQL, *values, timeout=self._outage.seconds)
            assert row is not None  # a function with OUT parameters returns one row
            return row
        except ERRORS:
            self._let_go()
            raise

    def _let_go(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.terminate()


class _Outcome:
    """A batch as arrays for the server, and the server's answer as results for the callers."""

    def __init__(self, batch: list[BatchedWrite]) -> None:
        first: dict[str, BatchedWrite] = {}
        self.doubles: list[BatchedWrite] = []
        for write in batch:
            if write.turn is not None and first.setdefault(write.turn[0], write) is not write:
                self.doubles.append(write)
        self.turns = list(first.values())
        # In key order, so that two nodes that count the same things do not deadlock.
        self.counts = sorted((w for w in batch if w.count is not None), key=lambda w: w.count[:2])  # type: ignore[index]
        self.events = sorted((w for w in batch if w.event is not None), key=lambda w: w.event[0])  # type: ignore[index]
        self.lines = [w for w in batch if w.line is not None and w not in self.doubles]

    def arrays(self) -> list[Any]:
        place = {id(write): n for n, write in enumerate(self.turns, 1)}
        lines = [(place.get(id(w), 0), *w.line) for w in self.lines if w.line is not None]
        return [
            *_columns([w.turn for w in self.turns], _TURN),
            *_columns(lines, _LINE),
            *_columns([w.count for w in self.counts], _COUNT),
            *_columns([w.event for w in self.events], _EVENT),
        ]

    def resolve(self, given: asyncpg.Record) -> None:
        for writes, results in (
            (self.turns, given["fresh"]),
            (self.counts, given["counts"]),
            (self.events, given["numbers"]),
            (self.doubles, [False] * len(self.doubles)),
        ):
            for write, result in zip(writes, results, strict=True):
                if not write.done.done():
                    write.done.set_result(result)
        for write in self.lines:
            if not write.done.done():
                write.done.set_result(None)


def _columns(rows: list[Any], width: int) -> list[Any]:
    return list(zip(*rows, strict=True)) if rows else [[]] * width


def _fail(batch: list[BatchedWrite], exc: Exception) -> None:
    for write in batch:
        if not write.done.done():
            write.done.set_exception(exc)

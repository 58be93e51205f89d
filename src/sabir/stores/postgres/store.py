"""The shared store: PostgreSQL through asyncpg, for any number of gateways side by side.

What every turn writes (turn, conversation, audit entry, counters, task events) goes through one writer per process that
batches it (``batches``); the rest are single statements on a pool. A broken connection is retried (``retry``): a batch
is applied once however often it is sent, and the single statements are idempotent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import time as now
from typing import Any

import asyncpg
import msgspec

from sabir.errors import ConfigError, StoreUnavailable
from sabir.stores.base import (
    LONGEST_LEASE,
    AuditLine,
    ChainedLine,
    ConversationRow,
    Record,
    TaskEvent,
    TaskRow,
    TurnEntry,
)
from sabir.stores.letters import LetterNotices
from sabir.stores.rows import CONVERSATION, TASK, task_of
from sabir.stores.sql import ENDED_STATES, RECORD, RUNNABLE_STATES, SWEPT_AT_ONCE, SqlReads

from .batches import BatchedWrite, Batches
from .letters import PostgresLetters
from .liveness import PostgresNodes
from .notices import PostgresLetterNotices
from .retry import ERRORS, Outage, refused, where
from .schema import MIGRATIONS

_line_bytes = msgspec.json.Encoder().encode

_CLOCK = "extract(epoch from clock_timestamp())::float8"  # one clock for all nodes
_SERVER_START = "extract(epoch from pg_postmaster_start_time())::float8"
_IDLE_WRITER = 7 * 86400.0
_CONNECT_SECONDS = 10.0
_COMMAND_SECONDS = 30.0  # for slow operations: schema changes, sweeping, pruning
_GOODBYE = 5.0  # seconds for closing the connection


class PostgresStore(SqlReads, PostgresLetters):
    """Conversations, tasks, audit and records in one database, or one schema of it (``?search_path=…``)."""

    def __init__(self, address: str, *, connections: int = 8, patience: float = 15.0) -> None:
        self._address = address
        self._connections = connections
        self.schema = (0, 0)
        self._outage = Outage(patience, where(address))
        self._pool: asyncpg.Pool[asyncpg.Record] | None = None
        self._writer: Batches | None = None
        self._nodes = PostgresNodes(self._connect, self._outage)
        self._processes: set[int] = set()  # the server's process ids, one per connection of the pool

    async def exists(self) -> bool:
        """Whether a store exists; creates none."""
        try:
            connection = await asyncpg.connect(self._address, timeout=_CONNECT_SECONDS)
            try:
                return bool(await connection.fetchval("SELECT to_regclass('schema_version') IS NOT NULL"))
            finally:
                await connection.close(timeout=_GOODBYE)
        except ERRORS as exc:
            raise refused(exc, self._outage.place) from exc

    async def open(self) -> None:
        try:
            first = await asyncpg.connect(self._address, timeout=_CONNECT_SECONDS, command_timeout=_COMMAND_SECONDS)
            try:
                self.schema = await _migrate(first)
            finally:
                await first.close(timeout=_GOODBYE)
            self._pool = await asyncpg.create_pool(
                self._address,
                min_size=0,  # otherwise the pool logs a traceback for each attempt during an outage
                max_size=self._connections,
                timeout=_CONNECT_SECONDS,
                command_timeout=_COMMAND_SECONDS,
                reset=_no_reset,
                init=self._connected,
            )
        except ERRORS as exc:
            raise refused(exc, self._outage.place) from exc
        self._writer = Batches(self._connect, self._outage)
        self._writer.start()
        await self.ping()  # so that the first caller finds a connection

    async def _connected(self, connection: asyncpg.Connection[asyncpg.Record]) -> None:
        process = connection.get_server_pid()
        self._processes.add(process)
        connection.add_termination_listener(lambda _: self._processes.discard(process))

    async def notice_letters(self, notify: Callable[[str], None]) -> LetterNotices | None:
        return PostgresLetterNotices(self._connect, self._processes, notify)

    async def _connect(self) -> asyncpg.Connection[asyncpg.Record]:
        """A connection outside the pool."""
        seconds = min(_CONNECT_SECONDS, self._outage.seconds)
        return await asyncpg.connect(self._address, timeout=seconds, command_timeout=_COMMAND_SECONDS)

    async def close(self) -> None:
        writer, pool = self._writer, self._pool
        self._writer = self._pool = None
        await self._nodes.close()
        if writer is not None:
            await writer.stop()
        if pool is not None:
            try:
                async with asyncio.timeout(_GOODBYE):
                    await pool.close()
            except ERRORS:  # unavailable, or still busy
                pool.terminate()

    def writing(self) -> tuple[int, int, int]:
        """Commits so far, the writes in them, and pending writes; for metrics."""
        writer = self._writer
        return (writer.batches, writer.writes, writer.waiting) if writer is not None else (0, 0, 0)

    async def ping(self) -> None:
        # A read-only store is of no use: every turn writes.
        await self._execute("UPDATE schema_version SET number = number")

    # -- how it asks ---------------------------------------------------------------------------------

    async def _rows(self, sql: str, *values: Any) -> list[asyncpg.Record]:
        rows: list[asyncpg.Record] = (await self._outage.ride_out(lambda: self._try("fetch", sql, values)))[0]
        return rows

    async def _fetch(self, sql: str, *values: Any) -> list[asyncpg.Record]:
        try:
            return await self._rows(sql, *values)
        except ValueError:
            return []  # no row has a value that PostgreSQL cannot store

    async def _row(self, sql: str, *values: Any) -> asyncpg.Record | None:
        row: asyncpg.Record | None = (await self._outage.ride_out(lambda: self._try("fetchrow", sql, values)))[0]
        return row

    async def _execute(self, sql: str, *values: Any, seconds: float | None = None) -> tuple[int, bool]:
        """How many rows it changed, and whether an earlier attempt that failed may have changed them."""
        status, again = await self._outage.ride_out(lambda: self._try("execute", sql, values, seconds))
        return int(status.rpartition(" ")[2]), again

    async def _try(self, how: str, sql: str, values: tuple[Any, ...], seconds: float | None = None) -> Any:
        """One try on a connection of the pool, with a time limit for getting it and for the statement."""
        pool, limit = self._pool, self._outage.seconds
        if pool is None:
            raise StoreUnavailable("the store is closed")
        connection = await pool.acquire(timeout=limit)
        try:
            return await getattr(connection, how)(sql, *values, timeout=seconds or limit)
        except (TimeoutError, asyncio.CancelledError):
            connection.terminate()  # asking an unresponsive server to stop would mean waiting for it again
            raise
        finally:
            await pool.release(connection, timeout=_GOODBYE)

    async def _write(self, write: BatchedWrite) -> Any:
        if self._writer is None:
            raise StoreUnavailable("the store is closed")
        return await self._writer.submit(write)

    # -- conversations and turns ---------------------------------------------------------------

    async def record(self, entry: TurnEntry) -> bool:
        turn, row = entry.turn, entry.conversation
        values = (
            turn.id, row.id, turn.at, turn.agent, turn.speaker, self._pack(turn.asked), self._pack(turn.answered),
            row.owner, row.created, row.touched, row.expires, entry.size,
            self._pack(row.agreed) if row.agreed else None, row.peer_token,
        )  # fmt: skip
        line = (entry.audit.at, _line_bytes(entry.audit)) if entry.audit is not None else None
        return bool(await self._write(BatchedWrite(turn=values, line=line)))

    async def agree(self, conversation: ConversationRow) -> None:
        row = conversation
        await self._execute(
            f"INSERT INTO conversations ({CONVERSATION}) VALUES ($1,$2,$3,$4,$5,0,0,$6,$7,$8) ON CONFLICT (id)"
            " DO UPDATE SET agreed = excluded.agreed, ended = excluded.ended, expires = excluded.expires",
            row.id, row.owner, row.created, row.touched, row.expires, self._pack(row.agreed), row.peer_token,
            int(row.ended),
        )  # fmt: skip

    async def forget(self, conversation: str) -> None:
        await self._execute(
            "WITH theirs AS (DELETE FROM turns WHERE conversation = $1) DELETE FROM conversations WHERE id = $1",
            conversation,
        )

    async def sweep(self, now: float) -> int:
        swept, _ = await self._execute(
            "DELETE FROM records WHERE expires > 0 AND expires <= $1", now, seconds=_COMMAND_SECONDS
        )
        await self._execute("DELETE FROM writers WHERE at < $1", now - _IDLE_WRITER)
        swept += await self._sweep_letters(now)
        for table, children, parent, also in (
            ("conversations", "turns", "conversation", ""),
            ("tasks", "task_events", "task", f"AND state IN ({ENDED_STATES})"),
        ):
            sql = (
                f"WITH old AS (SELECT id FROM {table} WHERE expires <= $1 {also} LIMIT {SWEPT_AT_ONCE} FOR UPDATE"
                f" SKIP LOCKED), theirs AS (DELETE FROM {children} USING old WHERE {children}.{parent} = old.id)"
                f" DELETE FROM {table} USING old WHERE {table}.id = old.id"
            )
            removed = SWEPT_AT_ONCE
            while removed == SWEPT_AT_ONCE:
                removed, _ = await self._execute(sql, now, seconds=_COMMAND_SECONDS)
                swept += removed
        return swept

    # -- tasks -----------------------------------------------------------------------------------

    async def put_task(self, task: TaskRow, *, expect: int | None = None, lease: float | None = None) -> bool:
        body = self._pack(task)
        values = (
            task.id, task.owner, task.agent, task.state, task.conversation, task.created, task.updated, task.expires,
            body, task.priority,
        )  # fmt: skip
        change = (
            "owner = $2, agent = $3, state = $4, conversation = $5, created = $6, updated = $7, expires = $8,"
            " body = $9, priority = $10, version = tasks.version + 1"
        )
        if expect is None or expect == 0:
            done, again = await self._execute(
                "INSERT INTO tasks (id, owner, agent, state, conversation, created, updated, expires, body,"
                " priority, node, lease, attempts, version)"
                f" VALUES ($1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11,$12 * {_CLOCK} + $13,$12,1)"
                f" ON CONFLICT (id) DO {'NOTHING' if expect == 0 else f'UPDATE SET {change}'}",
                *values,
                *((task.node, 1, lease) if lease is not None else ("", 0, 0.0)),
            )
        else:
            done, again = await self._execute(
                f"UPDATE tasks SET {change} WHERE id = $1 AND version = $11", *values, expect
            )
        if done or not again:
            return bool(done)
        stored = await self._row("SELECT body FROM tasks WHERE id = $1", task.id)
        return stored is not None and stored[0] == body  # the broken try had done it

    async def claim_task(self, node: str, lease: float, agents: tuple[str, ...]) -> TaskRow | None:
        # A claim whose answer was lost expires, and is claimed again. While the server was down nobody could renew, so
        # after its start the holders get one lease time to do so.
        row = await self._row(
            f"UPDATE tasks SET node = $1, lease = {_CLOCK} + $2, attempts = attempts + 1, version = version + 1"
            f" WHERE id = (SELECT id FROM tasks WHERE state IN ({RUNNABLE_STATES})"
            f" AND (lease <= {_CLOCK} OR lease > {_CLOCK} + {LONGEST_LEASE}) AND agent = ANY($3)"
            f" AND (node = '' OR {_CLOCK} > $2 + {_SERVER_START})"
            f" ORDER BY priority DESC, created, id LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING {TASK}",
            node,
            lease,
            list(agents),
        )
        return task_of(row, self._open) if row else None

    async def renew_tasks(self, node: str, ids: tuple[str, ...], lease: float) -> dict[str, int]:
        rows = await self._rows(
            # A released task belongs to nobody, so it can be claimed even right after a server start.
            f"UPDATE tasks SET lease = CASE WHEN $3::float8 > 0 THEN {_CLOCK} + $3 ELSE 0 END,"
            " node = CASE WHEN $3::float8 > 0 THEN node ELSE '' END"
            f" WHERE id = ANY($1) AND node = $2 AND state NOT IN ({ENDED_STATES}) RETURNING id, version",
            list(ids),
            node,
            lease,
        )
        return {row[0]: row[1] for row in rows}

    async def show_node(self, node: str) -> bool:
        return await self._nodes.show(node)

    async def free_tasks(self, node: str, lease: float, silent: float) -> dict[str, int]:
        return await self._nodes.free(node, lease, silent)

    async def add_task_event(self, task: str, event: TaskEvent) -> int:
        return int(await self._write(BatchedWrite(event=(task, self._pack(event)))))

    # -- audit -----------------------------------------------------------------------------------

    async def audit(self, line: AuditLine) -> None:
        await self._write(BatchedWrite(line=(line.at, _line_bytes(line))))

    async def audit_lines(self, since: int = 0, limit: int = 1000) -> list[ChainedLine]:
        rows = await self._rows(
            "SELECT number, line, previous, hash, at FROM audit WHERE number > $1 ORDER BY number LIMIT $2",
            since,
            limit,
        )
        return [ChainedLine(*row) for row in rows]

    async def audit_head(self) -> tuple[int, str] | None:
        row = await self._row("SELECT number, hash FROM audit_head")
        return (row[0], row[1]) if row else None

    async def audit_prune(self, through: int) -> int:
        # The newest entry always stays, so that the chain continues from it.
        removed, _ = await self._execute(
            "DELETE FROM audit WHERE number <= $1 AND number < (SELECT max(number) FROM audit)",
            through,
            seconds=_COMMAND_SECONDS,
        )
        return removed

    # -- records ---------------------------------------------------------------------------------

    async def put(self, record: Record, *, expect: int | None = None) -> bool:
        spent = "(r.expires > 0 AND r.expires <= $6)"
        allowed = {None: "true", 0: spent}.get(expect, f"r.version = $7 AND NOT {spent}")
        replace = f"value = $3, owner = $4, expires = $5, version = CASE WHEN {spent} THEN 1 ELSE r.version + 1 END"
        values = (record.space, record.key, record.value, record.owner, record.expires, now())
        if expect:
            done, again = await self._execute(
                f"UPDATE records AS r SET {replace} WHERE space = $1 AND key = $2 AND {allowed}", *values, expect
            )
        else:
            done, again = await self._execute(
                f"INSERT INTO records AS r ({RECORD}) VALUES ($1,$2,$3,$4,$5,1)"
                f" ON CONFLICT (space, key) DO UPDATE SET {replace} WHERE {allowed}",
                *values,
            )
        if done or not again:
            return bool(done)
        # Perhaps the failed attempt had written it. Compared as stored: a value that a subclass encrypts is compared
        # encrypted.
        stored = await SqlReads.get(self, record.space, record.key)
        return stored is not None and (stored.value, stored.version) == (record.value, (expect or 0) + 1)

    async def list(self, space: str, *, prefix: str = "", owner: str | None = None, limit: int = 1000) -> list[Record]:
        rows = await self._fetch(
            f"SELECT {RECORD} FROM records WHERE space = $1 AND key >= $2 AND starts_with(key, $2)"
            " AND ($3::text IS NULL OR owner = $3) AND (expires = 0 OR expires > $4) ORDER BY key LIMIT $5",
            space,
            prefix,
            owner,
            now(),
            limit,
        )
        return [Record(*row) for row in rows]

    async def delete(self, space: str, key: str) -> bool:
        try:
            removed, _ = await self._execute("DELETE FROM records WHERE space = $1 AND key = $2", space, key)
        except ValueError:
            return False  # no row has a key that PostgreSQL cannot store
        return removed > 0

    async def count(self, space: str, key: str, delta: float, *, expires: float = 0.0) -> float:
        return float(await self._write(BatchedWrite(count=(space, key, delta, expires))))


async def _no_reset(connection: object) -> None:
    """We change no session state, so a connection is returned without a reset, which saves a round trip."""


async def _migrate(connection: asyncpg.Connection[asyncpg.Record]) -> tuple[int, int]:
    async with connection.transaction():
        schema = await connection.fetchval("SELECT current_schema()")
        if schema is None:
            raise ConfigError("the PostgreSQL schema of search_path does not exist; create it first")
        # Several gateways may start at once; one of them migrates the schema.
        await connection.execute("SELECT pg_advisory_xact_lock(hashtextextended('sabir migrate ' || $1, 0))", schema)
        await connection.execute("CREATE TABLE IF NOT EXISTS schema_version (number integer NOT NULL)")
        done = await connection.fetchval("SELECT number FROM schema_version") or 0
        if done > len(MIGRATIONS):
            raise ConfigError(f"the store was written by a newer version (schema {done}, known {len(MIGRATIONS)})")
        for script in MIGRATIONS[done:]:
            await connection.execute(script)
        await connection.execute("DELETE FROM schema_version")
        await connection.execute("INSERT INTO schema_version VALUES ($1)", len(MIGRATIONS))
        return done, len(MIGRATIONS)

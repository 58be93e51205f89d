"""A PostgreSQL store as tables, for ``stores.copy``."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg

from sabir.stores.tables import HEAD, LAST_HASH, TABLES, Row, Tables, page_sql

from .liveness import IN_USE
from .retry import ERRORS, refused, where


@asynccontextmanager
async def transaction(address: str, begin: str) -> AsyncIterator[Tables]:
    """One transaction, committed if the block succeeds.

    Raises:
        StoreUnavailable: the server does not answer.
    """
    try:
        connection = await asyncpg.connect(address, timeout=10.0)
        try:
            await connection.execute(begin)
            yield _PostgresTables(connection)
            await connection.execute("COMMIT")
        finally:
            connection.terminate()  # without COMMIT, nothing is changed
    except ERRORS as exc:
        raise refused(exc, where(address)) from exc


async def in_use(address: str) -> bool:
    """Whether a running gateway uses this store: each holds a shared lock, so that the exclusive one cannot be taken.

    Raises:
        StoreUnavailable: the server does not answer.
    """
    try:
        connection = await asyncpg.connect(address, timeout=10.0)
        try:
            return not await connection.fetchval(f"SELECT pg_try_advisory_lock({IN_USE})")
        finally:
            connection.terminate()  # which also releases the lock
    except ERRORS as exc:
        raise refused(exc, where(address)) from exc


# Tables with rows numbered by the server.
_NUMBERED = (("turns", "number"), ("letters", "number"), ("dead_letters", "number"), ("utterances", "seq"))


class _PostgresTables:
    def __init__(self, connection: asyncpg.Connection[asyncpg.Record]) -> None:
        self._connection = connection

    async def count(self, table: str) -> int:
        return int(await self._connection.fetchval(f"SELECT count(*) FROM {table}"))

    async def page(self, table: str, after: Row | None) -> list[Row]:
        rows = await self._connection.fetch(page_sql(table, after, lambda n: f"${n}"), *(after or ()))
        return [tuple(row) for row in rows]

    async def add(self, table: str, rows: list[Row]) -> None:
        columns, _ = TABLES[table]
        await self._connection.copy_records_to_table(table, records=rows, columns=list(columns))

    async def last_hash(self) -> str | None:
        found: str | None = await self._connection.fetchval(LAST_HASH)
        return found

    async def head(self) -> Row | None:
        row = await self._connection.fetchrow(HEAD)
        return tuple(row) if row else None

    async def settle(self, head: Row | None) -> None:
        for table, column in _NUMBERED:
            await self._connection.execute(
                f"SELECT setval(pg_get_serial_sequence('{table}', '{column}'), (SELECT max({column}) FROM {table}))"
            )
        await self._connection.execute("DELETE FROM audit_head")
        if head is not None:
            await self._connection.execute("INSERT INTO audit_head VALUES ($1, $2)", *head)

"""Copies all rows of a store into another, empty one: from SQLite to PostgreSQL when a gateway outgrows it, or back.

The source is read as a snapshot, even while a gateway writes to it; the target is written in one transaction, and
committed only if row counts and the end of the audit chain match.
"""

from __future__ import annotations

import logging
import re
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final, TypeAlias
from urllib.parse import urlsplit

from sabir.errors import ConfigError, MissingExtra, StoreUnavailable

from .open import open_store, sqlite_path
from .rows import WRONG, check_task
from .sealing import ContentCipher, is_sealed
from .sqlite.store import SQLiteStore
from .tables import CONTENTS, HEAD, LAST_HASH, TABLES, Row, Tables, page_sql

_NUMBER: Final = re.compile(rb"-?[0-9.]{1,20}(e[+-]?[0-9]+)?")  # a counter, which the store itself increments

logger = logging.getLogger("sabir")

OnProgress: TypeAlias = Callable[[str, int, int], None]  # table, rows copied, rows in all


async def copy(
    source: str,
    target: str,
    on_progress: OnProgress = lambda table, done, total: None,
    *,
    opens: ContentCipher | None = None,
    seals: ContentCipher | None = None,
) -> dict[str, int]:
    """Copy everything; returns the number of rows of each table.

    ``opens`` decrypts the contents of the source; ``seals`` encrypts them for the target.

    Raises:
        ConfigError: an address does not name a persistent store, or the target is not empty.
        StoreUnavailable: a store does not answer, or the copy is incomplete; the target is then unchanged.
    """
    for address in (source, target):
        if urlsplit(address).scheme not in ("sqlite", "postgresql", "postgres"):
            raise ConfigError("copy: expected sqlite:///path or postgresql://… twice")
    if source == target:
        raise ConfigError("copy: source and target are the same store")
    if urlsplit(source).scheme == "sqlite" and not sqlite_path(source).exists():
        raise ConfigError(f"copy: {sqlite_path(source)} does not exist")
    for address in (source, target):  # both at the schema of this version
        store = open_store(address)
        await store.open()
        await store.close()
    async with _reading(source) as old, _writing(target) as new:
        if any([await new.count(table) for table in TABLES]):
            raise ConfigError("copy: the target is not empty; rows of two gateways cannot be mixed")
        resealing = Resealing(opens, seals)
        counts = {table: await _copy_table(table, old, new, on_progress, resealing) for table in TABLES}
        await new.settle(await old.head())  # also copies a missing end of the chain
        for table, count in counts.items():
            if count != await new.count(table) or count != await old.count(table):
                raise StoreUnavailable(f"copy: {table} did not arrive completely; nothing was copied")
        if await old.last_hash() != await new.last_hash():
            raise StoreUnavailable("copy: the audit chain did not arrive completely; nothing was copied")
    return counts


async def _copy_table(table: str, old: Tables, new: Tables, on_progress: OnProgress, resealing: Resealing) -> int:
    done, total, after = 0, await old.count(table), None
    width = TABLES[table][1]
    while page := await old.page(table, after):
        opened = [resealing.opened(table, row) for row in page]
        await new.add(table, [resealing.sealed(table, row) for row in opened])
        if table == "tasks":
            _warn_of_unreadable(opened)
        after = page[-1][:width]
        done += len(page)
        on_progress(table, done, total)
    return done


class Resealing:
    """Decrypts the contents of rows and encrypts them again."""

    def __init__(self, opens: ContentCipher | None, seals: ContentCipher | None) -> None:
        self._opens = opens
        self._seals = seals

    def opened(self, table: str, row: Row) -> Row:
        """Raises:
        ConfigError: the source is encrypted, and none of the keys opens it.
        """
        return self._changed(table, row, self._open)

    def sealed(self, table: str, row: Row) -> Row:
        if self._seals is None:
            return row
        return self._changed(table, row, self._seal)

    def _changed(self, table: str, row: Row, change: Callable[[bytes], bytes]) -> Row:
        columns, _ = TABLES[table]
        contents = [columns.index(name) for name in CONTENTS.get(table, ())]
        if not contents:
            return row
        return tuple(
            change(value) if place in contents and value is not None else value for place, value in enumerate(row)
        )

    def _open(self, stored: bytes) -> bytes:
        if not is_sealed(stored):
            return stored
        if self._opens is None:
            raise ConfigError("copy: the source is encrypted; give its key with --from-key env:NAME")
        try:
            return self._opens.open(stored)
        except ValueError as exc:
            raise ConfigError(f"copy: a row of the source does not open with this key ({exc})") from None

    def _seal(self, plain: bytes) -> bytes:
        assert self._seals is not None
        return plain if _NUMBER.fullmatch(plain) else self._seals.seal(plain)


def _warn_of_unreadable(tasks: list[Row]) -> None:
    """Unreadable rows are copied as they are; warn about them."""
    columns, _ = TABLES["tasks"]
    row_id, body = columns.index("id"), columns.index("body")
    for task in tasks:
        try:
            check_task(task[body])
        except WRONG as exc:
            logger.warning(
                "Task %s cannot be read (%s); it is copied unchanged, and will be marked failed", task[row_id], exc
            )


@asynccontextmanager
async def _reading(address: str) -> AsyncIterator[Tables]:
    async with _transaction(address, "BEGIN", "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY") as tables:
        yield tables


@asynccontextmanager
async def _writing(address: str) -> AsyncIterator[Tables]:
    async with _transaction(address, "BEGIN IMMEDIATE", "BEGIN") as tables:
        yield tables


@asynccontextmanager
async def _transaction(address: str, sqlite_begin: str, postgres_begin: str) -> AsyncIterator[Tables]:
    if urlsplit(address).scheme == "sqlite":
        connection = SQLiteStore(sqlite_path(address)).connect()
        try:
            connection.execute(sqlite_begin)
            yield _SQLiteTables(connection)
            connection.execute("COMMIT")
        except sqlite3.Error as exc:
            raise StoreUnavailable(f"copy: {exc}") from exc
        finally:
            connection.close()  # without COMMIT, nothing is changed
        return
    try:
        from .postgres.copy import transaction  # noqa: PLC0415 - an extra
    except ImportError as missing:
        raise MissingExtra("a PostgreSQL store", "postgres") from missing
    async with transaction(address, postgres_begin) as tables:
        yield tables


class _SQLiteTables:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    async def count(self, table: str) -> int:
        return int(self._connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0])

    async def page(self, table: str, after: Row | None) -> list[Row]:
        sql = page_sql(table, after, lambda n: "?")
        if table == "letters":
            sql = sql.replace("FROM letters", "FROM whole_letters")
        return self._connection.execute(sql, after or ()).fetchall()

    async def add(self, table: str, rows: list[Row]) -> None:
        columns, _ = TABLES[table]
        marks = ",".join("?" * len(columns))
        self._connection.executemany(f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks})", rows)

    async def last_hash(self) -> str | None:
        row = self._connection.execute(LAST_HASH).fetchone()
        return str(row[0]) if row else None

    async def head(self) -> Row | None:
        row: Row | None = self._connection.execute(HEAD).fetchone()
        return row

    async def settle(self, head: Row | None) -> None:
        self._connection.execute("DELETE FROM audit_head")
        if head is not None:
            self._connection.execute("INSERT INTO audit_head VALUES (?, ?)", head)

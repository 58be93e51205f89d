"""Writes many rows per statement: each statement costs a thread switch."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import chain as chained
from typing import Any, Final, TypeVar

from sabir.stores.base import GENESIS, chain

MANY: Final = 256  # rows per statement while there are so many; then
ROWS: Final = 64  # at most; bounds the number of distinct statements to prepare and cache
_T = TypeVar("_T")


def insert(
    connection: sqlite3.Connection, head: str, width: int, rows: Sequence[tuple[Any, ...]], tail: str = ""
) -> int:
    """Run a statement with the rows as its VALUES, in chunks; returns how many were inserted or updated."""
    done = 0
    for chunk in chunks(rows):
        values = list(chained.from_iterable(chunk))
        done += connection.execute(with_rows(head, width, len(chunk), tail), values).rowcount
    return done


def chunks(rows: Sequence[_T]) -> Iterator[Sequence[_T]]:
    """The rows of each statement."""
    at = 0
    while at < len(rows):
        size = MANY if len(rows) - at >= MANY else ROWS
        yield rows[at : at + size]
        at += size


@lru_cache(maxsize=8 * ROWS)
def with_rows(head: str, width: int, count: int, tail: str = "") -> str:
    """A statement with this many rows of this many values between its head and its tail."""
    return head + ",".join([f"({','.join('?' * width)})"] * count) + tail


def append_audit(connection: sqlite3.Connection, lines: list[tuple[float, bytes]]) -> None:
    """Append entries to the audit log, each chained to the one before it."""
    if not lines:
        return
    # Read inside the transaction: other processes may have appended to the same file.
    last = connection.execute("SELECT number, hash FROM audit_head").fetchone()
    if last is None:  # somebody removed it; the log continues anyway
        last = connection.execute("SELECT number, hash FROM audit ORDER BY number DESC LIMIT 1").fetchone()
    number, previous = (last[0], last[1]) if last else (0, GENESIS)
    rows = []
    for at, line in lines:
        number += 1
        digest = chain(previous, line)
        rows.append((number, at, line, previous, digest))
        previous = digest
    insert(connection, "INSERT INTO audit VALUES ", 5, rows)

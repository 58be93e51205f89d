"""Address → store."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

from ..errors import BadSetup, MissingExtra, StoreUnavailable
from .base import Store
from .memory import MemoryStore
from .sqlite import SQLiteStore


def open_store(address: str, *, durability: str = "process") -> Store:
    """The store at an address: ``memory:``, ``sqlite:///path``, ``postgresql://…``. Not yet opened.

    Raises:
        BadSetup: the address names no kind of store.
        MissingExtra: its driver is not installed.
    """
    scheme = urlsplit(address).scheme
    if scheme == "memory":
        return MemoryStore()
    if scheme == "sqlite":
        return SQLiteStore(sqlite_path(address), durability=durability)
    if scheme in ("postgresql", "postgres"):
        if not has_ports(address):
            raise BadSetup(f"store: the port of {shown(address)} is not a number from 1 to 65535")
        try:
            from .postgres import PostgresStore  # noqa: PLC0415 - an extra
        except ImportError as missing:
            raise MissingExtra("a PostgreSQL store", "postgres") from missing
        return PostgresStore(address)
    raise BadSetup(f"store: expected memory:, sqlite:///path or postgresql://…, not {scheme or 'a bare word'!r}")


async def is_there(address: str) -> bool:
    """Whether there is a store at an address; unlike opening it, this makes none.

    Raises:
        BadSetup: the address names no kind of store, or a file of another kind.
        StoreUnavailable: it does not answer.
    """
    store = open_store(address)
    if isinstance(store, MemoryStore):
        return False
    if not isinstance(store, SQLiteStore):
        return bool(await store.exists())  # type: ignore[attr-defined]  # PostgreSQL, which is an extra
    if not store.path.is_file():
        return False
    try:
        connection = sqlite3.connect(f"{store.path.absolute().as_uri()}?mode=rw", uri=True)
        try:
            return bool(connection.execute("PRAGMA user_version").fetchone()[0])
        finally:
            connection.close()
    except sqlite3.OperationalError as wrong:
        raise StoreUnavailable(f"{store.path.name}: {wrong}") from wrong
    except sqlite3.DatabaseError as wrong:
        raise BadSetup(f"store: {shown(address)}: {wrong}") from wrong


def has_ports(address: str) -> bool:
    """Whether each server that an address names has a port that can be one, or none."""
    places = urlsplit(address).netloc.rpartition("@")[2].split(",")
    ports = [place.rpartition(":")[2] for place in places if ":" in place.rpartition("]")[2]]
    return all(port.isascii() and port.isdigit() and 0 < int(port) <= 65535 for port in ports)


def shown(address: str) -> str:
    """An address as it may be shown: the path of a file, or a server without what proves who we are to it."""
    parts = urlsplit(address)
    if parts.scheme == "sqlite":
        return str(sqlite_path(address).absolute())
    schema = parse_qs(parts.query).get("search_path")
    query = f"search_path={schema[0]}" if schema else ""
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query=query, fragment="").geturl()


def sqlite_path(address: str) -> Path:
    """``sqlite:///relative`` and ``sqlite:////absolute``, as is the custom."""
    rest = address.removeprefix("sqlite:")
    return Path(unquote(rest.removeprefix("///") if rest.startswith("///") else rest.removeprefix("//")))

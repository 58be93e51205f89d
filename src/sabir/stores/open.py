"""Address → store."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from sabir import plugins
from sabir.errors import ConfigError, MissingExtra, StoreUnavailable

from .base import Store
from .memory import MemoryStore
from .sealing import ContentCipher, sealed
from .sqlite.store import SQLiteStore


def open_store(address: str, *, durability: str = "process", cipher: ContentCipher | None = None) -> Store:
    """The store at an address: ``memory:``, ``sqlite:///path``, ``postgresql://…``. Not yet opened.

    With a cipher, contents are encrypted at rest; a store in memory writes nothing to disk.

    Raises:
        ConfigError: unknown kind of store.
        MissingExtra: its driver is not installed.
    """
    scheme = urlsplit(address).scheme
    if scheme == "memory":
        return MemoryStore()
    if scheme == "sqlite":
        return _ciphered(SQLiteStore, cipher)(sqlite_path(address), durability=durability)
    if scheme in ("postgresql", "postgres"):
        if not has_ports(address):
            raise ConfigError(f"store: the port of {shown(address)} is not a number from 1 to 65535")
        try:
            from .postgres.store import PostgresStore  # noqa: PLC0415 - an extra
        except ImportError as missing:
            raise MissingExtra("a PostgreSQL store", "postgres") from missing
        return _ciphered(PostgresStore, cipher)(address)
    if (make := plugins.find(plugins.STORES, scheme)) is not None:
        if cipher is not None:
            raise ConfigError(f"encryption: a store of the kind {scheme} cannot encrypt its contents")
        made: Store = make(address, durability=durability)
        return made
    raise ConfigError(f"store: expected memory:, sqlite:///path or postgresql://…, not {scheme or 'a bare word'!r}")


def _ciphered(kind: Callable[..., Store], cipher: ContentCipher | None) -> Callable[..., Store]:
    if cipher is None:
        return kind

    def make(*given: Any, **options: Any) -> Store:
        made = sealed(kind)(*given, **options)
        made.cipher = cipher
        return made  # type: ignore[no-any-return]

    return make


async def is_there(address: str) -> bool:
    """Whether a store exists at an address; unlike opening it, this creates none.

    Raises:
        ConfigError: unknown kind of store, or the file is not a store.
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
    except sqlite3.OperationalError as exc:
        raise StoreUnavailable(f"{store.path.name}: {exc}") from exc
    except sqlite3.DatabaseError as exc:
        raise ConfigError(f"store: {shown(address)}: {exc}") from exc


def has_ports(address: str) -> bool:
    """Whether each server in an address has a valid port, or none."""
    places = urlsplit(address).netloc.rpartition("@")[2].split(",")
    ports = [place.rpartition(":")[2] for place in places if ":" in place.rpartition("]")[2]]
    return all(port.isascii() and port.isdigit() and 0 < int(port) <= 65535 for port in ports)


def shown(address: str) -> str:
    """An address that is safe to show: the path of a file, or a server without credentials."""
    parts = urlsplit(address)
    if parts.scheme == "sqlite":
        return str(sqlite_path(address).absolute())
    schema = parse_qs(parts.query).get("search_path")
    query = f"search_path={schema[0]}" if schema else ""
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query=query, fragment="").geturl()


def sqlite_path(address: str) -> Path:
    """The path in ``sqlite:///relative`` or ``sqlite:////absolute``."""
    rest = address.removeprefix("sqlite:")
    return Path(unquote(rest.removeprefix("///") if rest.startswith("///") else rest.removeprefix("//")))

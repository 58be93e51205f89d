"""Address → store."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlsplit

from ..errors import BadSetup, MissingExtra
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
        try:
            from .postgres import PostgresStore  # noqa: PLC0415 - an extra
        except ImportError as missing:
            raise MissingExtra("a PostgreSQL store", "postgres") from missing
        return PostgresStore(address)
    raise BadSetup(f"store: expected memory:, sqlite:///path or postgresql://…, not {scheme or 'a bare word'!r}")


def sqlite_path(address: str) -> Path:
    """``sqlite:///relative`` and ``sqlite:////absolute``, as is the custom."""
    rest = address.removeprefix("sqlite:")
    return Path(unquote(rest.removeprefix("///") if rest.startswith("///") else rest.removeprefix("//")))

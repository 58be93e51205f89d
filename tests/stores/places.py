"""Where stores for tests are: a schema of its own on the real PostgreSQL server."""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from urllib.parse import urlencode
from uuid import uuid4

import asyncpg
import pytest

POSTGRES = os.environ.get("SABIR_TEST_POSTGRES", "postgresql://postgres@127.0.0.1:5432/test")
QUICK = {"synchronous_commit": "off"}  # no test here cuts the power; those that kill the server have their own


@asynccontextmanager
async def schema() -> AsyncIterator[str]:
    """The address of an empty schema of its own, dropped afterwards."""
    try:
        connection = await asyncpg.connect(POSTGRES, timeout=5, server_settings=QUICK)
    except (OSError, asyncpg.PostgresError) as away:
        pytest.skip(f"no PostgreSQL server at {POSTGRES.rpartition('@')[2]}: {away}")
    name = f"test_{uuid4().hex[:16]}"
    try:
        await connection.execute(f"CREATE SCHEMA {name}")
        yield f"{POSTGRES}?search_path={name}&{urlencode(QUICK)}"
    finally:
        await connection.execute(f"DROP SCHEMA IF EXISTS {name} CASCADE")
        await connection.close()


@asynccontextmanager
async def kept(kind: str, folder: Path) -> AsyncIterator[str]:
    """The address of an empty store with rows: ``sqlite`` or ``postgresql``."""
    if kind == "postgresql":
        async with schema() as place:
            yield place
    else:
        yield f"sqlite:///{folder}/a store.db"


async def by_hand(address: str, sql: str, *values: object) -> None:
    """Change a store as nobody should: a statement with ``$1``, ``$2``, … past the store itself."""
    if address.startswith("sqlite:"):
        with closing(sqlite3.connect(address.removeprefix("sqlite:///"), isolation_level=None)) as file:
            file.execute(re.sub(r"\$(\d)", r"?\1", sql), values)
        return
    connection = await asyncpg.connect(address)
    try:
        await connection.execute(sql, *values)
    finally:
        await connection.close()

"""One fixture, every store: ``store`` runs a test once in memory, once on SQLite and once on PostgreSQL."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import uuid4

import asyncpg
import pytest

from sabir.stores import Store, open_store

POSTGRES = os.environ.get("SABIR_TEST_POSTGRES", "postgresql://postgres@127.0.0.1:5432/test")

Another = Callable[[], Awaitable[Store]]


@asynccontextmanager
async def schema() -> AsyncIterator[str]:
    """The address of an empty schema of its own, dropped afterwards."""
    try:
        connection = await asyncpg.connect(POSTGRES, timeout=5)
    except (OSError, asyncpg.PostgresError) as away:
        pytest.skip(f"no PostgreSQL server at {POSTGRES.rpartition('@')[2]}: {away}")
    name = f"test_{uuid4().hex[:16]}"
    try:
        await connection.execute(f"CREATE SCHEMA {name}")
        yield f"{POSTGRES}?search_path={name}"
    finally:
        await connection.execute(f"DROP SCHEMA IF EXISTS {name} CASCADE")
        await connection.close()


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
async def address(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[str]:
    """Where an empty store is."""
    if request.param == "postgresql":
        async with schema() as place:
            yield place
    else:
        yield "memory:" if request.param == "memory" else f"sqlite:///{tmp_path}/sabir.db"


@pytest.fixture
async def store(address: str) -> AsyncIterator[Store]:
    opened = open_store(address)
    await opened.open()
    yield opened
    await opened.close()


@pytest.fixture
async def another(address: str, store: Store) -> AsyncIterator[Another]:
    """Opens the same store again, as another node would. Memory is one process's own, so there it is the same."""
    more: list[Store] = []

    async def make() -> Store:
        if address == "memory:":
            return store
        more.append(open_store(address))
        await more[-1].open()
        return more[-1]

    yield make
    for each in more:
        await each.close()

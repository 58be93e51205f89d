"""One fixture, every store: ``store`` runs a test once in memory, once on SQLite and once on PostgreSQL."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from sabir.stores import Store, open_store
from stores.places import schema

Another = Callable[[], Awaitable[Store]]


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

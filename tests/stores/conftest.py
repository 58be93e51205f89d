"""One fixture, every store: ``store`` runs a test once in memory, once on SQLite and once on PostgreSQL."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from sabir.stores import Store, open_store
from sabir.stores.sealing import ContentCipher
from stores.places import schema

Another = Callable[[], Awaitable[Store]]


SEALED = "sealed.db"
CIPHER = ContentCipher(b"k" * 32)


def opening(address: str) -> Store:
    """The store of an address; one whose file is called so encrypts its contents (MW-31)."""
    return open_store(address, cipher=CIPHER if address.endswith(SEALED) else None)


@pytest.fixture(params=["memory", "sqlite", "postgresql", "sealed"])
async def address(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[str]:
    """Where an empty store is."""
    if request.param == "postgresql":
        async with schema() as place:
            yield place
    else:
        name = SEALED if request.param == "sealed" else "sabir.db"
        yield "memory:" if request.param == "memory" else f"sqlite:///{tmp_path}/{name}"


@pytest.fixture
async def store(address: str) -> AsyncIterator[Store]:
    opened = opening(address)
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
        more.append(opening(address))
        await more[-1].open()
        return more[-1]

    yield make
    for item in more:
        await item.close()

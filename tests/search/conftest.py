"""Engines for the contract suite."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from sabir.search import Engine

from .engines import Hashed, opened, pgvector_server


@pytest.fixture(scope="session")
def pgvector() -> Iterator[str]:
    with pgvector_server() as address:
        yield address


@pytest.fixture(params=["local", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Path | str]:
    if request.param == "local":
        return "local", tmp_path
    return "postgres", request.getfixturevalue("pgvector")


@pytest.fixture
async def engine(place: tuple[str, Path | str]) -> AsyncIterator[Engine]:
    async with opened(*place, Hashed()) as made:
        yield made

"""A gateway with the agents of ``a2a_bench`` behind the A2A door."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest

from conftest import Served, serving
from protocols.a2a.a2a_bench import Bench, Keys
from sabir.gateway.gateway import Gateway
from sabir.guard import Authenticator


def made(bench: Bench, home: Path) -> Gateway:
    return Gateway(
        *bench.agents(),
        home=home,
        identity=Authenticator((Keys(),)),
        doors={"a2a": {"push": {"private": True}}},
    )


@pytest.fixture
def bench() -> Bench:
    return Bench()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One gateway for a whole file of tests that leave no traces in each other."""
    with serving(made(Bench(), tmp_path_factory.mktemp("home"))) as served:
        yield served


@pytest.fixture
def gateway(bench: Bench, home: Path) -> Gateway:
    return made(bench, home)


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(trust_env=False) as client:
        yield client

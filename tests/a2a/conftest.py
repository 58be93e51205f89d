"""A gateway with the agents of ``a2a_bench`` behind the A2A door."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

sys.path.insert(0, str(Path(__file__).parent))  # this folder cannot be a package: its name is the SDK's

from a2a_bench import Bench, Keys

from sabir.gateway import Gateway
from sabir.guard import Identity


@pytest.fixture
def bench() -> Bench:
    return Bench()


@pytest.fixture
def gateway(bench: Bench, home: Path) -> Gateway:
    return Gateway(
        *bench.agents(),
        home=home,
        identity=Identity((Keys(),)),
        doors={"a2a": {"push": {"private": True}}},
    )


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(timeout=30.0, trust_env=False) as client:
        yield client

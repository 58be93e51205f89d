"""Servers and programs that are written with the SDK alone, for our door and our peer."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mcp_servers.nursery import SDK_SERVER, Nursery, nursery
from mcp_servers.ways import SERVER


@pytest.fixture(scope="session")
def programs() -> Iterator[Nursery]:
    with nursery() as made:
        yield made


@pytest.fixture(scope="module")
def sdk_server(programs: Nursery) -> Iterator[str]:
    """The address of a server of the SDK, for all tests of a file that leave it as it is."""
    with programs.serving(SDK_SERVER) as address:
        yield address


@pytest.fixture(scope="module")
def memory_server(programs: Nursery) -> Iterator[str]:
    """The address of a server that remembers what its clients said."""
    with programs.serving(SERVER) as address:
        yield address

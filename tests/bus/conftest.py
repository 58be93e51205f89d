"""Buses to try the contract on: in process, kept in SQLite and PostgreSQL, and on a real NATS server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from uuid import uuid4

import pytest

from sabir.bus import Bus, BusLimits, open_bus
from sabir.bus.memory import MemoryBus
from stores.places import schema

from .on_nats import NATS, need_nats, remove_streams

# Short enough that a test which waits for a time-out does not take long.
QUICK = BusLimits(
    backoff=(0.01, 0.02), attempts=3, ack_seconds=1.0, alive_seconds=0.25, send_seconds=5.0, stop_seconds=0.1
)


class Nodes:
    """Any number of nodes on one bus."""

    def __init__(self, kind: str, address: str = "") -> None:
        self.kind = kind
        self.address = address  # of the store that letters are kept in
        self.prefix = f"test{uuid4().hex[:12]}"
        self.open: list[Bus] = []
        self._shared = MemoryBus(QUICK)

    async def node(self, limits: BusLimits = QUICK) -> Bus:
        bus: Bus
        if self.kind == "memory":
            bus = self._shared
            self._shared.limits = limits
        elif self.address:  # calls stay in a process, so that all nodes of a test are one
            if self.open:
                return self.open[0]
            bus = open_bus(self.address, limits=limits)
        else:
            bus = open_bus(f"{NATS}?prefix={self.prefix}", limits=limits)
        await bus.open()
        self.open.append(bus)
        return bus

    async def close(self) -> None:
        for bus in self.open:
            await bus.close()
        if self.kind == "nats" and self.open:
            await remove_streams(NATS, self.prefix)


@pytest.fixture(params=["memory", "sqlite", "postgresql", "nats"])
async def nodes(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Nodes]:
    if request.param == "nats":
        need_nats()
    async with AsyncExitStack() as stack:
        address = ""
        if request.param == "sqlite":
            address = f"sqlite:///{tmp_path}/sabir.db"
        elif request.param == "postgresql":
            address = await stack.enter_async_context(schema())
        nodes = Nodes(request.param, address)
        yield nodes
        await nodes.close()


@pytest.fixture
async def bus(nodes: Nodes) -> Bus:
    return await nodes.node()

"""Buses to try the contract on: in process, and on a real NATS server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from uuid import uuid4

import pytest

from sabir.bus import Bus, Limits, open_bus
from sabir.bus.memory import MemoryBus

from .on_nats import NATS, need_nats, remove_streams

# Short enough that a test which waits for a time-out does not take long.
QUICK = Limits(
    backoff=(0.01, 0.02), attempts=3, ack_seconds=1.0, alive_seconds=0.25, send_seconds=5.0, stop_seconds=0.1
)


class Nodes:
    """Any number of nodes on one bus."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.prefix = f"test{uuid4().hex[:12]}"
        self.open: list[Bus] = []
        self._shared = MemoryBus(QUICK)

    async def node(self, limits: Limits = QUICK) -> Bus:
        bus: Bus
        if self.kind == "memory":
            bus = self._shared
            self._shared.limits = limits
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


@pytest.fixture(params=["memory", "nats"])
async def nodes(request: pytest.FixtureRequest) -> AsyncIterator[Nodes]:
    if request.param == "nats":
        need_nats()
    nodes = Nodes(request.param)
    yield nodes
    await nodes.close()


@pytest.fixture
async def bus(nodes: Nodes) -> Bus:
    return await nodes.node()

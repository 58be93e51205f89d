"""Three NATS servers that keep each letter three times: one may burn down with its disk."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import msgspec
import pytest

from free_ports import free_port
from sabir.bus import Bus, Letter, open_bus
from sabir.errors import BusUnavailable

from .conftest import QUICK
from .nats_server import NatsServer

LIMITS = msgspec.structs.replace(QUICK, send_seconds=60.0)


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[list[NatsServer]]:
    routes = [free_port() for _ in range(3)]
    joined = ",".join(f"nats://127.0.0.1:{port}" for port in routes)
    servers = []
    for n, port in enumerate(routes):
        cluster = ("--cluster_name", "three", "--cluster", f"nats://127.0.0.1:{port}", "--routes", joined)
        servers.append(NatsServer(tmp_path / f"n{n}", "-js", "--name", f"n{n}", *cluster))
    for server in servers:
        server.start()
    yield servers
    for server in servers:
        server.kill()


@pytest.fixture
async def bus(servers: list[NatsServer]) -> AsyncIterator[Bus]:
    hosts = ",".join(server.url.removeprefix("nats://") for server in servers)
    bus = await open_when_ready(f"nats://{hosts}?replicas=3")
    yield bus
    await bus.close()


async def open_when_ready(address: str) -> Bus:
    """The three take a moment to agree on who leads."""
    async with asyncio.timeout(60):
        while True:
            bus = open_bus(address, limits=LIMITS)
            try:
                await bus.open()
                return bus
            except BusUnavailable:
                await bus.close()
                await asyncio.sleep(0.2)


@pytest.mark.slow
async def test_a_server_lost_with_its_disk_loses_no_letter_that_was_acknowledged(
    bus: Bus, servers: list[NatsServer]
) -> None:
    acknowledged: list[bytes] = []

    async def send(count: int) -> None:
        for n in range(len(acknowledged), len(acknowledged) + count):
            await bus.send(Letter("hotel", b"%d" % n, sender="me", order="c"))
            acknowledged.append(b"%d" % n)

    await send(50)
    lost = servers[0]
    lost.kill()
    shutil.rmtree(lost.folder)
    await send(50)  # goes on with the two that are left
    got: list[bytes] = []
    done = asyncio.Event()

    async def handler(letter: Letter) -> None:
        got.append(letter.body)
        if len(got) == 100:
            done.set()

    async with asyncio.timeout(60):
        while True:
            try:
                await bus.receive("hotel", handler)
                break
            except BusUnavailable:
                await asyncio.sleep(0.2)
        await done.wait()
    assert got == acknowledged

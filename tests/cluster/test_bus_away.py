"""An unavailable bus is reported: in the log, in health and metrics, and to callers of remote agents."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import httpx2
import pytest

from bus.nats_server import NatsServer
from deadline import DEADLINE
from sabir.agent import agent
from sabir.bus import BusLimits, Letter, open_bus
from sabir.errors import TurnFailed
from sabir.gateway.gateway import Gateway
from sabir.observe.settings import ObserveSettings
from sabir.stores.memory import MemoryStore
from sabir.turn import Turn

QUICK = BusLimits(alive_seconds=0.5, reconnect_seconds=(0.05, 0.2), attempts=1)
HELLO = {"format": "text", "subformat": "english", "content": "hello"}


@agent(name="here")
async def here(turn: Turn) -> str:
    return "here"


@agent(name="there")
async def there(turn: Turn) -> str:
    return "there"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[NatsServer]:
    with NatsServer(tmp_path / "nats") as server:
        yield server


@pytest.fixture
async def nodes(server: NatsServer, tmp_path: Path) -> AsyncIterator[list[Gateway]]:
    store = MemoryStore()
    opened = []
    for name, own in (("a", here), ("b", there)):
        gateway = Gateway(
            own,
            home=tmp_path / name,
            store=store,
            bus=open_bus(server.url, limits=QUICK),
            node=name,
            observe=ObserveSettings(metrics=True),
        )
        await gateway.start()
        opened.append(gateway)
    yield opened
    for gateway in opened:
        await store.open()
        await gateway.stop()


def at(gateway: Gateway) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(transport=httpx2.ASGITransport(gateway), base_url="http://127.0.0.1:8080")


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(DEADLINE):
        while not holds():
            await asyncio.sleep(0.01)


async def test_an_unavailable_bus_is_reported_everywhere_and_so_is_its_return(
    server: NatsServer, nodes: list[Gateway], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "sabir.bus")
    gateway, bus = nodes[0], nodes[0].bus
    assert bus is not None
    async with at(gateway) as client:
        await until(lambda: "there" in gateway.agents)
        assert (await client.post("/nlip/there", json=HELLO)).json()["content"] == "there"
        assert (await client.get("/health")).json()["status"] == "ok"
        assert "sabir_bus_up 1\n" in (await client.get("/metrics")).text

        server.stop()
        await until(lambda: not bus.up)
        refused = await client.post("/nlip/there", json=HELLO)
        assert refused.status_code == 503
        assert refused.json()["content"] == "there is on another node, and the bus between the nodes is unavailable"
        assert (await client.post("/nlip/here", json=HELLO)).json()["content"] == "here"
        for path in ("/health", "/health/ready"):
            response = await client.get(path)  # this node answers for its own agents
            assert (response.status_code, response.json()["status"], response.json()["bus"]) == (
                200,
                "degraded",
                "unavailable",
            )
        shown = (await client.get("/metrics")).text
        assert "sabir_bus_up 0\n" in shown and "sabir_store_up 1\n" in shown

        server.start()
        await until(lambda: bus.up)
        assert (await client.get("/health")).json()["status"] == "ok"
        async with asyncio.timeout(DEADLINE):
            while (await client.post("/nlip/there", json=HELLO)).status_code != 200:
                await asyncio.sleep(0.05)  # the other node is not back yet
    where = f"NATS at 127.0.0.1:{server.port}"
    await until(lambda: len([r for r in caplog.records if r.name == "sabir.bus"]) >= 4)
    for node_count, level, words in (
        (2, "WARNING", f"{where} is unavailable;"),
        (2, "INFO", f"{where} connected again"),
    ):
        found = [r for r in caplog.records if r.levelname == level and r.getMessage().startswith(words)]
        assert len(found) == node_count, caplog.text


async def test_dead_letters_are_counted_by_name(nodes: list[Gateway]) -> None:
    gateway = nodes[0]
    assert gateway.bus is not None

    async def fail(letter: Letter) -> None:
        raise TurnFailed("no")

    await gateway.bus.receive("inn", fail)
    await gateway.bus.send(Letter("inn", b"x"))
    async with at(gateway) as client, asyncio.timeout(DEADLINE):
        while 'sabir_bus_dead_letters{name="inn"} 1\n' not in (await client.get("/metrics")).text:
            await asyncio.sleep(0.01)
        await gateway.bus.discard_dead("inn")
        assert "sabir_bus_dead_letters{" not in (await client.get("/metrics")).text


async def test_a_bus_that_we_closed_is_not_reported_as_unavailable(
    server: NatsServer, caplog: pytest.LogCaptureFixture
) -> None:
    bus = open_bus(server.url, limits=QUICK)
    await bus.open()
    await bus.close()
    assert not bus.up
    assert "away" not in caplog.text

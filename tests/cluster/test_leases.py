"""PostgreSQL is unavailable for longer than the directory's leases: the known agents stay the same."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import asyncpg
import pytest

from bus.on_nats import NATS, need_nats, remove_streams
from deadline import DEADLINE
from sabir.agent import Agent, agent
from sabir.aio import cancel_and_wait
from sabir.bus import Bus, open_bus
from sabir.bus.memory import MemoryBus
from sabir.cluster.door import BusDoor
from sabir.errors import StoreUnavailable
from sabir.events import Event, Reply
from sabir.exchange.request import EventSink, TurnRequest
from sabir.gateway.gateway import Gateway
from sabir.guard import Credentials
from sabir.message import Message
from sabir.stores.postgres.store import PostgresStore
from sabir.turn import Caller, Turn
from stores.private_postgres import PrivatePostgres

LEASE = 2.0
ADA = Caller("key:ada", "key")


@pytest.fixture(scope="module")
def server() -> Iterator[PrivatePostgres]:
    with PrivatePostgres() as private:
        yield private


@agent(name="local", remembers=False)
async def local(turn: Turn) -> str:
    return "local"


@agent(name="hotel", remembers=False)
async def hotel(turn: Turn) -> str:
    return "a room"


class Nodes:
    """Gateways on one PostgreSQL and one bus, with short leases."""

    def __init__(self, address: str, home: Path, kind: str) -> None:
        self._address, self._home, self._kind = address, home, kind
        self._shared, self._prefix = MemoryBus(), f"test{uuid4().hex[:12]}"
        self.all: list[Gateway] = []
        self._stores: list[PostgresStore] = []

    def _bus(self) -> Bus:
        return self._shared if self._kind == "memory" else open_bus(f"{NATS}?prefix={self._prefix}")

    async def start(self, *agents: Agent, lease: float = LEASE) -> Gateway:
        store = PostgresStore(self._address)
        self._stores.append(store)
        name = f"n{len(self.all) + 1}"
        gateway = Gateway(*agents, home=self._home / name, store=store, bus=self._bus(), node=name)
        gateway.directory.look_seconds = 0.1
        door(gateway).lease = lease
        await gateway.start()
        self.all.append(gateway)
        return gateway

    def expect_an_outage(self) -> None:
        """From now on, calls of the store fail soon if the server is unavailable."""
        for store in self._stores:
            store._outage.patience = 0.3

    async def close(self) -> None:
        for gateway in self.all:
            await self._shared.open()  # the first that stops closes what is shared
            await gateway.stop()
        if self._kind == "nats":
            await remove_streams(NATS, self._prefix)


@pytest.fixture(params=["memory", "nats"])
async def nodes(request: pytest.FixtureRequest, server: PrivatePostgres, tmp_path: Path) -> AsyncIterator[Nodes]:
    if request.param == "nats":
        need_nats()
    name = f"lease_{uuid4().hex[:12]}"
    connection = await asyncpg.connect(server.address)
    await connection.execute(f"CREATE SCHEMA {name}")
    await connection.close()
    nodes = Nodes(f"{server.address}?search_path={name}", tmp_path, request.param)
    yield nodes
    await nodes.close()


def door(gateway: Gateway) -> BusDoor:
    (found,) = [item for item in gateway.doors if isinstance(item, BusDoor)]
    return found


async def until(condition: Callable[[], object], seconds: float = DEADLINE) -> None:
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.01)


async def listed(gateway: Gateway, name: str) -> list[float]:
    """Until when it stands in the directory, for each node that offers it."""
    return [entry.until for entry in await gateway.directory.find(name)]


async def ask(gateway: Gateway, name: str) -> str:
    replies: list[Event] = []

    async def keep(event: Event) -> None:
        replies.append(event)

    await gateway.exchange.ask(
        TurnRequest(Message.text("?"), "nlip-http", name, Credentials(caller=ADA)), EventSink(keep)
    )
    assert isinstance(replies[-1], Reply)
    return replies[-1].message.text


class Cut:
    """A store that this node no longer reaches, while others do."""

    def __init__(self, gateway: Gateway) -> None:
        self._directory, self._store = gateway.directory, gateway.directory.store
        self._directory.store = self  # type: ignore[assignment]
        self.renewals = 0  # that were tried

    def __getattr__(self, name: str) -> Any:
        self.renewals += name == "get"
        raise StoreUnavailable("PostgreSQL does not answer (cut off)")

    def mend(self) -> None:
        self._directory.store = self._store


async def test_an_outage_longer_than_a_lease_removes_no_running_agent(nodes: Nodes, server: PrivatePostgres) -> None:
    await nodes.start(hotel, local)
    near = await nodes.start(local)
    assert await ask(near, "hotel") == "a room"
    missing: list[float] = []

    async def watch() -> None:
        while True:
            if "hotel" not in near.agents:
                missing.append(time.monotonic())
            await asyncio.sleep(0.001)

    watching = asyncio.create_task(watch())
    nodes.expect_an_outage()
    await asyncio.to_thread(server.stop)
    await asyncio.sleep(2 * LEASE)  # longer than the lease, which is what this is about
    await asyncio.to_thread(server.start)
    async with asyncio.timeout(DEADLINE):
        while True:
            try:
                if await listed(near, "hotel"):
                    break
            except StoreUnavailable:
                pass
            await asyncio.sleep(0.01)
    await until(lambda: not door(near).unlisted)  # and it is known here
    await cancel_and_wait([watching])
    assert not missing, f"gone for {missing[-1] - missing[0]:.1f} s"
    assert await ask(near, "hotel") == "a room"


async def test_a_node_that_is_cut_off_from_the_store_is_still_asked_and_listed_again_when_it_is_not(
    nodes: Nodes,
) -> None:
    far = await nodes.start(hotel, local)
    near = await nodes.start(local)
    cut = Cut(far)
    async with asyncio.timeout(DEADLINE):
        while await listed(near, "hotel"):
            await asyncio.sleep(0.05)
    await until(lambda: "hotel" in door(near).unlisted)
    begun = time.monotonic()
    while time.monotonic() < begun + LEASE:  # for the time of another lease
        assert await ask(near, "hotel") == "a room"
        await asyncio.sleep(0.05)
    cut.mend()
    async with asyncio.timeout(DEADLINE):
        while not await listed(near, "hotel"):
            await asyncio.sleep(0.05)
    await until(lambda: not door(near).unlisted)
    assert await ask(near, "hotel") == "a room"


async def test_an_agent_whose_lease_ran_out_and_that_nobody_answers_for_is_gone(nodes: Nodes) -> None:
    far = await nodes.start(hotel, local)
    near = await nodes.start(local)
    assert "hotel" in near.agents
    cut = Cut(far)
    await until(lambda: "hotel" in door(near).unlisted)
    await door(far)._serve_no_more()  # as if it had died
    await until(lambda: "hotel" not in near.agents)
    assert not door(near).unlisted
    cut.mend()


async def test_a_node_that_is_about_to_stop_does_not_answer_for_its_agents(nodes: Nodes) -> None:
    far = await nodes.start(hotel, local)
    near = await nodes.start(local)
    cut = Cut(far)
    await until(lambda: "hotel" in door(near).unlisted)
    far.exchange.closing = True
    await until(lambda: "hotel" not in near.agents)
    cut.mend()


@pytest.mark.parametrize("nodes", ["memory"], indirect=True)
async def test_what_could_not_be_renewed_is_tried_again_soon_and_not_with_the_next_lease(nodes: Nodes) -> None:
    node = await nodes.start(hotel, lease=0.3)
    cut = Cut(node)
    await until(lambda: cut.renewals)
    door(node).lease = 36_000.0  # the next renewal would be in hours
    cut.mend()
    async with asyncio.timeout(DEADLINE):
        while not any(item > time.time() + 1000 for item in await listed(node, "hotel")):
            await asyncio.sleep(0.05)

"""A gateway that cannot start, or whose parts fail when it stops, leaves nothing held and nothing begun."""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec
import pytest

from bus.nats_server import NatsServer
from deadline import DEADLINE
from free_ports import free_port
from sabir import agent
from sabir.agent import Agent
from sabir.bus.framing import BusLimits
from sabir.bus.nats import NatsBus
from sabir.errors import BusUnavailable, StoreUnavailable
from sabir.exchange.request import TurnRequest
from sabir.gateway.endpoints.health import Health
from sabir.gateway.gateway import Gateway
from sabir.guard import Credentials
from sabir.http.door import GatewayServices
from sabir.message import Message
from sabir.server.server import CLOSE_SECONDS
from sabir.stores import open_store
from sabir.stores.base import TaskRow
from sabir.tasks import TaskSettings
from sabir.turn import Caller, Turn

ADA = Caller(id="ada", kind="key", address="127.0.0.1")
QUICK = TaskSettings(lease=600.0, look=0.02)


class Worker:
    """An agent that must not be called twice, and counts how often it was."""

    def __init__(self) -> None:
        self.calls = 0
        self.begun = asyncio.Event()

        @agent(name="worker")
        async def work(turn: Turn) -> str:
            self.calls += 1
            self.begun.set()
            await asyncio.Event().wait()
            return "done"

        self.agent = work


def named(name: str) -> Agent:
    @agent(name=name)
    async def quiet(turn: Turn) -> str:
        return ""

    return quiet


async def left_waiting(address: str) -> str:
    """A task that was accepted, and that no node has begun."""
    store = open_store(address)
    await store.open()
    now = time.time()
    detail = {"caller": msgspec.to_builtins(ADA)}
    task = TaskRow(uuid4().hex, "ada", "worker", "submitted", now, now, now + 600, Message.text("go"), detail=detail)
    await store.put_task(task, expect=0)
    await store.close()
    return task.id


async def found(address: str, item_id: str) -> TaskRow:
    store = open_store(address)
    await store.open()
    task = await store.task(item_id)
    await store.close()
    assert task is not None
    return task


async def test_a_gateway_without_its_bus_starts_nothing_that_it_could_not_continue(tmp_path: Path) -> None:
    address = f"sqlite:///{tmp_path}/sabir.db"
    item_id = await left_waiting(address)
    worker = Worker()
    bus = NatsBus(f"nats://127.0.0.1:{free_port()}", BusLimits(connect_seconds=0.5))
    gateway = Gateway(worker.agent, home=tmp_path, store=address, bus=bus, tasks=QUICK)
    with pytest.raises(BusUnavailable):
        await gateway.start()
    task = await found(address, item_id)
    assert (worker.calls, task.state, task.attempts, task.node) == (0, "submitted", 0, "")


async def test_a_gateway_that_did_not_start_has_let_go_of_everything(tmp_path: Path) -> None:
    before = asyncio.all_tasks()
    bus = NatsBus(f"nats://127.0.0.1:{free_port()}", BusLimits(connect_seconds=0.5))
    gateway = Gateway(Worker().agent, home=tmp_path, bus=bus, node="harbour")
    with pytest.raises(BusUnavailable):
        await gateway.start()
    assert {task.get_name() for task in asyncio.all_tasks() - before} == set()
    assert list((tmp_path / "nodes").iterdir()) == []
    with pytest.raises(StoreUnavailable):
        await gateway.store.ping()


class Stuck(Health):
    """A door that fails when it is closed."""

    name = "stuck"

    def __init__(self, services: GatewayServices) -> None:
        super().__init__(services)

    async def stop(self) -> None:
        raise OSError("it does not close")


async def test_a_part_that_fails_when_it_stops_does_not_keep_the_others_open(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    worker = Worker()
    address = f"sqlite:///{tmp_path}/sabir.db"
    gateway = Gateway(worker.agent, home=tmp_path, store=address, tasks=QUICK, extra_doors=[Stuck])
    gateway.serving = msgspec.structs.replace(gateway.serving, graceful_seconds=0.01)
    await gateway.start()
    task = await gateway.tasks.submit(TurnRequest(Message.text("go"), "nlip", credentials=Credentials(caller=ADA)))
    await worker.begun.wait()
    with caplog.at_level(logging.ERROR):
        await gateway.stop()
    assert "Stuck.stop failed to close" in caplog.text
    with pytest.raises(StoreUnavailable):
        await gateway.store.ping()
    assert (await found(address, task.id)).lease < time.time() + 1  # let go, though its time was ten minutes


async def test_a_worker_keeps_renewing_running_tasks_after_an_error(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    worker = Worker()
    gateway = Gateway(worker.agent, home=tmp_path, tasks=TaskSettings(lease=2.0, look=0.02))
    gateway.serving = msgspec.structs.replace(gateway.serving, graceful_seconds=0.01)
    await gateway.start()
    task = await gateway.tasks.submit(TurnRequest(Message.text("go"), "nlip", credentials=Credentials(caller=ADA)))
    await worker.begun.wait()
    claim, stumbled = gateway.store.claim_task, asyncio.Event()

    async def stumble(*arguments: Any) -> TaskRow | None:
        if not stumbled.is_set():
            stumbled.set()
            raise ValueError("a row that nobody can read")
        return await claim(*arguments)

    gateway.store.claim_task = stumble  # type: ignore[method-assign]
    await stumbled.wait()
    lease = (await gateway.tasks.find(task.id, ADA)).lease
    async with asyncio.timeout(DEADLINE):
        while (await gateway.tasks.find(task.id, ADA)).lease <= lease:
            await asyncio.sleep(0.01)
    assert "The task worker failed" in caplog.text
    await gateway.stop()


async def test_what_was_let_go_of_is_not_held_again_by_a_renewal_that_was_under_way(tmp_path: Path) -> None:
    worker = Worker()
    address = f"sqlite:///{tmp_path}/sabir.db"
    gateway = Gateway(worker.agent, home=tmp_path, store=address, tasks=QUICK)
    await gateway.start()
    task = await gateway.tasks.submit(TurnRequest(Message.text("go"), "nlip", credentials=Credentials(caller=ADA)))
    await worker.begun.wait()
    renew, renewing, let_go = gateway.store.renew_tasks, asyncio.Event(), asyncio.Event()

    async def slowly(node: str, ids: tuple[str, ...], lease: float) -> dict[str, int]:
        if not lease:
            held = await renew(node, ids, lease)
            let_go.set()
            return held
        renewing.set()
        with suppress(TimeoutError):
            async with asyncio.timeout(0.5):
                await let_go.wait()
        return await renew(node, ids, lease)

    gateway.store.renew_tasks = slowly  # type: ignore[method-assign]
    await renewing.wait()
    await gateway.exchange.close(0.01)
    async with asyncio.timeout(DEADLINE):
        while gateway.tasks.running:
            await asyncio.sleep(0.01)
    await gateway.stop()
    assert (await found(address, task.id)).lease < time.time() + 1


async def test_a_gateway_whose_bus_has_gone_away_stops_all_the_same(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    nats = NatsServer(tmp_path / "nats")
    nats.start()
    worker = Worker()
    others = [named(name) for name in ("one", "two", "three", "four")]
    address = f"sqlite:///{tmp_path}/sabir.db"
    gateway = Gateway(worker.agent, *others, home=tmp_path, store=address, bus=nats.url, tasks=QUICK)
    gateway.serving = msgspec.structs.replace(gateway.serving, graceful_seconds=0.01)
    try:
        await gateway.start()
        task = await gateway.tasks.submit(TurnRequest(Message.text("go"), "nlip", credentials=Credentials(caller=ADA)))
        await worker.begun.wait()
    finally:
        nats.kill()
    async with asyncio.timeout(CLOSE_SECONDS):  # after that the process would be ended
        await gateway.stop()
    assert (await found(address, task.id)).lease < time.time() + 1
    assert "failed to close" not in caplog.text

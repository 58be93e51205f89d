"""Nodes of one gateway for tests of tasks: each with a store connection, an exchange and tasks of its own."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest

from deadline import DEADLINE
from sabir.agent import Agent
from sabir.exchange.conversations import Conversations
from sabir.exchange.exchange import Exchange
from sabir.exchange.request import TurnRequest
from sabir.guard import Credentials, Guard, Quotas, Seal
from sabir.message import Message
from sabir.stores import Store, open_store
from sabir.stores.base import TaskRow
from sabir.stores.postgres.store import PostgresStore
from sabir.tasks import Tasks, TaskSettings
from sabir.turn import Caller
from stores.places import schema
from stores.private_postgres import PrivatePostgres

ADA = Caller(id="ada", kind="key", address="127.0.0.1")
EVE = Caller(id="eve", kind="key", address="127.0.0.1")
QUICK = TaskSettings(lease=10.0, look=0.02)
SHORT = 0.4  # seconds of a lease, for tests in which a node dies


def asked(text: str, agent: str | None = None, caller: Caller = ADA, message: Message | None = None) -> TurnRequest:
    return TurnRequest(message or Message.text(text), "nlip", agent, Credentials(caller.address, caller=caller))


@dataclass
class Node:
    """One process of a gateway, without its doors."""

    store: Store
    exchange: Exchange
    tasks: Tasks

    async def close(self) -> None:
        await self.tasks.close()
        await self.store.close()

    def die(self) -> None:
        """What ``kill -9`` leaves behind: leases that nobody renews, and agents that were in the middle."""
        worker: Any = self.tasks.worker
        worker._loop.cancel()
        for run in list(worker.runs.values()):
            run.line.send = _nowhere
            run.coroutine.cancel()

    def lose_sign(self) -> None:
        """What the kernel, or the server, does when a process ends."""
        worker: Any = self.tasks.worker
        if isinstance(self.store, PostgresStore):
            self.store._nodes._lose()
            return
        os.close(worker._sign._held)
        worker._sign._held = None


async def _nowhere(event: object) -> None:
    raise AssertionError("a dead node says nothing")


MakeNode = Callable[..., Awaitable[Node]]


async def until(done: Callable[[TaskRow], bool], here: Node, task_id: str) -> TaskRow:
    """Looks at the task until this is so."""
    async with asyncio.timeout(DEADLINE):
        while True:
            task = await here.tasks.find(task_id, ADA)
            if done(task):
                return task
            await asyncio.sleep(0.01)


@dataclass
class Nodes:
    address: str
    made: list[Node] = field(default_factory=list)

    async def __call__(self, *agents: Agent, settings: TaskSettings = QUICK, name: str = "", **changes: Any) -> Node:
        store = open_store(self.address)
        await store.open()
        quotas = Quotas()
        guard = Guard(Seal(b"k" * 32), quotas)
        conversations = Conversations(store, guard.seal, quotas)
        exchange = Exchange({a.card.name: a for a in agents}, agents[0].card.name, store, guard, conversations)
        settings = msgspec.structs.replace(settings, **changes)
        tasks = Tasks(exchange, store, node=name or f"node{len(self.made)}", settings=settings)
        await tasks.start()
        self.made.append(Node(store, exchange, tasks))
        return self.made[-1]


@pytest.fixture(scope="session")
def new_server() -> Iterator[PrivatePostgres]:
    """A PostgreSQL server that was started a moment ago, as on a machine that has just booted."""
    with PrivatePostgres() as server:
        yield server


@pytest.fixture(params=["sqlite", "postgresql", "new postgresql"])
async def node(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[MakeNode]:
    """Makes nodes that share one store: ``await node(agent, …)``."""
    async with AsyncExitStack() as stack:
        if request.param == "sqlite":
            address = f"sqlite:///{tmp_path}/sabir.db"
        elif request.param == "postgresql":
            address = await stack.enter_async_context(schema())
        else:
            address = await request.getfixturevalue("new_server").schema("tasks")
        nodes = Nodes(address)
        yield nodes
        for item in nodes.made:
            await item.close()

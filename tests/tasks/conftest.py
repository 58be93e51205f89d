"""Nodes of one gateway for tests of tasks: each with a store connection, an exchange and tasks of its own."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sabir.agent import Agent
from sabir.conversations import Conversations
from sabir.exchange import Exchange
from sabir.guard import Credentials, Guard, Quotas, Seal
from sabir.line import Ask
from sabir.message import Message
from sabir.stores import Store, open_store
from sabir.stores.base import TaskRow
from sabir.stores.postgres import PostgresStore
from sabir.tasks import Tasks, TaskSettings
from sabir.turn import Caller
from stores.places import schema

ADA = Caller(id="ada", kind="key", address="127.0.0.1")
EVE = Caller(id="eve", kind="key", address="127.0.0.1")
QUICK = TaskSettings(lease=10.0, look=0.02)
SHORT = 0.4  # seconds of a lease, for tests in which a node dies


def asked(text: str, agent: str | None = None, caller: Caller = ADA, message: Message | None = None) -> Ask:
    return Ask(message or Message.text(text), "nlip", agent, Credentials(caller.address, caller=caller))


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
        tasks: Any = self.tasks
        tasks._worker.cancel()
        for run in list(tasks._runs.values()):
            run.line.send = _nowhere
            run.coroutine.cancel()

    def lose_sign(self) -> None:
        """What the kernel, or the server, does when a process ends."""
        tasks: Any = self.tasks
        if isinstance(self.store, PostgresStore):
            self.store._nodes._lose()
            return
        os.close(tasks._sign._held)
        tasks._sign._held = None


async def _nowhere(event: object) -> None:
    raise AssertionError("a dead node says nothing")


MakeNode = Callable[..., Awaitable[Node]]


async def until(done: Callable[[TaskRow], bool], here: Node, id: str) -> TaskRow:
    """Looks at the task until this is so."""
    async with asyncio.timeout(30):
        while True:
            task = await here.tasks.find(id, ADA)
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


@pytest.fixture(params=["sqlite", "postgresql"])
async def node(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[MakeNode]:
    """Makes nodes that share one store: ``await node(agent, …)``."""
    if request.param == "sqlite":
        nodes = Nodes(f"sqlite:///{tmp_path}/sabir.db")
        yield nodes
        for each in nodes.made:
            await each.close()
        return
    async with schema() as address:
        nodes = Nodes(address)
        yield nodes
        for each in nodes.made:
            await each.close()

"""Two gateways on one PostgreSQL and one NATS; one is killed with kill -9 in the middle of its work.

    python scripts/cluster_durability.py --runs 100 [--seed N]

Node A and node B are the same gateway behind a plain round-robin. In each run there are conversations whose turns
alternate between the nodes, a task is submitted to A, and A is asked for an agent that only B has; then A is killed at
a random moment. The conversations continue, and the task is finished, on B; A is restarted. At the end each
conversation must have exactly its turns in order, with their answers; the task must be completed, with one recorded
turn; and the audit chain, written by both nodes, must be intact.

Needs the servers of SABIR_TEST_POSTGRES and SABIR_TEST_NATS (127.0.0.1 by default); leaves nothing behind there.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import asyncpg
import httpx2
import msgspec
from killed import GatewayProcess, Talk, audit_of, message, once, options_of, outcome, show, stored_as_answered

from sabir.bus.nats import RETENTION, NatsBus
from sabir.stores.base import ChainedLine
from sabir.stores.postgres.store import PostgresStore

POSTGRES = os.environ.get("SABIR_TEST_POSTGRES", "postgresql://postgres@127.0.0.1:5432/test")
NATS = os.environ.get("SABIR_TEST_NATS", "nats://127.0.0.1:4222")
CLIENTS, TURNS = 3, 4
TASK_SECONDS = 0.4
FINISH_SECONDS = 60.0

AGENTS = f'''
import asyncio
from sabir import agent
from sabir.events import Progress

@agent(name="slow", repeatable=True)
async def slow(turn):
    """Works for a while, and says how far it is."""
    for step in range(8):
        yield Progress(step / 8, f"step {{step}}")
        await asyncio.sleep({TASK_SECONDS} / 8)
    yield f"done: {{turn.text}}"

@agent(name="only-b")
async def only_b(turn):
    """Runs on node B only."""
    return f"B heard: {{turn.text}}"
'''


class RoundRobin:
    """The load balancer: the next node in turn, and the one after it if that does not answer."""

    def __init__(self, http: httpx2.AsyncClient, *nodes: GatewayProcess) -> None:
        self.http = http
        self.nodes = nodes
        self.next = 0
        self.again = 0  # requests that hit a dead node

    async def send(self, method: str, path: str, **options: Any) -> httpx2.Response:
        self.next += 1
        end = time.monotonic() + FINISH_SECONDS
        turn = self.next
        while True:
            try:
                return await self.http.request(
                    method, self.nodes[turn % len(self.nodes)].url + path, timeout=30, **options
                )
            except httpx2.TransportError:
                if time.monotonic() > end:
                    raise
                self.again += 1
                turn += 1


@dataclass
class Client(Talk):
    """One conversation whose turns alternate between the nodes."""

    turns = TURNS

    async def talk(self, front: RoundRobin) -> None:
        for _ in range(TURNS):
            self.hears(await front.send("POST", "/nlip/echo", **self.next_turn()))


async def one_task(front: RoundRobin, first: GatewayProcess, submitted: asyncio.Event) -> tuple[str, str]:
    """Submit a task to one node and poll it through the load balancer. Returns the question and the answer."""
    question, key = f"work {uuid4().hex}", uuid4().hex
    options: dict[str, Any] = {
        "json": message(question),
        "headers": {"prefer": "respond-async", "idempotency-key": key},
    }
    try:
        reply = await front.http.post(f"{first.url}/nlip/slow", timeout=30, **options)
    except httpx2.TransportError:
        front.again += 1  # it died before it could answer; the same key is the same task
        reply = await front.send("POST", "/nlip/slow", **options)
    submitted.set()
    assert reply.status_code in (200, 202), f"HTTP {reply.status_code}: {reply.text[:200]}"
    place = reply.headers.get("location", "")
    async with asyncio.timeout(FINISH_SECONDS):
        while reply.status_code == 202:
            await asyncio.sleep(0.05)
            reply = await front.send("GET", place)
    assert reply.status_code == 200, f"the task: HTTP {reply.status_code}: {reply.text[:200]}"
    return question, reply.json()["content"]


async def ask_for_b(http: httpx2.AsyncClient, a: GatewayProcess) -> None:
    """A answers for an agent that only B has."""
    async with asyncio.timeout(FINISH_SECONDS):
        while True:  # a node that has just started may not know the other yet
            reply = await http.post(f"{a.url}/nlip/only-b", json=message("hello"), timeout=30)
            if reply.status_code == 200:
                assert reply.json()["content"] == "B heard: hello"
                return
            assert reply.status_code == 404, f"only-b through A: HTTP {reply.status_code}: {reply.text[:200]}"
            await asyncio.sleep(0.05)


async def one_run(a: GatewayProcess, b: GatewayProcess, moment: float) -> tuple[list[Client], tuple[str, str], int]:
    clients = [Client() for _ in range(CLIENTS)]
    async with httpx2.AsyncClient(verify=False) as http:
        await ask_for_b(http, a)
        front = RoundRobin(http, a, b)
        submitted = asyncio.Event()
        working = asyncio.gather(one_task(front, a, submitted), *(client.talk(front) for client in clients))
        killing = asyncio.create_task(_kill_after(a, moment))
        task, *_ = await working
        await killing
    await a.start()
    return clients, task, front.again


async def _kill_after(node: GatewayProcess, moment: float) -> None:
    await asyncio.sleep(moment)
    await node.kill()


async def verify(store: PostgresStore, clients: list[Client], task: tuple[str, str], audited: dict[str, int]) -> None:
    for client in clients:
        ids = [await _recorded_once(store, question) for question in client.questions]
        await stored_as_answered(store, client, ids, audited)
    question, answer = task
    assert answer == f"done: {question}", f"the task was answered {answer!r}"
    await _recorded_once(store, question)


async def _recorded_once(store: PostgresStore, question: str) -> str:
    rows = await store._rows("SELECT id FROM turns WHERE position($1::bytea IN asked) > 0", question.encode())
    return once(rows, question)


@asynccontextmanager
async def places() -> AsyncIterator[tuple[str, str]]:
    """Our own schema and bus name; both are removed at the end."""
    name = f"durability_{uuid4().hex[:12]}"
    connection = await asyncpg.connect(POSTGRES, timeout=5)
    await connection.execute(f"CREATE SCHEMA {name}")
    bus = NatsBus(f"{NATS}?prefix={name}")
    try:
        yield f"{POSTGRES}?search_path={name}", f"{NATS}?prefix={name}"
    finally:
        await bus.open()
        for kind in RETENTION:
            await bus.remove(kind)
        await bus.close()
        await connection.execute(f"DROP SCHEMA {name} CASCADE")
        await connection.close()


def nodes_of(folder: Path, store: str, bus: str) -> tuple[GatewayProcess, GatewayProcess]:
    (folder / "cluster_agents.py").write_text(AGENTS)
    shared: dict[str, Any] = {
        "store": store,
        "bus": bus,
        "secrets": [uuid4().hex + uuid4().hex],
        "tasks": {"lease": 1.5, "look": 0.2},
        "doors": {"mcp": False, "a2a": False, "nlip-amqp": False},
    }
    slow, only_b = ({"id": n, "use": f"cluster_agents:{n.replace('-', '_')}"} for n in ("slow", "only-b"))
    both = [{"id": "echo", "use": "echo"}, slow]
    return node("a", folder, {**shared, "agents": both}), node("b", folder, {**shared, "agents": [*both, only_b]})


def node(name: str, folder: Path, settings: dict[str, Any]) -> GatewayProcess:
    config = folder / f"{name}.yaml"
    config.write_bytes(msgspec.yaml.encode({**settings, "node": name, "home": str(folder / name)}))
    return GatewayProcess(config, name=name)


async def run(runs: int, seed: int) -> int:
    chance = random.Random(seed)
    begun, again, moved = time.monotonic(), 0, 0
    last: ChainedLine | None = None
    with tempfile.TemporaryDirectory(prefix="sabir-cluster-") as folder:
        async with places() as (postgres, nats):
            a, b = nodes_of(Path(folder), postgres, nats)
            store = PostgresStore(postgres)
            await store.open()
            try:
                await asyncio.gather(a.start(), b.start())
                for number in range(1, runs + 1):
                    clients, task, tries = await one_run(a, b, chance.uniform(0.0, TASK_SECONDS))
                    audited, last = await audit_of(store, last)
                    await verify(store, clients, task, audited)
                    again += tries
                    rows = await store.tasks(limit=1)
                    moved += rows[0].attempts > 1
                    show(number, runs, every=10)
            finally:
                await asyncio.gather(a.kill(), b.kill())
                await store.close()
    print(
        f"\n{runs} runs in {time.monotonic() - begun:.0f} s, seed {seed}: {runs * CLIENTS * TURNS} turns and {runs} "
        f"tasks; {again} requests met the dead node, {moved} tasks were finished by the other one; "
        "none lost, none doubled, the audit chain is whole"
    )
    if runs >= 5 and not moved:
        print("no task moved to the other node, so this proves nothing", file=sys.stderr)
        return 1
    return 0


def main() -> int:
    parser = options_of(__doc__, runs=100)
    given = parser.parse_args()
    return outcome(run(given.runs, given.seed), given.seed)


if __name__ == "__main__":
    raise SystemExit(main())

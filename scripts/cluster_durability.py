"""Two gateways on one PostgreSQL and one NATS; one is killed with kill -9 in the middle of its work.

    python scripts/cluster_durability.py --runs 100 [--seed N]

Node A and node B are the same gateway behind a plain round-robin. In each run conversations go on whose turns
alternate between the nodes, a task is submitted to A, and A is asked for an agent that only B has; then A is
killed at a random moment. The conversations go on, and the task is finished, on B; A is started again. In the
end each conversation must hold exactly its turns in order, as they were answered; the task must be completed,
with one recorded turn; and the audit chain, written by both nodes, must be whole.

Needs the servers of SABIR_TEST_POSTGRES and SABIR_TEST_NATS (127.0.0.1 by default); leaves nothing behind there.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any
from uuid import uuid4

import asyncpg
import httpx2
import msgspec

from sabir.bus.nats import RETENTION, NatsBus
from sabir.errors import BusUnavailable
from sabir.stores.base import ChainedLine, chain
from sabir.stores.postgres import PostgresStore

POSTGRES = os.environ.get("SABIR_TEST_POSTGRES", "postgresql://postgres@127.0.0.1:5432/test")
NATS = os.environ.get("SABIR_TEST_NATS", "nats://127.0.0.1:4222")
CLIENTS, TURNS = 3, 4
TASK_SECONDS = 0.4
START_SECONDS, FINISH_SECONDS = 60.0, 60.0

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


class Node:
    """A gateway process that can be killed and started again."""

    def __init__(self, name: str, home: Path, settings: dict[str, Any]) -> None:
        self.name = name
        self.home = home
        self.port = 0
        self._file = home / f"{name}.yaml"
        self._file.write_text(msgspec.yaml.encode({**settings, "node": name, "home": str(home / name)}).decode())
        self._process: asyncio.subprocess.Process | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def start(self) -> None:
        path = os.pathsep.join(filter(None, (str(self.home), os.environ.get("PYTHONPATH"))))
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "sabir", "serve", str(self._file), "--port", str(self.port), "--log-level", "error",
            stdout=asyncio.subprocess.PIPE, cwd=self.home, env={**os.environ, "PYTHONPATH": path},
        )  # fmt: skip
        assert self._process.stdout is not None
        async with asyncio.timeout(START_SECONDS):
            greeting = (await self._process.stdout.readline()).decode()
            if "listening on" not in greeting:
                raise RuntimeError(f"node {self.name} did not start: {greeting!r}")
            self.port = int(greeting.rstrip().rpartition(":")[2])
            async with httpx2.AsyncClient(verify=False) as http:
                while not await self._answers(http, "/health/ready"):
                    await asyncio.sleep(0.02)

    async def _answers(self, http: httpx2.AsyncClient, path: str) -> bool:
        try:
            return (await http.get(self.url + path)).status_code == 200
        except httpx2.TransportError:
            return False

    async def kill(self) -> None:
        if self._process is not None and self._process.returncode is None:
            os.kill(self._process.pid, signal.SIGKILL)
            await self._process.wait()
            self._process._transport.close()  # type: ignore[attr-defined]  # the pipe, which nobody reads any more


class RoundRobin:
    """What stands in front: the next node in turn, and the one after it if that does not answer."""

    def __init__(self, http: httpx2.AsyncClient, *nodes: Node) -> None:
        self.http = http
        self.nodes = nodes
        self.next = 0
        self.again = 0  # requests that met a dead node

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


def message(text: str, token: dict[str, Any] | None = None) -> dict[str, Any]:
    said: dict[str, Any] = {"format": "text", "subformat": "english", "content": text}
    return {**said, "submessages": [token]} if token is not None else said


@dataclass
class Client:
    """One conversation whose turns go to the nodes in turn."""

    token: dict[str, Any] | None = None
    answered: list[str] = field(default_factory=list)
    questions: list[str] = field(default_factory=lambda: [f"{n} {uuid4().hex}" for n in range(TURNS)])

    async def talk(self, front: RoundRobin) -> None:
        for question in self.questions:
            reply = await front.send(
                "POST", "/nlip/echo", json=message(question, self.token), headers={"idempotency-key": uuid4().hex}
            )
            assert reply.status_code == 200, f"HTTP {reply.status_code}: {reply.text[:200]}"
            said = reply.json()
            self.answered.append(said["content"])
            self.token = next(part for part in said["submessages"] if part["format"] == "token")


async def one_task(front: RoundRobin, first: Node, submitted: asyncio.Event) -> tuple[str, str]:
    """Submit a task to one node and poll it wherever the front leads. Returns what was asked and answered."""
    question, key = f"work {uuid4().hex}", uuid4().hex
    options: dict[str, Any] = {
        "json": message(question),
        "headers": {"prefer": "respond-async", "idempotency-key": key},
    }
    try:
        reply = await front.http.post(f"{first.url}/nlip/slow", timeout=30, **options)
    except httpx2.TransportError:
        front.again += 1  # it died before it could say so; the same key is the same task
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


async def ask_for_b(http: httpx2.AsyncClient, a: Node) -> None:
    """A answers for an agent that only B has."""
    async with asyncio.timeout(FINISH_SECONDS):
        while True:  # a node that has just started has perhaps not heard of the other yet
            reply = await http.post(f"{a.url}/nlip/only-b", json=message("hello"), timeout=30)
            if reply.status_code == 200:
                assert reply.json()["content"] == "B heard: hello"
                return
            assert reply.status_code == 404, f"only-b through A: HTTP {reply.status_code}: {reply.text[:200]}"
            await asyncio.sleep(0.05)


async def one_run(a: Node, b: Node, moment: float) -> tuple[list[Client], tuple[str, str], int]:
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


async def _kill_after(node: Node, moment: float) -> None:
    await asyncio.sleep(moment)
    await node.kill()


async def verify(store: PostgresStore, clients: list[Client], task: tuple[str, str], audited: dict[str, int]) -> None:
    for client in clients:
        ids = [await _recorded_once(store, question) for question in client.questions]
        first = await store.turn(ids[0])
        assert first is not None
        stored = await store.turns(first.conversation, 100)
        assert [turn.asked.text for turn in stored] == client.questions, "turns are lost, doubled or out of order"
        assert [turn.answered.text for turn in stored] == client.answered, "an answer is not the one that was told"
        assert all(audited.get(turn.id) == 1 for turn in stored), "a turn has not exactly one audit line"
    question, answer = task
    assert answer == f"done: {question}", f"the task was answered {answer!r}"
    await _recorded_once(store, question)


async def _recorded_once(store: PostgresStore, question: str) -> str:
    rows = await store._rows("SELECT id FROM turns WHERE position($1::bytea IN asked) > 0", question.encode())
    assert len(rows) == 1, f"{question!r} is recorded {len(rows)} times"
    return str(rows[0][0])


async def audit_of(store: PostgresStore, since: ChainedLine | None) -> tuple[dict[str, int], ChainedLine | None]:
    lines = [since] if since is not None else []
    while page := await store.audit_lines(lines[-1].number if lines else 0):
        lines += page
    for before, line in pairwise(lines):
        assert line.number == before.number + 1 and line.previous == before.hash, "the audit chain is broken"
    counts: dict[str, int] = {}
    for line in lines:
        assert line.hash == chain(line.previous, msgspec.json.encode(line.line)), "an audit line was changed"
        if line.line.kind == "turn":
            counts[line.line.turn] = counts.get(line.line.turn, 0) + 1
    return counts, lines[-1] if lines else None


@asynccontextmanager
async def places() -> AsyncIterator[tuple[str, str]]:
    """A schema and a name on the bus of our own; both are removed in the end."""
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


def nodes_of(folder: Path, store: str, bus: str) -> tuple[Node, Node]:
    (folder / "cluster_agents.py").write_text(AGENTS)
    shared: dict[str, Any] = {
        "store": store,
        "bus": bus,
        "secrets": [uuid4().hex + uuid4().hex],
        "tasks": {"lease": 1.5, "look": 0.2},
        "doors": {"mcp": False, "a2a": False, "nlip-amqp": False},
    }
    slow, only_b = ({"id": n, "use": f"cluster_agents:{n.replace('-', '_')}"} for n in ("slow", "only-b"))
    a = Node("a", folder, {**shared, "agents": [slow]})
    b = Node("b", folder, {**shared, "agents": [slow, only_b]})
    return a, b


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
                    if sys.stdout.isatty() or number % 10 == 0 or number == runs:
                        print(f"\r{number} of {runs} runs", end="" if sys.stdout.isatty() else "\n", flush=True)
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
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    given = parser.parse_args()
    try:
        return asyncio.run(run(given.runs, given.seed))
    except (OSError, BusUnavailable) as away:
        print(f"a server is missing: {away}", file=sys.stderr)
        return 2
    except AssertionError as wrong:
        print(f"\nseed {given.seed}: {wrong}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    raise SystemExit(main())

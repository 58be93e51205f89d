"""Two gateways on one PostgreSQL and one NATS behind a plain round-robin, one of them killed with ``kill -9``.

Each run: a conversation whose turns alternate between the nodes; an agent that only the other node has; a question
asked on one node and answered on the other; a task given to one node and looked at on the other. Then the node that
holds the task is killed in its midst, while turns go on through the round-robin: the task must finish on the other
node, and every turn that was answered must stand in its conversation exactly once.

    python scripts/cluster_durability.py --runs 100
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import random
import signal
import socket
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import asyncpg
import httpx2

from sabir.bus.nats import RETENTION, NatsBus
from sabir.stores.open import open_store

POSTGRES = os.environ.get("SABIR_TEST_POSTGRES", "postgresql://127.0.0.1:5432/test")
NATS = os.environ.get("SABIR_TEST_NATS", "nats://127.0.0.1:4222")
HERE = Path(__file__).resolve().parent
PATIENCE = 30.0  # seconds that anything may take before it counts as lost


class Lost(AssertionError):
    """Something was lost, doubled or wrong."""


class Node:
    """One gateway process."""

    def __init__(self, name: str, own: str, home: Path, schema: str, prefix: str) -> None:
        self.name = name
        self.port = _free_port()
        self._home = home / name
        self._process: asyncio.subprocess.Process | None = None
        agents = [{"id": id, "use": f"cluster_agents:{id}"} for id in ("teller", "worker", "clerk", own)]
        settings = {
            "host": "127.0.0.1",
            "port": self.port,
            "home": str(self._home),
            "node": name,
            "store": f"{POSTGRES}?search_path={schema}",
            "bus": f"{NATS}?prefix={prefix}",
            "agents": agents,
            "default": "teller",
            "secrets": ["Y2x1c3Rlci1kdXJhYmlsaXR5LXRlc3Qtc2VjcmV0LWtleQ"],
            "tasks": {"lease": 1.0, "look": 0.2},
        }
        self._home.mkdir(parents=True)
        self._config = self._home / "sabir.yaml"
        self._config.write_text(json.dumps(settings))  # JSON is YAML

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def start(self) -> None:
        with (self._home / "log").open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "sabir",
                "serve",
                str(self._config),
                stdout=log,
                stderr=log,
                env={**os.environ, "PYTHONPATH": str(HERE), "CLUSTER_NODE": self.name},
            )

    async def ready(self, client: httpx2.AsyncClient) -> None:
        end = time.monotonic() + PATIENCE
        while True:
            with contextlib.suppress(httpx2.TransportError):
                if (await client.get(f"{self.url}/health/ready")).status_code == 200:
                    return
            if time.monotonic() > end or (self._process is not None and self._process.returncode is not None):
                raise Lost(f"node {self.name} did not start:\n{(self._home / 'log').read_text()[-2000:]}")
            await asyncio.sleep(0.05)

    async def stop(self, how: signal.Signals) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(how)
            await self._process.wait()
        self._process = None


class RoundRobin:
    """A plain TCP balancer: each connection goes to the next node; one that refuses is passed over."""

    def __init__(self, nodes: list[Node]) -> None:
        self._nodes = nodes
        self._next = 0
        self._server: asyncio.Server | None = None

    @property
    def url(self) -> str:
        assert self._server is not None
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in self._nodes:
            node = self._nodes[self._next % len(self._nodes)]
            self._next += 1
            with contextlib.suppress(OSError):
                there_reader, there_writer = await asyncio.open_connection("127.0.0.1", node.port)
                await asyncio.gather(_pipe(reader, there_writer), _pipe(there_reader, writer))
                return
        writer.close()


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    with contextlib.suppress(OSError):
        writer.close()


class Talk:
    """One conversation, each turn sent with a key and tried again until it is answered."""

    def __init__(self, client: httpx2.AsyncClient, url: str) -> None:
        self._client = client
        self._url = url
        self._token: dict[str, Any] | None = None
        self.said: list[str] = []
        self.tries = 0

    async def say(self, word: str) -> None:
        key = uuid4().hex
        message: dict[str, Any] = {"format": "text", "subformat": "english", "content": word}
        if self._token is not None:
            message["submessages"] = [self._token]
        end = time.monotonic() + PATIENCE
        while True:
            self.tries += 1
            with contextlib.suppress(httpx2.TransportError):
                reply = await self._client.post(f"{self._url}/nlip", json=message, headers={"Idempotency-Key": key})
                if reply.status_code == 200:
                    break
            if time.monotonic() > end:
                raise Lost(f"no answer to {word!r}")
            await asyncio.sleep(0.02)
        self.said.append(word)
        told = reply.json()
        expected = f"{len(self.said)}: {' '.join(self.said[-21:])}"
        if told["content"] != expected:
            raise Lost(f"the conversation is wrong: {told['content']!r}, not {expected!r}")
        self._token = _token(told)


def _token(told: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = next(part for part in told["submessages"] if part["format"] == "token")
    return found


async def ask(client: httpx2.AsyncClient, url: str, agent: str, text: str, *more: Any, **headers: str) -> Any:
    message = {"format": "text", "subformat": "english", "content": text, "submessages": list(more)}
    return await client.post(f"{url}/nlip/{agent}", json=message, headers=headers)


def expect(got: object, wanted: object, what: str) -> None:
    if got != wanted:
        raise Lost(f"{what}: {got!r}, not {wanted!r}")


async def one_run(number: int, nodes: list[Node], front: RoundRobin, client: httpx2.AsyncClient) -> dict[str, Any]:
    """One run, as the head of this file says; returns what can be counted."""
    victim, survivor = nodes if number % 2 else reversed(nodes)
    talk = Talk(client, front.url)
    for n in range(4):
        await talk.say(f"r{number}w{n}")
    for here, other, agent in ((nodes[0], "b", "beta"), (nodes[1], "a", "alpha")):
        told = (await ask(client, here.url, agent, "hello")).json()
        expect(told["content"], f"hello at {other}", f"{agent} asked on {here.name}")
    question = (await ask(client, victim.url, "clerk", f"rooms{number}")).json()
    expect(question["content"], "How many?", "the clerk's question")
    answer = (await ask(client, survivor.url, "clerk", "three", _token(question))).json()
    expect(answer["content"], f"rooms{number}: three", "the answer brought to the other node")
    return await _killed_in_mid_task(number, victim, survivor, talk, client)


async def _killed_in_mid_task(
    number: int, victim: Node, survivor: Node, talk: Talk, client: httpx2.AsyncClient
) -> dict[str, Any]:
    accepted = await ask(client, victim.url, "worker", f"job{number}", Prefer="respond-async")
    expect(accepted.status_code, 202, "a task given")
    place = f"{survivor.url}{accepted.headers['location']}"
    await _until_working(client, place)
    stop = asyncio.Event()

    async def talking() -> None:
        n = 4
        while not stop.is_set():
            await talk.say(f"r{number}w{n}")
            n += 1

    talker = asyncio.create_task(talking())
    await asyncio.sleep(random.uniform(0.0, 0.4))
    await victim.stop(signal.SIGKILL)
    killed = time.monotonic()
    reply = await _finished(client, place)
    expect(reply["content"], f"done: job{number}", "the task's reply")
    took = time.monotonic() - killed
    stop.set()
    await talker
    await victim.start()
    await victim.ready(client)
    expect(
        (await client.get(f"{victim.url}{accepted.headers['location']}")).json()["content"], reply["content"], "task"
    )
    for n in range(2):
        await talk.say(f"r{number}z{n}")
    return {"turns": len(talk.said), "tries": talk.tries, "seconds": took}


async def _until_working(client: httpx2.AsyncClient, place: str) -> None:
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        told = await client.get(place)
        parts = told.json().get("submessages", [])
        if any(part.get("label") == "progress" and part["content"].get("note") for part in parts):
            return
        await asyncio.sleep(0.02)
    raise Lost("the task did not begin")


async def _finished(client: httpx2.AsyncClient, place: str) -> Any:
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        told = await client.get(place, headers={"Prefer": "wait=5"})
        if told.status_code != 202:
            expect(told.status_code, 200, f"the task after the kill ({told.text[:200]})")
            return told.json()
        await asyncio.sleep(0.02)
    raise Lost("the task did not finish on the other node")


async def check_store(schema: str, turns: int, runs: int) -> None:
    """What the store holds in the end is what was acknowledged, once."""
    store = open_store(f"{POSTGRES}?search_path={schema}")
    await store.open()
    try:
        tasks = await store.tasks(limit=10_000)
        expect(sorted({task.state for task in tasks}), ["completed"], "states of the tasks")
        expect(len(tasks), runs, "tasks")
    finally:
        await store.close()
    connection = await asyncpg.connect(f"{POSTGRES}?search_path={schema}")
    try:
        counted = await connection.fetchval("SELECT count(*) FROM turns WHERE agent = 'teller'")
        expect(counted, turns, "turns of the teller in the store")
        done = await connection.fetchval("SELECT count(*) FROM turns WHERE agent = 'worker'")
        expect(done, runs, "turns of the worker in the store")
    finally:
        await connection.close()


@contextlib.asynccontextmanager
async def places() -> AsyncIterator[tuple[str, str, Path]]:
    """A schema, a prefix and a folder of one's own, removed afterwards."""
    name = f"cluster{uuid4().hex[:12]}"
    connection = await asyncpg.connect(POSTGRES)
    await connection.execute(f"CREATE SCHEMA {name}")
    try:
        with tempfile.TemporaryDirectory(prefix="sabir-cluster-") as home:
            yield name, name, Path(home)
    finally:
        await connection.execute(f"DROP SCHEMA {name} CASCADE")
        await connection.close()
        bus = NatsBus(f"{NATS}?prefix={name}")
        await bus.open()
        for kind in RETENTION:
            await bus.remove(kind)
        await bus.close()


def _free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


async def main(runs: int) -> int:
    limits = httpx2.Limits(max_keepalive_connections=0)  # each request a connection, so that turns alternate
    async with places() as (schema, prefix, home), httpx2.AsyncClient(limits=limits, timeout=PATIENCE) as client:
        nodes = [Node("a", "alpha", home, schema, prefix), Node("b", "beta", home, schema, prefix)]
        front = RoundRobin(nodes)
        await front.start()
        done: list[dict[str, Any]] = []
        try:
            for node in nodes:
                await node.start()
            for node in nodes:
                await node.ready(client)
            for number in range(runs):
                done.append(await one_run(number, nodes, front, client))
                print(f"run {number + 1}/{runs}: task finished {done[-1]['seconds']:.1f} s after the kill", flush=True)
        except Lost as wrong:
            print(f"run {len(done) + 1}: {wrong}", file=sys.stderr)
            return 1
        finally:
            for node in nodes:
                await node.stop(signal.SIGTERM)
            await front.stop()
        turns = sum(run["turns"] for run in done)
        try:
            await check_store(schema, turns, runs)
        except Lost as wrong:
            print(wrong, file=sys.stderr)
            return 1
    again = sum(run["tries"] for run in done) - turns
    print(f"{runs} runs, {turns} turns ({again} tried again), {runs} tasks: nothing lost, nothing doubled")
    return 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=100)
    raise SystemExit(asyncio.run(main(parser.parse_args().runs)))

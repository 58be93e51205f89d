"""Two gateway processes on one PostgreSQL and one NATS behind a plain round-robin, over real sockets.

What a kill does is shown by ``scripts/cluster_durability.py``; this is the two of them at work.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import asyncpg
import httpx2
import msgspec
import pytest

from bus.nats_server import NatsServer
from deadline import DEADLINE
from sabir.cluster.directory import Directory
from sabir.stores.open import open_store
from suites.durability.scripts import load_script
from tcp_proxy import tcp_proxy

POSTGRES = os.environ.get("SABIR_TEST_POSTGRES", "postgresql://127.0.0.1:5432/test")

AGENTS = """
import asyncio, os
from sabir import agent
from sabir.events import Progress

@agent(description="Says every word that was said so far")
async def teller(turn):
    said = [past.asked.text for past in turn.conversation.turns] + [turn.text]
    return f"{turn.conversation.count + 1}: {' '.join(said)}"

@agent(description="Asks before it answers")
async def clerk(turn):
    answer = await turn.ask("How many?")
    return f"{turn.text}: {answer.text}"

@agent(description="Works for a while", repeatable=True)
async def worker(turn):
    for step in range(5):
        yield Progress(step / 5, f"step {step}")
        await asyncio.sleep(0.05)
    yield f"done: {turn.text}"

@agent(description="Is on node b alone")
async def beta(turn):
    if turn.text == "ask":
        return f"you said {(await turn.ask('What?')).text}"
    return f"{turn.text} at {os.environ['NODE']}"
"""


def _listens(port: int) -> bool:
    with socket.socket() as sock:
        return sock.connect_ex(("127.0.0.1", port)) == 0


pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not _listens(5432), reason="needs PostgreSQL: scripts/services"),
]


def node(name: str, folder: Path, shared: dict[str, Any], *agents: str) -> Any:
    """One gateway process."""
    config = folder / f"{name}.yaml"
    entries = [{"id": agent, "use": f"cluster_agents:{agent}"} for agent in agents]
    config.write_bytes(msgspec.yaml.encode({**shared, "node": name, "home": str(folder / name), "agents": entries}))
    return load_script("killed").GatewayProcess(config, name=name)


class RoundRobin:
    """Names the node that the next connection goes to."""

    def __init__(self, *nodes: Any) -> None:
        self._nodes = nodes
        self.served: list[str] = []
        self.url = ""

    def next_node(self, number: int) -> tuple[str, int]:
        chosen = self._nodes[(number - 1) % len(self._nodes)]
        self.served.append(chosen.name)
        return "127.0.0.1", chosen.port


class Pair:
    """Both nodes, what stands in front of them, and somebody who asks."""

    def __init__(self, a: Any, b: Any, front: RoundRobin, nats: NatsServer, http: httpx2.AsyncClient) -> None:
        self.a, self.b, self.front, self.nats = a, b, front, nats
        self._http = http

    async def post(self, url: str, text: str, *parts: Any, **headers: str) -> httpx2.Response:
        said = {"format": "text", "subformat": "english", "content": text, "submessages": list(parts)}
        return await self._http.post(url, json=said, headers=headers)

    async def ask(self, url: str, text: str, *parts: Any) -> dict[str, Any]:
        reply = await self.post(url, text, *parts)
        assert reply.status_code == 200, reply.text
        body: dict[str, Any] = reply.json()
        return body

    async def get(self, url: str, **headers: str) -> httpx2.Response:
        return await self._http.get(url, headers=headers)


def token_of(text: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = next(part for part in text["submessages"] if part["format"] == "token")
    return found


@pytest.fixture
async def schema() -> AsyncIterator[str]:
    """A schema of one's own in the shared database."""
    name = f"pair_{uuid4().hex[:12]}"
    connection = await asyncpg.connect(POSTGRES)
    await connection.execute(f"CREATE SCHEMA {name}")
    yield name
    await connection.execute(f"DROP SCHEMA {name} CASCADE")
    await connection.close()


@pytest.fixture
def nats(tmp_path: Path) -> Iterator[NatsServer]:
    with NatsServer(tmp_path / "nats") as server:
        yield server


@pytest.fixture
async def pair(tmp_path: Path, schema: str, nats: NatsServer) -> AsyncIterator[Pair]:
    (tmp_path / "cluster_agents.py").write_text(AGENTS)
    shared = {
        "store": f"{POSTGRES}?search_path={schema}",
        "bus": nats.url,
        "secrets": [uuid4().hex * 2],
        "default": "teller",
        "doors": {"mcp": False, "a2a": False, "nlip-amqp": False},
    }
    a = node("a", tmp_path, shared, "teller", "clerk", "worker")
    b = node("b", tmp_path, shared, "teller", "clerk", "worker", "beta")
    front = RoundRobin(a, b)
    limits = httpx2.Limits(max_keepalive_connections=0)  # each request a connection, so that turns alternate
    async with httpx2.AsyncClient(verify=False, limits=limits) as http:
        try:
            await asyncio.gather(a.start(), b.start())
            async with tcp_proxy(front.next_node) as proxy:
                front.url = proxy.url
                yield Pair(a, b, front, nats, http)
        finally:
            await asyncio.gather(*(item.kill(signal.SIGTERM) for item in (a, b)))


async def test_two_processes_are_one_gateway(pair: Pair) -> None:
    await turns_that_alternate_stay_right(pair)
    await an_agent_on_b_answers_for_a(pair)
    await a_question_of_a_is_answered_by_way_of_b(pair)
    await a_task_given_to_a_is_looked_at_on_b(pair)
    await a_restart_of_nats_is_ridden_out(pair)


async def turns_that_alternate_stay_right(pair: Pair) -> None:
    words = [f"w{n}" for n in range(8)]
    token: list[dict[str, Any]] = []
    for n, word in enumerate(words):
        reply = await pair.ask(f"{pair.front.url}/nlip", word, *token)
        assert reply["content"] == f"{n + 1}: {' '.join(words[: n + 1])}"
        token = [token_of(reply)]
    assert pair.front.served == ["a", "b"] * 4


async def an_agent_on_b_answers_for_a(pair: Pair) -> None:
    async with asyncio.timeout(DEADLINE):
        while (await pair.post(f"{pair.a.url}/nlip/beta", "hello")).status_code == 404:
            await asyncio.sleep(0.05)  # a has not heard of it yet
    assert (await pair.ask(f"{pair.a.url}/nlip/beta", "hello"))["content"] == "hello at b"
    question = await pair.ask(f"{pair.a.url}/nlip/beta", "ask")
    assert question["content"] == "What?"
    answer = await pair.ask(f"{pair.a.url}/nlip/beta", "this", token_of(question))
    assert answer["content"] == "you said this"


async def a_question_of_a_is_answered_by_way_of_b(pair: Pair) -> None:
    question = await pair.ask(f"{pair.a.url}/nlip/clerk", "rooms")
    assert question["content"] == "How many?"
    answer = await pair.ask(f"{pair.b.url}/nlip/clerk", "three", token_of(question))
    assert answer["content"] == "rooms: three"
    assert token_of(answer) == token_of(question)


async def a_task_given_to_a_is_looked_at_on_b(pair: Pair) -> None:
    accepted = await pair.post(f"{pair.a.url}/nlip/worker", "job", Prefer="respond-async")
    assert accepted.status_code == 202
    place = f"{pair.b.url}{accepted.headers['location']}"
    assert (await pair.get(place)).status_code in (200, 202)
    async with asyncio.timeout(DEADLINE):
        while (response := await pair.get(place, Prefer="wait=5")).status_code == 202:
            pass
    assert response.json()["content"] == "done: job"


async def a_restart_of_nats_is_ridden_out(pair: Pair) -> None:
    pair.nats.kill()
    gone = await pair.post(f"{pair.a.url}/nlip/beta", "hello")
    assert gone.status_code in (502, 503, 504), gone.text
    assert (await pair.ask(f"{pair.a.url}/nlip", "still here"))["content"] == "1: still here"
    pair.nats.start()
    async with asyncio.timeout(DEADLINE):
        while (await pair.post(f"{pair.a.url}/nlip/beta", "hello")).status_code != 200:
            await asyncio.sleep(0.05)


async def test_each_worker_of_one_gateway_is_a_node_of_its_own(tmp_path: Path, nats: NatsServer) -> None:
    (tmp_path / "cluster_agents.py").write_text(AGENTS)
    store = f"sqlite:///{tmp_path / 'shared.db'}"
    shared = {"store": store, "bus": nats.url, "doors": {"mcp": False, "a2a": False, "nlip-amqp": False}}
    gateway = node("w", tmp_path, {**shared, "workers": 2}, "clerk")
    try:
        await gateway.start()
        opened = open_store(store)
        await opened.open()
        async with asyncio.timeout(DEADLINE):
            while len(offers := await Directory(opened).find("clerk")) < 2:
                await asyncio.sleep(0.05)
        await opened.close()
        assert len({offer.node for offer in offers}) == 2
        limits = httpx2.Limits(max_keepalive_connections=0)
        async with httpx2.AsyncClient(verify=False, limits=limits) as http:
            pair = Pair(gateway, gateway, RoundRobin(), nats, http)
            for n in range(6):  # question and answer meet whichever worker takes them
                question = await pair.ask(f"{gateway.url}/nlip/clerk", f"rooms{n}")
                answer = await pair.ask(f"{gateway.url}/nlip/clerk", "three", token_of(question))
                assert answer["content"] == f"rooms{n}: three"
    finally:
        await gateway.kill(signal.SIGTERM)

"""Between the nodes of one gateway, on a real NATS: what crosses, what does not, and who may be on it at all.

The bus is trusted as far as its own log-in reaches (``cluster/wire.py``); so what is tried here is that callers of one
node gain nothing by another, that nothing of theirs lies open on the way, and that nonsense ends no node.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec
import nats
import nats.errors
import pytest

from bus.nats_server import NatsServer
from bus.on_nats import NATS, need_nats, remove_streams
from conftest import Served, serving
from sabir.bus import open_bus
from sabir.bus.framing import Kind, Packet, encode_packets
from sabir.cluster import wire as nodes
from sabir.cluster.peer import address
from sabir.errors import ConfigError, Forbidden, SabirError
from sabir.gateway.gateway import Gateway
from sabir.guard.build import GuardSettings
from sabir.message import Message
from suites.security.attackers import Caller, add_key, part, say, token, tokens

from .conftest import PLANTED, RULES, endless, leaky, memory, vault

SECRET = "c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0LXNlY3JldA"


class Pair:
    """Two nodes: one with doors for callers, and one with the agents."""

    def __init__(self, front: Served, back: Served, prefix: str, home: Path) -> None:
        self.front = front
        self.back = back
        self.prefix = prefix
        self.home = home


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    need_nats()
    home, prefix = tmp_path_factory.mktemp("nodes"), f"sec{uuid4().hex[:12]}"

    def node(name: str, *agents: Any) -> Gateway:
        bus, settings = open_bus(f"{NATS}?prefix={prefix}"), GuardSettings(rights=RULES)
        return Gateway(*agents, home=home, bus=bus, node=name, secrets=(SECRET,), guard=settings)

    with serving(node("back", vault, leaky, memory)) as back, serving(node("front", endless)) as front:
        yield Pair(front, back, prefix, home)
    asyncio.run(remove_streams(NATS, prefix))


@pytest.fixture(scope="module")
def alice(pair: Pair) -> Iterator[Caller]:
    with Caller(pair.front.url, add_key(pair.home, "alice", "staff")) as caller:
        yield caller


@pytest.fixture(scope="module")
def mallory(pair: Pair) -> str:
    return add_key(pair.home, "mallory")


@asynccontextmanager
async def listening(pair: Pair) -> Any:
    """Everything that passes between the nodes."""
    connection = await nats.connect(NATS)
    passed: list[bytes] = []

    async def note(message: Any) -> None:
        passed.append(message.subject.encode() + b" " + message.data)

    await connection.subscribe(f"{pair.prefix}.>", cb=note)
    await connection.flush()
    yield passed
    await connection.flush()
    await connection.close()


async def called(pair: Pair, name: str, body: bytes) -> list[bytes]:
    bus = open_bus(f"{NATS}?prefix={pair.prefix}")
    await bus.open()
    try:
        async with bus.call(address(name), body, seconds=10) as call:
            return [piece async for piece in call]
    finally:
        await bus.close()


def test_an_agent_on_another_node_needs_the_right_to_use_it(pair: Pair, alice: Caller, mallory: str) -> None:
    assert alice.ask(say("open"), "vault").json()["content"] == "the vault is open"
    for url in (pair.front.url, pair.back.url):
        with Caller(url, mallory) as thief, Caller(url) as stranger:
            assert thief.ask(say("open"), "vault").status_code == 403
            assert stranger.ask(say("open"), "vault").status_code == 401
            assert "Only for staff" not in thief.http.get("/who", params={"query": "staff"}).text


async def test_the_other_node_asks_again_whether_one_may(pair: Pair) -> None:
    """Checked where the caller is, and again where the agent is: a node that is wrong about it opens nothing."""
    asked = nodes.NodeRequest(Message.text("open"), "t1", roles=frozenset({"anonymous", "known"}))
    with pytest.raises(Forbidden):
        await called(pair, "vault", nodes.encode(asked))


def test_a_conversation_and_a_task_are_their_callers_on_every_node(pair: Pair, alice: Caller, mallory: str) -> None:
    begun = alice.ask(say("my diagnosis is gout"), "memory")
    mine = tokens(begun)[0]
    later = alice.ask(say("private work"), "memory", prefer="respond-async")
    task = later.headers["location"]
    with Caller(pair.back.url, alice.key) as elsewhere:
        assert "gout" in elsewhere.ask(say("and?", mine), "memory").json()["content"]
        assert elsewhere.http.get(task).status_code in (200, 202)
    for key in (mallory, None):
        with Caller(pair.back.url, key) as thief:
            assert "gout" not in thief.ask(say("and?", mine), "memory").text
            assert thief.http.get(task).status_code == 404


async def test_no_credential_crosses_the_bus(pair: Pair, alice: Caller) -> None:
    async with listening(pair) as passed:
        words = say("a question", token("PLANTED-IN-TOKEN", "authentication_x"), token("PLANTED-ECHO", "other"))
        reply = await asyncio.to_thread(alice.ask, words, "memory")
        assert reply.status_code == 200
    crossed = b"\n".join(passed)
    assert b"a question" in crossed  # it was listened to
    assert alice.key is not None
    for secret in (alice.key, alice.key.split("_", 2)[2], "PLANTED-IN-TOKEN", "PLANTED-ECHO", "sb1."):
        assert secret.encode() not in crossed, secret


async def test_an_agent_that_fails_elsewhere_shows_nothing_of_why(pair: Pair) -> None:
    async with listening(pair) as passed:
        with Caller(pair.front.url) as stranger:
            failed = await asyncio.to_thread(stranger.ask, say("go"), "leaky")
    assert failed.status_code == 500
    assert PLANTED not in failed.text and "RuntimeError" not in failed.text
    assert PLANTED.encode() not in b"\n".join(passed)


def _deep() -> bytes:
    return b"\x91" * 100_000 + b"\xc0"


JUNK = {
    "empty": b"",
    "bytes": b"\xff" * 500,
    "deep": _deep(),
    "wrong types": msgspec.msgpack.encode({"message": 5, "turn": []}),
    "a deep message": msgspec.msgpack.encode({"message": {"format": "structured", "subformat": "json"}, "turn": "t"})[
        :-4
    ]
    + _deep(),
    "endless hops": nodes.encode(nodes.NodeRequest(Message.text("x"), "t", hops=10**6, roles=frozenset({"staff"}))),
}


@pytest.mark.parametrize("junk", JUNK.values(), ids=JUNK)
async def test_malformed_messages_between_nodes_are_rejected_and_the_node_continues(pair: Pair, junk: bytes) -> None:
    with pytest.raises(SabirError) as refused:
        await called(pair, "vault", junk)
    assert "Recursion" not in str(refused.value) and "Traceback" not in str(refused.value)
    with Caller(pair.front.url) as stranger:
        assert (await asyncio.to_thread(stranger.ask, say("hi"), "memory")).status_code == 200


async def test_packets_without_a_call_and_unfinished_openings_change_nothing(pair: Pair) -> None:
    connection = await nats.connect(NATS)
    forged = [
        Packet(Kind.DATA, "1", 1, b"forged"), Packet(Kind.CANCEL, "1"), Packet(Kind.CREDIT, "1", 2**40),
        Packet(Kind.FAIL, "1", reason="forged"), Packet(Kind.TAKEN, "1", address="nobody/1"),
    ]  # fmt: skip
    for _ in range(20):
        opening = Packet(Kind.OPEN, uuid4().hex, 10**9, b"x", "nobody")  # says that a thousand million chunks follow
        await connection.publish(f"{pair.prefix}.call.agent=2Ememory", encode_packets([opening]))
        await connection.publish(f"{pair.prefix}.back.nobody.0", encode_packets(forged))
    await connection.flush()
    await connection.close()
    with Caller(pair.front.url) as stranger:
        assert (await asyncio.to_thread(stranger.ask, say("hi"), "memory")).status_code == 200


async def test_the_bus_rejects_clients_without_its_log_in(tmp_path: Path) -> None:
    server = NatsServer(tmp_path / "nats", "-js", "--user", "sabir", "--pass", "PLANTED-LOG-IN")
    server.start()
    try:
        for who in ("", "sabir:wrong@"):
            bus = open_bus(server.url.replace("nats://", f"nats://{who}"))
            with pytest.raises(ConfigError) as refused:
                await bus.open()
            assert "login" in str(refused.value) and "wrong" not in str(refused.value)
        bus = open_bus(server.url.replace("nats://", "nats://sabir:PLANTED-LOG-IN@"))
        await bus.open()
        assert "PLANTED" not in repr(bus)
        await bus.close()
    finally:
        server.kill()


def test_reports_about_nodes_do_not_name_the_address_of_the_bus(pair: Pair) -> None:
    with Caller(pair.front.url) as stranger:
        for path in ("/", "/health", "/.well-known/agent-card.json", "/.well-known/nlip", "/who"):
            shown = stranger.http.get(path).text
            assert "4222" not in shown and pair.prefix not in shown
        asked = stranger.ask(say("What are your capabilities?", control=True))
        answer = json.dumps([asked.text, part(asked, "capabilities")])
        assert "4222" not in answer and pair.prefix not in answer

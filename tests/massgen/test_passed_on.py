"""Envelopes that are passed on to a remote agent which is spoken to in envelopes (MW-73)."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx2
import pytest
import yaml

from conftest import Serve, serving
from deadline import DEADLINE
from protocols.nlip.amqp.conftest import amqp_gateway, broker, prefix  # noqa: F401
from sabir import Delta, Message, Turn, agent, connect
from sabir.config.agents import build_agents
from sabir.config.build import gateway_of
from sabir.config.load import settings_of
from sabir.errors import ConfigError, PeerRefused, TurnFailed
from sabir.events import Reply
from sabir.gateway.gateway import Gateway
from sabir.message import Part, json_part
from sabir.protocols.nlip.peer.base import NlipPeer
from sabir.protocols.nlip.wire.amqp import JSON
from sabir.protocols.nlip.wire.envelope import ENVELOPE
from sabir.turn import Conversation

EXAMPLES = Path(__file__).parent.parent.parent / "examples" / "massgen"


OTHERS_ANSWERED = threading.Event()


@agent(name="words")
async def words(turn: Turn) -> Any:
    if turn.text == "fail":
        raise TurnFailed("it broke")
    if turn.text == "slow":
        await asyncio.to_thread(OTHERS_ANSWERED.wait, DEADLINE)
    after = f"{turn.text} after {len(turn.conversation.turns)}"
    for piece in ("You said ", after):
        yield Delta.text(piece)
    if turn.text == "three":
        OTHERS_ANSWERED.set()  # before the Reply: nothing runs after it
    yield Reply(Message.text(f"You said {after}"))


def envelope(content: dict[str, Any], **more: Any) -> dict[str, Any]:
    control = {"message_type": "request", "message_id": "m1", "timestamp": "2026-01-01T00:00:00Z", "priority": 3}
    return {"format": {}, "control": control, "token": {}, "content": content, **more}


def front(serve: Serve, home: Path, remote: str) -> str:
    entry = {"id": "far", "peer": remote, "envelope": True}
    settings = settings_of({"home": str(home), "agents": [entry], "outbound": {"private": True}})
    return serve(gateway_of(settings)).url + "/nlip/far"


TRANSPORTS = ("http", "websocket", "websocket text", "amqp", "amqp json")


@asynccontextmanager
async def reached(
    request: pytest.FixtureRequest, transport: str, home: Path, *agents: Any, **options: Any
) -> AsyncIterator[str]:
    """The address of the first of these agents by a transport."""
    if transport.startswith("amqp"):
        broker, prefix = request.getfixturevalue("broker"), request.getfixturevalue("prefix")
        address = f"{prefix}-{uuid4().hex[:8]}"
        async with amqp_gateway(home, broker, address, *agents, **options):
            yield f"{broker}/{address}"
        return
    with serving(Gateway(*agents, home=home, **options)) as served:
        paths = {"http": "/nlip", "websocket": "/nlip/ws", "websocket text": "/nlip/ws/text"}
        yield (served.url if transport == "http" else served.ws_url) + paths[transport]


def as_peer(url: str, transport: str, seen: list[bytes]) -> Any:
    options: dict[str, Any] = {"content_type": JSON} if transport == "amqp json" else {}
    return connect(url, envelope=True, on_wire=lambda direction, data: seen.append(data), **options)


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_a_peer_speaks_envelopes(request: pytest.FixtureRequest, home: Path, transport: str) -> None:  # MW-8
    seen: list[bytes] = []
    async with reached(request, transport, home, words) as url, as_peer(url, transport, seen) as peer:
        reply = await peer.ask("tea")
        assert reply.text == "You said tea after 0"
        assert all(part.subformat != "sabir.envelope" for part in reply.parts)
        assert (await peer.ask("cake")).text == "You said cake after 1"  # the same session
        with pytest.raises(PeerRefused, match="it broke"):
            await peer.ask("fail")
        pieces = [event.part.content async for event in peer.stream("tea") if isinstance(event, Delta)]
        if not transport.startswith("amqp"):  # which has no pieces
            assert "".join(pieces) == "You said tea after 2" and len(pieces) == 2
        capabilities = await peer.control("What are your capabilities?", json_part({}, label="capabilities"))
        assert capabilities.labelled("capabilities").value["agents"][0]["name"] == "words"
    sent = [data for data in seen if b"message_type" in data]
    assert any(b"request" in data for data in sent) and any(b"response" in data for data in sent)
    assert not any(b'"format":"text"' in data for data in seen)


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_many_questions_at_once_get_their_own_answers(
    request: pytest.FixtureRequest, home: Path, transport: str
) -> None:
    OTHERS_ANSWERED.clear()
    async with reached(request, transport, home, words) as url, as_peer(url, transport, []) as peer:
        # As two callers whose envelopes are passed on here, and who chose the same message_id.
        facts = Part("generic", ENVELOPE, {"message_id": "m1"})
        asked = [Message.text(word).with_parts([facts]) for word in ("slow", "one", "two", "three")]
        turns = [Turn(message, Conversation(f"c{number}")) for number, message in enumerate(asked)]
        answers = await asyncio.gather(*(answer_of(peer, turn) for turn in turns))
        assert [answer.text for answer in answers] == [f"You said {message.text} after 0" for message in asked]


async def answer_of(peer: Any, turn: Turn) -> Message:
    return [event.message async for event in peer(turn) if isinstance(event, Reply)][-1]


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_trace_and_hops_go_along_with_an_envelope(
    request: pytest.FixtureRequest, home: Path, transport: str
) -> None:
    heard: list[Turn] = []

    @agent(name="listens")
    async def listens(turn: Turn) -> str:
        heard.append(turn)
        return "yes"

    trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    async with reached(request, transport, home, listens) as url, as_peer(url, transport, []) as peer:
        await answer_of(peer, Turn(Message.text("hi"), trace=trace, hops=3))
    assert heard[0].hops == 4
    assert heard[0].trace is not None and trace[3:35] in heard[0].trace
    assert heard[0].message.extra is None


def test_an_envelope_passes_a_gateway_with_its_fields(serve: Serve, home: Path, tmp_path: Path) -> None:
    path = EXAMPLES / "nlip_basic.yaml"
    shop = settings_of({**yaml.safe_load(path.read_text()), "home": str(tmp_path / "shop")})
    url = front(serve, home, serve(gateway_of(shop, path)).url + "/nlip/shopkeeper")
    call = {"tool_id": "c1", "tool_name": "price", "parameters": {"item": "tea"}}
    asked = envelope({}, tool_calls=[call], metadata={"who": "ann"})
    found = httpx2.post(url, json=asked).json()
    assert found["content"] == {"status": "success", "result": "tea: 3 EUR"}
    assert found["tool_results"][0]["metadata"]["protocol"] == "custom"
    assert found["control"]["correlation_id"] == "m1"
    chat = envelope({"messages": [{"role": "user", "content": "What does tea cost?"}], "options": {}})
    assert httpx2.post(url, json=chat).json()["content"]["content"] == "Tea is 3 euros."
    streamed = httpx2.post(url, json=chat, headers={"accept": "text/event-stream"}).text
    last = [json.loads(line[6:]) for line in streamed.splitlines() if line.startswith("data: ")][-1]
    assert last["content"] == {"partial": False, "content": "Tea is 3 euros.", "complete": True}


def test_envelope_is_for_nlip() -> None:
    entry = {"id": "far", "peer": "https://example.com/mcp", "envelope": True}
    with pytest.raises(ConfigError, match="envelope is for NLIP; is protocol: nlip missing"):
        gateway_of(settings_of({"agents": [entry]}))
    for url in ("https://example.com/nlip", "wss://example.com/nlip/ws", "amqp://guest:guest@127.0.0.1/nlip"):
        [far] = build_agents(settings_of({"agents": [{"id": "far", "peer": url, "envelope": True}]})).agents
        assert isinstance(far, NlipPeer) and far.envelope

"""Envelopes that are passed on to a remote agent which is spoken to in envelopes (MW-73)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx2
import pytest
import yaml

from conftest import Serve
from sabir import Delta, Message, Turn, agent, connect
from sabir.config.build import gateway_of
from sabir.config.load import settings_of
from sabir.errors import ConfigError, PeerRefused, TurnFailed
from sabir.events import Reply
from sabir.gateway.gateway import Gateway

EXAMPLES = Path(__file__).parent.parent.parent / "examples" / "massgen"


@agent(name="words")
async def words(turn: Turn) -> Any:
    if turn.text == "fail":
        raise TurnFailed("it broke")
    for piece in ("You said ", turn.text):
        yield Delta.text(piece)
    yield Reply(Message.text(f"You said {turn.text}"))


def envelope(content: dict[str, Any], **more: Any) -> dict[str, Any]:
    control = {"message_type": "request", "message_id": "m1", "timestamp": "2026-01-01T00:00:00Z", "priority": 3}
    return {"format": {}, "control": control, "token": {}, "content": content, **more}


def front(serve: Serve, home: Path, remote: str) -> str:
    entry = {"id": "far", "peer": remote, "envelope": True}
    settings = settings_of({"home": str(home), "agents": [entry], "outbound": {"private": True}})
    return serve(gateway_of(settings)).url + "/nlip/far"


async def test_a_peer_speaks_envelopes(serve: Serve, home: Path) -> None:
    url = serve(Gateway(words, home=home)).url + "/nlip"
    seen: list[bytes] = []
    async with connect(url, envelope=True, on_wire=lambda direction, data: seen.append(data)) as peer:
        reply = await peer.ask("tea")
        assert reply.text == "You said tea"
        assert all(part.subformat != "sabir.envelope" for part in reply.parts)
        pieces = [event.part.content async for event in peer.stream("tea") if isinstance(event, Delta)]
        assert pieces == ["You said ", "tea"]
        with pytest.raises(PeerRefused, match="it broke"):
            await peer.ask("fail")
    assert any(b'"control":{"message_type":"request"' in data for data in seen)


def test_an_envelope_passes_a_gateway_with_its_fields(serve: Serve, home: Path, tmp_path: Path) -> None:
    path = EXAMPLES / "nlip_basic.yaml"
    shop = settings_of({**yaml.safe_load(path.read_text()), "home": str(tmp_path / "shop")})
    url = front(serve, home, serve(gateway_of(shop, path)).url + "/nlip/shopkeeper")
    call = {"tool_id": "c1", "tool_name": "price", "parameters": {"item": "tea"}}
    asked = envelope({}, tool_calls=[call], metadata={"who": "ann"})
    found = httpx2.post(url, json=asked, timeout=20).json()
    assert found["content"] == {"status": "success", "result": "tea: 3 EUR"}
    assert found["tool_results"][0]["metadata"]["protocol"] == "custom"
    assert found["control"]["correlation_id"] == "m1"
    chat = envelope({"messages": [{"role": "user", "content": "What does tea cost?"}], "options": {}})
    assert httpx2.post(url, json=chat, timeout=20).json()["content"]["content"] == "Tea is 3 euros."
    streamed = httpx2.post(url, json=chat, headers={"accept": "text/event-stream"}, timeout=20).text
    last = [json.loads(line[6:]) for line in streamed.splitlines() if line.startswith("data: ")][-1]
    assert last["content"] == {"partial": False, "content": "Tea is 3 euros.", "complete": True}


def test_envelope_is_for_nlip_over_http() -> None:
    entry = {"id": "far", "peer": "https://example.com/mcp", "envelope": True}
    with pytest.raises(ConfigError, match="envelope is for NLIP over HTTP"):
        gateway_of(settings_of({"agents": [entry]}))

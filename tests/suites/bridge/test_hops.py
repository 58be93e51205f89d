"""What must not cross, and what must stop: credentials, tokens and loops, by every protocol."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import httpx
import pytest

from conftest import serving
from deadline import DEADLINE
from sabir.agent import agent
from sabir.card import Card
from sabir.events import Event
from sabir.gateway.gateway import Gateway
from sabir.guard import Authenticator, Credentials
from sabir.message import Part
from sabir.protocols.peer import Peer
from sabir.turn import Caller, Turn
from suites.bridge.bridge_clients import NlipTalker


class Recorder:
    """Knows nobody, and remembers what it was shown."""

    challenge = "Bearer"

    def __init__(self) -> None:
        self.shown: list[str] = []

    async def verify(self, credentials: Credentials, tokens: tuple[Part, ...]) -> Caller | None:
        self.shown += [item for item in (credentials.authorization, *credentials.headers.values()) if item]
        self.shown += [str(part.content) for part in tokens]
        return None


PROTOCOLS = ("nlip", "nlweb", "mcp", "a2a")


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_caller_s_credentials_stay_on_their_hop(protocol: str, peers, tmp_path: Path) -> None:
    recorder = Recorder()

    @agent(description="Says who asks")
    async def porter(turn: Turn) -> str:
        return f"{turn.caller.id} {turn.message.text}"

    with serving(Gateway(porter, home=tmp_path / "far", identity=Authenticator((recorder,)))) as far:
        path, peer = peers[protocol]
        with serving(Gateway(peer(f"{far.url}/{path}/porter", name="porter"), home=tmp_path / "near")) as near:
            async with httpx.AsyncClient(trust_env=False) as http:
                message = {
                    "format": "text",
                    "subformat": "english",
                    "content": "hello",
                    "submessages": [{"format": "token", "subformat": "authentication", "content": "t0psecret"}],
                }
                headers = {"authorization": "Bearer s3cret", "x-api-key": "k3y", "cookie": "session=c00kie"}
                answer = await http.post(f"{near.url}/nlip/porter", json=message, headers=headers)
    assert answer.json()["content"] == "anonymous hello"
    assert recorder.shown == []


class Itself:
    """An agent that asks its own gateway over a protocol, with a peer that is made when the address is known."""

    def __init__(self, make: Callable[[], Peer]) -> None:
        self.card = Card(name="loop", description="Asks itself")
        self._make = make
        self._peer: Peer | None = None

    def __call__(self, turn: Turn, /) -> AsyncIterator[Event]:
        self._peer = self._peer or self._make()
        return self._peer(turn)

    async def __aenter__(self) -> Itself:
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._peer is not None:
            await self._peer.aclose()


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_gateway_that_asks_itself_stops(protocol: str, peers, tmp_path: Path) -> None:
    path, peer = peers[protocol]
    where: list[str] = []
    loop = Itself(lambda: peer(f"{where[0]}/{path}/loop", name="loop"))
    with serving(Gateway(loop, home=tmp_path / "home", beside=[loop])) as served:
        where.append(served.url)
        client = NlipTalker(served.url)
        async with asyncio.timeout(DEADLINE):
            heard = await client.ask("loop", "around")
        await client.aclose()
    assert "a loop is likely" in heard.failure

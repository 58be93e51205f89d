"""One contract for the breaker of every peer: whether the peer is available counts, not what it answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest

from conftest import Served, serving
from free_ports import free_port
from guard_clock import Clock
from guard_site import Site
from protocols.nlip.amqp.conftest import broker, prefix  # noqa: F401  # fixtures
from sabir.agent import agent
from sabir.errors import Unavailable
from sabir.gateway.gateway import Gateway
from sabir.guard.egress.breaker import Breaker
from sabir.protocols.a2a.peer.peer import A2aPeer
from sabir.protocols.mcp.peer.peer import McpPeer
from sabir.protocols.nlip.peer.amqp import NlipAmqpPeer
from sabir.protocols.nlip.peer.http import NlipHttpPeer
from sabir.protocols.nlip.peer.websocket import NlipWsPeer
from sabir.protocols.nlweb.peer import NlwebPeer
from sabir.protocols.peer import Peer
from sabir.turn import Turn

PAUSE = 5.0
OVER_HTTP: dict[str, Callable[[str], Peer]] = {
    "nlip": lambda at: NlipHttpPeer(f"{at}/nlip/picky", name="picky", retries=0),
    "nlip-ws": lambda at: NlipWsPeer(f"{at.replace('http', 'ws', 1)}/nlip/picky/ws", name="picky"),
    "nlweb": lambda at: NlwebPeer(f"{at}/ask/picky", name="picky"),
    "mcp": lambda at: McpPeer(f"{at}/mcp/picky", name="picky"),
    "a2a": lambda at: A2aPeer(f"{at}/a2a/picky", name="picky"),
}


@agent(name="picky")
async def picky(turn: Turn) -> AsyncIterator[str]:
    if turn.text == "bad":
        raise ValueError("not this one")
    if turn.text == "down":
        raise Unavailable("come back later")
    yield "fi"
    yield "ne"


@dataclass
class Bridge:
    """A gateway with one peer, and the far gateway where that is."""

    near: Served
    peer: Peer
    clock: Clock
    far: Callable[[], Any]

    async def say(self, *words: str) -> list[str]:
        """What becomes of each: ``fine``, or why not."""
        async with httpx2.AsyncClient(trust_env=False) as client:
            said = {"format": "text", "subformat": "english"}
            replies = [await client.post(f"{self.near.url}/nlip", json={**said, "content": word}) for word in words]
        return [reply.json()["content"] for reply in replies]

    async def fail(self, times: int) -> None:
        self.peer.seconds = 0.2  # of AMQP only the silence tells that nobody is there
        for reply in await self.say(*["good"] * times):
            assert "picky" in reply and "failed 5 times" not in reply, reply
        self.peer.seconds = 30.0

    @property
    def state(self) -> str:
        return self.peer.breaker.state


@contextmanager
def bridged(peer: Peer, home: Path, far: Callable[[], Any]) -> Iterator[Bridge]:
    clock = Clock()
    peer.breaker = Breaker("picky", pause=PAUSE, clock=clock)
    with serving(Gateway(peer, home=home / "near")) as near:
        yield Bridge(near, peer, clock, far)


@pytest.fixture(params=[*OVER_HTTP, "nlip-amqp"])
def bridge(request: pytest.FixtureRequest, home: Path) -> Iterator[Bridge]:
    port, doors = free_port(), dict[str, Any]()
    if request.param == "nlip-amqp":
        url, address = request.getfixturevalue("broker"), f"{request.getfixturevalue('prefix')}-breaking"
        doors["nlip-amqp"] = {"url": url, "address": address}
        peer: Peer = NlipAmqpPeer(f"{url}/{address}", name="picky")
    else:
        peer = OVER_HTTP[request.param](f"http://127.0.0.1:{port}")
    with bridged(peer, home, lambda: serving(Gateway(picky, home=home / "far", doors=doors), port=port)) as made:
        yield made


async def test_one_question_that_an_agent_fails_at_takes_it_from_nobody(bridge: Bridge) -> None:
    with bridge.far():
        for reply in await bridge.say(*["bad"] * 6):
            assert "failed 5 times" not in reply
        assert await bridge.say("good") == ["fine"]
        assert bridge.state == "closed"


async def test_one_answer_ends_the_row_of_failures(bridge: Bridge) -> None:
    await bridge.fail(4)
    with bridge.far():
        assert await bridge.say("good") == ["fine"]
    await bridge.fail(4)
    assert bridge.state == "closed"
    await bridge.fail(1)
    assert bridge.state == "open"


async def test_a_peer_that_is_back_is_used_again(bridge: Bridge) -> None:
    await bridge.fail(5)
    with bridge.far():
        (left_alone,) = await bridge.say("good")
        assert "it failed 5 times; next try in 5 s" in left_alone
        bridge.clock.now += PAUSE
        assert await bridge.say("good", "good") == ["fine", "fine"]
        assert bridge.state == "closed"
        many = await asyncio.gather(*(bridge.say("good") for _ in range(5)))
        assert many == [["fine"]] * 5
    await bridge.fail(4)
    assert bridge.state == "closed"


async def test_one_that_says_that_it_is_down_is_left_alone(bridge: Bridge) -> None:
    with bridge.far():
        if isinstance(bridge.peer, NlipAmqpPeer):
            bridge.peer.seconds = 0.2  # the door gives the letter back to the broker, and nobody answers
        await bridge.say(*["down"] * 5)
        assert bridge.state == "open"


@pytest.mark.parametrize("protocol", OVER_HTTP)
@pytest.mark.parametrize("status", [500, 502, 503])
async def test_a_page_of_a_proxy_is_not_an_answer_of_the_agent(home: Path, protocol: str, status: int) -> None:
    site = Site()
    try:
        for path in ("/nlip/picky", "/nlip/picky/ws", "/ask/picky", "/mcp/picky"):
            site.says(path, b"<h1>Bad Gateway</h1>", status, content_type="text/html")
        site.says("/a2a/picky/.well-known/agent-card.json", b"<h1>Bad Gateway</h1>", status, content_type="text/html")
        with bridged(OVER_HTTP[protocol](site.url), home, lambda: None) as bridge:
            await bridge.say(*["good"] * 5)
            assert bridge.state == "open"
    finally:
        site.close()

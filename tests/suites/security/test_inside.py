"""Callers do not learn a peer's internal address: neither its card nor its failures contain it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import httpx2
import pytest

from conftest import Serve
from free_ports import free_port
from guard_site import Site
from sabir.gateway.gateway import Gateway
from sabir.protocols.a2a.peer.peer import A2aPeer
from sabir.protocols.mcp.peer.peer import McpPeer
from sabir.protocols.nlip.peer.http import NlipHttpPeer
from sabir.protocols.nlip.peer.websocket import NlipWsPeer
from sabir.protocols.nlweb.peer import NlwebPeer
from sabir.protocols.peer import Peer
from suites.security.attackers import Caller, say

PEERS: dict[str, Callable[[str], Peer]] = {
    "nlip": lambda at: NlipHttpPeer(f"http://{at}/nlip/picky", name="picky", retries=0),
    "nlip-ws": lambda at: NlipWsPeer(f"ws://{at}/nlip/picky/ws", name="picky"),
    "nlweb": lambda at: NlwebPeer(f"http://{at}/ask/picky", name="picky"),
    "mcp": lambda at: McpPeer(f"http://{at}/mcp/picky", name="picky"),
    "a2a": lambda at: A2aPeer(f"http://{at}/a2a/picky", name="picky"),
}


@pytest.mark.parametrize("protocol", PEERS)
def test_a_peer_without_a_card_is_known_by_its_name_alone(serve: Serve, home: Path, protocol: str) -> None:
    port = free_port()
    served = serve(Gateway(PEERS[protocol](f"127.0.0.1:{port}"), home=home))
    with Caller(served.url) as caller:
        reply = [
            caller.ask(say("What are your capabilities?", control=True)).text,
            caller.ask(say("hello")).text,
        ]
    with httpx2.Client(base_url=served.url, trust_env=False) as client:
        reply.append(client.post("/who", json={"query": {"text": "picky"}}).text)
        reply.append(client.get("/a2a/picky/.well-known/agent-card.json").text)
        accept = {"accept": "application/json, text/event-stream"}
        listing = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
        reply.append(client.post("/mcp", json=listing, headers={**accept, "mcp-protocol-version": "2025-06-18"}).text)
    assert all("picky" in item for item in reply), reply
    assert not [item for item in reply if str(port) in item]


def test_the_address_of_a_remote_task_is_not_shown(serve: Serve, home: Path) -> None:
    """Whoever knows the address of a task may read it, as long as nobody owns it."""
    site = Site()
    try:
        accepted = {"location": "/nlip/tasks/secret", "retry-after": "30", "content-type": "application/json"}
        site.answers["/nlip/picky"] = site.answers["/nlip/tasks/secret"] = lambda *_: (202, accepted, b"{}")
        peer = NlipHttpPeer(f"{site.url}/nlip/picky", name="picky", seconds=2.0)
        served = serve(Gateway(peer, home=home))
        with Caller(served.url) as caller:
            reply = caller.ask(say("hello")).text
    finally:
        site.close()
    assert "no answer in time" in reply
    assert str(site.port) not in reply

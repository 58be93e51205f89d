"""``connect``: which peer an address gets, and which protocol a bare origin turns out to use."""

from __future__ import annotations

from pathlib import Path

import pytest

from conftest import Serve
from raw_http import http, raw_server, text
from sabir.agents.echo import echo
from sabir.errors import ConfigError, PeerRefused
from sabir.gateway.gateway import Gateway
from sabir.protocols.connect import connect, speakers
from sabir.protocols.detect import OriginPeer
from sabir.protocols.peer import Identity, choose


@pytest.mark.parametrize(
    ("url", "protocol", "kind"),
    [
        ("http://127.0.0.1:9", None, "OriginPeer"),
        ("http://127.0.0.1:9/", None, "OriginPeer"),
        ("http://127.0.0.1:9", "nlip", "NlipHttpPeer"),
        ("http://127.0.0.1:9/nlip/echo", None, "NlipHttpPeer"),
        ("https://127.0.0.1:9/anything", None, "NlipHttpPeer"),
        ("http://127.0.0.1:9/ask", None, "NlwebPeer"),
        ("http://127.0.0.1:9/mcp", None, "McpPeer"),
        ("http://127.0.0.1:9", "a2a", "A2aPeer"),
        ("ws://127.0.0.1:9", None, "NlipWsPeer"),
        ("amqp://127.0.0.1:9/x", None, "NlipAmqpPeer"),
    ],
)
async def test_an_address_gets_the_peer_that_speaks_there(url: str, protocol: str | None, kind: str) -> None:
    async with connect(url, protocol=protocol) as peer:
        assert type(peer).__name__ == kind


def test_an_unsupported_scheme_is_reported() -> None:
    with pytest.raises(ConfigError, match="acl is not spoken over ws; expected nlip"):
        connect("ws://127.0.0.1", protocol="acl")
    with pytest.raises(ConfigError, match="expected an address with a scheme"):
        connect("localhost")
    with pytest.raises(ConfigError, match="unsupported URL scheme 'gopher'"):
        connect("gopher://127.0.0.1")
    assert all(speakers(scheme) for scheme in ("http", "https", "ws", "wss", "amqp", "amqps", "stdio"))


async def test_a_bare_origin_with_nlip_is_asked_nothing_else() -> None:
    async with raw_server(lambda heard, n: http(200, text("hi"))) as server, connect(server.url) as peer:
        await peer.ask("one")
        assert isinstance(peer, OriginPeer) and peer.speaks == "nlip"
    assert [heard.line.split()[0] for heard in server.heard] == ["POST"]


async def test_a_server_without_a_known_protocol_is_reported_with_its_answer() -> None:
    async with raw_server(lambda heard, n: http(404, "no")) as server, connect(server.url) as peer:
        with pytest.raises(PeerRefused) as refused:
            await peer.ask("one")
    assert refused.value.status == 404


async def test_a_failing_nlip_server_is_not_taken_for_another_kind() -> None:
    async with raw_server(lambda heard, n: http(500, text("broken"))) as server, connect(server.url) as peer:
        with pytest.raises(PeerRefused, match="broken"):
            await peer.ask("one")
    assert len(server.heard) == 1


@pytest.mark.parametrize(
    ("closed", "found"),
    [({"nlip-http"}, "a2a"), ({"nlip-http", "a2a"}, "nlweb"), ({"nlip-http", "a2a", "nlweb"}, "mcp")],
)
async def test_what_else_a_server_speaks_is_found_out(serve: Serve, home: Path, closed: set[str], found: str) -> None:
    """Our own gateway with doors closed: the same question is answered through the next one that is there."""
    pytest.importorskip("a2a")
    pytest.importorskip("mcp")
    served = serve(Gateway(echo, home=home, doors=dict.fromkeys(closed, False)))
    async with connect(served.url) as peer:
        reply = await peer.ask("hello")
        assert isinstance(peer, OriginPeer) and peer.speaks == found
    if found != "nlweb":  # a site answers with results, an echo over it with its own words
        assert "hello" in reply.text


@pytest.mark.parametrize("service", ["https://bank.example", "https://bank.example:443", "https://*.example", "*"])
def test_an_identity_fits_its_service_with_and_without_the_port(service: str) -> None:
    mine = (Identity(service, "Bearer x", at_once=True),)
    assert choose(mine, "https://bank.example", None) == "Bearer x"
    assert choose(mine, "https://bank.example:443", None) == "Bearer x"
    assert choose(mine, "https://bank.example.evil", None) == ("Bearer x" if service == "*" else None)

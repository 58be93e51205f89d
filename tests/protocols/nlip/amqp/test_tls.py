"""AMQP over TLS: a TLS end in front of the real broker, with a certificate of our own authority."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from certificates import Authority
from protocols.nlip.amqp.conftest import amqp_gateway
from sabir.agents.echo import echo
from sabir.errors import PeerUnavailable
from sabir.protocols.nlip.peer.amqp import NlipAmqpPeer
from tcp_proxy import tcp_proxy


@asynccontextmanager
async def tls_end(cert: str, key: str) -> AsyncIterator[str]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_cert_chain(cert, key)
    async with tcp_proxy(("127.0.0.1", 5672), tls=context) as proxy:
        yield f"amqps://guest:guest@127.0.0.1:{proxy.port}"


async def test_door_and_peer_speak_over_tls(home: Path, tmp_path: Path, broker: str, prefix: str) -> None:  # AMQP-8
    authority = Authority(tmp_path)
    cert, key = authority.make("broker")
    address = f"{prefix}-tls"
    async with (
        tls_end(cert, key) as url,
        amqp_gateway(home, broker, address, echo, url=url, tls_ca=str(authority.cert)),
    ):
        async with NlipAmqpPeer(f"{url}/{address}", verify=authority.context()) as peer:
            assert (await peer.ask("hello")).text == "You said: hello"


async def test_an_untrusted_certificate_is_rejected(tmp_path: Path, broker: str) -> None:  # SEC-P1.2
    cert, key = Authority(tmp_path).make("broker")
    async with tls_end(cert, key) as url, NlipAmqpPeer(f"{url}/x") as peer:
        with pytest.raises(PeerUnavailable, match="its certificate is not accepted"):
            await peer.ask("hello")


async def test_a_certificate_is_no_use_to_a_broker_that_does_not_ask_for_it(tmp_path: Path, broker: str) -> None:
    """RabbitMQ without its plugin for certificates lets nobodies in; who shows a certificate is not one of them."""
    authority = Authority(tmp_path)
    cert, key = authority.make("broker")
    context = authority.context("broker")
    async with tls_end(cert, key) as url:
        bare = url.replace("guest:guest@", "")
        async with NlipAmqpPeer(f"{bare}/x", verify=context, external=True) as peer:
            with pytest.raises(PeerUnavailable, match=r"expected EXTERNAL \(our certificate\).*it offers .*PLAIN"):
                await peer.ask("hello")

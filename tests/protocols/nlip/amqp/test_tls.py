"""AMQP over TLS: a TLS end in front of the real broker, with a certificate of our own authority."""

from __future__ import annotations

import asyncio
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


@asynccontextmanager
async def tls_end(cert: str, key: str) -> AsyncIterator[str]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_cert_chain(cert, key)
    tasks: set[asyncio.Task[None]] = set()
    writers: list[asyncio.StreamWriter] = []

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        except (OSError, ssl.SSLError):
            pass
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", 5672)
        writers.extend((writer, far_writer))
        tasks.add(asyncio.create_task(copy(reader, far_writer)))
        tasks.add(asyncio.create_task(copy(far_reader, writer)))

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    try:
        yield f"amqps://guest:guest@127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        for writer in writers:
            writer.transport.abort()
        server.close()
        await server.wait_closed()
        await asyncio.gather(*tasks, return_exceptions=True)


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

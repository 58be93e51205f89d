"""AMQP over TLS: a TLS end in front of the real broker, with a certificate of our own authority."""

from __future__ import annotations

import asyncio
import datetime
import ipaddress
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from amqp.conftest import amqp_gateway
from sabir.agents.echo import echo
from sabir.errors import PeerUnavailable
from sabir.peers.nlip_amqp import NlipAmqpPeer


def certificate(folder: Path) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1 that is its own authority, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "broker")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    cert_file, key_file = folder / "cert.pem", folder / "key.pem"
    cert_file.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    key_file.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return cert_file, key_file


@asynccontextmanager
async def tls_end(cert: Path, key: Path) -> AsyncIterator[str]:
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
    cert, key = certificate(tmp_path)
    address = f"{prefix}-tls"
    async with tls_end(cert, key) as url, amqp_gateway(home, broker, address, echo, url=url, tls_ca=str(cert)):
        async with NlipAmqpPeer(f"{url}/{address}", tls=ssl.create_default_context(cafile=cert)) as peer:
            assert (await peer.ask("hello")).text == "You said: hello"


async def test_a_certificate_that_nobody_vouches_for_is_not_accepted(tmp_path: Path, broker: str) -> None:  # SEC-P1.2
    cert, key = certificate(tmp_path)
    async with tls_end(cert, key) as url, NlipAmqpPeer(f"{url}/x") as peer:
        with pytest.raises(PeerUnavailable, match="its certificate is not accepted"):
            await peer.ask("hello")


async def test_a_certificate_is_no_use_to_a_broker_that_does_not_ask_for_it(tmp_path: Path, broker: str) -> None:
    """RabbitMQ without its plugin for certificates lets nobodies in; who shows a certificate is not one of them."""
    cert, key = certificate(tmp_path)
    context = ssl.create_default_context(cafile=cert)
    context.load_cert_chain(cert, key)
    async with tls_end(cert, key) as url:
        bare = url.replace("guest:guest@", "")
        async with NlipAmqpPeer(f"{bare}/x", tls=context, external=True) as peer:
            with pytest.raises(PeerUnavailable, match=r"expected EXTERNAL \(our certificate\).*it offers .*PLAIN"):
                await peer.ask("hello")

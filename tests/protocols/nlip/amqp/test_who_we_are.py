"""How we authenticate to a broker: as configured, or not at all; and the error if that is impossible.

RabbitMQ offers a fixed set; the brokers here are sockets that send the first bytes of AMQP and record ours.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from deadline import DEADLINE
from protocols.nlip.amqp.private_rabbitmq import Authority
from sabir import Gateway, connect
from sabir.agents.echo import echo
from sabir.errors import ConfigError, PeerUnavailable
from sabir.protocols.nlip.amqp.broker import Broker, BrokerOffer
from sabir.protocols.nlip.amqp.connection import AmqpConnection
from sabir.protocols.nlip.peer.amqp import NlipAmqpPeer

SASL = b"AMQP\x03\x01\x00\x00"
PLAIN_AMQP = b"AMQP\x00\x01\x00\x00"


def mechanisms(*names: str) -> bytes:
    """The frame ``sasl-mechanisms``, as AMQP 1.0 writes it in part 5.3.3.1."""
    symbols = b"".join(bytes([len(name)]) + name.encode() for name in names)
    array = b"\xe0" + bytes([len(symbols) + 2, len(names)]) + b"\xa3" + symbols
    performative = b"\x00\x53\x40\xc0" + bytes([len(array) + 1, 1]) + array
    return struct.pack(">IBBH", 8 + len(performative), 2, 1, 0) + performative


class FirstWords:
    """A broker that says these bytes, one packet each, and hears what is said to it."""

    def __init__(self, *packets: bytes) -> None:
        self.packets = packets
        self.heard = bytearray()
        self.port = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for packet in self.packets:
            writer.write(packet)
            await writer.drain()
        try:
            while data := await reader.read(4096):
                self.heard += data
        except OSError:
            pass
        finally:
            writer.close()


@asynccontextmanager
async def offering(*names: str, tls: ssl.SSLContext | None = None) -> AsyncIterator[FirstWords]:
    async with saying(SASL + mechanisms(*names), tls=tls) as broker:
        yield broker


@asynccontextmanager
async def saying(*packets: bytes, tls: ssl.SSLContext | None = None) -> AsyncIterator[FirstWords]:
    broker = FirstWords(*packets)
    server = await asyncio.start_server(broker.serve, "127.0.0.1", 0, ssl=tls)
    broker.port = server.sockets[0].getsockname()[1]
    try:
        yield broker
    finally:
        server.close()
        await server.wait_closed()


async def why_not(url: str, *, tls: ssl.SSLContext | None = None, external: bool = False) -> str:
    connection = AmqpConnection(url, tls=tls, external=external, seconds=20.0)
    with pytest.raises(PeerUnavailable) as left:
        async with asyncio.timeout(DEADLINE):  # it fails at once, not after the timeout
            await connection.open()
    await connection.close()
    return str(left.value)


async def test_a_password_is_not_sent_to_a_broker_that_only_accepts_anonymous_clients() -> None:
    async with offering("ANONYMOUS") as broker:
        said = await why_not(f"amqp://alice:s3cret@127.0.0.1:{broker.port}")
    assert said == (
        f"amqp://127.0.0.1:{broker.port}: expected PLAIN (the user and password of the address) as the way to show "
        "who we are; it offers ANONYMOUS"
    )
    assert bytes(broker.heard) == SASL


async def test_an_offer_that_comes_byte_by_byte_is_read_all_the_same() -> None:
    words = SASL + mechanisms("ANONYMOUS", "SCRAM-SHA-256")
    async with saying(*(bytes([byte]) for byte in words)) as broker:
        said = await why_not(f"amqp://alice:s3cret@127.0.0.1:{broker.port}")
    assert said.endswith("it offers ANONYMOUS, SCRAM-SHA-256")
    assert bytes(broker.heard) == SASL


async def test_a_client_with_credentials_leaves_a_broker_that_does_not_authenticate() -> None:
    async with saying(PLAIN_AMQP) as broker:
        assert (await why_not(f"amqp://alice:s3cret@127.0.0.1:{broker.port}")).endswith("it offers none")
    assert bytes(broker.heard) == SASL


async def test_an_address_without_a_user_is_rejected_if_one_is_required() -> None:
    async with offering("PLAIN", "AMQPLAIN") as broker:
        said = await why_not(f"amqp://127.0.0.1:{broker.port}")
    assert "expected ANONYMOUS (the address names no user)" in said and said.endswith("it offers PLAIN, AMQPLAIN")


async def test_a_password_goes_to_a_broker_on_this_machine_that_takes_it() -> None:
    async with offering("ANONYMOUS", "PLAIN") as broker:
        connection = AmqpConnection(f"amqp://alice:s3cret@127.0.0.1:{broker.port}")
        opening = asyncio.create_task(connection.open())
        async with asyncio.timeout(DEADLINE):
            while b"\x00alice\x00s3cret" not in broker.heard:
                await asyncio.sleep(0.005)
        await connection.close()
        with pytest.raises(PeerUnavailable):
            await opening


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    made = Authority(tmp_path)
    made.make("broker")
    made.make("sabir")
    return made


def server_side(authority: Authority) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority.folder / "broker.pem", authority.folder / "broker.key")
    return context


async def test_a_client_with_a_certificate_never_falls_back_to_anonymous(authority: Authority) -> None:
    tls = authority.context("sabir")
    for offer in (("ANONYMOUS",), ("PLAIN", "ANONYMOUS")):
        async with offering(*offer, tls=server_side(authority)) as broker:
            said = await why_not(f"amqps://127.0.0.1:{broker.port}", tls=tls, external=True)
            assert "expected EXTERNAL (our certificate)" in said and said.endswith(f"it offers {', '.join(offer)}")
            async with connect(f"amqps://127.0.0.1:{broker.port}/nlip", verify=tls, external=True) as peer:
                with pytest.raises(PeerUnavailable, match="expected EXTERNAL"):
                    await peer.ask("hello")
        assert set(bytes(broker.heard).split(SASL)) == {b""}  # greetings, and nothing after them


async def test_the_door_says_what_its_broker_lacks_and_stays_closed(
    home: Path, authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "sabir")
    files = {"tls_ca": "authority.pem", "tls_cert": "sabir.pem", "tls_key": "sabir.key"}
    settings = {name: str(authority.folder / file) for name, file in files.items()}
    async with offering("ANONYMOUS", tls=server_side(authority)) as broker:
        gateway = Gateway(echo, home=home, doors={"nlip-amqp": {"url": f"amqps://127.0.0.1:{broker.port}", **settings}})
        await gateway.start()
        try:
            async with asyncio.timeout(DEADLINE):
                while "expected EXTERNAL (our certificate)" not in caplog.text:
                    await asyncio.sleep(0.005)
        finally:
            await gateway.stop()
    assert "it offers ANONYMOUS" in caplog.text


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"url": "amqp://alice:s3cret@broker.example"}, "a password goes over amqps only, unless to this machine"),
        ({"url": "amqp://broker.example", "tls_cert": "sabir.pem"}, "a certificate is shown over amqps only"),
        ({"url": "http://broker.example"}, "is not an amqp or amqps address"),
        ({"url": "amqp://broker.example:port"}, "is not an amqp or amqps address"),
        ({"url": "amqps://broker.example", "tls_cert": "gone.pem"}, "tls_ca, tls_cert or tls_key: No such file"),
    ],
    ids=["password", "certificate", "scheme", "port", "file"],
)
def test_a_door_that_could_never_open_is_reported_when_the_gateway_is_made(
    home: Path, settings: dict[str, str], why: str
) -> None:
    with pytest.raises(ConfigError) as raised:
        Gateway(echo, home=home, doors={"nlip-amqp": settings})
    assert str(raised.value).startswith("doors.nlip-amqp") and why in str(raised.value)
    assert "s3cret" not in str(raised.value)


async def test_a_peer_fails_at_once_if_its_secret_would_go_in_the_clear() -> None:
    for url, external in (("amqp://alice:s3cret@broker.example/x", False), ("amqp://broker.example/x", True)):
        with pytest.raises(ConfigError, match="over amqps only"):
            NlipAmqpPeer(url, external=external)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2", "localhost", "[::1]"])
def test_a_password_may_go_in_the_clear_within_this_machine(host: str) -> None:
    assert Broker.at(f"amqp://guest:guest@{host}").mechanisms == ("PLAIN",)


@pytest.mark.parametrize(
    "words",
    [b"", SASL, SASL + b"\x00" * 8, SASL + struct.pack(">IBBH", 9, 2, 1, 0) + b"\xff", b"HTTP/1.1 400 \r\n\r\n" * 3,
     SASL + struct.pack(">IBBH", 2**31, 2, 1, 0), SASL + struct.pack(">IBBH", 12, 200, 1, 0) + b"\x00S@E"],
    ids=["nothing", "greeting", "zeros", "nonsense", "http", "huge", "offset"],
)  # fmt: skip
def test_invalid_offers_are_ignored(words: bytes) -> None:
    assert BrokerOffer().take(words) is None

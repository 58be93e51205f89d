"""AMQP with authentication by certificate only (SASL EXTERNAL), with a real broker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from protocols.nlip.amqp.conftest import amqp_gateway
from protocols.nlip.amqp.private_rabbitmq import PrivateRabbit
from sabir.agents.echo import echo
from sabir.errors import PeerUnavailable
from sabir.protocols.nlip.peer.amqp import NlipAmqpPeer

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def rabbit(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrivateRabbit]:
    private = PrivateRabbit(tmp_path_factory.mktemp("rabbit"))
    try:
        private.start()
        yield private
    finally:
        private.stop()


async def test_door_and_peer_are_known_by_their_certificate(home: Path, rabbit: PrivateRabbit) -> None:
    files = {"tls_ca": "authority.pem", "tls_cert": "sabir.pem", "tls_key": "sabir.key"}
    settings = {name: str(rabbit.folder / file) for name, file in files.items()}
    async with amqp_gateway(home, "", "external", echo, url=rabbit.url, **settings):
        for external in (True, False):  # nothing else will do; whatever does
            tls = rabbit.authority.context("sabir")
            async with NlipAmqpPeer(f"{rabbit.url}/external", verify=tls, external=external) as peer:
                assert (await peer.ask("hello")).text == "You said: hello"


async def test_without_a_certificate_nobody_is_let_in(rabbit: PrivateRabbit) -> None:
    async with NlipAmqpPeer(f"{rabbit.url}/external", verify=rabbit.authority.context()) as peer:
        with pytest.raises(PeerUnavailable):
            await peer.ask("hello")


async def test_a_password_is_not_sent_where_only_certificates_count(rabbit: PrivateRabbit) -> None:
    url = rabbit.url.replace("amqps://", "amqps://alice:s3cret@")
    async with NlipAmqpPeer(f"{url}/external", verify=rabbit.authority.context()) as peer:
        with pytest.raises(PeerUnavailable, match=r"expected PLAIN .*it offers (ANONYMOUS, )?EXTERNAL$"):
            await peer.ask("hello")

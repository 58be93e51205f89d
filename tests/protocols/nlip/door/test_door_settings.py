"""Settings of the NLIP doors: strict by configuration, and no key that is misspelt and ignored."""

from __future__ import annotations

from pathlib import Path

import cbor2
import httpx2
import pytest
from websockets.sync.client import connect

from conftest import Serve
from deadline import DEADLINE
from sabir import Gateway
from sabir.agents.echo import echo
from sabir.errors import ConfigError
from sabir.protocols.nlip.wire import json as nlip

LOOSE = b'{"format":"text","content":"no subformat"}'  # D-06: liberal only


def test_a_strict_door_is_strict_also_to_a_client_that_prefers_lenient(serve: Serve, home: Path) -> None:
    """A downgrade is refused, not negotiated."""
    url = serve(Gateway(echo, home=home, doors={"nlip-http": {"strict": True}})).url + "/nlip"
    json = {"content-type": "application/json"}
    assert httpx2.post(url, content=LOOSE, headers=json).status_code == 422
    preferring = httpx2.post(url, content=LOOSE, headers={**json, "prefer": "handling=lenient"})
    assert preferring.status_code == 422
    assert "preference-applied" not in preferring.headers


def test_a_lenient_door_is_strict_to_a_client_that_prefers_it(serve: Serve, home: Path) -> None:
    url = serve(Gateway(echo, home=home)).url + "/nlip"
    json = {"content-type": "application/json"}
    assert httpx2.post(url, content=LOOSE, headers=json).status_code == 200
    assert httpx2.post(url, content=LOOSE, headers={**json, "prefer": "handling=strict"}).status_code == 422


@pytest.mark.parametrize("strict", [True, False])
def test_frames_are_read_strictly_where_configured(serve: Serve, home: Path, strict: bool) -> None:
    served = serve(Gateway(echo, home=home, doors={"nlip-ws": {"strict": strict}}))
    with connect(served.ws_url + "/nlip/ws") as socket:
        socket.send(LOOSE.decode())
        assert nlip.decode(str(socket.recv(timeout=DEADLINE)).encode()).is_error == strict
        socket.send(cbor2.dumps({"format": "text", "content": "no subformat"}))
        reply = socket.recv(timeout=DEADLINE)
        assert ("subformat" in str(cbor2.loads(reply)["content"]) and b"error" in reply) == strict  # type: ignore[arg-type, operator]


@pytest.mark.parametrize(
    ("door", "key", "value", "said"),
    [
        ("nlip-ws", "idel_seconds", 3, r"doors\.nlip-ws\.idel_seconds: did you mean idle_seconds"),
        ("nlip-ws", "idle_seconds", "soon", r"doors\.nlip-ws\.idle_seconds: expected a number, not text"),
        ("nlip-ws", "idle_seconds", 0, r"doors\.nlip-ws\.idle_seconds: expected a number above 0"),
        ("nlip-http", "stric", True, r"did you mean strict"),
        ("nlweb", "wiat", 3, r"unknown key doors\.nlweb\.wiat: did you mean wait"),
        ("nlweb", "wait", "soon", r"doors\.nlweb\.wait: expected a number, not text"),
        ("upload", "port", 99999, r"doors\.upload\.port: expected a whole number of at most 65535"),
        ("upload", "prot", 1, r"unknown key doors\.upload\.prot: did you mean port"),
        ("a2a", "grpc", {"port": -1}, r"doors\.a2a\.grpc\.port: expected a whole number of at least 0"),
        ("a2a", "push", {"private": 3}, r"doors\.a2a\.push\.private: expected true or false, not a whole number"),
        ("nlip-amqp", "credit", 0, r"doors\.nlip-amqp\.credit: expected a whole number of at least 1"),
        ("nlip-amqp", "ulr", "amqp://x", r"unknown key doors\.nlip-amqp\.ulr: did you mean url"),
    ],
)
def test_a_wrong_setting_of_a_door_is_refused_at_the_start(
    home: Path, door: str, key: str, value: object, said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        Gateway(echo, home=home, doors={door: {key: value}})

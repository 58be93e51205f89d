"""The same agent answers every core vector over WebSocket as it does over HTTP and AMQP (WS-2, TR-7.2.3)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import cbor2
import pytest
from websockets.sync.client import connect

from conftest import Served, serving
from deadline import DEADLINE
from protocols.nlip.test_vectors import SERVED, by_id, check_message, fixture_agent, own_token, wire_bytes, with_own
from sabir.gateway.gateway import Gateway
from sabir.protocols.nlip.wire import cbor
from sabir.protocols.nlip.wire import json as nlip


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(Gateway(fixture_agent, home=tmp_path_factory.mktemp("ws"))) as running:
        yield running


def is_text(vector: dict[str, Any]) -> bool:
    """Whether a text frame can carry the input: it is UTF-8, and within the frame that is allowed."""
    try:
        body = wire_bytes(vector["input"])
        body.decode()
    except UnicodeDecodeError:
        return False
    return len(body) <= 1024 * 1024


def has_a_cbor_spelling(vector: dict[str, Any]) -> bool:
    given = vector["input"]
    return isinstance(given, dict) and vector["expect"]["accept"] and not {"$gen", "$hex"} & set(given)


@pytest.mark.parametrize("vector", [v for v in SERVED if is_text(v)], ids=by_id)
def test_each_core_vector_is_answered_in_text_frames(vector: dict[str, Any], served: Served) -> None:
    own = own_token(served)
    with connect(f"{served.ws_url}/nlip/ws/text", max_size=None) as socket:
        socket.send(wire_bytes(with_own(vector["input"], own)).decode())
        answer = socket.recv(timeout=DEADLINE)
    assert isinstance(answer, str)
    check(with_own(vector["expect"], own), nlip.decode(answer.encode()))


@pytest.mark.parametrize("vector", [v for v in SERVED if has_a_cbor_spelling(v)], ids=by_id)
def test_each_core_vector_is_answered_in_cbor(vector: dict[str, Any], served: Served) -> None:
    own = own_token(served)
    with connect(f"{served.ws_url}/nlip/ws", max_size=None) as socket:
        socket.send(cbor2.dumps(with_own(vector["input"], own)))
        answer = socket.recv(timeout=DEADLINE)
    assert isinstance(answer, bytes)
    check(with_own(vector["expect"], own), cbor.decode(answer))


def check(expect: dict[str, Any], reply: Any) -> None:
    for key, value in expect["reply"].items():
        if key != "status" and not key.startswith("header:"):
            check_message(key, value, reply)

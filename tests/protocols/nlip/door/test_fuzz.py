"""Malformed input, over both doors: never a 5xx, a hang, a traceback or a lost connection without a word."""

from __future__ import annotations

import http.client
import json
import logging
from collections.abc import Iterator
from typing import Any

import cbor2
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from conftest import Served, serving
from deadline import DEADLINE
from sabir import Gateway
from sabir.agents.echo import echo
from sabir.errors import BadInput
from sabir.protocols.nlip.wire import cbor
from sabir.protocols.nlip.wire import json as nlip

EXAMPLES = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)

numbers = st.integers() | st.floats() | st.integers(min_value=2**63, max_value=2**80)
values = st.recursive(
    st.none() | st.booleans() | numbers | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=20,
)
names = st.sampled_from(["format", "Format", "FORMAT", "subformat", "SubFormat", "content", "Content", "label",
                         "messagetype", "MessageType", "message_type", "submessages", "control", "x"])  # fmt: skip
formats = st.sampled_from(["text", "TEXT", "token", "structured", "binary", "location", "generic", "error", "?", ""])
kinds = st.sampled_from(["english", "json", "uri", "xml", "image/png", "gps", "text", "conversation", "x/", "", "é"])
part = st.fixed_dictionaries(
    {}, optional={"format": formats | values, "subformat": kinds | values, "content": values, "label": values}
)
near_messages = st.fixed_dictionaries(
    {"format": formats, "subformat": kinds, "content": values},
    optional={"messagetype": values, "label": values, "submessages": st.lists(part, max_size=4) | values},
)
pairs = st.lists(st.tuples(names, formats | kinds | values), max_size=9)  # keys may stand twice


def raw_object(listed: list[tuple[str, Any]]) -> bytes:
    return ("{" + ",".join(f"{json.dumps(key)}:{json.dumps(value)}" for key, value in listed) + "}").encode()


bodies = (
    st.binary(max_size=300)
    | values.map(lambda value: json.dumps(value).encode())
    | near_messages.map(lambda value: json.dumps(value).encode())
    | pairs.map(raw_object)
    | st.text(max_size=60).map(lambda text: text.encode("utf-8", "surrogatepass"))
)
frames = (
    st.binary(max_size=300)
    | near_messages.filter(lambda value: encodable(value)).map(cbor2.dumps)
    | near_messages.filter(lambda value: encodable(value)).map(lambda v: cbor2.dumps(v)[:-1])
)


def encodable(value: Any) -> bool:
    try:
        cbor2.dumps(value)
    except (ValueError, OverflowError, UnicodeEncodeError):
        return False
    return True


@given(bodies)
@EXAMPLES
def test_the_json_wire_reads_or_says_where_and_why(body: bytes) -> None:
    for strict in (False, True):
        try:
            message = nlip.decode(body, strict=strict)
        except BadInput as refused:
            assert "expected" in str(refused)
        else:
            again = nlip.decode(nlip.encode(message, answering=message))  # to a peer that labels the first part (D-10)
            assert again.tokens == message.tokens
            if all(part.format != "error" for part in message.parts):  # which becomes text (D-12)
                assert again.text == message.text


@given(frames)
@example(cbor2.dumps({"format": "token", "subformat": "a", "content": None, "label": 0}))
@EXAMPLES
def test_the_cbor_wire_reads_or_says_where_and_why(body: bytes) -> None:
    try:
        message = cbor.decode(body)
    except BadInput as refused:
        assert "expected" in str(refused)
    else:
        again = cbor.decode(cbor.encode(message, answering=message))  # to a peer that labels the first part (D-10)
        assert again.tokens == message.tokens
        nlip.decode(nlip.encode(message))  # and it can cross to the other notation


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(Gateway(echo, home=tmp_path_factory.mktemp("fuzz"))) as running:
        yield running


@pytest.fixture(scope="module")
def client(served: Served) -> Iterator[http.client.HTTPConnection]:
    connection = http.client.HTTPConnection(served.host, served.port, timeout=DEADLINE)
    yield connection
    connection.close()


DEEP = b'{"format":"structured","subformat":"json","content":' + b"[" * 5000 + b"]" * 5000 + b"}"


@given(bodies)
@example(DEEP)
@example(b'{"format":"text","subformat":"english","content":NaN}')
@example(b'{"format":"text","subformat":"english","content":"\\ud800"}')
@example(b'{"control":"","format":{}}')  # no envelope of the MassGen design, so not answered as one (MW-8)
@example(b'{"control":{},"format":{},"content":{}}')
@example(b'{"format":"text","format":"text","subformat":"english","content":"x"}')
@example(b'{"format":"text","subformat":"english","content":"' + b"x" * 1_000_000 + b'"}')
@EXAMPLES
def test_whatever_is_posted_is_answered_in_nlip(
    served: Served, client: http.client.HTTPConnection, caplog: pytest.LogCaptureFixture, body: bytes
) -> None:
    caplog.clear()
    with caplog.at_level(logging.ERROR):
        client.request("POST", "/nlip", body, {"content-type": "application/json"})
        response = client.getresponse()
        answer = response.read()
    assert response.status < 500, (response.status, answer)
    reply = nlip.decode(answer)
    assert (response.status == 200) != ((reply.messagetype or "").lower() == "error")
    assert b"Traceback" not in answer
    assert not caplog.records


@given(st.lists(frames, min_size=1, max_size=12))
@settings(EXAMPLES, max_examples=60)
def test_whatever_is_sent_in_a_frame_is_answered_in_nlip(served: Served, bodies: list[bytes]) -> None:
    with connect(served.ws_url + "/nlip/ws") as socket:
        for body in bodies:
            try:
                socket.send(body)
                answer = socket.recv(timeout=DEADLINE)
            except ConnectionClosed as closed:
                assert closed.rcvd is not None
                assert closed.rcvd.code == 1007  # too many in a row that held no message (D-33)
                return
            reply = cbor.decode(answer) if isinstance(answer, bytes) else nlip.decode(answer.encode())
            assert reply.format == "text"

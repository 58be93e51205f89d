"""The rules of the edge where there is no HTTP request around a message: WebSocket, AMQP and gRPC (issue 11, C 8)."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import socket
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import cbor2
import grpc
import pytest
from a2a.compat.v0_3 import a2a_v0_3_pb2 as old_pb2
from a2a.types import a2a_pb2
from google.protobuf.json_format import ParseDict
from google.protobuf.struct_pb2 import Struct
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from conftest import Served, serving
from deadline import DEADLINE
from edge_doors import DRIVERS, ELSEWHERE
from edge_rules import ELSEWHERE_DOORS, ELSEWHERE_RULES, FLOOD
from sabir import Gateway
from sabir.agents.echo import echo
from sabir.guard import Quotas
from sabir.protocols.nlip.amqp.connection import AmqpConnection, Incoming
from sabir.protocols.nlip.door.amqp import NlipAmqp
from sabir.protocols.nlip.wire.amqp import AmqpMessage


def nested(levels: int) -> Any:
    value: Any = []
    for _ in range(levels):
        value = [value]
    return value


def message(content: Any) -> dict[str, Any]:
    return {"format": "structured", "subformat": "json", "content": content}


def coded(answer: dict[str, Any]) -> tuple[str, str]:
    """The code and the words of an NLIP error where no status line tells them."""
    part = next(part for part in answer.get("submessages", ()) if part.get("label") == "status")
    return str(part["content"]["status"]), str(answer["content"])


Outcome = tuple[str, str]  # a code in the protocol's own form, and the words


Send = Callable[[Served, tuple[bytes, ...]], list[Outcome]]


class DoorElsewhere(NamedTuple):
    """A door that is not spoken to by one HTTP request. What cannot be said there is not in ``bodies``."""

    send: Send
    bodies: dict[str, bytes]


JSON_BODIES = {
    "too long": json.dumps(message("x" * 1_100_000)).encode(),
    "too deep": json.dumps(message(nested(80))).encode(),
    "too many values": json.dumps(message([[]] * 50_000)).encode(),
    "unreadable": b"{not json",
    "not UTF-8": b'{"format":"text","subformat":"english","content":"caf\xe9"}',
    "huge number": b'{"format":"structured","subformat":"json","content":[%s]}' % (b"9" * 10_000),
}


def by_frames(path: str) -> Send:
    def one(socket_: ClientConnection, body: bytes) -> Outcome:
        try:
            if path.endswith("/text") and not _is_utf8(body):
                socket_.socket.sendall(_text_frame(body))
            else:
                socket_.send(body, text=path.endswith("/text"))
            answer = socket_.recv(timeout=DEADLINE)
        except ConnectionClosed as closed:
            assert closed.rcvd is not None
            return str(closed.rcvd.code), closed.rcvd.reason
        return coded(cbor2.loads(answer) if isinstance(answer, bytes) else json.loads(answer))

    def send(served: Served, bodies: tuple[bytes, ...]) -> list[Outcome]:
        with connect(served.ws_url + path, max_size=None) as socket_:
            return [one(socket_, body) for body in bodies]

    return send


def by_acl_frames(served: Served, bodies: tuple[bytes, ...]) -> list[Outcome]:
    def one(socket_: ClientConnection, body: bytes) -> Outcome:
        try:
            if _is_utf8(body):
                socket_.send(body, text=True)
            else:
                socket_.socket.sendall(_text_frame(body))
            payload = json.loads(socket_.recv(timeout=DEADLINE))["error"]["payload"]
        except ConnectionClosed as closed:
            assert closed.rcvd is not None
            return str(closed.rcvd.code), closed.rcvd.reason
        return payload["reason_code"], payload["reason_text"]

    # From an address of its own: to connect is charged, too, and the other doors have used up this machine's account.
    with connect(f"{served.ws_url}/acl/ws/reader", max_size=None, source_address=("127.0.0.9", 0)) as socket_:
        return [one(socket_, body) for body in bodies]


def by_letters(served: Served, bodies: tuple[bytes, ...]) -> list[Outcome]:
    door = next(door for door in served.gateway.doors if isinstance(door, NlipAmqp))
    address = door.settings.address
    place = f"{address}-answers"

    async def sending() -> list[Outcome]:
        answers: asyncio.Queue[bytes] = asyncio.Queue()

        def came(incoming: Incoming) -> None:
            answers.put_nowait(incoming.letter.body)
            incoming.settle("accepted")

        connection = AmqpConnection(door.settings.url)
        await connection.open()
        try:
            await connection.receive(place, came)
            outcomes = []
            for body in bodies:
                await connection.send(AmqpMessage(body, address, place, content_type="application/json"))
                outcomes.append(coded(json.loads(await asyncio.wait_for(answers.get(), DEADLINE))))
            return outcomes
        finally:
            await connection.close()

    return asyncio.run(sending())


def by_grpc(method: str, version: str) -> Send:
    def send(served: Served, bodies: tuple[bytes, ...]) -> list[Outcome]:
        door: Any = next(door for door in served.gateway.doors if door.name == "a2a")
        outcomes = []
        with grpc.insecure_channel(door._grpc.address) as channel:
            call = channel.unary_unary(method)  # bytes as they are
            for body in bodies:
                with pytest.raises(grpc.RpcError) as raised:
                    call(body, metadata=(("a2a-version", version),))
                outcomes.append((raised.value.code().name, str(raised.value.details())))
        return outcomes

    return send


def _acl_frame(value: Any) -> bytes:
    driver = next(driver for driver in DRIVERS if driver.name == "acl")
    return json.dumps({"send": driver.body(value)}).encode()


def _request(data: Any) -> bytes:
    sent = {"messageId": "m", "role": "ROLE_USER", "parts": [{"data": data}]}
    return bytes(ParseDict({"message": sent}, a2a_pb2.SendMessageRequest()).SerializeToString())


def _old_request(data: dict[str, Any]) -> bytes:
    part = old_pb2.Part(data=old_pb2.DataPart(data=ParseDict(data, Struct())))
    sent = old_pb2.Message(message_id="m", role=old_pb2.ROLE_USER, content=[part])
    return old_pb2.SendMessageRequest(request=sent).SerializeToString()


PROTOBUF_BODIES = {
    "too long": _request("x" * 1_100_000),
    "too many values": _request([0] * 50_000),
    "unreadable": b"\xff\xff\xff",
    "not UTF-8": b"\x12\x05\x0a\x03\xe9\xe9\xe9",
}
OLD_BODIES = {"too many values": _old_request({"x": [0] * 50_000}), "unreadable": b"\xff\xff\xff"}
CBOR_BODIES = {
    "too long": cbor2.dumps(message("x" * 1_100_000)),
    "too deep": cbor2.dumps(message(nested(80))),
    "too many values": cbor2.dumps(message([[]] * 50_000)),
    "unreadable": b"\xa1\x61",
    "not UTF-8": b"\xa1\x66format\x64caf\xe9",
    "huge number": cbor2.dumps(message(10**10_000)),
}
ACL_BODIES = {
    "too long": _acl_frame("x" * 1_100_000),
    "too deep": _acl_frame(nested(80)),
    "too many values": _acl_frame([[]] * 50_000),
    "unreadable": b"{not json",
    "not UTF-8": b'{"send":"caf\xe9"}',
    "huge number": b'{"send":[%s]}' % (b"9" * 10_000),
}
DOORS: dict[str, DoorElsewhere] = {
    "WebSocket, JSON": DoorElsewhere(by_frames("/nlip/ws/text"), JSON_BODIES),
    "WebSocket, CBOR": DoorElsewhere(by_frames("/nlip/ws"), CBOR_BODIES),
    "WebSocket, ACL": DoorElsewhere(by_acl_frames, ACL_BODIES),
    "AMQP": DoorElsewhere(by_letters, JSON_BODIES),
    "gRPC": DoorElsewhere(by_grpc("/lf.a2a.v1.A2AService/SendMessage", "1.0"), PROTOBUF_BODIES),
    "gRPC, A2A 0.3": DoorElsewhere(by_grpc("/a2a.v1.A2AService/SendMessage", "0.3"), OLD_BODIES),
}
CELLS = [
    pytest.param(rule.name, DOORS[door], answer, id=f"{rule.name}, {door}")
    for rule in ELSEWHERE_RULES
    for door, answer in rule.answers.items()
]
IN_WORDS_OF_A_LIBRARY = re.compile(r"codec|Traceback|msgspec|Exceeds the limit|JSONDecode|'utf-8'|google|<class|cbor2")


def gateway_with_all_doors(home: Path, broker: str, address: str, quotas: Quotas | None = None) -> Gateway:
    doors = {"a2a": {"grpc": {"port": 0}}, "nlip-amqp": {"url": broker, "address": address}}
    return Gateway(echo, home=home, quotas=quotas, doors=doors)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, broker: str, prefix: str) -> Iterator[Served]:
    with serving(gateway_with_all_doors(tmp_path_factory.mktemp("home"), broker, f"{prefix}-edge")) as one:
        yield one


@pytest.fixture(scope="module")
def limited(tmp_path_factory: pytest.TempPathFactory, broker: str, prefix: str) -> Iterator[Served]:
    quotas = Quotas(rate_per_address=1.0, burst=5)
    with serving(gateway_with_all_doors(tmp_path_factory.mktemp("limited"), broker, f"{prefix}-few", quotas)) as one:
        yield one


@pytest.mark.parametrize(("rule", "door", "expected"), [cell for cell in CELLS if cell.values[0] != FLOOD])
def test_the_rules_of_the_edge_hold_where_there_is_no_http(
    served: Served, rule: str, door: DoorElsewhere, expected: str
) -> None:
    [(code, words)] = door.send(served, (door.bodies[rule],))
    assert code in expected.split(" or "), words
    assert not IN_WORDS_OF_A_LIBRARY.search(words), words


@pytest.mark.parametrize(("rule", "door", "expected"), [cell for cell in CELLS if cell.values[0] == FLOOD])
def test_a_flood_of_malformed_messages_is_limited(
    limited: Served, rule: str, door: DoorElsewhere, expected: str
) -> None:
    outcomes = door.send(limited, (door.bodies["unreadable"],) * 12)
    assert outcomes[-1][0] == expected and "too many requests" in outcomes[-1][1], outcomes


def test_every_door_that_speaks_no_http_is_in_the_table() -> None:
    assert set(ELSEWHERE_DOORS) == set(DOORS)
    assert set(ELSEWHERE.values()) <= {name.partition(",")[0] for name in DOORS}


def test_a_text_frame_that_is_not_utf8_closes_the_connection_and_logs_nothing(
    served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    """RFC 6455, 8.1; it once was a traceback in the log (issue 11, B 7 and D 16)."""
    with caplog.at_level(logging.DEBUG), connect(served.ws_url + "/nlip/ws/text") as socket_:
        socket_.socket.sendall(_text_frame(b"caf\xe9"))
        with pytest.raises(ConnectionClosed) as closed:
            socket_.recv(timeout=DEADLINE)
    assert closed.value.rcvd is not None and closed.value.rcvd.code == 1007
    ours = [record for record in caplog.records if not record.name.startswith("websockets.")]  # our client logs too
    assert not [record for record in ours if record.exc_info or "Traceback" in record.getMessage()]


def _is_utf8(body: bytes) -> bool:
    try:
        body.decode()
    except UnicodeDecodeError:
        return False
    return True


def _text_frame(payload: bytes) -> bytes:
    mask = os.urandom(4)
    masked = bytes(byte ^ mask[index % 4] for index, byte in enumerate(payload))
    return struct.pack("!BB", 0x81, 0x80 | len(payload)) + mask + masked


UNWRITABLE = {
    "half a surrogate pair as a field": b'{"format":"text","subformat":"english","content":"a","\\ud800":1}',
    "half a surrogate pair below a field": b'{"format":"text","subformat":"english","content":"a","x":{"\\ud800":1}}',
    "a messagetype of 200,000 characters": b'{"format":"text","subformat":"english","content":"a","messagetype":"%s"}'
    % (b"a" * 200_000),
}


@pytest.mark.parametrize("body", UNWRITABLE.values(), ids=UNWRITABLE.keys())
def test_no_message_makes_the_gateway_fail(served: Served, body: bytes) -> None:
    """Caller-made 500s (issue 11, D 16), by HTTP and by WebSocket."""
    head = b"POST /nlip HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(body)
    with socket.create_connection((served.host, served.port), timeout=DEADLINE) as connection:
        connection.sendall(head + body)
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
    assert answer[9:12] in (b"413", b"422") and len(answer) < 2000
    with connect(served.ws_url + "/nlip/ws/text") as socket_:
        socket_.send(body.decode())
        assert json.loads(socket_.recv(timeout=DEADLINE))["messagetype"] == "error"

"""Floods for tests/http/test_loop_stall.py: connections to each door, and a program that floods one from many of them.

The program runs beside the test, at a lower priority, so that what it does itself does not delay the caller that is
measured. It reads one line of JSON for each flood, and an empty line ends it.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from typing import Any, NamedTuple, Protocol, TypedDict
from uuid import uuid4

import cbor2
import grpc
from a2a.compat.v0_3 import a2a_v0_3_pb2 as old_pb2
from a2a.types import a2a_pb2
from google.protobuf.json_format import ParseDict
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from edge_doors import DRIVERS, DoorDriver
from edge_rules import ELSEWHERE_DOORS
from sabir.errors import SabirError
from sabir.protocols.nlip.amqp.connection import AmqpConnection, Incoming
from sabir.protocols.nlip.wire.amqp import AmqpMessage
from tcp_proxy import tcp_proxy

FLOODERS = 16


def deep(levels: int) -> object:
    value: object = []
    for _ in range(levels - 1):
        value = [value]
    return value


KINDS = {
    "2,400 values": [0] * 2_400,
    "9,000 values": [[]] * 4_500,
    "45 times 50 levels": [deep(50)] * 45,
    "900 KB of text": "word, " * 150_000,
    "450,000 values (rejected)": [0] * 450_000,
}


class Where(TypedDict):
    """Where the doors of the gateway are."""

    port: int
    grpc: int
    broker: str
    letters: str  # the address of the door at the broker


class Asking(Protocol):
    """One connection of a caller; opened again when the gateway has closed it."""

    async def ask(self, sent: bytes) -> bytes:
        """The status of the answer, as HTTP numbers it."""

    async def close(self) -> None: ...


class HttpConnection:
    def __init__(self, where: Where, address: str) -> None:
        self._port, self._address = where["port"], address
        self._writer: asyncio.StreamWriter | None = None

    async def ask(self, sent: bytes) -> bytes:
        if self._writer is None:
            local = (self._address, 0)
            self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port, local_addr=local)
        self._writer.write(sent)
        head = await self._reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
        await self._reader.readexactly(length)
        if b"\r\nconnection: close" in head.lower():
            await self.close()
        return head[9:12]

    async def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None


class WebSocketConnection:
    path = "/nlip/ws"
    is_text = False

    def __init__(self, where: Where, address: str) -> None:
        self._url, self._address = f"ws://127.0.0.1:{where['port']}{self.path}", address
        self._socket: ClientConnection | None = None

    async def ask(self, sent: bytes) -> bytes:
        if self._socket is None:
            self._socket = await connect(self._url, local_addr=(self._address, 0), proxy=None, max_size=None)
        await self._socket.send(sent, text=self.is_text)
        return self.status(await self._socket.recv())

    def status(self, frame: str | bytes) -> bytes:
        return _nlip_status(json.loads(frame) if isinstance(frame, str) else cbor2.loads(frame))

    async def close(self) -> None:
        if self._socket is not None:
            await self._socket.close()
            self._socket = None


class TextConnection(WebSocketConnection):
    path = "/nlip/ws/text"
    is_text = True


class AclConnection(WebSocketConnection):
    is_text = True

    def __init__(self, where: Where, address: str) -> None:
        self.path = f"/acl/ws/reader-{address}"  # nobody writes to it, so nothing but receipts comes
        super().__init__(where, address)

    def status(self, frame: str | bytes) -> bytes:
        payload = json.loads(frame).get("error", {}).get("payload", {})
        return {None: b"200", "busy": b"429"}.get(payload.get("reason_code"), b"400")


class LetterConnection:
    """Who writes is told apart by where the answers go, so an address of this machine becomes a name there."""

    def __init__(self, where: Where, address: str) -> None:
        self._where, self._place = where, f"{where['letters']}-{address}"
        self._answers: asyncio.Queue[bytes] = asyncio.Queue()
        self._connection: AmqpConnection | None = None

    async def ask(self, sent: bytes) -> bytes:
        if self._connection is None:
            self._connection = AmqpConnection(self._where["broker"])
            await self._connection.open()
            await self._connection.receive(self._place, self._came)
        letter = AmqpMessage(sent, self._where["letters"], self._place, content_type="application/json")
        await self._connection.send(letter)
        return _nlip_status(json.loads(await self._answers.get()))

    def _came(self, incoming: Incoming) -> None:
        self._answers.put_nowait(incoming.letter.body)
        incoming.settle("accepted")

    async def close(self) -> None:
        if self._connection is not None:
            await self._connection.close()
            self._connection = None


class GrpcConnection:
    """gRPC chooses its own address, so the bytes go through a socket that has another one."""

    method, version = "/lf.a2a.v1.A2AService/SendMessage", "1.0"

    def __init__(self, where: Where, address: str) -> None:
        self._port, self._address = where["grpc"], address
        self._way: AsyncExitStack | None = None

    async def ask(self, sent: bytes) -> bytes:
        if self._way is None:
            self._way = AsyncExitStack()
            way = tcp_proxy(("127.0.0.1", self._port), local_host=self._address, read_size=1 << 18)
            proxy = await self._way.enter_async_context(way)
            self._channel = grpc.aio.insecure_channel(f"127.0.0.1:{proxy.port}")
            self._way.push_async_callback(self._channel.close)
            self._call = self._channel.unary_unary(self.method)  # bytes as they are
        try:
            await self._call(sent, metadata=(("a2a-version", self.version),))
        except grpc.aio.AioRpcError as exc:
            return b"429" if exc.code() == grpc.StatusCode.RESOURCE_EXHAUSTED else b"400"
        return b"200"

    async def close(self) -> None:
        if self._way is not None:
            way, self._way = self._way, None
            await way.aclose()


class OldGrpcConnection(GrpcConnection):
    method, version = "/a2a.v1.A2AService/SendMessage", "0.3"


def _nlip_status(answer: dict[str, Any]) -> bytes:
    codes = [part["content"]["status"] for part in answer.get("submessages", ()) if part.get("label") == "status"]
    return str(codes[0] if codes else 200).encode()


# -- the doors ------------------------------------------------------------------------------------


class FloodedDoor(NamedTuple):
    name: str
    request: Callable[[object], bytes]  # what is sent: a whole HTTP request, or the content of a frame or a letter
    connection: Callable[[Where, str], Asking]
    pause: float = 0.02  # seconds between the requests of a polite caller


def _over_http(driver: DoorDriver) -> Callable[[object], bytes]:
    def request(value: object) -> bytes:
        body = driver.bytes(value)
        headers = {"Host": "127.0.0.1", "Content-Type": "application/json", **driver.headers}
        lines = [f"POST {driver.path} HTTP/1.1", *(f"{name}: {text}" for name, text in headers.items())]
        return "\r\n".join([*lines, f"Content-Length: {len(body)}", "", ""]).encode() + body

    return request


NLIP, ACL = (next(driver for driver in DRIVERS if driver.name == name) for name in ("nlip-http", "acl"))
FIT = 90_000  # values that fit into a protobuf message of 1 MiB; of longer ones gRPC reads nothing


def _as_protobuf(value: object) -> bytes:
    part = {"text": value} if isinstance(value, str) else {"data": value[:FIT] if isinstance(value, list) else value}
    sent = {"messageId": uuid4().hex, "role": "ROLE_USER", "parts": [part]}
    return bytes(
        ParseDict({"message": sent}, a2a_pb2.SendMessageRequest(), max_recursion_depth=1000).SerializeToString()
    )


def _as_old_protobuf(value: object) -> bytes:
    request = old_pb2.SendMessageRequest()
    request.request.message_id, request.request.role = uuid4().hex, old_pb2.ROLE_USER
    part = request.request.content.add()
    if isinstance(value, str):
        part.text = value
    else:
        data = {"x": value[:FIT] if isinstance(value, list) else value}
        ParseDict(data, part.data.data, max_recursion_depth=1000)
    return bytes(request.SerializeToString())


# By the names of the edge table: a door that is there and not here fails the suite.
ELSEWHERE: dict[str, tuple[Callable[[object], bytes], Callable[[Where, str], Asking]]] = {
    "WebSocket, JSON": (NLIP.bytes, TextConnection),
    "WebSocket, CBOR": (lambda value: cbor2.dumps(NLIP.body(value)), WebSocketConnection),
    "WebSocket, ACL": (lambda value: json.dumps({"send": ACL.body(value)}).encode(), AclConnection),
    "AMQP": (NLIP.bytes, LetterConnection),
    "gRPC": (_as_protobuf, GrpcConnection),
    "gRPC, A2A 0.3": (_as_old_protobuf, OldGrpcConnection),
}
# Strangers behind one broker share a rate: beside a flood, each of them has a quarter of it, 25 a second.
PAUSES = {"AMQP": 0.06}
DOORS = [
    *(FloodedDoor(driver.name, _over_http(driver), HttpConnection) for driver in DRIVERS if driver.name != "upload"),
    *(FloodedDoor(name, *ELSEWHERE[name], pause=PAUSES.get(name, 0.02)) for name in ELSEWHERE_DOORS),
]


async def _flood(door: FloodedDoor, where: Where, address: str, sent: bytes) -> None:
    """Send the next request as soon as there is an answer, for ever."""
    connection = door.connection(where, address)
    try:
        while True:
            try:
                if await connection.ask(sent) == b"429":
                    await asyncio.sleep(0.01)
            except (OSError, asyncio.IncompleteReadError, ConnectionClosed, TimeoutError, grpc.RpcError, SabirError):
                await connection.close()
    finally:
        with suppress(OSError, ConnectionClosed, TimeoutError):
            await connection.close()


async def _main() -> None:
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    flooders: list[asyncio.Task[None]] = []
    while line := await reader.readline():
        for task in flooders:
            task.cancel()
        await asyncio.gather(*flooders, return_exceptions=True)
        flooders = []
        if line.strip():
            order = json.loads(line)
            door = next(door for door in DOORS if door.name == order["door"])
            sent = door.request(KINDS[order["kind"]])
            for _ in range(FLOODERS):
                flooders.append(asyncio.create_task(_flood(door, order["where"], order["address"], sent)))
        print("ok", flush=True)


if __name__ == "__main__":
    os.nice(10)
    asyncio.run(_main())

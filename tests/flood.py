"""Floods for tests/http/test_loop_stall.py: connections to each door, and a program that floods one from many of them.

The program runs beside the test, at a lower priority, so that what it does itself does not delay the caller that is
measured. It reads one line of JSON for each flood, and an empty line ends it.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from contextlib import suppress
from typing import Protocol

import cbor2
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from edge_doors import DRIVERS, DoorDriver

FLOODERS = 16
TEXT_FRAMES = DoorDriver("nlip-ws", "/nlip/ws/text", DRIVERS[0].body, DRIVERS[0].reason)
BINARY_FRAMES = DoorDriver("nlip-ws (CBOR)", "/nlip/ws", DRIVERS[0].body, DRIVERS[0].reason)
DOORS = [*(driver for driver in DRIVERS if driver.name != "upload"), TEXT_FRAMES, BINARY_FRAMES]


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


def request(door: DoorDriver, value: object) -> bytes:
    """What is sent: a whole HTTP request, or the content of a frame."""
    if door is BINARY_FRAMES:
        return cbor2.dumps(door.body(value))
    body = door.bytes(value)
    if door is TEXT_FRAMES:
        return body
    headers = {"Host": "127.0.0.1", "Content-Type": "application/json", **door.headers}
    lines = [f"POST {door.path} HTTP/1.1", *(f"{name}: {text}" for name, text in headers.items())]
    return "\r\n".join([*lines, f"Content-Length: {len(body)}", "", ""]).encode() + body


class Asking(Protocol):
    """One connection from an address; opened again when the gateway has closed it."""

    async def ask(self, sent: bytes) -> bytes:
        """The status of the answer."""

    async def close(self) -> None: ...


class HttpConnection:
    def __init__(self, port: int, address: str) -> None:
        self._port, self._address = port, address
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
    def __init__(self, port: int, address: str, door: DoorDriver) -> None:
        self._url, self._address = f"ws://127.0.0.1:{port}{door.path}", address
        self._is_text = door is TEXT_FRAMES
        self._socket: ClientConnection | None = None

    async def ask(self, sent: bytes) -> bytes:
        if self._socket is None:
            self._socket = await connect(self._url, local_addr=(self._address, 0), proxy=None, max_size=None)
        await self._socket.send(sent, text=self._is_text)
        frame = await self._socket.recv()
        answer = json.loads(frame) if isinstance(frame, str) else cbor2.loads(frame)
        codes = [part["content"]["status"] for part in answer.get("submessages", ()) if part.get("label") == "status"]
        return str(codes[0] if codes else 200).encode()

    async def close(self) -> None:
        if self._socket is not None:
            await self._socket.close()
            self._socket = None


def connection_to(door: DoorDriver, port: int, address: str) -> Asking:
    if door in (TEXT_FRAMES, BINARY_FRAMES):
        return WebSocketConnection(port, address, door)
    return HttpConnection(port, address)


async def _flood(door: DoorDriver, port: int, address: str, sent: bytes) -> None:
    """Send the next request as soon as there is an answer, for ever."""
    connection = connection_to(door, port, address)
    try:
        while True:
            try:
                if await connection.ask(sent) == b"429":
                    await asyncio.sleep(0.01)
            except (OSError, asyncio.IncompleteReadError, ConnectionClosed, TimeoutError):
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
            sent = request(door, KINDS[order["kind"]])
            for _ in range(FLOODERS):
                flooders.append(asyncio.create_task(_flood(door, order["port"], order["address"], sent)))
        print("ok", flush=True)


if __name__ == "__main__":
    os.nice(10)
    asyncio.run(_main())

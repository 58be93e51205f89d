"""A small HTTP/1.1 load generator on raw asyncio protocols: it must cost less than what it measures."""

from __future__ import annotations

import asyncio
import itertools
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass


@dataclass
class Result:
    """The result of one run with a number of connections."""

    connections: int
    requests: int
    seconds: float
    p50: float
    p99: float
    failures: int

    @property
    def rate(self) -> float:
        return self.requests / self.seconds


class _Client(asyncio.Protocol):
    """One keep-alive connection that sends the next request as soon as it has the answer."""

    def __init__(self, requests: Iterator[bytes], end: float, times: list[float]) -> None:
        self.requests, self.end, self.times = requests, end, times
        self.failures = 0
        self.done = asyncio.get_running_loop().create_future()
        self._buffer = b""
        self._need = -1
        self._usual = (b"", -1)  # the previous response's head, and its total length

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self._send()

    def _send(self) -> None:
        self._at = time.perf_counter()
        if self._at >= self.end:
            self.transport.close()
            if not self.done.done():
                self.done.set_result(None)
            return
        self.transport.write(next(self.requests))  # type: ignore[attr-defined]

    def data_received(self, data: bytes) -> None:
        head, length = self._usual
        if len(data) == length and not self._buffer and data.startswith(head):
            self.times.append(time.perf_counter() - self._at)
            self._send()
            return
        self._buffer += data
        if self._need < 0:
            head = self._buffer.find(b"\r\n\r\n")
            if head < 0:
                return
            lowered = self._buffer[:head].lower()
            at = lowered.find(b"content-length:")
            self._need = head + 4 + int(lowered[at + 15 :].split(b"\r\n", 1)[0])
            if self._buffer.startswith(b"HTTP/1.1 200"):
                self._usual = (self._buffer[: head + 4], self._need)
            else:
                self.failures += 1
        if len(self._buffer) >= self._need:
            self.times.append(time.perf_counter() - self._at)
            self._buffer = self._buffer[self._need :]
            self._need = -1
            self._send()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.done.done():
            self.failures += 1
            self.done.set_result(None)


async def drive(host: str, port: int, requests: bytes | Sequence[bytes], connections: int, seconds: float) -> Result:
    """Keep ``connections`` busy for ``seconds`` with one request, or with many in rotation."""
    given = [requests] if isinstance(requests, bytes) else requests
    turns = itertools.cycle(given)  # shared, so that no two connections send the same at the same time
    loop = asyncio.get_running_loop()
    times: list[float] = []
    began = time.perf_counter()
    clients = []
    for _ in range(connections):
        _, client = await loop.create_connection(lambda: _Client(turns, began + seconds, times), host, port)
        clients.append(client)
    await asyncio.gather(*(client.done for client in clients))
    took = time.perf_counter() - began
    ordered = sorted(times)
    return Result(
        connections,
        len(times),
        took,
        statistics.median(ordered),
        ordered[int(len(ordered) * 0.99)],
        sum(client.failures for client in clients),
    )


def post(path: str, body: bytes, headers: str = "") -> bytes:
    return (
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n{headers}"
        f"Content-Length: {len(body)}\r\n\r\n"
    ).encode() + body

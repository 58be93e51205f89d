"""A TCP proxy for tests: it passes bytes on, changes them, cuts connections, and leaves nothing open."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from tcp_server import TcpServer, close_all, tcp_server

Address = tuple[str, int]
# A piece and the number of its connection, from 1: what to pass on instead. None closes the connection.
Filter = Callable[[bytes, int], bytes | None]


def unchanged(piece: bytes, connection: int) -> bytes:
    return piece


@dataclass
class _Passing:
    """How the connections of a proxy are passed on."""

    target: Address | Callable[[int], Address]
    to_server: Filter
    to_client: Filter
    read_size: int | Callable[[], int]
    local_host: str | None

    async def connect(self, number: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        host, port = self.target(number) if callable(self.target) else self.target
        local = None if self.local_host is None else (self.local_host, 0)
        return await asyncio.open_connection(host, port, local_addr=local)

    async def pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, change: Filter, number: int
    ) -> None:
        with suppress(OSError):  # one of both is gone
            while data := await reader.read(self.read_size() if callable(self.read_size) else self.read_size):
                changed = change(data, number)
                if changed is None:
                    return
                writer.write(changed)
                await writer.drain()
                await asyncio.sleep(0)  # so that a receiver in the same loop reads this piece by itself


async def _first_of(*pumps: asyncio.Task[None]) -> None:
    """Wait until one of these has ended, end the others, and raise what one of them raised."""
    with suppress(asyncio.CancelledError):  # all that follows is to close the connection
        await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
    for pump in pumps:
        pump.cancel()
    while not all(pump.done() for pump in pumps):
        with suppress(asyncio.CancelledError):
            await asyncio.wait(pumps)
    for pump in pumps:
        if not pump.cancelled():
            pump.result()


@asynccontextmanager
async def tcp_proxy(
    target: Address | Callable[[int], Address],
    *,
    to_server: Filter = unchanged,
    to_client: Filter = unchanged,
    read_size: int | Callable[[], int] = 65536,
    port: int = 0,
    tls: ssl.SSLContext | None = None,
    local_host: str | None = None,
) -> AsyncIterator[TcpServer]:
    """Pass connections on to the target until the block ends. When one side closes, the other is closed, too.

    Args:
        target: Where connections go, or a function of the connection's number, from 1.
        to_server, to_client: What changes the bytes on their way.
        read_size: How many bytes are passed on at once, at most.
        port: Where to listen, if not just anywhere.
        tls: For clients that speak TLS; the target does not.
        local_host: The address of this machine that the target sees.
    """
    passing = _Passing(target, to_server, to_client, read_size, local_host)
    connections = 0

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections = number = connections + 1
        far_reader, far_writer = await passing.connect(number)
        try:
            proxy.join(far_writer)
            await _first_of(
                asyncio.create_task(passing.pump(reader, far_writer, to_server, number)),
                asyncio.create_task(passing.pump(far_reader, writer, to_client, number)),
            )
        finally:
            await close_all(writer, far_writer)

    async with tcp_server(handle, port=port, tls=tls) as proxy:
        yield proxy

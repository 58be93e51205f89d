"""Servers that answer with anything at all: every client ends in time, with an error that says what is wrong."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from sabir.errors import PeerError
from sabir.protocols.a2a.peer.peer import A2aPeer
from sabir.protocols.acl.peer.peer import AclPeer
from sabir.protocols.mcp.peer.peer import McpPeer
from sabir.protocols.nlip.peer.http import NlipHttpPeer
from sabir.protocols.nlweb.peer import NlwebPeer
from sabir.protocols.peer import Peer

SECONDS = 2.0  # that a client waits
AT_MOST = 20.0  # two ways to connect, and what a busy machine adds
JSON = "application/json"
Answer = Callable[[asyncio.StreamWriter], AsyncIterator[bytes]]

PEERS: dict[str, Callable[[str], Peer]] = {
    "nlip": lambda at: NlipHttpPeer(f"{at}/nlip", retries=0, seconds=SECONDS),
    "nlweb": lambda at: NlwebPeer(f"{at}/ask", seconds=SECONDS),
    "mcp": lambda at: McpPeer(f"{at}/mcp", seconds=SECONDS),
    "a2a": lambda at: A2aPeer(f"{at}/a2a", seconds=SECONDS),
    "acl": lambda at: AclPeer(f"{at}/acl", seconds=SECONDS),
}


def _whole(body: bytes, kind: str = JSON, status: str = "200 OK", *more: str) -> bytes:
    lines = (f"HTTP/1.1 {status}", f"content-type: {kind}", f"content-length: {len(body)}", "connection: close", *more)
    return "\r\n".join((*lines, "", "")).encode() + body


ANSWERS: dict[str, bytes] = {
    "not packed as it says": _whole(b"abcd", JSON, "200 OK", "content-encoding: gzip"),
    "a web page": _whole(b"<html></html>", "text/html"),
    "not JSON": _whole(b"{not json"),
    "an array": _whole(b"[1, 2]"),
    "null": _whole(b"null"),
    "nested too deeply": _whole(b"[" * 100_000),
    "a number of 20,000 digits": _whole(b'{"n": ' + b"9" * 20_000 + b"}"),
    "half a surrogate pair": _whole(rb'{"format": "text", "subformat": "english", "content": "\ud800"}'),
    "not UTF-8": _whole(b'{"format": "text", "content": "\xff"}'),
    "nothing": _whole(b"", JSON, "204 No Content"),
    "an error that is no message": _whole(b"x", "text/plain", "500 Internal Server Error"),
    "a redirect to itself": _whole(b"", "text/plain", "307 Temporary Redirect", "location: /again"),
    "cut": b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 500\r\n\r\n{",
    "not HTTP": b"\x00\xff\r\n\r\n",
    "a closed connection": b"",
}
# What never ends: how it begins, and what then comes again and again.
ENDLESS: dict[str, tuple[bytes, bytes, float]] = {
    "signs of life": (b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n", b": still here\n\n", 0.05),
    "a body, byte by byte": (b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n", b" ", 0.05),
    "a body of any size": (b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n", b"[" + b" " * 65536, 0.0),
    "one line of events": (b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: ", b"a" * 65536, 0.0),
    "silence": (b"", b"", 0.05),
}


@asynccontextmanager
async def answering(first: bytes, again: bytes = b"", pause: float | None = None) -> AsyncIterator[str]:
    """A server that gives each request this answer."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.read(65536)
            writer.write(first)
            await writer.drain()
            while pause is not None and not reader.at_eof():
                writer.write(again)
                await writer.drain()
                await asyncio.sleep(pause)
        except OSError:
            pass  # the client has left
        finally:
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    try:
        yield f"http://{host}:{port}"
    finally:
        server.close()


async def _ends_well(make: Callable[[str], Peer], at: str) -> None:
    began = time.monotonic()
    async with make(at) as peer:
        with pytest.raises(PeerError) as raised:
            await peer.ask("hello")
    assert time.monotonic() - began < AT_MOST
    words = str(raised.value)
    assert at.removeprefix("http://") in words
    assert "Traceback" not in words and "codec" not in words


@pytest.mark.parametrize("answer", ANSWERS)
@pytest.mark.parametrize("peer", PEERS)
async def test_an_invalid_answer_is_an_error_of_the_peer(peer: str, answer: str) -> None:
    async with answering(ANSWERS[answer]) as at:
        await _ends_well(PEERS[peer], at)


@pytest.mark.parametrize("answer", ENDLESS)
@pytest.mark.parametrize("peer", PEERS)
async def test_an_answer_that_never_ends_is_left_in_time(peer: str, answer: str) -> None:
    async with answering(*ENDLESS[answer]) as at:
        await _ends_well(PEERS[peer], at)

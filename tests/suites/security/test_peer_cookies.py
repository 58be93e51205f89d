"""Cookies of remote agents: a peer serves many callers, so no peer keeps what one of them was given."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from sabir.errors import SabirError
from sabir.protocols.connect import connect


@pytest.mark.parametrize("path", ["nlip", "ask", "a2a"])
async def test_a_peer_sends_no_cookie_that_it_was_given(path: str) -> None:
    """MCP, where a session may need its cookie, has its own tests in ``protocols/mcp/door/proxy``."""
    heads: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 404 Not Found\r\nSet-Cookie: who=ada; Path=/\r\nContent-Length: 0\r\n")
        writer.write(b"Connection: close\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server, connect(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/{path}") as peer:
        for _ in range(2):
            with suppress(SabirError):
                await peer.ask("hello", seconds=10)
    assert len(heads) >= 2
    assert not [head for head in heads if b"\r\ncookie:" in head.lower()]

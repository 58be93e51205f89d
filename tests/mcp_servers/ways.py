"""The ways from a client to ``memory_server.py`` behind a gateway, each as a gateway that serves it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from callers import ByName
from conftest import Served, serving
from mcp_servers.nursery import Nursery
from sabir.agents.echo import echo
from sabir.gateway.gateway import Gateway
from sabir.guard import Authenticator, Filters
from sabir.guard.filters.base import TextFilter
from sabir.protocols.mcp.peer.peer import McpPeer, Program

SERVER = Path(__file__).with_name("memory_server.py")
# What the server is, where its clients come in, and what its tools are called there.
WAYS = {
    "a tool at /mcp, over HTTP": ("http", "/mcp", "memory-"),
    "a tool at /mcp, of a program": ("program", "/mcp", "memory-"),
    "an exposed tool, over HTTP": ("exposed http", "/mcp", "memory-"),
    "an exposed tool, of a program": ("exposed program", "/mcp", "memory-"),
    "a tool at /mcp, over HTTP+SSE": ("http+sse", "/mcp", "memory-"),
    "passed on byte by byte": ("http", "/mcp/memory", ""),
    "passed on message by message": ("filtered http", "/mcp/memory", ""),
    "passed on to a program": ("program", "/mcp/memory", ""),
    "passed on to a server over HTTP+SSE": ("http+sse", "/mcp/memory", ""),
}


class Nothing(TextFilter):
    """Lets everything pass, so that messages are looked into."""

    name = "nothing"
    ways = ("inbound", "outbound")

    def words(self, text: str) -> str:
        return text


@contextmanager
def way(
    name: str, home: Path, server: str, programs: Nursery, *, version: str = "legacy", **more: Any
) -> Iterator[tuple[Served, str, str]]:
    """A gateway with this way: it, the path of its clients, and what stands before the names of tools."""
    kind, path, prefix = WAYS[name]
    if kind == "http+sse" and not server.endswith("/sse"):
        with (
            programs.serving(SERVER, "--sse") as address,
            way(name, home, address, programs, version=version, **more) as made,
        ):
            yield made
        return
    where: Any = Program(*programs.command(SERVER, "--stdio")) if "program" in kind else server
    if "filtered" in kind:
        more["filters"] = Filters((Nothing(),))
    if "exposed" in kind:
        more["doors"] = {"mcp": {"expose": ["memory"]}}
    peer = McpPeer(where, name="memory", version=version)
    gateway = Gateway(echo, peer, home=home, store="memory:", identity=Authenticator([ByName()]), **more)
    with serving(gateway) as served:
        yield served, path, prefix


@asynccontextmanager
async def client(
    served: Served, path: str, who: str = "", address: str = "127.0.0.1", *, mode: str = "legacy", **more: Any
) -> AsyncIterator[Client]:
    """A client of the gateway, once that has met the server."""
    peer = served.gateway.agents["memory"]
    assert isinstance(peer, McpPeer)
    async with asyncio.timeout(30):
        while not peer.tools:
            await asyncio.sleep(0.02)
    sockets = httpx2.AsyncHTTPTransport(local_address=address)
    headers = {"authorization": f"Bearer {who}"} if who else {}
    async with httpx2.AsyncClient(headers=headers, timeout=30, transport=sockets) as http:
        transport = streamable_http_client(served.url + path, http_client=http, max_sse_event_size=None)
        async with Client(transport, mode=mode, **more) as made:
            yield made


def words(result: Any) -> str:
    return str(result.content[0].text)

"""Servers that speak HTTP+SSE, the transport of 2024-11-05, behind the gateway (issue 11, E 20)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest

from callers import ByName
from conftest import Served, serving
from mcp_servers.nursery import Nursery
from mcp_servers.ways import SERVER, client, words
from sabir.agents.echo import echo
from sabir.errors import PeerError
from sabir.gateway.gateway import Gateway
from sabir.guard import Authenticator
from sabir.protocols.connect import connect
from sabir.protocols.mcp.peer.http_sse import Events
from sabir.protocols.mcp.peer.peer import McpPeer

PATHS = {"/mcp": "memory-", "/mcp/memory": ""}


@pytest.fixture(scope="module")
def old_server(programs: Nursery) -> Iterator[str]:
    with programs.serving(SERVER, "--sse") as address:
        yield address


@pytest.fixture(scope="module")
def served(old_server: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    peer = connect(old_server, name="memory")  # the address says it
    gateway = Gateway(echo, peer, home=tmp_path_factory.mktemp("sse"), identity=Authenticator([ByName()]))
    with serving(gateway) as made:
        yield made


async def test_it_is_asked_by_its_address_or_its_version(old_server: str) -> None:
    for version in ("auto", "2024-11-05"):
        async with McpPeer(old_server, name="old", version=version) as peer:
            assert (await peer.call("echo", {"text": "hello"})).text == "hello"
            assert not peer.stateless


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_its_tools_prompts_and_resources_are_here(served: Served, path: str, mode: str) -> None:
    async with client(served, path, mode=mode) as made:
        assert words(await made.call_tool(f"{PATHS[path]}echo", {"text": "hello"})) == "hello"
        assert [prompt.name for prompt in (await made.list_prompts()).prompts] == [f"{PATHS[path]}greet"]
        contents: Any = (await made.read_resource("memo://7")).contents[0]
        assert contents.text == "memo 7"


@pytest.mark.parametrize("path", PATHS)
async def test_its_sessions_belong_to_one_caller(served: Served, path: str) -> None:
    async def roots(context: Any) -> types.ListRootsResult:
        return types.ListRootsResult(roots=[types.Root(uri="file:///home/ada/secret")])

    prefix = PATHS[path]
    async with client(served, path, "ada", list_roots_callback=roots) as ada, client(served, path, "bob") as bob:
        assert "ada/secret" in words(await ada.call_tool(f"{prefix}roots", {}))
        assert words(await bob.call_tool(f"{prefix}recall", {})) == "nothing"


def test_a_gateway_ends_without_waiting_for_its_streams(old_server: str, tmp_path: Path) -> None:
    with serving(Gateway(echo, McpPeer(old_server, name="memory"), home=tmp_path)):
        pass


# -- servers that speak it badly ----------------------------------------------------------------------------


@asynccontextmanager
async def raw_server(*events: bytes) -> AsyncIterator[str]:
    """A server that sends these bytes as its stream, and then says nothing more."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n" + b"".join(events)
        )
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/sse"


@pytest.mark.parametrize(
    "events",
    [
        (),
        (b"event: message\ndata: {}\n\n",),
        (b"event: endpoint\ndata: http://192.0.2.1/messages\n\n",),
        (b"event: endpoint\ndata: /messages\n",),
    ],
    ids=["nothing", "no endpoint", "an endpoint elsewhere", "an event that is cut off"],
)
async def test_a_server_that_names_no_endpoint_of_its_own_is_unavailable(events: tuple[bytes, ...]) -> None:
    async with raw_server(*events) as address, McpPeer(address, name="bad") as peer:
        with pytest.raises(PeerError):
            await peer.call("echo", {"text": "hello"})


LONG = b'data: {"jsonrpc":"2.0","id":7,"result":{"text":"' + b"x" * 200 + b'"}}\n'
PIECES = [
    (b"data: 1\r\ndata: 2\r\n\r\n", [b"1\n2"]),
    (b": comment\nid: 3\nretry: 5\nevent: message\ndata:4\n\ndata: 5\n\n", [b"4", b"5"]),
    (LONG + b"\ndata: next\n\n", [7, b"next"]),
    (LONG[:60] + b"\ndata: " + LONG[60:140] + b"\n\ndata: next\n\n", [7, b"next"]),
]


@pytest.mark.parametrize("step", [1, 7, 1000])
@pytest.mark.parametrize(("sent", "expected"), PIECES, ids=["CRLF", "other fields", "a long line", "long in all"])
def test_events_are_the_same_however_they_are_cut(sent: bytes, expected: list[Any], step: int) -> None:
    events = Events(100)
    got = [event for at in range(0, len(sent), step) for event in events.feed(sent[at : at + step])]
    found = [data if isinstance(data, bytes) else data.error() for _, data in got]
    assert [item.id if isinstance(item, types.JSONRPCError) else item for item in found] == expected

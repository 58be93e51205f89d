"""A session with a server behind the gateway belongs to one caller: roots, answers and cookies never meet another.

Defects of issue 11, item D 14.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest

from callers import ByName
from conftest import Served, serving
from mcp_servers import ways
from mcp_servers.nursery import Nursery
from mcp_servers.ways import WAYS, client, words
from sabir.agents.echo import echo
from sabir.gateway.gateway import Gateway
from sabir.guard import Authenticator
from sabir.message import Message
from sabir.protocols.mcp.peer.peer import McpPeer, owner_of
from sabir.turn import Caller, Conversation, Turn


@pytest.fixture(params=WAYS)
def way(
    request: pytest.FixtureRequest, tmp_path: Path, memory_server: str, programs: Nursery
) -> Iterator[tuple[Served, str, str]]:
    with ways.way(request.param, tmp_path, memory_server, programs) as made:
        yield made


async def my_roots(context: Any) -> types.ListRootsResult:
    return types.ListRootsResult(roots=[types.Root(uri="file:///home/ada/secret")])


@pytest.mark.parametrize(
    ("first", "second"), [(("ada", "127.0.0.1"), ("bob", "127.0.0.1")), (("", "127.0.0.1"), ("", "127.0.0.2"))]
)
async def test_nobody_reads_the_roots_of_another_caller(
    way: tuple[Served, str, str], first: tuple[str, str], second: tuple[str, str]
) -> None:
    served, path, prefix = way
    async with client(served, path, *first, list_roots_callback=my_roots) as one, client(served, path, *second) as two:
        assert "ada/secret" in words(await one.call_tool(f"{prefix}roots", {}))
        assert words(await two.call_tool(f"{prefix}recall", {})) == "nothing"
        assert "ada/secret" in words(await one.call_tool(f"{prefix}recall", {}))


@pytest.mark.parametrize("version", ["legacy", "auto"])
@pytest.mark.parametrize("path", ["/mcp", "/mcp/memory"])
async def test_nobody_sends_the_cookie_of_another_caller(
    tmp_path: Path, memory_server: str, version: str, path: str
) -> None:
    peer = McpPeer(memory_server, name="memory", version=version)
    gateway = Gateway(echo, peer, home=tmp_path, store="memory:", identity=Authenticator([ByName()]))
    tool = "memory-cookie" if path == "/mcp" else "cookie"
    with serving(gateway) as served:
        found = []
        for who in ("ada", "bob"):
            async with client(served, path, who) as made:
                await made.call_tool(tool, {})
                found.append(words(await made.call_tool(tool, {})))
    assert found == ["none", "none"] or found[0] != found[1]


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (Caller(id="ada", kind="key"), Caller(id="ada", kind="key", address="10.0.0.1"), True),
        (Caller(id="ada", kind="key"), Caller(id="bob", kind="key"), False),
        (Caller(address="10.0.0.1"), Caller(address="10.0.0.1"), True),
        (Caller(address="10.0.0.1"), Caller(address="10.0.0.2"), False),
        (Caller(), Caller(), False),
        (Caller(id="agent:team", kind="agent", on_behalf_of="ada"), Caller(id="ada", kind="key"), True),
        (
            Caller(id="agent:team", kind="agent", on_behalf_of="ada"),
            Caller(id="agent:team", kind="agent", on_behalf_of="bob"),
            False,
        ),
        (Caller(id="agent:team", kind="agent"), Caller(id="agent:team", kind="agent"), False),
    ],
)
def test_who_owns_a_session(one: Caller, other: Caller, same: bool) -> None:
    turns = [
        Turn(Message.text("hi"), caller=who, conversation=Conversation(str(n))) for n, who in enumerate((one, other))
    ]
    assert (owner_of(turns[0]) == owner_of(turns[1])) is same

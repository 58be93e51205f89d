"""What a caller may not use is listed nowhere: the same rule over every list of the gateway (issue 11, E 18)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from conftest import Served
from mcp_servers import ways
from mcp_servers.nursery import Nursery
from mcp_servers.ways import WAYS, client
from sabir.guard import Rights, Rule
from sabir.protocols.mcp.door.proxy.list_filter import with_lists

ADA = {"authorization": "Bearer ada"}
RIGHTS = Rights((Rule(roles=("known",), agents=("memory",), tools=("re*", "cookie")), Rule(("anonymous",), ("echo",))))
FORBIDDEN = ("roots", "large", "memory-echo")
ALLOWED = ("recall", "cookie")


@pytest.fixture(params=WAYS)
def way(
    request: pytest.FixtureRequest, tmp_path: Path, memory_server: str, programs: Nursery
) -> Iterator[tuple[Served, str, str]]:
    with ways.way(request.param, tmp_path, memory_server, programs, version="auto", rights=RIGHTS) as made:
        yield made


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_tools_are_listed_by_the_rights_to_them(way: tuple[Served, str, str], mode: str) -> None:
    served, path, prefix = way
    async with client(served, path, "ada", mode=mode) as made:
        names = {tool.name for tool in (await made.list_tools()).tools} - {"echo", "memory"}
        assert names == {f"{prefix}recall", f"{prefix}cookie"}


LISTS = {
    "the A2A card": ("/a2a/memory/.well-known/agent-card.json", None),
    "the extended A2A card": (
        "/a2a/memory",
        {"jsonrpc": "2.0", "id": 1, "method": "GetExtendedAgentCard", "params": {}},
    ),
    "the ACL directory": ("/acl/directory", None),
    "/who of NLWeb": ("/who", {"query": {"text": "recall cookie roots large"}}),
    "NLIP capabilities": (
        "/nlip",
        {"messagetype": "control", "format": "text", "subformat": "english", "content": "What are your capabilities?"},
    ),
}


@pytest.fixture(scope="module")
def lists(tmp_path_factory: pytest.TempPathFactory, memory_server: str, programs: Nursery) -> Iterator[Served]:
    home = tmp_path_factory.mktemp("lists")
    with ways.way("a tool at /mcp, over HTTP", home, memory_server, programs, rights=RIGHTS) as (served, _, _):
        yield served


@pytest.mark.parametrize("name", LISTS)
async def test_other_lists_follow_the_same_rights(lists: Served, name: str) -> None:
    async with client(lists, "/mcp", "ada"):
        pass  # the server was met
    path, body = LISTS[name]
    headers = {**ADA, "a2a-version": "1.0"}
    async with httpx2.AsyncClient(base_url=lists.url, headers=headers) as http:
        response = await (http.get(path) if body is None else http.post(path, json=body))
    assert response.status_code == 200, response.text
    if name != "/who of NLWeb":  # which names agents and no skills
        assert all(tool in response.text for tool in ALLOWED), response.text
    assert not any(f'"{tool}"' in response.text or f"CAP:{tool}" in response.text for tool in FORBIDDEN)


def test_a_batch_does_not_go_past_the_rights(tmp_path: Path, memory_server: str, programs: Nursery) -> None:
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "large", "arguments": {"bytes": 1}}}
    with ways.way("passed on byte by byte", tmp_path, memory_server, programs, rights=RIGHTS) as (served, path, _):
        response = httpx2.post(served.url + path, json=[call], headers=ADA)
    assert response.status_code == 400
    assert "one JSON-RPC message" in response.json()["error"]["message"]


# -- a list in a stream -----------------------------------------------------------------------------------

LIST = b'{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"a"},{"name":"b"}]}}'
OTHER = b'event: message\ndata: {"jsonrpc":"2.0","method":"notifications/progress"}\n\n'


def without_b(result: Any) -> Any:
    return {**result, "tools": [tool for tool in result["tools"] if tool["name"] != "b"]}


@pytest.mark.parametrize("step", [1, 5, 1000])
@pytest.mark.parametrize(
    ("media_type", "sent"),
    [
        ("application/json", LIST),
        ("text/event-stream", OTHER + b"id: 7\ndata: " + LIST + b"\n\n" + OTHER),
        ("text/event-stream; charset=utf-8", b": hi\r\n\r\ndata:" + LIST + b"\r\n\r\n"),
        ("text/event-stream", b"data: " + LIST[:17] + b"\ndata: " + LIST[17:] + b"\n\n"),
        ("text/event-stream", b"data: " + LIST),
    ],
)
async def test_a_list_is_found_however_it_comes(media_type: str, sent: bytes, step: int) -> None:
    async def chunks() -> Any:
        for at in range(0, len(sent), step):
            yield sent[at : at + step]

    got = b"".join([chunk async for chunk in with_lists(chunks(), media_type, without_b, "far")])
    assert b'"a"' in got
    assert b'"b"' not in got
    assert got.count(OTHER) == sent.count(OTHER)
    assert (b"id: 7" in got) is (b"id: 7" in sent)

"""``ask``, ``await``, ``list_sites`` and ``who`` over MCP, where a site can be asked (spec/nlweb.md, section 1)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from conftest import Served, serving
from deadline import DEADLINE
from protocols.nlweb.conftest import Shop
from sabir.agent import agent
from sabir.agents.echo import echo
from sabir.card import Card
from sabir.gateway.gateway import Gateway
from sabir.search import LocalIndex
from sabir.turn import Turn

MODES = ("legacy", "2026-07-28")


@agent(card=Card("kitchen", "Cooks slowly", site="kitchen.example"))
async def kitchen(turn: Turn) -> str:
    await asyncio.sleep(0.5)
    return "Soup is ready"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    home: Path = tmp_path_factory.mktemp("nlweb-tools")
    index = LocalIndex(None, None)
    shop = Shop(index, "pumpkins-r-us.com", name="shop", questions=False)
    shop.opened = index
    with serving(Gateway(shop, kitchen, echo, home=home, beside=(shop,))) as served:
        yield served


@pytest.fixture(params=MODES)
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def called(client: Client, tool: str, arguments: dict[str, Any]) -> tuple[str, dict[str, Any], bool]:
    result = await client.call_tool(tool, arguments)
    assert result.structured_content is not None
    return str(result.content[0].text), result.structured_content, bool(result.is_error)  # type: ignore[union-attr]


async def test_the_four_tools_are_listed_where_there_is_a_site(served: Served, mode: str) -> None:
    async with Client(f"{served.url}/mcp", mode=mode) as client:
        names = [tool.name for tool in (await client.list_tools()).tools]
        assert names == ["shop", "kitchen", "echo", "ask", "await", "list_sites", "who"]
    async with Client(f"{served.url}/mcp/echo", mode=mode) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["echo"]


@pytest.mark.parametrize("query", ["pumpkins", {"text": "pumpkins"}])
async def test_ask_gives_results_in_text_and_in_structure(served: Served, mode: str, query: object) -> None:
    async with Client(f"{served.url}/mcp", mode=mode) as client:
        arguments = {"query": query, "prefer": {"response_format": "conv_search"}}
        text, body, failed = await called(client, "ask", arguments)
    assert not failed
    assert body["_meta"]["response_type"] == "Answer"
    names = [item["name"] for item in body["results"]]
    assert names
    assert names[0] in text


async def test_a_conversation_continues_by_its_session_context(served: Served) -> None:
    async with Client(f"{served.url}/mcp") as client:
        _, first, _ = await called(client, "ask", {"query": {"text": "pumpkins"}})
        session = first["_meta"]["session_context"]
        _, second, failed = await called(
            client, "ask", {"query": {"text": "cheaper ones"}, "meta": {"session_context": session}}
        )
    assert not failed
    assert second["_meta"]["session_context"]["conversation_id"] == session["conversation_id"]


async def test_work_that_takes_longer_is_a_promise_and_await_gives_its_answer(served: Served, mode: str) -> None:
    async with Client(f"{served.url}/mcp", mode=mode) as client, asyncio.timeout(DEADLINE):
        arguments = {"query": {"text": "soup", "site": "kitchen.example"}, "prefer": {"wait": 0.05}}
        text, body, _ = await called(client, "ask", arguments)
        token = body["promise"]["token"]
        assert token in text
        while "promise" in body:
            text, body, _ = await called(client, "await", {"promise_token": token})
            await asyncio.sleep(0.05)
    assert "Soup is ready" in text


async def test_a_promise_that_was_not_given_is_unknown(served: Served) -> None:
    async with Client(f"{served.url}/mcp") as client:
        _, body, failed = await called(client, "await", {"promise_token": "made up"})
    assert failed
    assert body["error"]["code"] == "UNKNOWN_PROMISE"


async def test_an_invalid_request_is_a_failure_in_nlweb(served: Served) -> None:
    async with Client(f"{served.url}/mcp") as client:
        _, body, failed = await called(client, "ask", {"query": {"text": "x"}, "prefer": {"mode": "dance"}})
    assert failed
    assert body["_meta"]["response_type"] == "Failure"


async def test_sites_are_listed_and_who_finds_them(served: Served, mode: str) -> None:
    async with Client(f"{served.url}/mcp", mode=mode) as client:
        _, sites, _ = await called(client, "list_sites", {})
        assert sites["sites"] == ["pumpkins-r-us.com", "kitchen.example"]
        text, who, _ = await called(client, "who", {"query": {"text": "cooks"}})
        assert who["results"][0]["definition"]["name"] == "kitchen"
        assert "kitchen" in text

"""Typed arguments of an ``@agent`` function arrive parsed, and a missing one is asked for, over every protocol."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any, Literal
from uuid import uuid4

import pytest
from a2a.types import a2a_pb2 as pb
from google.protobuf.struct_pb2 import Value

from conftest import Served, serving
from sabir import Gateway, Turn, agent, connect
from sabir.message import Message, json_part
from sabir.protocols.nlip.wire import json as nlip
from suites.bridge.bridge_clients import (
    TALKERS,
    A2aTalker,
    AclTalker,
    Heard,
    McpTalker,
    NlipTalker,
    NlwebTalker,
    Talker,
)


@agent
async def book(turn: Turn, size: Literal["S", "M", "L"], nights: int = 1, with_breakfast: bool = False) -> str:
    """Books a room.

    Args:
        size: how large the room is
    """
    return f"{size!r} for {nights!r}, {with_breakfast!r}"


GIVEN = {"size": "M", "nights": 3, "with_breakfast": True}


async def by_nlip(talker: Talker, arguments: dict[str, Any]) -> Heard:
    assert isinstance(talker, NlipTalker)
    body = nlip.encode(Message.of(json_part(arguments)))
    headers = {"content-type": "application/json"}
    return talker.heard(await talker.http.post(f"{talker.url}/nlip/book", content=body, headers=headers))


async def by_mcp(talker: Talker, arguments: dict[str, Any]) -> Heard:
    assert isinstance(talker, McpTalker)
    async with talker.client("book") as client:
        return talker.heard_of(await client.call_tool("book", arguments))


async def by_a2a(talker: Talker, arguments: dict[str, Any]) -> Heard:
    assert isinstance(talker, A2aTalker)
    value = Value()
    value.struct_value.update(arguments)
    message = pb.Message(message_id=uuid4().hex, role=pb.ROLE_USER, parts=[pb.Part(data=value)])
    client = await talker.client("book")
    (response,) = [r async for r in client.send_message(pb.SendMessageRequest(message=message))]
    return talker.heard_of(response.task)


async def by_acl(talker: Talker, arguments: dict[str, Any]) -> Heard:
    assert isinstance(talker, AclTalker)
    payload = {"task_type": "book", "task_description": "", "task_parameters": arguments}
    return await talker.fresh(await talker.send("TASK_REQUEST", "book", payload), None)


WAYS: dict[str, Callable[[Talker, dict[str, Any]], Awaitable[Heard]]] = {
    "nlip": by_nlip,
    "mcp": by_mcp,
    "a2a": by_a2a,
    "acl": by_acl,
}


@pytest.fixture(scope="module")
def hotel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(Gateway(book, home=tmp_path_factory.mktemp("hotel"))) as served:
        yield served


@pytest.fixture
async def client(protocol: str, hotel: Served) -> AsyncIterator[Talker]:
    made = TALKERS[protocol](hotel.url)
    yield made
    await made.aclose()


@pytest.mark.parametrize("protocol", list(WAYS))
async def test_arguments_arrive_parsed(protocol: str, client: Talker) -> None:
    assert (await WAYS[protocol](client, GIVEN)).text == "'M' for 3, True"
    assert (await WAYS[protocol](client, {"size": "L"})).text == "'L' for 1, False"


@pytest.mark.parametrize("protocol", list(WAYS))
async def test_an_invalid_argument_is_an_error_that_names_it(protocol: str, client: Talker) -> None:
    heard = await WAYS[protocol](client, {"size": "M", "nights": "many"})
    assert "nights" in heard.failure


async def test_words_alone_fill_the_one_required_argument_over_nlweb(hotel: Served) -> None:
    talker = NlwebTalker(hotel.url)
    assert (await talker.ask("book", "L")).text == "'L' for 1, False"
    await talker.aclose()


@pytest.mark.parametrize("protocol", list(WAYS))
async def test_a_missing_argument_is_asked_for(protocol: str, client: Talker) -> None:
    if isinstance(client, McpTalker):
        asked, ended = await _elicited(client)
    else:
        asked = await WAYS[protocol](client, {"nights": 2})
        ended = await _answered(client, asked)
    assert asked.question == "Size? (how large the room is)" and sorted(asked.options) == ["L", "M", "S"]
    assert ended.text == "'M' for 2, False"


async def _elicited(client: McpTalker) -> tuple[Heard, Heard]:
    return await client.questioned_by("book", {"nights": 2}, "M")


async def _answered(client: Talker, asked: Heard) -> Heard:
    if isinstance(client, A2aTalker):
        sdk = await client.client("book")
        (done,) = [r async for r in sdk.send_message(client.request("M", *asked.place))]
        return client.heard_of(done.task)
    if isinstance(client, AclTalker):
        more = {"in_reply_to": asked.data[0], "conversation_id": asked.place}
        return await client.fresh(await client.send("INFORM_INPUT", "book", {"answer": "M"}, **more), asked.place)
    return await client.ask("book", "M", asked.place)


async def test_an_mcp_client_that_cannot_be_asked_learns_what_is_missing(hotel: Served) -> None:
    talker = McpTalker(hotel.url)
    assert "size" in (await by_mcp(talker, {"nights": 2})).failure
    await talker.aclose()


@agent
async def reserve(turn: Turn, seats: int) -> str:
    """Reserves a table."""
    return f"{seats + 1} seats"


@agent
async def parrot(turn: Turn) -> str:
    return f"You said: {turn.text}"


@pytest.fixture(scope="module", params=[book, reserve], ids=["enum", "integer"])
def asked_by_default(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Served, str, str]]:
    words, expected = {"book": ("L", "'L' for 1, False"), "reserve": ("4", "5 seats")}[request.param.card.name]
    with serving(Gateway(request.param, parrot, home=tmp_path_factory.mktemp("default"))) as served:
        yield served, words, expected


@pytest.mark.parametrize("path", ["/nlip", "/ask", "/mcp", "/a2a", "/acl"])
async def test_words_to_a_gateway_reach_its_default_agent_although_that_takes_typed_arguments(
    asked_by_default: tuple[Served, str, str], path: str
) -> None:
    """Over MCP, words went to the first agent that takes any text instead."""
    served, words, expected = asked_by_default
    async with connect(f"{served.url}{path}") as peer:
        assert (await peer.ask(words)).text == expected

"""The official client of the SDK against our door, over a real socket, in the handshake and the stateless version."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx2
import mcp_types as types
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from conftest import Served, serving
from deadline import DEADLINE
from sabir.agent import agent
from sabir.card import Skill
from sabir.events import Event, Progress, Question
from sabir.gateway.gateway import Gateway
from sabir.message import Part, binary_part
from sabir.turn import Turn

MODES = ("legacy", "2026-07-28")
gone: list[str] = []


@agent(description="Repeats and counts")
async def memory(turn: Turn) -> str:
    return f"{turn.conversation.count + 1}: {turn.text}"


@agent(description="Draws")
async def painter(turn: Turn) -> Part:
    return binary_part(b"\x89PNG", "image/png")


@agent(description="Takes its time")
async def slow(turn: Turn) -> AsyncIterator[Event | str]:
    for done in (0.25, 0.5, 1.0):
        yield Progress(done, f"{done:.0%}")
    yield "done"


@agent(description="Never ends")
async def endless(turn: Turn) -> str:
    try:
        await asyncio.sleep(600)
    finally:
        gone.append("endless")
    return "never"


@agent(description="Wants to know more")
async def curious(turn: Turn) -> str:
    schema = {"type": "object", "properties": {"size": {"type": "string"}}, "required": ["size"]}
    answer = await turn.ask(Question("Which size?", schema=schema, id="size"))
    return f"You want {answer.text}"


@agent(description="Fails")
async def broken(turn: Turn) -> str:
    raise RuntimeError("the password is hunter2")


@agent(name="sum", skills=(Skill("sum", "Sum", "Adds", input_schema={
    "type": "object", "properties": {"a": {"type": "number"}, "b": {"type": "number"}}, "required": ["a", "b"],
}, output_schema={"type": "object", "properties": {"sum": {"type": "number"}}, "required": ["sum"]}),))  # fmt: skip
async def add(turn: Turn) -> dict[str, Any]:
    given = turn.message.content
    return {"sum": given["a"] + given["b"]}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    made = (memory, painter, slow, endless, curious, broken, add)
    with serving(Gateway(*made, home=tmp_path_factory.mktemp("home"), store="memory:")) as served:
        yield served


@pytest.fixture(params=MODES)
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def test_it_lists_the_agents_as_tools(served: Served, mode: str) -> None:
    async with Client(f"{served.url}/mcp", mode=mode) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert list(tools) == ["memory", "painter", "slow", "endless", "curious", "broken", "sum"]
        assert tools["memory"].input_schema["required"] == ["text"]
        assert tools["sum"].output_schema is not None


async def test_a_conversation_continues_over_three_turns(served: Served, mode: str) -> None:
    async with Client(f"{served.url}/mcp", mode=mode) as client:
        arguments: dict[str, Any] = {"text": "hello"}
        for number in (1, 2, 3):
            result = await client.call_tool("memory", arguments)
            assert result.structured_content is not None
            assert result.structured_content["text"] == f"{number}: hello"
            arguments["conversation"] = result.structured_content["conversation"]


async def test_one_agent_alone_has_its_own_address(served: Served, mode: str) -> None:
    async with Client(f"{served.url}/mcp/memory", mode=mode) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["memory"]


async def test_an_image_is_an_image(served: Served, mode: str) -> None:
    async with Client(f"{served.url}/mcp", mode=mode) as client:
        (block,) = (await client.call_tool("painter", {"text": "a dot"})).content
        assert isinstance(block, types.ImageContent)
        assert (block.mime_type, block.data) == ("image/png", "iVBORw==")


async def test_structured_results_follow_the_schema(served: Served, mode: str) -> None:
    async with Client(f"{served.url}/mcp", mode=mode) as client:
        assert (await client.call_tool("sum", {"a": 3, "b": 4})).structured_content == {"sum": 7}
        raised = await client.call_tool("sum", {"a": 3})
        assert raised.is_error
        assert "$.arguments.b" in str(raised.content[0])


async def test_progress_is_reported_while_it_works(served: Served, mode: str) -> None:
    received: list[tuple[float, float | None, str | None]] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        received.append((progress, total, message))

    async with Client(f"{served.url}/mcp", mode=mode) as client:
        result = await client.call_tool("slow", {"text": "go"}, progress_callback=on_progress)
        assert result.structured_content is not None
        assert result.structured_content["text"] == "done"
    assert [item for item in received if item[1]] == [(25, 100, "25%"), (50, 100, "50%"), (100, 100, "100%")]


async def test_a_question_is_an_elicitation(served: Served, mode: str) -> None:
    asked: list[str] = []

    async def on_elicit(context: Any, params: Any) -> types.ElicitResult:
        asked.append(params.message)
        return types.ElicitResult(action="accept", content={"size": "large"})

    async with Client(f"{served.url}/mcp", mode=mode, elicitation_callback=on_elicit) as client:
        result = await client.call_tool("curious", {"text": "a shirt"})
    assert asked == ["Which size?"]
    assert result.structured_content is not None
    assert result.structured_content["text"] == "You want large"


async def test_a_client_that_cannot_be_asked_answers_with_its_next_call(served: Served, mode: str) -> None:
    async with Client(f"{served.url}/mcp", mode=mode) as client:
        asked = await client.call_tool("curious", {"text": "a shirt"})
        assert asked.structured_content is not None
        assert asked.structured_content["text"].startswith("Which size?")
        conversation = asked.structured_content["conversation"]
        answered = await client.call_tool("curious", {"text": "small", "conversation": conversation})
        assert answered.structured_content is not None
        assert answered.structured_content["text"] == "You want small"


async def test_a_call_that_is_cancelled_ends_its_turn(served: Served, mode: str) -> None:
    gone.clear()
    async with Client(f"{served.url}/mcp", mode=mode) as client:
        call = asyncio.create_task(client.call_tool("endless", {"text": "go"}))
        async with asyncio.timeout(DEADLINE):
            while served.gateway.exchange.running == 0:
                await asyncio.sleep(0.01)
            call.cancel()
            while not gone:
                await asyncio.sleep(0.01)


async def test_a_failure_is_reported_and_nothing_inside_is_shown(served: Served, mode: str) -> None:
    async with Client(f"{served.url}/mcp", mode=mode) as client:
        result = await client.call_tool("broken", {"text": "go"})
        assert result.is_error
        assert "hunter2" not in str(result)
        assert "broken failed" in str(result.content[0])


async def test_an_unknown_tool_is_an_error_of_the_protocol(served: Served, mode: str) -> None:
    async with Client(f"{served.url}/mcp", mode=mode) as client:
        with pytest.raises(MCPError) as caught:
            await client.call_tool("nobody", {"text": "go"})
        assert caught.value.error.code == -32602


async def test_the_newest_version_is_found_by_itself(served: Served) -> None:
    async with Client(f"{served.url}/mcp") as client:
        assert client.protocol_version == "2026-07-28"
        assert client.server_info is not None
        assert client.server_info.name == "sabir"


async def test_a_session_and_its_conversation_outlive_a_restart(home: Path) -> None:
    home.mkdir()
    headers = {"accept": "application/json, text/event-stream"}
    answer = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}

    async def say(url: str, method: str, params: dict[str, Any]) -> httpx2.Response:
        async with httpx2.AsyncClient(headers=headers) as http:
            return await http.post(url, json={"jsonrpc": "2.0", "id": 1, "method": method, "params": params})

    def gateway() -> Gateway:
        return Gateway(memory, home=home, store=f"sqlite:///{home}/state.db")

    with serving(gateway()) as first:
        headers["mcp-session-id"] = (await say(f"{first.url}/mcp", "initialize", answer)).headers["mcp-session-id"]
        before = await say(f"{first.url}/mcp", "tools/call", {"name": "memory", "arguments": {"text": "one"}})
    conversation = before.json()["result"]["structuredContent"]["conversation"]
    with serving(gateway()) as second:
        arguments = {"text": "two", "conversation": conversation}
        after = await say(f"{second.url}/mcp", "tools/call", {"name": "memory", "arguments": arguments})
        assert after.json()["result"]["structuredContent"]["text"] == "2: two"
        async with httpx2.AsyncClient(headers=headers) as http:
            assert (await http.delete(f"{second.url}/mcp")).status_code == 200
        ended = await say(f"{second.url}/mcp", "tools/list", {})
        assert ended.status_code == 404

"""An agent behind each protocol, over real sockets, as a tool of a model and of the router (MW-27)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import Served, serving
from sabir import Gateway, Turn, agent, connect
from sabir.agents.llm import LLM, ScriptedModel
from sabir.massgen.nlip.router import NLIPRouter
from sabir.massgen.nlip.schema import (
    NLIPControlField,
    NLIPFormatField,
    NLIPRequest,
    NLIPTokenField,
    NLIPToolCall,
)
from sabir.massgen.tool._manager import ToolManager
from sabir.testing import ask
from sabir.tools import agent_tool

ADDRESSES = {
    "nlip": "/nlip/weather",
    "nlweb": "/ask/weather",
    "mcp": "/mcp/weather",
    "a2a": "/a2a/weather",
    "acl": "/acl",
}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    @agent(name="weather")
    async def weather(turn: Turn) -> str:
        return f"rain in {turn.text}"

    home: Path = tmp_path_factory.mktemp("tools")
    with serving(Gateway(weather, home=home)) as running:
        yield running


@pytest.mark.parametrize("protocol", ADDRESSES)
async def test_an_agent_behind_a_protocol_is_a_tool(served: Served, protocol: str) -> None:  # MW-27
    options = {"agent": "weather"} if protocol == "acl" else {}
    async with connect(f"{served.url}{ADDRESSES[protocol]}", protocol=protocol, **options) as peer:
        made = agent_tool(peer, name="forecast")
        [argument] = made.schema["properties"]
        model = ScriptedModel([{"tool_calls": [{"name": "forecast", "arguments": {argument: "Oslo"}}]}, "Rain."])
        await ask(LLM("guide", model, tools=[made]), "Weather?")
        assert "rain in Oslo" in model.asked[1][-1].content
        call = NLIPToolCall(tool_id="1", tool_name="forecast", parameters={argument: "Bergen"})
        asked = NLIPRequest(
            format=NLIPFormatField(),
            control=NLIPControlField(message_type="request", message_id="m", timestamp="t"),  # type: ignore[arg-type]
            token=NLIPTokenField(),
            content={},
            tool_calls=[call],
        )
        [response] = [item async for item in NLIPRouter(ToolManager([made])).route_message(asked)]
        assert "rain in Bergen" in str(response.content["result"])

"""Agents and MCP servers as tools: their names, their rights, their failures, and what is said once (MW-21, MW-27)."""

from __future__ import annotations

from typing import Any

import pytest

from sabir import Card, Message, Turn, agent
from sabir.agents.llm import LLM, ScriptedModel
from sabir.errors import Forbidden, PeerUnavailable, TurnFailed
from sabir.guard.rights import Rights, Rule
from sabir.message import json_part, text_part
from sabir.testing import FakeAgent, ask
from sabir.tools import McpTools, Toolbox, ToolCall, agent_tool
from sabir.turn import Caller


class FakeServer(FakeAgent):
    """Stands for an MCP server that lists its tools when it is asked to."""

    def __init__(self, *answers: Any, down: int = 0) -> None:
        super().__init__("files", *answers, card=Card("files", "Files"))
        self.tools: dict[str, dict[str, Any]] = {}
        self._down = down

    async def refresh(self) -> None:
        if self._down:
            self._down -= 1
            raise PeerUnavailable("files", "not yet")
        self.tools = {
            "read_note": {"description": "Reads", "annotations": {"readOnlyHint": True}},
            "write_note": {"description": "Writes"},
        }


def call(name: str, **arguments: Any) -> ToolCall:
    return ToolCall("1", name, arguments)


@pytest.mark.parametrize("pattern", ["read_*", "mcp__files__read_note", "mcp__files__read_*"])
async def test_a_right_names_a_tool_by_its_servers_name_or_in_full(pattern: str) -> None:  # MW-21
    rights = Rights((Rule(roles=("known",), tools=(pattern,)),))
    ada = Caller("ada", "key")

    def permit(*, tool: str = "", skill: str = "") -> None:
        rights.check(ada, agent="clerk", tool=tool, skill=skill)

    box = Toolbox(sources=[McpTools(FakeServer("the note"), "files")])  # type: ignore[arg-type]  # it has what a server has
    await box.load()
    turn = Turn(Message.text("?"), permit=permit)
    assert [tool.name for tool in box.allowed(turn)] == ["mcp__files__read_note"]
    (read,) = await box.call(turn, [call("mcp__files__read_note")])
    (written,) = await box.call(turn, [call("mcp__files__write_note")])
    assert read.text == "the note" and written.status == "error" and "no right" in written.error


async def test_a_server_that_is_down_is_left_out_and_asked_again(caplog: pytest.LogCaptureFixture) -> None:
    server = FakeServer("ok", down=1)
    box = Toolbox(sources=[McpTools(server, "files", confirm=("write_note",))])  # type: ignore[arg-type]
    await box.load()
    assert list(box) == [] and "Tools of files are unavailable" in caplog.text
    await box.load()
    assert list(box) == ["mcp__files__read_note", "mcp__files__write_note"]
    assert box["mcp__files__read_note"].repeatable and box["mcp__files__write_note"].confirm


@pytest.mark.parametrize(
    ("text", "data", "kept"),
    [
        ("nine\n", {"content": "nine\n"}, 1),
        ('{"n": 1}', {"n": 1}, 1),
        ("One item.", {"n": 1}, 2),
        ("nine", {"content": "nine", "size": 4}, 2),
    ],
)
async def test_structured_content_that_repeats_the_text_is_said_once(
    text: str, data: dict[str, Any], kept: int
) -> None:
    server = FakeServer(Message.of(text_part(text), json_part(data)))
    box = Toolbox(sources=[McpTools(server, "files")])  # type: ignore[arg-type]
    await box.load()
    (result,) = await box.call(Turn(Message.text("?")), [call("mcp__files__read_note")])
    assert len(result.parts) == kept


async def test_an_agent_with_typed_arguments_is_a_tool_with_its_schema() -> None:  # MW-27
    @agent
    async def forecast(turn: Turn, town: str, days: int = 1) -> str:
        """Tells the weather."""
        return f"{town}: rain for {days} days"

    made = agent_tool(forecast)
    assert made.name == "forecast" and made.schema["required"] == ["town"]
    steps = [{"tool_calls": [{"name": "forecast", "arguments": {"town": "Oslo", "days": 2}}]}, "Rain."]
    model = ScriptedModel(steps)
    await ask(LLM("guide", model, tools=[made]), "Weather?")
    assert model.asked[1][-1].content == "Oslo: rain for 2 days"


@pytest.mark.parametrize(
    "failure", [TurnFailed("out of order"), Forbidden("not for you"), PeerUnavailable("x", "gone")]
)
async def test_a_failure_of_an_agent_is_an_error_of_its_tool(failure: Exception) -> None:
    box = Toolbox([agent_tool(FakeAgent("helper", failure), name="help")])
    (result,) = await box.call(Turn(Message.text("?")), [call("help", text="hi")])
    assert result.status == "error" and str(failure) in result.error

"""A tool manager as a Toolbox: its tools get the rights, limits and filters of every tool call."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Mapping
from dataclasses import dataclass
from typing import Any

from sabir.errors import SabirError, TurnFailed
from sabir.message import Part
from sabir.tools.tool import Tool, ToolCall, ToolResult, parts_of
from sabir.tools.toolbox import CallOptions, Toolbox
from sabir.turn import Turn

from ..tool._manager import ToolManager
from .schema import NLIPToolCall, NLIPToolResult
from .translator import ProtocolTranslator


@dataclass(slots=True)
class Outcome:
    """The outcome of one call."""

    call: NLIPToolCall
    kind: str  # mcp, builtin, custom, or that of a plugin
    confirmed: bool = False  # whether the user has confirmed the call
    translated: NLIPToolResult | None = None
    pieces: AsyncIterator[Any] | None = None  # of a streaming tool
    result: ToolResult | None = None  # None: that kind of tool is disabled


class ManagedToolbox(Toolbox):
    """Calls tools by ``execute_tool``, and translates calls and results."""

    def __init__(self, manager: Any, translators: Mapping[str, ProtocolTranslator]) -> None:
        super().__init__()
        self._manager = manager
        self._translators = translators
        self._takes_turn = isinstance(manager, ToolManager)

    def find(self, name: str) -> Tool | None:
        """The tool of this name, if the manager has tools of ours."""
        held: Toolbox | None = getattr(self._manager, "toolbox", None)
        return held.find(name) if held is not None else None

    async def run_one(self, turn: Turn, outcome: Outcome, asking: asyncio.Lock, options: CallOptions) -> Outcome:
        """Run one call with all checks."""
        asked = outcome.call
        name = asked.tool_name
        tool = self.find(name)
        if tool is None:  # the manager itself reports unknown tools
            tool = Tool(name, "", {}, _unused, server=_server_of(name))
        call = ToolCall(asked.tool_id, name, asked.parameters, asked.require_confirmation, confirmed=outcome.confirmed)

        def run(turn: Turn, arguments: Mapping[str, Any]) -> Awaitable[tuple[Part, ...]]:
            return self._run(outcome, turn)

        outcome.result = await self.call_tool(tool, turn, call, asking, options, run)
        return outcome

    async def _run(self, outcome: Outcome, turn: Turn) -> tuple[Part, ...]:
        call, translator = outcome.call, self._translators[outcome.kind]
        native = await translator.nlip_to_native_call(call)
        options = native.get("options", {})
        if self._takes_turn:
            options = {**options, "turn": turn}
        try:
            found = await self._manager.execute_tool(
                tool_name=call.tool_name, parameters=native.get("parameters", {}), **options
            )
        except SabirError:
            raise
        except Exception as exc:  # in the design, callers see the text of a tool's error
            raise TurnFailed(str(exc) or type(exc).__name__) from exc
        if isinstance(found, AsyncIterator):
            outcome.pieces = found
            found = None
        outcome.translated = await translator.native_to_nlip_result(call.tool_id, call.tool_name, found)
        if outcome.translated.status == "error":
            raise TurnFailed(outcome.translated.error or "the tool failed")
        return parts_of(outcome.translated.result)


async def _unused(turn: Turn, arguments: Mapping[str, Any]) -> tuple[Part, ...]:
    return ()


def _server_of(name: str) -> str:
    """The MCP server in a name such as ``mcp__files__read_note``, by which a rule may name the tool."""
    prefix, _, rest = name.partition("__")
    return rest.partition("__")[0] if prefix == "mcp" and "__" in rest else ""

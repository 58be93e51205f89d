"""``ToolManager``: functions, files, MCP servers and agents as tools, under the design's name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from sabir.agent import Agent
from sabir.errors import ConfigError, NotFound
from sabir.message import Message
from sabir.tools import Tool, Toolbox, ToolSource, agent_tool, tool
from sabir.tools.router import value_of
from sabir.turn import Turn

__all__ = ["ToolManager"]


class ToolManager:
    """The tools of an agent, by name."""

    def __init__(self, tools: Iterable[Callable[..., Any] | Tool | Agent] = (), sources: Iterable[ToolSource] = ()):
        """``sources`` are MCP servers (``sabir.tools.McpTools``), whose tools are listed on demand.

        Raises:
            ConfigError: two tools have the same name, or one cannot be described in JSON Schema.
        """
        self._tools: dict[str, Tool] = {}
        self._sources = tuple(sources)
        self._toolbox: Toolbox | None = None
        for item in tools:
            self.add_tool_function(item)

    def add_tool_function(
        self, func: Callable[..., Any] | Tool | Agent, *, name: str | None = None, description: str | None = None
    ) -> str:
        """Add a function, a Tool or an agent; its type hints and docstring become its schema. Returns its name.

        Raises:
            ConfigError: the name is taken.
        """
        made = _tool_of(func)
        if name is not None:
            made = replace(made, name=name)
        if description is not None:
            made = replace(made, description=description)
        if made.name in self._tools:
            raise ConfigError(f"two tools are called {made.name!r}")
        self._tools[made.name] = made
        self._toolbox = None
        return made.name

    @property
    def toolbox(self) -> Toolbox:
        """The same tools in the form that a Sabir agent uses."""
        if self._toolbox is None:
            self._toolbox = Toolbox(self._tools.values(), sources=self._sources)
        return self._toolbox

    def list(self) -> list[dict[str, Any]]:
        """Name, description and JSON Schema of each tool known so far."""
        return [
            {"name": item.name, "description": item.description, "parameters": dict(item.schema)}
            for item in self.toolbox.values()
        ]

    def __iter__(self) -> Iterator[str]:
        return iter(self.toolbox)

    def __contains__(self, name: object) -> bool:
        return name in self.toolbox

    async def execute_tool(
        self, tool_name: str, parameters: Mapping[str, Any] | None = None, *, turn: Turn | None = None, **options: Any
    ) -> Any:
        """Run a tool directly, without rights or confirmation, and return its result.

        Raises:
            NotFound: there is no such tool; says why.
            SabirError: it failed.
        """
        box = self.toolbox
        found = box.find(tool_name)
        if found is None:
            await box.load()
            found = box.find(tool_name)
        if found is None:
            raise NotFound(box.missing(tool_name))
        return value_of(await found.run(turn or Turn(Message.text("")), parameters or {}))


def _tool_of(given: Callable[..., Any] | Tool | Agent) -> Tool:
    if isinstance(given, Tool):
        return given
    if isinstance(given, Agent):
        return agent_tool(given)
    made: Tool = tool(given)
    return made

"""Agents as tools: any agent of any protocol by its text, and the tools of an MCP server one by one."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

import msgspec

from sabir.agent import Agent, reply_of
from sabir.errors import SabirError
from sabir.message import Message, Part, json_part
from sabir.misfits import NOT_JSON
from sabir.turn import Turn

from .tool import Tool

logger = logging.getLogger("sabir.tools")

_ASK: Final = {
    "type": "object",
    "properties": {"text": {"type": "string", "description": "what to ask, in plain words"}},
    "required": ["text"],
    "additionalProperties": False,
}
_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9_-]")


class ToolServer(Protocol):
    """A remote agent that lists its tools: an MCP server."""

    card: Any
    tools: dict[str, dict[str, Any]]

    async def refresh(self) -> None: ...


def agent_tool(agent: Agent, name: str | None = None) -> Tool:
    """An agent as a tool that takes a text, or the arguments of its only skill if that has a schema."""
    card = agent.card
    skill = card.skills[0] if len(card.skills) == 1 and card.skills[0].input_schema else None
    schema: Mapping[str, Any] = skill.input_schema if skill is not None and skill.input_schema else _ASK

    async def run(turn: Turn, arguments: Mapping[str, Any]) -> tuple[Part, ...]:
        if skill is None:
            message = Message.text(str(arguments.get("text", "")))
        else:
            message = Message.of(json_part(dict(arguments), label=skill.id))
        return await _answer(agent, turn, message)

    return Tool(
        name or _NOT_IN_NAMES.sub("_", card.name),
        card.description,
        schema,
        run,
        kind="agent",
        server=card.name,
        repeatable=card.repeatable,
        agent=agent,
    )


class McpTools:
    """The tools of an MCP server, each as ``mcp__server__tool``, listed when first needed."""

    def __init__(self, server: ToolServer, name: str, *, only: Sequence[str] = (), confirm: Sequence[str] = ()) -> None:
        """``only`` names the tools that are offered (empty: all), ``confirm`` those that need the caller's consent."""
        self.name = name
        self._server = server
        self.agent: Agent = server  # type: ignore[assignment]  # a Peer is an Agent
        self._only = frozenset(only)
        self._confirm = frozenset(confirm)

    async def tools(self) -> list[Tool]:
        """What the server offers now.

        Raises:
            PeerError: it cannot be asked.
        """
        if not self._server.tools:
            await self._server.refresh()
        listed = self._server.tools.items()
        return [self._tool(name, answer) for name, answer in listed if not self._only or name in self._only]

    def _tool(self, name: str, listed: Mapping[str, Any]) -> Tool:
        async def run(turn: Turn, arguments: Mapping[str, Any]) -> tuple[Part, ...]:
            message = Message.of(json_part(dict(arguments), label=name))
            return _said_once(await _answer(self.agent, turn, message))

        hints = listed.get("annotations") or {}
        return Tool(
            f"mcp__{self.name}__{name}",
            str(listed.get("description") or ""),
            listed.get("inputSchema") or {"type": "object"},
            run,
            kind="mcp",
            server=self.name,
            repeatable=bool(hints.get("idempotentHint") or hints.get("readOnlyHint")),
            confirm=name in self._confirm,
            output_schema=listed.get("outputSchema"),
            agent=self.agent,
        )


async def _answer(agent: Agent, turn: Turn, message: Message) -> tuple[Part, ...]:
    """Ask an agent in a sub-turn; its failure is raised, so that the call is an error."""
    reply = await reply_of(agent(turn.sub(message, agent)))
    return reply.without_tokens().parts


def _said_once(parts: tuple[Part, ...]) -> tuple[Part, ...]:
    """The parts without structured content that repeats the text, as MCP servers send it for older clients."""
    texts = [part.content for part in parts if part.format == "text"]
    if len(texts) != 1:
        return parts
    return tuple(part for part in parts if part.format != "structured" or not _repeats(part.value, texts[0]))


def _repeats(value: Any, text: str) -> bool:
    if isinstance(value, Mapping) and len(value) == 1 and text in value.values():
        return True  # a text-only result, wrapped in an object because structured content must be one
    try:
        return bool(msgspec.json.decode(text) == value)
    except NOT_JSON:
        return False


class ToolSource(Protocol):
    """Tools that are listed on demand."""

    name: str

    async def tools(self) -> Sequence[Tool]: ...


async def tools_of(sources: Sequence[ToolSource]) -> tuple[list[Tool], list[ToolSource]]:
    """The tools of sources, and the sources that are unavailable; the log says why."""
    found: list[Tool] = []
    missing: list[ToolSource] = []
    for source in sources:
        try:
            found += await source.tools()
        except SabirError as exc:
            logger.warning("Tools of %s are unavailable: %s", source.name, exc)
            missing.append(source)
    return found, missing

"""Chooses the tool of an MCP server that a message means, and its arguments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from sabir.errors import BadMessage
from sabir.message import Message, Part
from sabir.protocols.mcp.wire import content as wire
from sabir.protocols.mcp.wire.cards import AGENT
from sabir.typed import value_of_words

_TALKING: Final = ("ask", "chat", "query", "search")  # tools that take plain text, if none is named
_TEXT_ARGUMENTS: Final = ("text", "query", "prompt", "message", "question", "input")

Tool = Mapping[str, Any]


def choose_tool(
    message: Message, tools: Mapping[str, Tool], preferred: str | None, server: str, token: str | None
) -> tuple[str, dict[str, Any]]:
    """The tool that a message means, and its arguments. ``token`` belongs to the conversation with the server.

    Raises:
        BadMessage: the message names no tool, and none of them takes plain text.
    """
    for part in message.parts:
        if part.label in tools and isinstance(part.value, dict):
            return part.label or "", part.value
    name = preferred or _talking_tool(tools, server)
    if name is None:
        known = ", ".join(list(tools)[:20])
        raise BadMessage(
            wire.PROTOCOL, "$", f"data labelled with the name of a tool: {known or 'the server has no tools'}"
        )
    properties = _properties(tools[name])
    given = next((part.value for part in message.parts if _is_object(part)), None)
    if given is not None and not message.text:
        return name, given
    if _takes_messages(tools[name]):
        return name, wire.arguments_of(message, token)
    if _is_typed_agent(tools[name]):
        return name, _typed_arguments(message.text.strip(), tools[name], token)
    argument = next((key for key in (*_TEXT_ARGUMENTS, *properties) if key in properties), "text")
    return name, {**(given or {}), argument: message.text}


def _talking_tool(tools: Mapping[str, Tool], server: str) -> str | None:
    """The tool that takes plain text: named like the server, an agent, with a common name, or the only one of them."""
    if server in tools:
        return server
    agents = [name for name, tool in tools.items() if _takes_messages(tool) or _is_typed_agent(tool)]
    if agents:
        return agents[0]  # a gateway of agents lists its default agent first
    named = next((name for name in _TALKING if name in tools), None)
    if named is not None:
        return named
    talking = [name for name, tool in tools.items() if _takes_text(tool)]
    return talking[0] if len(talking) == 1 else None


def _takes_messages(tool: Tool) -> bool:
    """True for an agent of a gateway that takes any message."""
    return {"text", "conversation"} <= _properties(tool).keys()


def _is_typed_agent(tool: Tool) -> bool:
    """True for an agent of a gateway that takes typed arguments, and not for one of an agent's further skills."""
    owner = (tool.get("_meta") or {}).get(AGENT)
    return isinstance(owner, Mapping) and owner.get("name") is not None and owner["name"] == owner.get("skill")


def _typed_arguments(words: str, tool: Tool, token: str | None) -> dict[str, Any]:
    """Text becomes the one required argument; if there are several, the agent asks for each."""
    properties = _properties(tool)
    names = (tool.get("inputSchema") or {}).get("required") or list(properties)
    arguments: dict[str, Any] = {}
    if words and len(names) == 1:
        shape = properties.get(names[0]) or {}
        is_number = shape.get("type") in ("integer", "number")
        arguments[names[0]] = _as_number(words, shape) if is_number else value_of_words(words, shape)
    if token is not None:
        arguments["conversation"] = token
    return arguments


def _as_number(words: str, shape: Mapping[str, Any]) -> Any:
    try:
        return int(words) if shape["type"] == "integer" else float(words)
    except ValueError:
        return words  # the server says what it expects


def _is_object(part: Part) -> bool:
    return part.format == "structured" and part.kind == "json" and isinstance(part.value, dict)


def _properties(tool: Tool) -> Mapping[str, Any]:
    return (tool.get("inputSchema") or {}).get("properties") or {}


def _takes_text(tool: Tool) -> bool:
    schema = tool.get("inputSchema") or {}
    properties = _properties(tool)
    required = schema.get("required") or list(properties)[:1]
    return len(required) == 1 and (properties.get(required[0]) or {}).get("type") == "string"

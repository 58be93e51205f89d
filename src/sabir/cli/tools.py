"""``sabir tools URL``: the tools at an address, whatever protocol it speaks, with their arguments."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from sabir.protocols.connect import speakers

from .address import address_of
from .printing import say, say_json
from .remote import add_options, remote_cards
from .wrapping import wrapped

ORDER: Final = ("mcp", "nlip", "a2a", "acl", "nlweb")  # MCP first: it lists the arguments of every tool


def add(parser: argparse.ArgumentParser) -> None:
    add_options(parser)
    parser.add_argument(
        "url",
        metavar="URL",
        nargs="?",
        help="a gateway, an agent or a server of any protocol; or an MCP server to start: 'stdio:python server.py'",
    )
    parser.add_argument(
        "--protocol",
        choices=list(speakers("http")),
        help="the protocol (default: MCP if the address speaks it, else detected)",
    )
    parser.add_argument(
        "--json", action="store_true", help="print the tools as JSON, with the schemas of their arguments"
    )


def run(arguments: argparse.Namespace) -> int:
    cards = asyncio.run(remote_cards(address_of(arguments.url), arguments, ORDER, arguments.protocol))
    tools = [tool for card in cards for tool in tools_of(card)]
    if arguments.json:
        say_json(msgspec.json.encode(tools))
        return 0
    for tool in tools:
        say(wrapped(f"{tool['name']}: {tool['description']}".rstrip(": "), indent="  "))
        for line in argument_lines(tool.get("input_schema")):
            say(wrapped(f"  {line}", indent="    "))
    if not tools:
        say("No tools.")
    return 0


def tools_of(card: Mapping[str, Any]) -> Iterable[dict[str, Any]]:
    """The tools of a card: its skills, or the agent itself if it lists none."""
    skills = card.get("skills") or ({"id": card["name"], "description": card.get("description", "")},)
    for skill in skills:
        name = skill.get("id") or skill.get("name", "")
        tool = {"name": name, "agent": card["name"], "description": skill.get("description") or skill.get("name", "")}
        if skill.get("input_schema"):
            tool["input_schema"] = skill["input_schema"]
        yield tool


def argument_lines(schema: Any) -> list[str]:
    """The arguments of a tool in words: ``town (string): which town``."""
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    if not isinstance(properties, Mapping):
        return []
    required = schema.get("required")
    lines = []
    for name, about in properties.items():
        about = about if isinstance(about, Mapping) else {}
        facts = [_kind(about)]
        if not isinstance(required, list) or name not in required:
            facts.append(f"default {about['default']!r}" if "default" in about else "optional")
        words = " ".join(str(about.get("description", "")).split())
        lines.append(f"{name} ({', '.join(fact for fact in facts if fact)}): {words}".rstrip(": "))
    return lines


def _kind(about: Mapping[str, Any]) -> str:
    options = about.get("enum")
    if isinstance(options, list):
        return " | ".join(map(str, options))
    kind = about.get("type", "")
    return " | ".join(map(str, kind)) if isinstance(kind, list) else str(kind)

"""Converts Cards to MCP's lists (tools, prompts, resources), and a whole MCP server to a Card."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from sabir.card import Card, Skill
from sabir.message import Message

from .content import INPUT, OUTPUT, Json, block_of, contents_of, parts_of

PROMPT: Final = "prompt"  # tag of a skill that is a prompt
AGENT: Final = "io.sabir/agent"  # in a tool's _meta: its agent, and where that is
RESOURCE: Final = "resource"  # tag of a skill that is a resource; its id is the address, or a template of it
_EMPTY: Final[Json] = {"type": "object", "properties": {}}


def tools_of(card: Card) -> dict[str, Skill | None]:
    """The tools of an agent by name: the agent itself, and each skill with an input schema.

    A skill with the agent's own name replaces the agent. The protocol allows more in a name than the models behind its
    clients
    do: letters, digits, hyphens and underscores work everywhere.
    """
    skills = {s.id: s for s in card.skills if s.input_schema is not None and not {PROMPT, RESOURCE} & set(s.tags)}
    if card.name in skills and len(skills) == 1:
        return {tool_name(card.name): skills[card.name]}
    if not skills and card.skills and all({PROMPT, RESOURCE} & set(skill.tags) for skill in card.skills):
        return {}
    own = {tool_name(f"{card.name}-{skill_id}"): skill for skill_id, skill in skills.items()}
    return {tool_name(card.name): None, **own}


def tool_name(text: str) -> str:
    """A name of which every client takes a tool."""
    return re.sub(r"[^A-Za-z0-9_-]", "-", text)[:64]


def tool(name: str, card: Card, skill: Skill | None, gateway: str = "") -> Json:
    """A Tool of the protocol; ``gateway`` is the name of the gateway that lists it."""
    if skill is None:
        described: Json = {
            "name": name,
            "title": card.name,
            "description": _description(card),
            "inputSchema": INPUT,
            "outputSchema": OUTPUT,
        }
    else:
        described = {
            "name": name,
            "title": skill.name,
            "description": skill.description or card.description,
            "inputSchema": skill.input_schema or _EMPTY,
        }
        if skill.output_schema is not None:
            described["outputSchema"] = skill.output_schema
    if card.repeatable:
        described["annotations"] = {"idempotentHint": True}
    described["_meta"] = {AGENT: _agent_meta(card, skill, gateway)}
    return described


def _agent_meta(card: Card, skill: Skill | None, gateway: str) -> Json:
    """Whose tool it is, for gateways that list our agents as theirs."""
    details: Json = {"name": card.name}
    if skill is not None:
        details["skill"] = skill.id
    if card.group:
        details["group"] = True
    if card.via:
        details["via"] = list(card.via)
    return details | ({"gateway": gateway} if gateway else {})


def _description(card: Card) -> str:
    lines = [card.description] if card.description else []
    lines += [f"- {skill.name}: {skill.description}" for skill in card.skills if skill.description]
    return "\n".join(lines)


def card_of(name: str, info: Mapping[str, Any], tools: Iterable[Mapping[str, Any]]) -> Card:
    """The Card of a whole MCP server: each tool a skill."""
    skills = tuple(
        Skill(
            str(item["name"]),
            str(item.get("title") or item["name"]),
            str(item.get("description") or ""),
            input_schema=item.get("inputSchema"),
            output_schema=item.get("outputSchema"),
            tool=str(item["name"]),
        )
        for item in tools
    )
    words = str(info.get("description") or info.get("title") or info.get("name") or "")
    return Card(name=name, description=words, version=str(info.get("version") or "1.0"), skills=skills)


# -- prompts and resources: skills by their tag ---------------------------------------------------------


def prompt(skill: Skill) -> Json:
    """A Prompt of the protocol."""
    schema = skill.input_schema or {}
    required = set(schema.get("required") or ())
    arguments = [
        {"name": name, "description": str(item.get("description", "")), "required": name in required}
        for name, item in (schema.get("properties") or {}).items()
    ]
    described: Json = {"name": skill.id, "title": skill.name, "description": skill.description}
    if arguments:
        described["arguments"] = arguments
    return described


def prompt_result(message: Message, description: str = "") -> Json:
    """A reply as the messages of a prompt."""
    said = message.without_tokens()
    messages = [{"role": "user", "content": block_of(part, number)} for number, part in enumerate(parts_of(said))]
    return {"description": description, "messages": messages}


def is_template(uri: str) -> bool:
    return "{" in uri


def resource(skill: Skill) -> Json:
    """A Resource, or a ResourceTemplate if the address has variables."""
    described: Json = {"name": skill.name, "description": skill.description}
    described["uriTemplate" if is_template(skill.id) else "uri"] = skill.id
    media = (skill.output_schema or {}).get("contentMediaType")
    if isinstance(media, str):
        described["mimeType"] = media
    return described


def matched(template: str, uri: str) -> dict[str, str] | None:
    """The variables of a template in an address, or None if it does not match."""
    pattern = "".join(
        f"(?P<{piece[1:-1]}>[^/]+)" if piece.startswith("{") else re.escape(piece)
        for piece in re.split(r"(\{[A-Za-z_][A-Za-z0-9_]*\})", template)
    )
    found = re.fullmatch(pattern, uri)
    return found.groupdict() if found is not None else None


def resource_result(message: Message, uri: str) -> Json:
    """A reply as the contents of a resource."""
    said = message.without_tokens()
    parts = [part for part in parts_of(said) if part.content != ""] or [said.first]
    return {"contents": [contents_of(part, uri) for part in parts]}


def completions(schema: Mapping[str, Any] | None, argument: str, value: str) -> list[str]:
    """Completions of an argument: the values in its schema that start with the text so far."""
    described = ((schema or {}).get("properties") or {}).get(argument) or {}
    known = [*(described.get("enum") or ()), *(described.get("examples") or ())]
    return [str(item) for item in known if str(item).lower().startswith(value.lower())][:100]

"""Cards as A2A agent cards, and back."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from a2a.types import a2a_pb2 as pb
from google.protobuf.json_format import MessageToDict

from sabir.card import Card, Policy, Skill

EXTENSION: Final = "urn:sabir:card:1"  # what a Card says that has no field on an agent card
_MODES: Final[Mapping[str, tuple[str, ...]]] = {
    "text": ("text/plain",),
    "structured": ("application/json", "text/html", "application/xml", "text/uri-list"),
    "binary": ("image/*", "audio/*", "video/*", "application/octet-stream"),
    "location": ("application/json",),
    "generic": ("application/json",),
}
_EXTENSION_FIELDS: Final = (
    "languages",
    "code",
    "extensions",
    "policies",
    "limits",
    "remembers",
    "repeatable",
    "site",
    "group",
    "via",
)
GATEWAY: Final = "urn:sabir:gateway:1"  # on the card of the default agent: the gateway, and its other agents


def card_to(
    card: Card,
    interfaces: Sequence[tuple[str, str, str]],
    *,
    schemes: Mapping[str, pb.SecurityScheme] | None = None,
    required: bool = False,
    skills: bool = True,
    whole: bool = False,
) -> pb.AgentCard:
    """An agent card made from a Card.

    ``interfaces`` are (binding, url, version); ``whole`` adds what only known callers get.
    """
    made = pb.AgentCard(
        name=card.name,
        description=card.description or card.name,
        version=card.version,
        supported_interfaces=[
            # One gRPC address serves all agents; the tenant of a request names the agent.
            pb.AgentInterface(
                protocol_binding=binding,
                url=url,
                protocol_version=version,
                tenant=card.name if binding == "GRPC" else "",
            )
            for binding, url, version in interfaces
        ],
        capabilities=pb.AgentCapabilities(
            streaming=card.streams, push_notifications=True, extended_agent_card=schemes is not None
        ),
        default_input_modes=_modes(card.reads),
        default_output_modes=_modes(card.says),
        skills=_skills(card) if skills else [],
    )
    if card.provider:
        made.provider.organization = card.provider
        made.provider.url = card.documentation
    if card.documentation:
        made.documentation_url = card.documentation
    for name, scheme in (schemes or {}).items():
        made.security_schemes[name].CopyFrom(scheme)
        if required:
            made.security_requirements.append(pb.SecurityRequirement(schemes={name: pb.StringList()}))
    made.capabilities.extensions.append(_extension(card, whole))
    return made


def _extension(card: Card, whole: bool) -> pb.AgentExtension:
    fields = msgspec.to_builtins(card)
    params = {key: fields[key] for key in _EXTENSION_FIELDS if key in fields and (whole or key != "limits")}
    made = pb.AgentExtension(uri=EXTENSION, description="What this agent promises: languages, policies, memory.")
    if params:
        made.params.update(params)
    return made


def gateway_extension(gateway: str, agents: Sequence[str], base: str) -> pb.AgentExtension:
    """The extension for the agents behind one gateway; A2A itself has one agent per address."""
    made = pb.AgentExtension(uri=GATEWAY, description="The other agents here: each has a card below its address.")
    made.params.update({"gateway": gateway, "agents": [{"name": name, "url": f"{base}/{name}"} for name in agents]})
    return made


def gateway_of(card: pb.AgentCard) -> tuple[str, list[str]] | None:
    """The gateway that a card names, and the names of its agents; None without the extension."""
    params = next((MessageToDict(e.params) for e in card.capabilities.extensions if e.uri == GATEWAY), None)
    if params is None:
        return None
    rows = params.get("agents")
    names = [row.get("name") for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    return str(params.get("gateway") or ""), [name for name in names if isinstance(name, str)]


def site_of(card: pb.AgentCard) -> str | None:
    """The site that a remote agent answers for, if it says so."""
    params = next((MessageToDict(e.params) for e in card.capabilities.extensions if e.uri == EXTENSION), {})
    site = params.get("site")
    return site if isinstance(site, str) else None


def _modes(formats: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(mode for name in formats for mode in _MODES.get(name, ()))) or ["text/plain"]


def _skills(card: Card) -> list[pb.AgentSkill]:
    if not card.skills:
        words = card.description or card.name
        return [pb.AgentSkill(id=card.name, name=card.name, description=words, tags=[card.site or card.name])]
    return [
        pb.AgentSkill(
            id=skill.id,
            name=skill.name,
            description=skill.description or skill.name,
            tags=list(skill.tags) or [card.name],
            examples=list(skill.examples),
        )
        for skill in card.skills
    ]


def card_from(card: pb.AgentCard) -> Card:
    """A remote agent's card as a Card."""
    params = next((MessageToDict(e.params) for e in card.capabilities.extensions if e.uri == EXTENSION), {})
    return Card(
        name=_name(card.name),
        description=card.description,
        version=card.version or "1.0",
        skills=tuple(
            Skill(skill.id, skill.name, skill.description, tuple(skill.tags), tuple(skill.examples))
            for skill in card.skills
            if (skill.id, skill.description) != (card.name, card.description)  # the agent itself, repeated
        ),
        reads=_formats(card.default_input_modes),
        says=_formats(card.default_output_modes),
        languages=_strings(params.get("languages")),
        policies=_policies(params.get("policies")),
        provider=card.provider.organization,
        documentation=card.documentation_url,
        streams=card.capabilities.streaming,
        group=params.get("group") is True,
        via=_strings(params.get("via")),
    )


def _name(name: str) -> str:
    """A valid Card name: the agent's own, with other characters replaced by hyphens."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", name).strip("-_.")[:64] or "agent"


def _formats(modes: Sequence[str]) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for mode in modes:
        kind, _, rest = mode.lower().partition("/")
        if kind in ("image", "audio", "video") or rest == "octet-stream":
            found["binary"] = None
        elif mode.lower() == "text/plain" or kind not in ("application", "text"):
            found["text"] = None
        else:
            found["structured"] = None
    return tuple(found) or ("text",)


def _strings(value: Any) -> tuple[str, ...]:
    return tuple(item for item in value if isinstance(item, str)) if isinstance(value, list) else ()


def _policies(value: Any) -> tuple[Policy, ...]:
    try:
        return msgspec.convert(value or [], tuple[Policy, ...])
    except msgspec.ValidationError:
        return ()

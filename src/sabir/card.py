"""Card: an Agent's description of itself. Discovery is answered from Cards, not by agents."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from .message import STRUCTURED, Message, language_name, language_tag, printable

_STRUCTURED_KINDS = frozenset(STRUCTURED.values())
_EVERYTHING = ("text", "structured", "binary", "location", "generic")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


class Skill(msgspec.Struct, frozen=True, omit_defaults=True):
    """One thing the agent can do."""

    id: str
    name: str
    description: str = ""
    tags: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()
    input_schema: dict[str, Any] | None = None
    output_schema: dict[str, Any] | None = None
    tool: str = ""  # its tool name, for rules of ``rights``
    asks: bool = False  # whether it asks for a missing required argument


class Policy(msgspec.Struct, frozen=True, omit_defaults=True):
    """A policy of the agent: privacy, retention, regulatory, attributes, ethics."""

    kind: str
    text: str
    terms: dict[str, Any] = {}
    required: bool = False  # must be accepted before a client can ask the agent


class Card(msgspec.Struct, frozen=True, omit_defaults=True):
    """Name, description, skills, formats and promises."""

    name: str
    description: str = ""
    version: str = "1.0"
    skills: tuple[Skill, ...] = ()
    reads: tuple[str, ...] = _EVERYTHING
    says: tuple[str, ...] = ("text",)
    languages: tuple[str, ...] = ()  # names or tags; empty: any
    code: tuple[str, ...] | None = None  # programming languages it knows; None: accepts all as data
    extensions: tuple[str, ...] | None = None  # generic subformats it knows; None: accepts all as data
    policies: tuple[Policy, ...] = ()
    limits: dict[str, int] = {}
    provider: str = ""
    documentation: str = ""
    remembers: bool = True  # turns are recorded and earlier ones passed to the agent
    repeatable: bool = False  # running the same turn twice does no harm, so lost work may be restarted
    streams: bool = True
    ontologies: tuple[str, ...] = ()  # ACL ontologies that it knows; empty: any
    publishes: tuple[str, ...] = ()  # topics that others can subscribe to over ACL and NLIP
    site: str | None = None  # the site it answers for, if it is a site agent
    group: bool = False  # messages to it go to its members, who also get those to everybody
    via: tuple[str, ...] = ()  # the gateways through which it is reached from here, farthest first

    def cannot_read(self, message: Message) -> str | None:
        """Why this agent cannot read a message, for the sender; None if it can (CORE-5.3)."""
        unread = self._unread_formats(message)
        if unread and all(part.format in unread for part in message.parts if part.content not in (None, "")):
            return f"I do not read {_listed(unread)}; I read {_listed(self.reads)}."
        if not self.languages and self.code is None and self.extensions is None:
            return None
        for part in message.parts:
            if part.format == "text" and self.languages and part.content:
                known = {language_tag(name) for name in self.languages} | {"en"}
                if part.language not in known:
                    names = ", ".join(language_name(tag) for tag in sorted(known))
                    return f"I do not read {printable(part.subformat)}; I read {names}."
            elif part.format == "structured" and self.code is not None and part.kind not in _STRUCTURED_KINDS:
                if not _named(part.kind, self.code):
                    return f"I do not know the language {printable(part.subformat)}."
            elif (
                part.format == "generic" and self.extensions is not None and not _named(part.subformat, self.extensions)
            ):
                return f"The extension {printable(part.subformat)} is not supported here."
        return None

    def leaves_out(self, message: Message) -> str | None:
        """What this agent does not read of a message that it answers; None if it reads all of it."""
        unread = self._unread_formats(message)
        return f"I did not read {_listed(unread)}; I read {_listed(self.reads)}." if unread else None

    def missing_policies(self, agreed: Mapping[str, Any]) -> frozenset[str]:
        """The kinds of policy that this agent requires and that a conversation, by its agreements, has not accepted."""
        if not self.policies:
            return frozenset()
        required = frozenset(policy.kind for policy in self.policies if policy.required)
        return required.difference(agreed.get("policy", {}).get("accepted", ()))

    def _unread_formats(self, message: Message) -> tuple[str, ...]:
        if len(self.reads) >= len(_EVERYTHING):
            return ()
        formats = dict.fromkeys(part.format for part in message.parts if part.content not in (None, ""))
        return tuple(name for name in formats if name in _EVERYTHING and name not in self.reads)

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ValueError(
                f"a card's name is 1 to 64 letters, digits, dots, hyphens or underscores, not {self.name!r}"
            )


def required_policies(cards: Iterable[Card]) -> tuple[Policy, ...]:
    """What an agent that passes questions to agents with these cards requires: all that they require, each once."""
    found: list[Policy] = []
    for card in cards:
        found += [policy for policy in card.policies if policy.required and policy not in found]
    return tuple(found)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names)


def _named(name: str, names: tuple[str, ...]) -> bool:
    return name.lower() in {item.lower() for item in names}

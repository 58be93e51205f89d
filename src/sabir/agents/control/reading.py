"""What a control message wishes for: from labelled JSON parts, or from plain English by rules (D-27).

Pure. A wish has a topic and a value; the same wish comes of words and of JSON, so everything behind this
is written once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from re import Match
from typing import Any, Final

from ...guard.agreements import TAKE_BACK
from ...message import Message

TOPICS: Final[Mapping[str, str]] = {
    "capabilities": "what the agents here can do",
    "limits": "how large and how fast messages may be, and agree on smaller limits",
    "policy": "privacy, regulatory and attribute policies: ask, require, accept",
    "upload": "a place to upload large data",
    "context": "who keeps the context (server, client or both), and how many turns",
    "history": "what was said so far, with time and speaker",
    "sessions": "list, describe and end sessions",
    "anonymous": "agree on anonymous mode",
    "accept": "which formats and languages you can read",
    "stream": "partial answers ahead of the whole one",
    "ethics": "the ethics statement",
    "security": "the security statement and the ECMA-434 report",
    "authentication": "how to say who you are",
    "cancel": "take back a question or the work under way",
}

# Labels that mean a topic, beside its own name.
_LABELS: Final[Mapping[str, str]] = {
    "capability": "capabilities",
    "limit": "limits",
    "policies": "policy",
    "uploads": "upload",
    "session": "sessions",
    "anonymity": "anonymous",
    "accepts": "accept",
    "formats": "accept",
    "profile": "security",
}


@dataclass(frozen=True, slots=True)
class Wish:
    """One thing that is asked of the gateway. ``value`` holds what was said about it; empty is a question."""

    topic: str
    value: Mapping[str, Any] = field(default_factory=dict)
    terse: bool = False  # asked in the words of nlip_swarm, to be answered in its form


Values = Callable[[str, Match[str]], Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Rule:
    topic: str
    pattern: re.Pattern[str]
    values: Values
    terse: bool = False


_WORDS: Final = {
    "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10,
    "twenty": 20, "fifty": 50, "hundred": 100,
}  # fmt: skip
_UNITS: Final = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3}
_NUMBER: Final = r"(?P<number>\d[\d,._]*|" + "|".join(_WORDS) + ")"


def number(said: str) -> int:
    """``2,000``, ``five`` and ``20`` as numbers."""
    word = said.lower()
    return _WORDS[word] if word in _WORDS else int(re.sub(r"[,._]", "", said))


def _nothing(text: str, match: Match[str]) -> Mapping[str, Any]:
    return {}


def _said(**values: Any) -> Values:
    return lambda text, match: values


def _size(text: str, match: Match[str]) -> Mapping[str, Any]:
    unit = _UNITS[(match.group("unit") or "")[:1].lower()]
    name = "reply" if re.search(r"\b(repl|answer|respon)", text, re.I) else "body"
    return {"propose": {name: number(match.group("number")) * unit}}


def _rate(text: str, match: Match[str]) -> Mapping[str, Any]:
    per = {"second": 60, "minute": 1, "hour": 1 / 60}[match.group("per").lower()]
    return {"propose": {"rate_per_minute": number(match.group("number")) * per}}


def _horizon(text: str, match: Match[str]) -> Mapping[str, Any]:
    return {"horizon": number(match.group("number"))}


def _window(text: str, match: Match[str]) -> Mapping[str, Any]:
    return {"window": number(match.group("number"))}


def _accepted(text: str, match: Match[str]) -> Mapping[str, Any]:
    kinds = re.findall(r"\b(privacy|retention|regulatory|attributes?|ethics)\b", text, re.I)
    return {"accept": sorted({_plural(kind.lower()) for kind in kinds}) or ["*"]}


def _plural(kind: str) -> str:
    return "attributes" if kind == "attribute" else kind


def _formats(text: str, match: Match[str]) -> Mapping[str, Any]:
    found = re.findall(r"\b(text|json|structured|html|xml|binary|images?|audio|location|english)\b", text, re.I)
    return {"formats": sorted({_FORMAT_WORDS.get(word.lower(), word.lower()) for word in found})}


_FORMAT_WORDS: Final = {
    "structured": "structured/json", "json": "structured/json", "html": "structured/html", "xml": "structured/xml",
    "english": "text", "image": "binary/image", "images": "binary/image", "audio": "binary/audio",
}  # fmt: skip


def _rule(topic: str, pattern: str, values: Values = _nothing, *, terse: bool = False) -> Rule:
    return Rule(topic, re.compile(pattern, re.IGNORECASE | re.DOTALL), values, terse)


_KEEPS: Final = r"(keep|hold|maintain|carry|send|remember)\b.{0,20}\b(context|history|conversation)"
_READS: Final = r"(only|can(not|'t)?|understand|read|accept|support)\b.{0,60}"
_FORMAT_NAMES: Final = r"\b(text|json|structured|html|xml|formats?|english)\b"
_BYTES: Final = r"\s?(?P<unit>[kmg]?)i?(b|bytes?|characters?)\b"
_TURNS: Final = r"\s+(turns?|messages?|entries|exchanges)\b"
_SAID: Final = r"what (was|did we|have we) sa(id|y)"
_ASKS: Final = r"what can you do|what (do you|does this) (do|offer)|who are you"

# Tried in order; the first that fits is meant. Orders stand before questions of the same topic.
RULES: Final[tuple[Rule, ...]] = (
    _rule("capabilities", r"describe your nlip capabilit", terse=True),
    _rule("upload", r"\b(upload|out[- ]of[- ]band|(large|big|huge) (file|data|binary|video|image|document))"),
    Rule("cancel", TAKE_BACK, _nothing),
    _rule(
        "sessions",
        r"\b(erase|forget|delete) (this|the|my|our) (session|conversation|history|context|data)",
        _said(erase=True),
    ),
    _rule("sessions", r"\b(close|end|terminate|finish|leave)\b.{0,20}\b(session|conversation|chat)", _said(end=True)),
    _rule("sessions", r"\bheadless\b", _said(headless=True)),
    _rule("sessions", r"\bbackground\b", _said(background=True)),
    _rule("sessions", r"\b(sessions?\b|(open|parallel|my) conversations)"),
    _rule("anonymous", r"\b(leave|end|stop|without|no longer).{0,20}\banonym", _said(propose=False)),
    _rule("anonymous", r"\b(can|may|do|is|are|does)\b.{0,40}\banonym.{0,40}\?"),
    _rule("anonymous", r"\banonym|\bincognito\b", _said(propose=True)),
    _rule("policy", r"\b(accept|agree|consent)\b.{0,60}\b(polic|terms|privacy|regulatory)", _accepted),
    _rule("policy", r"\b(polic(y|ies)|privacy|retention|regulat|jurisdiction|gdpr|attributes? (do you|disclos))"),
    _rule(
        "limits",
        r"\b(messages?|repl(y|ies)|answers?|responses?|limit\w*|size)\b.{0,40}?\b" + _NUMBER + _BYTES,
        _size,
    ),
    _rule(
        "limits",
        _NUMBER + r"\s+(messages?|requests?|questions?)\s+(a|per|each|every)\s+(?P<per>second|minute|hour)",
        _rate,
    ),
    _rule("limits", r"\b(limits?|maximum|how (large|big|long|fast|many bytes)|quota|rate)\b"),
    _rule("history", rf"\b(history|transcript|{_SAID}|last)\b.{{0,30}}?\b" + _NUMBER + _TURNS, _horizon),
    _rule("history", rf"\b(show|give|list|send me|tell)\b.{{0,20}}\b(history|transcript)|{_SAID} so far"),
    _rule("context", r"\bI('ll| will| shall| want to| would like to)? " + _KEEPS, _said(keeper="client")),
    _rule("context", r"\b(we|both)\b.{0,20}\b" + _KEEPS, _said(keeper="both")),
    _rule("context", r"\b(you|please|server)\b.{0,20}\b" + _KEEPS, _said(keeper="server")),
    _rule("context", r"\b(context|window|remember)\b.{0,40}?\b" + _NUMBER + _TURNS, _window),
    _rule("history", r"\b(history|transcript)\b"),
    _rule("context", r"\b(context|remember|memory)\b"),
    _rule("accept", r"\b" + _READS + _FORMAT_NAMES, _formats),
    _rule("stream", r"\b(stop|no|without|disable)\b.{0,30}\b(stream|partial)", _said(on=False)),
    _rule("stream", r"\b(stream|partial (answers?|messages?|repl))", _said(on=True)),
    _rule("ethics", r"\bethic"),
    _rule("security", r"\b(security|ecma-?434|profile|secure)\b"),
    _rule("authentication", r"\b(authenticat|log ?in|sign ?in|credential|api key|bearer|who am i)"),
    _rule("capabilities", rf"\b(capabilit|{_ASKS}|skills?\b|help\b|agents?\b|features?\b|services?\b)"),
)
_READ_AT_MOST: Final = 2000  # characters; a wish is said at the beginning


def read(message: Message) -> list[Wish]:
    """The wishes of a control message: labelled JSON parts if there are any, else what its words say."""
    wishes = [wish for part in message.parts if (wish := _labelled(part.label, part.value)) is not None]
    if any(wish.topic == "context" for wish in wishes):
        wishes = [wish for wish in wishes if wish.topic != "history"]  # it is handed over with the context
    if wishes:
        return wishes
    wish = read_words(message.text)
    return [] if wish is None else [wish]


def _labelled(label: str | None, value: object) -> Wish | None:
    if label is None:
        return None
    name = label.strip().lower()
    topic = _LABELS.get(name, name)
    if topic not in TOPICS:
        return None
    if isinstance(value, dict):
        return Wish(topic, value)
    return Wish(topic, {} if value in (None, "", True) else {"is": value})


def read_words(text: str) -> Wish | None:
    """What an English sentence wishes for, or None if no rule knows it."""
    text = text[:_READ_AT_MOST]
    for rule in RULES:
        match = rule.pattern.search(text)
        if match is not None:
            return Wish(rule.topic, rule.values(text, match), rule.terse)
    return None

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
    unless: re.Pattern[str] | None = None  # then it is not meant: "I do not accept", "must I accept?"


# -- numbers --------------------------------------------------------------------------------------

_ONES: Final = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
)  # fmt: skip
_TENS: Final = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_SCALES: Final[Mapping[str, int]] = {"dozen": 12, "hundred": 100, "thousand": 1000, "million": 10**6, "billion": 10**9}
_WORDS: Final[Mapping[str, int]] = {
    **{word: value for value, word in enumerate(_ONES)},
    **{word: 10 * value for value, word in enumerate(_TENS, 2)},
}
_WORD: Final = rf"(?:{'|'.join((*_WORDS, *_SCALES))})"
# Repetitions are bounded, so that no sentence takes long to read.
_SPOKEN: Final = rf"(?:an?\s+(?={'|'.join(_SCALES)}))?{_WORD}(?:(?:\s+and\s+|[\s-]+){_WORD}){{0,8}}"
_NUMBER: Final = rf"(?P<number>\b\d{{1,20}}(?:[,._]\d{{1,9}}){{0,6}}(?:\s+(?:{'|'.join(_SCALES)})\b)?|{_SPOKEN}\b)"
_THOUSANDS: Final = re.compile(r"\d{1,3}(?:([,._])\d{3})(?:\1\d{3})*")  # 2,000 and 2.000 and 1,000,000
_MOST: Final = 1e15  # no limit is larger, and no number behind it overflows
_UNITS: Final = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3}


def number(said: str) -> float:
    """``2,000``, ``1.5``, ``five``, ``twenty-five``, ``two thousand`` and ``a dozen`` as numbers."""
    total, group = 0.0, 0.0
    for word in re.split(r"[\s-]+", said.lower()):
        if word in _WORDS:
            group += _WORDS[word]
        elif word in _SCALES:
            group = (group or 1) * _SCALES[word]
            if _SCALES[word] >= 1000:
                total, group = total + group, 0.0
        elif word[:1].isdigit():
            group += _digits(word)
    return min(total + group, _MOST)


def _digits(word: str) -> float:
    if _THOUSANDS.fullmatch(word):
        return float(re.sub(r"[,._]", "", word))
    whole, dot, rest = word.replace(",", "").replace("_", "").partition(".")
    return float(f"{whole}.{rest}") if dot and rest.isdigit() else float(re.sub(r"\D", "", word))


# -- what is said about a topic -------------------------------------------------------------------


def _nothing(text: str, match: Match[str]) -> Mapping[str, Any]:
    return {}


def _said(**values: Any) -> Values:
    return lambda text, match: values


def _counted(name: str) -> Values:
    return lambda text, match: {name: int(number(match.group("number")))}


def _proposed(name: str) -> Values:
    return lambda text, match: {"propose": {name: int(number(match.group("number")))}}


def _size(text: str, match: Match[str]) -> Mapping[str, Any]:
    unit = _UNITS[(match.group("unit") or match.group("bare") or "")[:1].lower()]
    name = "reply" if re.search(r"\b(repl|answer|respon|send me\b|give me\b)", text, re.I) else "body"
    return {"propose": {name: int(number(match.group("number")) * unit)}}


def _rate(text: str, match: Match[str]) -> Mapping[str, Any]:
    per = {"s": 60.0, "m": 1.0, "h": 1 / 60}[match.group("per")[0].lower()]
    return {"propose": {"rate_per_minute": number(match.group("number")) * per}}


def _accepted(text: str, match: Match[str]) -> Mapping[str, Any]:
    kinds = re.findall(r"\b(privacy|retention|regulatory|attributes?|ethics)\b", text, re.I)
    return {"accept": sorted({_plural(kind.lower()) for kind in kinds}) or ["*"]}


def _plural(kind: str) -> str:
    return "attributes" if kind == "attribute" else kind


_FORMAT_WORDS: Final[Mapping[str, str]] = {
    "text": "text", "english": "text", "structured": "structured/json", "json": "structured/json",
    "html": "structured/html", "xml": "structured/xml", "binary": "binary", "images": "binary/image",
    "image": "binary/image", "pictures": "binary/image", "audio": "binary/audio", "video": "binary/video",
    "videos": "binary/video", "location": "location",
}  # fmt: skip
_ALL_FORMATS: Final = (
    "text", "structured/json", "structured/uri", "structured/html", "structured/xml", "binary/image", "binary/audio",
    "binary/video", "binary/sensor", "binary/generic", "location", "generic",
)  # fmt: skip
_FORMAT: Final = rf"\b(?:{'|'.join(_FORMAT_WORDS)}|formats?)\b"
_NOT_READ: Final = re.compile(r"\b(can('|’)?t|cannot|do(es)?( not|n('|’)t)|no|without|unable)\b", re.I)
_BUT: Final = re.compile(r"\bonly\b|\b(anything|nothing|none|all)\b.{0,10}\b(but|except|other than|besides)\b", re.I)


def _formats(text: str, match: Match[str]) -> Mapping[str, Any]:
    found = {_FORMAT_WORDS[word.lower()] for word in re.findall(_FORMAT, text, re.I) if word.lower() in _FORMAT_WORDS}
    if _NOT_READ.search(text) and not _BUT.search(text):
        kept = [each for each in _ALL_FORMATS if each not in found and each.partition("/")[0] not in found]
        return {"formats": kept if found else []}
    return {"formats": sorted(found)}


_LANGUAGES: Final = "german|french|spanish|italian|portuguese|dutch|polish|russian|arabic|hindi|chinese|japanese|korean"


def _languages(text: str, match: Match[str]) -> Mapping[str, Any]:
    return {"languages": sorted({word.lower() for word in re.findall(rf"\b(?:{_LANGUAGES})\b", text, re.I)})}


# -- the rules ------------------------------------------------------------------------------------


def _rule(topic: str, pattern: str, values: Values = _nothing, *, terse: bool = False, unless: str = "") -> Rule:
    flags = re.IGNORECASE | re.DOTALL
    return Rule(topic, re.compile(pattern, flags), values, terse, re.compile(unless, flags) if unless else None)


_NOT: Final = r"(?:not|n['’]t|dont|never|cannot|refuse to|decline to|unwilling to|nor)\s+(?:\w+\s+){0,2}?"
_ASKING: Final = r"^\W*(how|when|do|does|did|will|what|why|is|are|must|should|which|who)\b"
# What cannot be undone, and what is a promise, must be said as such: a denial or a question is neither.
_NO_CONSENT: Final = rf"\b(if|unless|until)\b|\?|{_NOT}(accept|agree|consent)|\bdisagree"
_ERASE: Final = "(erase|forget|delete|remove|wipe)"
_NO_ERASURE: Final = rf"{_ASKING}|{_NOT}{_ERASE}|\b(but|except)\b"
_NO_END: Final = rf"{_ASKING}|{_NOT}(close|end|terminate|finish|leave)"

_VERBS: Final = r"(keep|hold|maintain|carry|send|remember|manage|store|handle|take care of)"
_KEEPS: Final = rf"{_VERBS}\b.{{0,20}}\b(context|history|conversation)"
_READS: Final = r"(only|can(not|('|’)?t)?|understand|read|accept|support|show|displays?)\b.{0,60}?"
_BYTES: Final = r"(\s?(?P<unit>kilo|mega|giga|[kmg]i?)?(b|bytes?|characters?|chars?|letters)|(?P<bare>(?<=\d)[kmg]))\b"
_MUCH: Final = (
    r"messages?|repl(y|ies)|answers?|responses?|limit\w*|size|send|length|more than|exceed|at most|up to|below|under|"
    r"(less|shorter|smaller|longer|larger) than|maximum"
)
_TURNS: Final = r"\s+(turns?|messages?|entries|exchanges|things)\b"
_SAID: Final = r"what (was|did (i|we|you)|have (i|we|you)|(i|we|you)( have| had)?)( been)? (said|say|saying)"
_ASKS: Final = r"what (can|could) you do|what are you able|what (do you|does this) (do|offer)|who are you"
_THING: Final = (
    r"(files?|data|binar(y|ies)|videos?|images?|documents?|recordings?|attachments?|photos?|datasets?|pdfs?)"
)

# Tried in order; the first that fits is meant. Orders stand before questions of the same topic.
RULES: Final[tuple[Rule, ...]] = (
    _rule("capabilities", r"describe your nlip capabilit", terse=True),
    _rule("upload", rf"\b(upload|out[- ]of[- ]band|(large|big|huge|long) {_THING}\b)"),
    _rule("upload", rf"{_NUMBER}{_BYTES}\s+(of\s+)?{_THING}\b"),
    Rule("cancel", TAKE_BACK, _nothing),
    _rule(
        "sessions",
        rf"\b{_ERASE}\s+(all\s+)?(of\s+)?(everything|(this|the|my|our)\s+(session|conversation|"
        r"history|context|data|chat)|what (i|we)( have)? said)",
        _said(erase=True),
        unless=_NO_ERASURE,
    ),
    _rule(
        "sessions",
        r"\b(close|end|terminate|finish|leave)\b.{0,20}\b(session|conversation|chat)|^\W*(good\s?)?bye\b",
        _said(end=True),
        unless=_NO_END,
    ),
    _rule("sessions", r"\bheadless\b", _said(headless=True)),
    _rule("sessions", r"\bbackground\b", _said(background=True)),
    _rule("context", r"\b(resume|continue|pick up)\b.{0,25}\b(conversation|session|talk|where we)", _said(resume=True)),
    _rule("sessions", r"\b(sessions?\b|(open|parallel|my|new|another|second) conversations?\b)"),
    _rule("anonymous", r"\b(leave|end|stop|without|no longer).{0,20}\banonym", _said(propose=False)),
    _rule("anonymous", r"\b(can|may|do|is|are|does)\b.{0,40}\banonym.{0,40}\?"),
    _rule("anonymous", r"\banonym|\bincognito\b", _said(propose=True)),
    _rule(
        "anonymous",
        r"\bnot (say|tell|reveal|disclose|give)\b.{0,20}\b(who i am|my (name|identity))",
        _said(propose=True),
    ),
    _rule(
        "policy",
        r"\b(accept|agree|consent)\b.{0,60}\b(polic|terms|privacy|regulatory|conditions)",
        _accepted,
        unless=_NO_CONSENT,
    ),
    _rule(
        "policy",
        r"^\W*((yes|ok|okay|sure|fine)\W+)?(i|we)( do| hereby| all)? (accept|agree|consent)"
        r"( (to|with))?( (it|this|that|them|all( of (it|this|that|them))?))?\W*$",
        _accepted,
    ),
    _rule(
        "policy",
        rf"{_NOT}(use|look at|read|see|keep|store|share|track)\s+(of\s+)?my (location|position|whereabouts)",
        _said(attributes={"withhold": ["location"]}),
    ),
    _rule(
        "policy",
        r"\b(polic(y|ies)|privacy|retention|regulat|jurisdiction|gdpr|attributes? (do you|disclos)|third part(y|ies)|"
        r"(my|our|personal|user) (data|information)|laws?\b|legal|terms and conditions|(your|these|the) terms)",
    ),
    _rule("limits", rf"\b{_NUMBER}\s+(nested\s+)?levels?\b", _proposed("depth")),
    _rule("limits", rf"\b(depth|nesting)\b.{{0,20}}?\b{_NUMBER}\b", _proposed("depth")),
    _rule("limits", rf"\b({_MUCH})\b.{{0,40}}?\b{_NUMBER}{_BYTES}", _size),
    _rule(
        "limits",
        rf"\b{_NUMBER}\s+(messages?|requests?|questions?|calls?|times)\s*(a|an|per|each|every|in (a|one)|/)\s*"
        r"(?P<per>sec(ond)?|min(ute)?|hour)s?\b",
        _rate,
    ),
    _rule("limits", rf"\b{_NUMBER}\s+(sub-?messages?|parts)\b", _proposed("submessages")),
    _rule(
        "limits",
        r"\b(limits?|maximum|how (large|big|long|fast|many bytes)|quota|rate)\b|"
        r"\bhow (many|often)\b.{0,40}\b(send|ask|messages|requests|a|per) (minute|second|hour|may|can)",
    ),
    _rule(
        "history",
        rf"\b(show|give|list|send me|tell|repeat|what)\b.{{0,40}}?\b(history|transcript|{_SAID}|last)\b.{{0,30}}?\b"
        + _NUMBER
        + _TURNS,
        _counted("horizon"),
    ),
    _rule("context", r"\b(all but|except|as context)\b.{0,20}?\b" + _NUMBER + _TURNS, _counted("window")),
    _rule(
        "context",
        r"\b(context|window|remember|use|consider|keep|memory)\b.{0,40}?\b" + _NUMBER + _TURNS,
        _counted("window"),
    ),
    _rule("history", rf"\b(history|transcript|{_SAID}|last)\b.{{0,30}}?\b" + _NUMBER + _TURNS, _counted("horizon")),
    _rule(
        "history",
        rf"\b(show|give|list|send me|tell|repeat|summari[sz]e)\b.{{0,20}}\b(history|transcript|our conversation|"
        rf"this conversation|everything)|{_SAID} (so far|until now|before|earlier|to you)",
    ),
    _rule("context", r"\bI('ll| will| shall| want to| would like to| can)? " + _KEEPS, _said(keeper="client")),
    _rule("context", r"\b(context|history)\b.{0,20}\b(to me|(on|to) my side|myself)\b", _said(keeper="client")),
    _rule("context", r"\b(we|both)\b.{0,20}\b" + _KEEPS, _said(keeper="both")),
    _rule("context", r"\b(you|please|server)\b.{0,20}\b" + _KEEPS, _said(keeper="server")),
    _rule(
        "context", r"\b(context|history)\b.{0,20}\b(to (you|the server)|(on|to) your side)\b", _said(keeper="server")
    ),
    _rule("history", r"\b(history|transcript)\b"),
    _rule("context", r"\b(context|remember|memory)\b"),
    _rule(
        "capabilities",
        r"\b(what|which|list)\b.{0,30}\b(formats?|file types?|media types?|languages?)\b",
    ),
    _rule("accept", r"\b" + _READS + _FORMAT, _formats),
    _rule(
        "accept",
        r"\b(reply|answer|respond|write|talk|speak)\b.{0,20}\b(in|as|with|using|only)\b.{0,20}" + _FORMAT,
        _formats,
    ),
    _rule(
        "accept",
        rf"\b(speak|reply|answer|respond|write|talk|understand|read|prefer)\b.{{0,25}}\b({_LANGUAGES})\b",
        _languages,
    ),
    _rule(
        "stream",
        r"(\b(stop|no|without|disable|dont|do not|never|turn off|switch off)\b|n['’]t\b).{0,30}\b(stream|partial)|"
        r"\b(stream\w*|partial \w+)\s+off\b",
        _said(on=False),
    ),
    _rule("stream", r"\b(stream|partial (answers?|messages?|repl|results?))", _said(on=True)),
    _rule("ethics", r"\bethic"),
    _rule("security", r"\b(security|ecma-?434|profile|secure)\b"),
    _rule("authentication", r"\b(authenticat|log ?in|sign ?in|credential|api key|bearer|password|account|who am i)"),
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
        if match is not None and (rule.unless is None or rule.unless.search(text) is None):
            return Wish(rule.topic, rule.values(text, match), rule.terse)
    return None

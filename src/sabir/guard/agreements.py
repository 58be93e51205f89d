"""Enforces what was agreed by control messages: policies first, limits both ways, context, formats, anonymity.

``bind`` wraps an agent for one turn. If nothing is agreed or required it returns the agent itself, so the common case
costs nothing.
"""

from __future__ import annotations

import re
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import msgspec

from sabir.agent import Agent
from sabir.aio import Closing
from sabir.card import Card, Policy
from sabir.errors import Forbidden, PolicyRequired, RateLimited, TooLarge
from sabir.events import Delta, Event, Progress, Reply
from sabir.limits import depth_of
from sabir.message import JSON, Message, Part, json_part, text_part
from sabir.protocols.nlip.wire import json as nlip
from sabir.turn import Caller, Conversation, PastTurn, Turn

from .vocabulary import in_vocabulary

HISTORY: Final = "history"
WITHHELD: Final = "This was not kept, because the client keeps the context."
_TAGS: Final = re.compile(r"<[^<>]*>")
_MAX_RATES: Final = 100_000
_SHAPES: Final = frozenset({"limits", "accept", "vocabulary", "stream"})  # agreements about output


class Agreements:
    """The gateway's own required policies, and the rates that conversations agreed on."""

    def __init__(self, policies: Sequence[Policy] = (), *, clock: Callable[[], float] = time.monotonic) -> None:
        self.required = frozenset(policy.kind for policy in policies if policy.required)
        self._clock = clock
        self._levels: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def bind(self, agent: Agent, turn: Turn) -> AsyncIterator[Event]:
        """The agent's events for this turn, under the agreements.

        Raises (when iterated):
            PolicyRequired: a policy must be accepted first.
            TooLarge, RateLimited: over an agreed limit.
            Forbidden: it refers to an upload of another conversation, or breaks anonymity.
        """
        attachments = turn.attachments
        refers = attachments is not None and attachments.refers(turn.message)
        binds = turn.conversation.agreed or self.required or agent.card.policies or refers
        if turn.message.is_control:
            return agent(turn)
        unread = agent.card.leaves_out(turn.message)
        if binds:
            return self._bound(agent, turn, refers, unread)
        return agent(turn) if unread is None else _with_note(agent(turn), unread)

    async def _bound(self, agent: Agent, turn: Turn, refers: bool, unread: str | None) -> AsyncIterator[Event]:
        agreed = turn.conversation.agreed
        self.admit(agent.card, agreed, turn.caller)
        limits = agreed.get("limits", {})
        if limits:
            self._check_limits(turn.message, turn.conversation.id, limits)
        if agreed.get("anonymous"):
            turn.caller, turn.trace = Caller(), None
        if refers and turn.attachments is not None:
            await turn.attachments.check(turn.message)
        turn.conversation, turn.message = with_context(turn.conversation, turn.message)
        turn.message = without_withheld(turn.message, agreed)
        shapes = bool(agreed.keys() & _SHAPES)
        async with Closing(agent(turn)) as events:
            async for event in events:
                if isinstance(event, Reply):
                    yield Reply(await _shaped(event.message, turn, agreed, unread))
                elif not (shapes and isinstance(event, Delta | Progress)) or _passes(event, agreed):
                    yield event

    def admit(self, card: Card, agreed: Mapping[str, Any], caller: Caller) -> None:
        """Whether data may flow at all; checked before any of it is stored.

        Raises:
            PolicyRequired: a policy must be accepted first.
            Forbidden: it breaks anonymity.
        """
        if agreed.get("anonymous") and not caller.is_anonymous and caller.kind != "agent":
            raise Forbidden("this conversation is anonymous; send no credentials in it")
        asked = agreed.get("anonymous_with")
        if agreed.get("anonymous") and asked is not None and card.name not in asked:
            raise Forbidden(f"this conversation is anonymous, and {card.name} has not agreed to it; propose it there")
        own = self.required.difference(agreed.get("policy", {}).get("accepted", ()))
        missing = own | card.missing_policies(agreed)
        if missing:
            raise PolicyRequired.of(missing)

    def _check_limits(self, message: Message, conversation: str, limits: Mapping[str, int]) -> None:
        body = limits.get("body")
        if body is not None and len(nlip.encode(message)) > body:
            raise TooLarge("nlip", "$", f"at most {body} bytes, as agreed")
        submessages = limits.get("submessages")
        if submessages is not None and len(message.submessages) > submessages:
            raise TooLarge("nlip", "$.submessages", f"at most {submessages} submessages, as agreed")
        depth = limits.get("depth")
        if depth is not None and any(depth_of(part.content, depth) > depth for part in message.parts):
            raise TooLarge("nlip", "$", f"at most {depth} levels, as agreed")
        rate = limits.get("rate_per_minute")
        if rate is not None:
            self._take(conversation, rate)

    def _take(self, conversation: str, per_minute: int) -> None:
        now = self._clock()
        level, at = self._levels.get(conversation, (float(per_minute), now))
        level = min(per_minute, level + (now - at) * per_minute / 60.0)
        if level < 1.0:
            raise RateLimited(f"at most {per_minute} messages a minute, as agreed", (1.0 - level) * 60.0 / per_minute)
        self._levels[conversation] = (level - 1.0, now)
        self._levels.move_to_end(conversation)
        if len(self._levels) > _MAX_RATES:
            self._levels.popitem(last=False)


def policies_of(facts: Mapping[str, Any]) -> tuple[Policy, ...]:
    """The gateway's own policies, as configured."""
    return msgspec.convert(facts.get("policies", ()), tuple[Policy, ...])


# -- context --------------------------------------------------------------------------------------


def with_context(conversation: Conversation, message: Message) -> tuple[Conversation, Message]:
    """The context that applies: what we stored, or what the client sends, as agreed (TR-7.3.1)."""
    keeper = conversation.agreed.get("context", {}).get("keeper", "server")
    if keeper == "server":
        return conversation, message
    part = message.labelled(HISTORY)
    if part is None:
        return (conversation if keeper == "both" else msgspec.structs.replace(conversation, turns=())), message
    rest = [item for item in message.parts if item is not part and item != part]
    bare = Message.of(*(rest or [text_part("")]), messagetype=message.messagetype)
    window = conversation.agreed.get("context", {}).get("window", 20)
    turns = past_turns(part.value, conversation.id)[-window:] if window else ()
    return msgspec.structs.replace(conversation, turns=turns), bare


def past_turns(value: JSON, conversation: str = "") -> tuple[PastTurn, ...]:
    """Parse turns from a history that clients send: entries with ``role``, ``speaker`` and ``said`` or ``content``."""
    entries = value.get("turns") if isinstance(value, dict) else value
    turns: list[PastTurn] = []
    asked: dict[str, Any] | None = None
    for number, entry in enumerate(entries if isinstance(entries, list) else ()):
        if not isinstance(entry, dict):
            continue
        if str(entry.get("role", "user")).lower() == "user":
            asked = entry
            continue
        question = Message.text(_words(asked) if asked is not None else "")
        speaker = str((asked or {}).get("speaker", "client"))
        turns.append(
            PastTurn(
                f"{conversation}:{number}",
                _time(entry.get("at")),
                str(entry.get("speaker", "agent"))[:64],
                question,
                Message.text(_words(entry)),
                speaker[:64],
                conversation,
            )
        )
        asked = None
    return tuple(turns)


def _words(entry: Mapping[str, Any]) -> str:
    said = entry.get("said", entry.get("content", ""))
    return said if isinstance(said, str) else ""


def _time(at: object) -> float:
    try:
        if isinstance(at, int | float) and not isinstance(at, bool):
            return float(at)
        return datetime.fromisoformat(at).timestamp() if isinstance(at, str) else 0.0
    except (ValueError, OverflowError):
        return 0.0


def kept(past: PastTurn, agreed: Mapping[str, Any]) -> PastTurn:
    """The turn as it may be stored: without its contents if the client keeps the context."""
    if not agreed or past.asked.is_control or agreed.get("context", {}).get("keeper") != "client":
        return past
    nothing = Message.text(WITHHELD)
    return msgspec.structs.replace(past, asked=nothing, answered=nothing)


def is_context(past: PastTurn) -> bool:
    """Whether a stored turn belongs to the context: no control message (PAPER-CDS), and not left out of the store."""
    return not past.asked.is_control and past.asked.content != WITHHELD


# -- attributes -----------------------------------------------------------------------------------


def without_withheld(message: Message, agreed: Mapping[str, Any]) -> Message:
    """The message without attributes that the client marked as not for us (TR-7.1.5.3)."""
    withheld = agreed.get("policy", {}).get("withhold", ())
    if "location" not in withheld or all(part.format != "location" for part in message.parts):
        return message
    rest = [part for part in message.parts if part.format != "location"]
    return Message.of(*(rest or [text_part("")]), messagetype=message.messagetype)


# -- what goes out --------------------------------------------------------------------------------


async def _with_note(events: AsyncIterator[Event], note: str) -> AsyncIterator[Event]:
    """The events; the reply gets a sentence on what the agent did not read of the message (CORE-5.3)."""
    async with Closing(events):
        async for event in events:
            yield Reply(_noted(event.message, note)) if isinstance(event, Reply) else event


def _noted(reply: Message, note: str) -> Message:
    return reply.with_part(text_part(note, label="unread"))


def _passes(event: Delta | Progress, agreed: Mapping[str, Any]) -> bool:
    """Whether a piece may be sent before the reply, under the agreements."""
    if agreed.get("stream") is False:
        return False
    if isinstance(event, Progress):
        return True
    if "vocabulary" in agreed or "reply" in agreed.get("limits", {}):
        return False
    formats = agreed.get("accept", {}).get("formats")
    return formats is None or _fits(event.part, formats)


async def _shaped(reply: Message, turn: Turn, agreed: Mapping[str, Any], unread: str | None) -> Message:
    """The reply as agreed. The note about unread parts is subject to the agreements on formats and size."""
    if "vocabulary" in agreed:
        reply = in_vocabulary(reply, agreed["vocabulary"])
    if unread is not None:
        reply = _noted(reply, unread)
    formats = agreed.get("accept", {}).get("formats")
    if formats:
        parts = [part if _fits(part, formats) else _turned(part, formats) for part in reply.parts]
        reply = Message.of(*parts, messagetype=reply.messagetype)
    limit = agreed.get("limits", {}).get("reply")
    if limit is None or len(body := nlip.encode(reply)) + _size_of(turn.carries) <= limit:
        return reply
    link: tuple[Part, ...] = ()
    if turn.attachments is not None:
        link = (await turn.attachments.give(body, "generic/json", "reply.json"),)
    return _cut(reply, limit - _size_of(turn.carries), {"cut": True, "bytes": len(body), "agreed": limit}, link)


def _size_of(tokens: Sequence[Part]) -> int:
    """The bytes that tokens add to a reply; a limit on its size includes them."""
    if not tokens:
        return 0
    bare = Message.text("")
    return len(nlip.encode(bare.with_parts(tuple(tokens)))) - len(nlip.encode(bare))


def _fits(part: Part, formats: Sequence[str]) -> bool:
    for wanted in formats:
        name, _, kind = wanted.partition("/")
        if part.format == name and (not kind or kind in (part.kind, part.media[0], part.subformat.lower())):
            return True
    return False


def _turned(part: Part, formats: Sequence[str]) -> Part:
    """The part in a format that a back-level client can read: text, or a JSON object (DEP-BACK)."""
    if "text" not in formats and any(item.startswith("structured") for item in formats):
        value = part.content if part.format == "text" else _described(part)
        return json_part({"format": part.format, "subformat": part.subformat, "text": value}, label=part.label)
    return text_part(_described(part), label=part.label)


def _described(part: Part) -> str:
    if part.format == "binary":
        kind, encoding = part.media
        size = len(part.content) if isinstance(part.content, bytes) else 0
        return f"[{kind}/{encoding}, {size} bytes]"
    if part.kind in ("html", "xml") and isinstance(part.content, str):
        return " ".join(_TAGS.sub(" ", part.content).split())
    return part.content if isinstance(part.content, str) else msgspec.json.encode(part.content).decode()


def _cut(reply: Message, limit: int, details: dict[str, Any], link: tuple[Part, ...]) -> Message:
    """The beginning of the reply that fits, and the address of the whole; the address comes before the note."""
    note = json_part(details, label="limits")
    bare, room = Message.text(""), 0
    for parts in ((note, *link), link, ()):
        bare = Message.text("", parts=parts)
        room = max(0, limit - len(nlip.encode(bare)))
        if room:
            break
    words = reply.text
    while len(msgspec.json.encode(words)) - 2 > room:
        words = words[: max(0, min(len(words) - 1, room * len(words) // max(1, len(msgspec.json.encode(words)))))]
    return msgspec.structs.replace(bare, content=words)

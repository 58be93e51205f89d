"""Filters: what comes in and what goes out may be let through, replaced or blocked."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Final, Protocol

import msgspec

from ..errors import Forbidden, SabirError
from ..events import Delta, Event, Fault, Progress, Question, Reply, check
from ..message import JSON, Message, Part
from ..turn import Caller


class Filter(Protocol):
    """Looks at a message on its way.

    Returns it, or another one in its place; raises ``Forbidden`` to block it. A filter that fails
    blocks (fail closed).
    """

    name: str

    async def inbound(self, message: Message, caller: Caller) -> Message: ...

    async def outbound(self, message: Message, caller: Caller) -> Message: ...


class Filters:
    """Inbound in order, outbound in reverse."""

    def __init__(self, filters: Sequence[Filter] = ()) -> None:
        self.filters = tuple(filters)

    async def inbound(self, message: Message, caller: Caller) -> Message:
        for each in self.filters:
            message = await _closed(each, each.inbound(message, caller))
        return message

    async def outbound(self, message: Message, caller: Caller) -> Message:
        for each in reversed(self.filters):
            message = await _closed(each, each.outbound(message, caller))
        return message

    async def passing(self, events: AsyncIterator[Event], caller: Caller) -> AsyncIterator[Event]:
        """An agent's events on their way out.

        Raises (when iterated):
            Forbidden: a filter blocks one of them.
        """
        sieve = Sieve(self, caller)
        async for event in events:
            check(event)
            match event:
                case Delta():
                    for piece in await sieve.pieces(event):
                        yield piece
                    continue
                case Reply(message):
                    for piece in await sieve.rest():
                        yield piece
                    yield Reply(await self.outbound(message, caller))
                case Progress(fraction, note):
                    yield Progress(fraction, await self.words(note, caller))
                case Question():
                    yield await self.question(event, caller)
                case Fault(reason, code):
                    yield Fault(await self.words(reason, caller), code)

    async def question(self, question: Question, caller: Caller) -> Question:
        """A question on its way out: its words are words too."""
        if not self.filters:
            return question
        fields = tuple([replace(each, text=await self.words(each.text, caller)) for each in question.fields])
        return replace(question, text=await self.words(question.text, caller), fields=fields)

    async def words(self, text: str, caller: Caller) -> str:
        return (await self.outbound(Message("text", "english", text), caller)).text if text else text


async def _closed(each: Filter, passing: object) -> Message:
    try:
        return await passing  # type: ignore[misc, no-any-return]  # the coroutine of one of the two methods
    except SabirError:
        raise
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RuntimeError, OSError) as wrong:
        raise Forbidden(f"the filter {each.name} could not check this message") from wrong


class Sieve:
    """Lets the pieces of a streamed text through once they have been seen with what follows.

    A secret may come in two pieces, neither of which looks like one. So the last ``HOLD`` characters wait for more,
    and the text is cut only where filtering the two sides gives what filtering the whole gives.
    """

    HOLD: Final = 256
    MOST: Final = 16 * 1024  # more than this does not wait, whatever it looks like

    def __init__(self, filters: Filters, caller: Caller) -> None:
        self._filters = filters
        self._caller = caller
        self._held = ""
        self._kind: tuple[str, str | None] = ("english", None)  # subformat and label of what is held

    async def pieces(self, delta: Delta) -> list[Delta]:
        """What may go out, now that this piece has come.

        Raises:
            Forbidden: a filter blocks it.
        """
        part = delta.part
        if not self._filters.filters:
            return [delta]
        if part.format != "text" or not isinstance(part.content, str):
            passed = await self._filters.outbound(Message.of(part), self._caller)
            return [*await self.rest(), *(Delta(each) for each in passed.parts)]
        out = [] if (part.subformat, part.label) == self._kind else await self.rest()
        self._kind = (part.subformat, part.label)
        self._held += part.content
        cut = self._held.rfind(" ", 0, max(0, len(self._held) - self.HOLD)) + 1
        if not cut and len(self._held) <= self.MOST:
            return out
        cut = cut or len(self._held)
        front, back = await self._text(self._held[:cut]), await self._text(self._held[cut:])
        if await self._text(self._held) != front + back:
            if len(self._held) <= self.MOST:
                return out  # something lies across the cut
            front, back, cut = await self._text(self._held), "", len(self._held)
        self._held = self._held[cut:]
        return [*out, self._delta(front)] if front else out

    async def rest(self) -> list[Delta]:
        """What was held back, now that no more of it comes."""
        held, self._held = self._held, ""
        text = await self._text(held)
        return [self._delta(text)] if text else []

    async def _text(self, text: str) -> str:
        if not text:
            return ""
        passed = await self._filters.outbound(Message("text", self._kind[0], text, label=self._kind[1]), self._caller)
        return passed.text

    def _delta(self, text: str) -> Delta:
        return Delta(Part("text", self._kind[0], text, self._kind[1]))


class TextFilter:
    """A filter of words: ``words`` is given every text of a message and returns what shall stand there.

    Texts inside JSON values, and their keys, are given too. Binary content is not looked into.
    """

    name = "text"
    ways: tuple[str, ...] = ("outbound",)

    def words(self, text: str) -> str:
        """What shall stand in place of this text. Raises ``Forbidden`` to block the message."""
        raise NotImplementedError

    async def inbound(self, message: Message, caller: Caller) -> Message:
        return self._passed(message) if "inbound" in self.ways else message

    async def outbound(self, message: Message, caller: Caller) -> Message:
        return self._passed(message) if "outbound" in self.ways else message

    def _passed(self, message: Message) -> Message:
        if isinstance(message.content, str) and not message.submessages and message.label is None:
            words = self.words(message.content)
            return message if words == message.content else msgspec.structs.replace(message, content=words)
        parts = [self.part(part) for part in message.parts]
        first = msgspec.structs.replace(message, content=parts[0].content, label=parts[0].label)
        return msgspec.structs.replace(first, submessages=tuple(parts[1:]))

    def part(self, part: Part) -> Part:
        if part.is_token:
            return part
        label = self.words(part.label) if part.label else part.label
        return msgspec.structs.replace(part, content=self._value(part.content), label=label)

    def _value(self, value: JSON) -> JSON:
        if isinstance(value, str):
            return self.words(value)
        if isinstance(value, dict):
            return {self.words(k) if isinstance(k, str) else k: self._value(v) for k, v in value.items()}
        if isinstance(value, list | tuple):
            return [self._value(item) for item in value]
        return value

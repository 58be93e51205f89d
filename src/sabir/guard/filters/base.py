"""Filters: let messages through, replace them or block them, in both directions."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import replace
from typing import Final, Protocol

import msgspec

from sabir.aio import Closing
from sabir.errors import Forbidden, SabirError
from sabir.events import Delta, Event, Fault, Progress, Question, Reply, check
from sabir.message import JSON, Message, Part
from sabir.turn import Caller

from .slices import SLICE, SlicePace


class Filter(Protocol):
    """Checks a message on its way in or out.

    Returns the message or a replacement; raises ``Forbidden`` to block it. A filter that fails blocks (fail closed).
    """

    name: str

    async def inbound(self, message: Message, caller: Caller) -> Message: ...

    async def outbound(self, message: Message, caller: Caller) -> Message: ...


class Filters:
    """Inbound in order, outbound in reverse."""

    def __init__(self, filters: Sequence[Filter] = ()) -> None:
        self.filters = tuple(filters)

    async def inbound(self, message: Message, caller: Caller) -> Message:
        for item in self.filters:
            message = await _closed(item, item.inbound(message, caller))
        return message

    async def outbound(self, message: Message, caller: Caller) -> Message:
        for item in reversed(self.filters):
            message = await _closed(item, item.outbound(message, caller))
        return message

    async def passing(self, events: AsyncIterator[Event], caller: Caller) -> AsyncIterator[Event]:
        """Filter an agent's events on their way out.

        Raises (when iterated):
            Forbidden: a filter blocks one of them.
        """
        sieve = Sieve(self, caller)
        async with Closing(events):
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
        """Filter a question on its way out: its words count, too."""
        if not self.filters:
            return question
        fields = tuple([replace(field, text=await self.words(field.text, caller)) for field in question.fields])
        return replace(question, text=await self.words(question.text, caller), fields=fields)

    async def words(self, text: str, caller: Caller) -> str:
        return (await self.outbound(Message("text", "english", text), caller)).text if text else text


async def _closed(filter_: Filter, passing: object) -> Message:
    try:
        return await passing  # type: ignore[misc, no-any-return]  # the coroutine of one of the two methods
    except SabirError:
        raise
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RuntimeError, OSError) as exc:
        raise Forbidden(f"the filter {filter_.name} could not check this message") from exc


class Sieve:
    """Releases the pieces of a streamed text once they have been checked together with what follows.

    A secret may be split over two pieces that look harmless. So the last ``HOLD`` characters wait for more, and the
    text is cut only where filtering both sides separately gives the same as filtering the whole.
    """

    HOLD: Final = 256
    MAX_LENGTH: Final = 16 * 1024  # a longer text is released in any case

    def __init__(self, filters: Filters, caller: Caller) -> None:
        self._filters = filters
        self._caller = caller
        self._held = ""
        self._kind: tuple[str, str | None] = ("english", None)  # subformat and label of what is held

    async def pieces(self, delta: Delta) -> list[Delta]:
        """What may be sent, now that this piece has arrived.

        Raises:
            Forbidden: a filter blocks it.
        """
        part = delta.part
        if not self._filters.filters:
            return [delta]
        if part.format != "text" or not isinstance(part.content, str):
            passed = await self._filters.outbound(Message.of(part), self._caller)
            return [*await self.rest(), *(Delta(item) for item in passed.parts)]
        out = [] if (part.subformat, part.label) == self._kind else await self.rest()
        self._kind = (part.subformat, part.label)
        self._held += part.content
        cut = self._held.rfind(" ", 0, max(0, len(self._held) - self.HOLD)) + 1
        if not cut and len(self._held) <= self.MAX_LENGTH:
            return out
        cut = cut or len(self._held)
        front, back = await self._text(self._held[:cut]), await self._text(self._held[cut:])
        if await self._text(self._held) != front + back:
            if len(self._held) <= self.MAX_LENGTH:
                return out  # a match spans the cut
            front, back, cut = await self._text(self._held), "", len(self._held)
        self._held = self._held[cut:]
        return [*out, self._delta(front)] if front else out

    async def rest(self) -> list[Delta]:
        """Release what was held back, at the end of the text."""
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
    """A text filter: ``words`` gets every text of a message and returns its replacement.

    That is each text of a content (inside JSON values, keys included, and in binary content that is text), of a label
    and of unknown fields.
    """

    name = "text"
    ways: tuple[str, ...] = ("outbound",)

    def words(self, text: str) -> str:
        """The replacement of this text. Raises ``Forbidden`` to block the message."""
        raise NotImplementedError

    async def long_words(self, text: str) -> str:
        """The same for a text longer than a slice; slow filters yield to the event loop in between."""
        return self.words(text)

    async def inbound(self, message: Message, caller: Caller) -> Message:
        return await self._passed(message) if "inbound" in self.ways else message

    async def outbound(self, message: Message, caller: Caller) -> Message:
        return await self._passed(message) if "outbound" in self.ways else message

    async def _passed(self, message: Message) -> Message:
        content = message.content
        plain = message.label is None and message.extra is None and not message.submessages
        if plain and isinstance(content, str) and len(content) <= SLICE and message.format != "binary":
            words = self.words(content)
            return message if words == content else msgspec.structs.replace(message, content=words)
        pace = SlicePace()
        parts = [await self._part(part, pace) for part in message.parts]
        first = msgspec.structs.replace(message, content=parts[0].content, label=parts[0].label)
        extra = await self._value(message.extra, pace) if message.extra else message.extra
        return msgspec.structs.replace(first, submessages=tuple(parts[1:]), extra=extra)

    async def _part(self, part: Part, pace: SlicePace) -> Part:
        if part.is_token:
            return part
        content = await (self._binary(part, pace) if part.format == "binary" else self._value(part.content, pace))
        label = await self._text(part.label, pace) if part.label else part.label
        extra = await self._value(part.extra, pace) if part.extra else part.extra
        return msgspec.structs.replace(part, content=content, label=label, extra=extra)

    async def _binary(self, part: Part, pace: SlicePace) -> JSON:
        text = text_in(part)
        if text is None:
            return part.content
        words = await self._text(text, pace)
        if words == text:
            return part.content
        if isinstance(part.content, bytes):
            return words.encode()
        return base64.b64encode(words.encode()).decode()

    async def _text(self, text: str, pace: SlicePace) -> str:
        if len(text) > SLICE:
            return await self.long_words(text)
        await pace.spend(len(text))
        return self.words(text)

    async def _value(self, value: JSON, pace: SlicePace) -> JSON:
        if isinstance(value, str):
            return await self._text(value, pace)
        if isinstance(value, dict):
            return {
                await self._text(key, pace) if isinstance(key, str) else key: await self._value(entry, pace)
                for key, entry in value.items()
            }
        if isinstance(value, list | tuple):
            return [await self._value(item, pace) for item in value]
        await pace.spend(0)
        return value


def text_in(part: Part) -> str | None:
    """The text of a binary part, if its bytes are text; in JSON they are Base64."""
    data = part.content
    if isinstance(data, str):
        try:
            data = base64.b64decode(data, validate=True)
        except ValueError:
            return part.content if isinstance(part.content, str) else None
    if not isinstance(data, bytes):
        return None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return None


def texts_of(value: JSON) -> Iterator[str]:
    """Every text in a JSON value, keys included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, entry in value.items():
            yield from texts_of(key)
            yield from texts_of(entry)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from texts_of(item)


def texts_in(message: Message) -> Iterator[str]:
    """Every readable text of a message: contents, labels, unknown fields, binary content that is text.

    Tokens are left out: only the gateway reads them.
    """
    yield from texts_of(message.extra)
    for part in message.parts:
        if part.is_token:
            continue
        hidden = text_in(part) if part.format == "binary" else None
        yield from texts_of(part.content if hidden is None else hidden)
        yield from texts_of(part.label)
        yield from texts_of(part.extra)

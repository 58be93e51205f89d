"""Several messages in one request: ``{"batch": […]}``, answered by ``{"batch": […]}`` in the same order (MW-72).

ECMA-430 does not allow a bare JSON array (CORE-5.0.1), so the messages are in an object.

They run concurrently, as if each had been sent alone: each is admitted, charged and recorded, those of one conversation
one after another. The store writes turns that end together in one commit; a finished turn does not wait for a slow one,
and a failed one does not undo the others (G-17).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

import cbor2
import msgspec

from sabir.errors import BadInput, BadMessage, SabirError, TooLarge
from sabir.events import Event, Question, Reply
from sabir.exchange.request import EventSink, TurnRequest
from sabir.message import Message
from sabir.protocols.nlip.door.context import NlipContext
from sabir.protocols.nlip.wire import cbor
from sabir.protocols.nlip.wire import json as nlip
from sabir.protocols.nlip.wire.rules import PROTOCOL, message_from, plain

from .envelope import EnvelopeTurn

BATCH: Final = "batch"
MESSAGES: Final = 64  # in one request

MakeRequest = Callable[[Message, int], TurnRequest]  # from a message and its index


class Batch:
    """The messages of one request."""

    def __init__(self, services: NlipContext, values: list[Any], agent: str | None, *, binary: bool) -> None:
        self._services = services
        self._values = values
        self._agent = agent
        self._binary = binary

    @classmethod
    def read(
        cls, services: NlipContext, body: bytes, exc: BadMessage, agent: str | None, *, binary: bool = False
    ) -> Batch | None:
        """The batch in a body that is not a message; None if it is not a batch.

        Raises:
            TooLarge: it has too many messages.
            BadMessage: it is empty; says what was expected.
        """
        try:
            value = cbor.item(body, services.limits) if binary else msgspec.json.decode(body)
        except (BadInput, msgspec.MsgspecError, RecursionError, ValueError):
            return None
        value = value.get(BATCH) if isinstance(value, dict) and len(value) == 1 else None
        if not isinstance(value, list):
            return None
        if not value:
            raise exc
        if len(value) > MESSAGES:
            raise TooLarge(PROTOCOL, f"$.{BATCH}", f"at most {MESSAGES} messages")
        return cls(services, value, agent, binary=binary)

    async def answered(self, make: MakeRequest) -> bytes:
        """The answers, as the body of a response."""
        jobs = (self._answer(value, number, make) for number, value in enumerate(self._values))
        answers = await asyncio.gather(*jobs)
        whole = {BATCH: answers}
        return cbor2.dumps(whole, canonical=True) if self._binary else msgspec.json.encode(whole)

    async def _answer(self, value: Any, number: int, make: MakeRequest) -> dict[str, Any]:
        found: list[Message] = []

        async def take(event: Event) -> None:
            if isinstance(event, Reply):
                found.append(event.message)
            elif isinstance(event, Question):
                found.append(nlip.question_message(event).with_parts(line.tokens))

        line = EventSink(take)
        asked: Message | None = None
        envelope: EnvelopeTurn | None = None
        try:
            asked, envelope = self._message_of(value)
            if envelope is not None:
                envelope.line = line
                envelope.check()
            ask = make(asked, number)
            await self._services.exchange.ask(envelope.adjust(ask) if envelope is not None else ask, line)
        except SabirError as exc:
            tokens = line.tokens or (asked.tokens if asked is not None else ())
            found.append(nlip.coded_error(exc, asked, tokens))
        reply = found[-1] if found else Message.text("")
        if envelope is None:
            return plain(reply, asked)
        return envelope.value(Message.text("").with_parts(reply.tokens) if envelope.is_notification else reply)

    def _message_of(self, value: Any) -> tuple[Message, EnvelopeTurn | None]:
        try:
            return message_from(value, limits=self._services.limits), None
        except BadMessage as exc:
            envelope = EnvelopeTurn.of(self._services, value, exc, self._agent)
            return envelope.message, envelope

"""Several messages in one request: ``{"batch": […]}``, answered by ``{"batch": […]}`` in the same order (MW-72).

ECMA-430 does not allow a bare JSON array (CORE-5.0.1), so the messages are in an object.

They run concurrently, as if each had been sent alone: each is admitted, charged and recorded. Messages of one
conversation run one after another. The store writes turns that end together in one commit; a finished turn does not
wait for a slow one, and a failed one does not undo the others (G-17). If a turn asks back, the question is its answer
here, and the turn continues.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

import cbor2
import msgspec

from sabir.aio import cancel_and_wait
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

MakeRequest = Callable[[Message, int], TurnRequest]  # from a message and its index; may raise a SabirError
Put = Callable[[bytes], Awaitable[None]]
Answer = asyncio.Future[dict[str, Any]]


class Batch:
    """The messages of one request."""

    def __init__(self, services: NlipContext, values: list[Any], agent: str | None, *, binary: bool) -> None:
        self._services = services
        self._values = values
        self._agent = agent
        self._binary = binary
        self._lines: list[EventSink] = []

    @property
    def asks(self) -> bool:
        """Whether one of its turns has asked back, and waits for the answer."""
        return any(line.waiting is not None and not line.waiting.answer.done() for line in self._lines)

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

    async def answer(self, make: MakeRequest, put: Put) -> None:
        """Send the answers, as the body of a response, once each message has one; then wait for turns that continue."""
        answers: list[Answer] = [asyncio.get_running_loop().create_future() for _ in self._values]
        turns = [self._start(value, number, make, answers[number]) for number, value in enumerate(self._values)]
        try:
            whole = {BATCH: await asyncio.gather(*answers)}
            await put(cbor2.dumps(whole, canonical=True) if self._binary else msgspec.json.encode(whole))
            await asyncio.gather(*turns)
        finally:
            await cancel_and_wait(turns)

    def _start(self, value: Any, number: int, make: MakeRequest, answer: Answer) -> asyncio.Task[None]:
        def over(turn: asyncio.Task[None]) -> None:
            if answer.done():
                return
            exc = None if turn.cancelled() else turn.exception()
            answer.cancel() if exc is None else answer.set_exception(exc)

        turn = asyncio.create_task(self._run(value, number, make, answer))
        turn.add_done_callback(over)
        return turn

    async def _run(self, value: Any, number: int, make: MakeRequest, answer: Answer) -> None:
        asked: Message | None = None
        envelope: EnvelopeTurn | None = None

        async def take(event: Event) -> None:
            if isinstance(event, Reply):
                settle(event.message)
            elif isinstance(event, Question):
                settle(nlip.question_message(event).with_parts(line.tokens))

        def settle(reply: Message) -> None:
            if answer.done():
                return
            if envelope is None:
                answer.set_result(plain(reply, asked))
            else:
                is_silent = envelope.is_notification
                answer.set_result(envelope.value(Message.text("").with_parts(reply.tokens) if is_silent else reply))

        line = EventSink(take)
        self._lines.append(line)
        try:
            asked, envelope = self._message_of(value)
            if envelope is not None:
                envelope.line = line
                envelope.check()
            ask = make(asked, number)
            await self._services.exchange.ask(envelope.adjust(ask) if envelope is not None else ask, line)
        except SabirError as exc:
            tokens = line.tokens or (asked.tokens if asked is not None else ())
            settle(nlip.coded_error(exc, asked, tokens))
        settle(Message.text(""))

    def _message_of(self, value: Any) -> tuple[Message, EnvelopeTurn | None]:
        try:
            return message_from(value, limits=self._services.limits), None
        except BadMessage as exc:
            envelope = EnvelopeTurn.of(self._services, value, exc, self._agent)
            return envelope.message, envelope

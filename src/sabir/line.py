"""Ask and Line: what a door hands to the exchange, and where the events of the turn go."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from .errors import Cancelled, SabirError
from .events import Event
from .guard import Credentials
from .message import Message, Part
from .turn import Caller, Turn

_NOBODY = Credentials()


@dataclass(slots=True)
class Ask:
    """What a door hands in."""

    message: Message
    door: str
    agent: str | None = None  # None: the default agent
    credentials: Credentials = _NOBODY
    key: str | None = None  # idempotency key of the caller
    seconds: float | None = None  # how long the turn may take; None: the configured time
    trace: str | None = None  # W3C traceparent
    hops: int = 0
    seen: tuple[str, ...] = ()


Send = Callable[[Event], Awaitable[None]]


class Line:
    """Where the events of a turn go. A door makes one for each Ask; it can be moved while the turn runs."""

    __slots__ = (
        "asked",
        "caller",
        "conversation",
        "ended",
        "moved",
        "send",
        "timer",
        "tokens",
        "turn",
        "waiting",
    )

    def __init__(self, send: Send) -> None:
        self.send = send
        self.caller: Caller | None = None  # known once the guard has admitted the Ask
        self.turn: Turn | None = None  # set when the agent is about to be called
        self.asked: Message | None = None  # what the turn answers now: the question, or a later answer to it
        self.tokens: tuple[Part, ...] = ()  # what each message to this peer carries: echo first, then our own
        self.conversation: Part | None = None  # our own token, where there is one
        self.moved: Line | None = None
        self.ended: asyncio.Future[None] | None = None
        self.timer: asyncio.Timeout | None = None
        self.waiting: Waiting | None = None

    def answer(self, message: Message) -> None:
        """Answer the Question that was sent down this line; for doors with a back channel."""
        if self.waiting is None or self.waiting.answer.done():
            raise Cancelled("no question is open")
        self.waiting.answer.set_result((message, None))

    def extend(self, seconds: float) -> None:
        """Give the turn this long from now."""
        if self.turn is not None:
            self.turn.deadline = time.monotonic() + seconds
        if self.timer is not None:
            self.timer.reschedule(asyncio.get_running_loop().time() + seconds)

    def move(self, other: Line) -> None:
        """From now on events go down the other line; whoever waits there is told when the turn ends."""
        self.send, self.moved = other.send, other
        self.tokens, self.conversation = other.tokens, other.conversation
        other.turn, other.caller = self.turn, self.caller

    def end(self, wrong: SabirError | None = None) -> None:
        moved, self.moved = self.moved, None
        if moved is not None and moved.ended is not None and not moved.ended.done():
            moved.ended.set_exception(wrong) if wrong is not None else moved.ended.set_result(None)


class Waiting:
    """A turn that has asked back, and the answer it waits for with the line that brings it."""

    __slots__ = ("answer",)

    def __init__(self) -> None:
        self.answer: asyncio.Future[tuple[Message, Line | None]] = asyncio.get_running_loop().create_future()

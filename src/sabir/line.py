"""Ask and Line: what a door hands to the exchange, and where the events of the turn go."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections.abc import Awaitable, Callable

import msgspec

from .errors import Cancelled, DeadlineExceeded, SabirError, ShuttingDown, TurnFailed
from .events import Event, WrongEvent
from .guard import Credentials
from .message import CONTROL, Message, Part
from .turn import AskBack, Caller, Conversation, Meter, Turn

logger = logging.getLogger("sabir")
_NOBODY = Credentials()


class Ask(msgspec.Struct, eq=False):
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
    conversation: Conversation | None = None  # held by the node that asks; what is said in it is recorded there
    ask_back: AskBack | None = None  # how to ask that node's caller
    meter: Meter | None = None  # what the turn has used there, its budget, and whose account it goes on

    def key_of(self, caller: Caller) -> str:
        """Whose idempotency key this is. All strangers have one id: theirs holds for one address and one message."""
        if not caller.is_anonymous:
            return f"{caller.id}\x00{self.key}"
        said = hashlib.sha256(msgspec.json.encode(self.message)).hexdigest()
        return f"{caller.address}\x00{said}\x00{self.key}"


def turn_id(key: str) -> str:
    """The turn id that belongs to a caller's idempotency key."""
    return hashlib.sha256(key.encode()).hexdigest()[:32]


Send = Callable[[Event], Awaitable[None]]
OnSlow = Callable[["asyncio.Task[object] | None"], None]


class Line(msgspec.Struct, eq=False):
    """Where the events of a turn go. A door makes one for each Ask; it can be moved while the turn runs."""

    send: Send
    caller: Caller | None = None  # known once the guard has admitted the Ask
    turn: Turn | None = None  # set when the agent is about to be called
    asked: Message | None = None  # what the turn answers now: the question, or a later answer to it
    tokens: tuple[Part, ...] = ()  # what each message to this peer carries: echo first, then our own
    conversation: Part | None = None  # our own token, where there is one
    moved: Line | None = None
    ended: asyncio.Future[None] | None = None
    late: bool = False  # whether the turn was ended for being past its deadline
    stopped: bool = False  # whether it was ended because the gateway stops
    taken_back: bool = False  # whether it was ended because its owner took the question back
    on_slow: OnSlow | None = None  # called once if the turn takes a while, with the task that runs it
    waiting: Waiting | None = None

    def answer(self, message: Message) -> None:
        """Answer the Question that was sent down this line; for doors with a back channel."""
        if self.waiting is None or self.waiting.answer.done():
            raise Cancelled("no question is open")
        self.waiting.answer.set_result((message, None))

    def addressed(self, reply: Message, asked: Message) -> Message:
        """A reply as it goes back: the tokens of the request, then ours (CORE-6.2), control as control (CORE-6.3)."""
        if asked.messagetype is reply.messagetype is asked.control is reply.control is None:
            return reply.with_parts(self.tokens) if self.tokens else reply
        if asked.is_control:
            control = True if asked.control is not None else None  # the flag only to those who use it (D-19)
            reply = msgspec.structs.replace(reply, messagetype=CONTROL, control=control)
        elif reply.is_control:
            reply = msgspec.structs.replace(reply, messagetype=None, control=None)
        return reply.with_parts(self.tokens)

    def why_ended(self, agent: str) -> SabirError:
        """Why the overseer ended the turn."""
        if self.taken_back:
            return Cancelled("the question was taken back")
        if self.stopped:
            return ShuttingDown(f"the gateway stops, and {agent} had not answered; try again", retry_after=5.0)
        return DeadlineExceeded(f"{agent} did not answer in time")

    def unforeseen(self, raised: Exception) -> TurnFailed:
        """An agent said what cannot be stored or written, such as half a surrogate pair: told as its failure."""
        return self.failed(raised, "what %s said in turn %s cannot be passed on")

    def failed(self, raised: Exception, why: str = "agent %s failed in turn %s") -> TurnFailed:
        """What a caller is told of something that went wrong inside; the log is told the rest."""
        agent, id = (self.turn.agent, self.turn.id) if self.turn is not None else ("the gateway", "")
        words = f": {raised}" if isinstance(raised, WrongEvent) else ""  # ours; of others the log tells none
        logger.error(f"{why}%s", agent, id, words, exc_info=raised)
        return TurnFailed(f"{agent} failed; the operator's log says why (turn {id})")

    def extend(self, seconds: float) -> None:
        """Give the turn this long from now."""
        if self.turn is not None:
            self.turn.deadline = time.monotonic() + seconds

    def move(self, other: Line) -> None:
        """From now on events go down the other line; whoever waits there is told when the turn ends."""
        self.send, self.moved = other.send, other
        self.tokens, self.conversation = other.tokens, other.conversation
        other.turn, other.caller = self.turn, self.caller

    def end(self, wrong: SabirError | None = None) -> None:
        moved = self.moved
        if moved is None:
            return
        self.moved = None
        if moved.ended is not None and not moved.ended.done():
            moved.ended.set_exception(wrong) if wrong is not None else moved.ended.set_result(None)


class Waiting:
    """A turn that has asked back, and the answer it waits for with the line that brings it."""

    __slots__ = ("answer",)

    def __init__(self) -> None:
        self.answer: asyncio.Future[tuple[Message, Line | None]] = asyncio.get_running_loop().create_future()

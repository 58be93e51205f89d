"""TurnRequest and EventSink: what a door passes to the exchange, and where the turn's events go."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from sabir.errors import Cancelled, DeadlineExceeded, SabirError, ShuttingDown, TurnFailed
from sabir.events import Event, WrongEvent
from sabir.guard import Credentials
from sabir.guard.assent import assent, takes_back
from sabir.message import CONTROL, Message, Part
from sabir.observe.timeline import NO_TIMELINE, Timeline
from sabir.turn import AskBack, Caller, Conversation, Meter, Turn

from .conversations import Tokens
from .states import ENDED_EARLY, TurnState, TurnStep, after

logger = logging.getLogger("sabir")
_NOBODY = Credentials()
TASK_KEY = "task:"  # prefix of the idempotency key of a task's turn


class TurnRequest(msgspec.Struct, eq=False):
    """What a door passes to the exchange."""

    message: Message
    door: str
    agent: str | None = None  # None: the default agent
    credentials: Credentials = _NOBODY
    key: str | None = None  # idempotency key of the caller
    seconds: float | None = None  # time limit of the turn; None: the configured one
    trace: str | None = None  # W3C traceparent
    hops: int = 0
    seen: tuple[str, ...] = ()
    conversation: Conversation | None = None  # held by the asking node, which also records the turn
    ask_back: AskBack | None = None  # asks the asking node's caller
    meter: Meter | None = None  # what the turn has used there, its budget, and the account it is charged to
    stateless: bool = False  # True if it belongs to no conversation, even if the agent is stateful
    priority: int = 0  # among queued tasks, from 0 to 10
    agreed: dict[str, Any] = {}  # agreements of the turn that an agent sends it for
    begun: Tokens | None = None  # of the conversation that the door began with this request; its message has no others

    def begin(self, conversation: Tokens) -> str:
        """Put the request into a new conversation (``Conversations.begin``); returns the content of its token."""
        token = conversation.own
        assert token is not None and isinstance(token.content, str)
        self.begun = None if self.message.tokens else conversation
        self.message = self.message.with_part(token)
        return token.content

    def is_first(self, caller: Caller) -> bool:
        """Whether its key is certainly new: the key of an anonymous caller contains the tokens of its message."""
        return self.begun is not None and caller.is_anonymous

    def key_of(self, caller: Caller) -> str:
        """The owner of this idempotency key. Anonymous callers share one id, so theirs is tied to one address and
        message.
        """
        if not caller.is_anonymous:
            return f"{caller.id}\x00{self.key}"
        said = hashlib.sha256(msgspec.json.encode(self.message)).hexdigest()
        return f"{caller.address}\x00{said}\x00{self.key}"


def same_content(one: Message, other: Message) -> bool:
    """Whether two messages are equal apart from tokens and locations, which may be removed before storing."""
    return _content(one) == _content(other)


def _content(message: Message) -> bytes:
    return msgspec.json.encode([part for part in message.parts if part.format not in ("token", "location")])


def turn_id(key: str) -> str:
    """The turn id that belongs to a caller's idempotency key."""
    return hashlib.sha256(key.encode()).hexdigest()[:32]


Send = Callable[[Event], Awaitable[None]]
OnSlow = Callable[["asyncio.Task[object] | None"], None]


class EventSink(msgspec.Struct, eq=False):
    """Where the events of a turn go. A door makes one per request; it can be redirected while the turn runs."""

    send: Send
    caller: Caller | None = None  # set once the guard has admitted the request
    turn: Turn | None = None  # set when the agent is about to be called
    asked: Message | None = None  # what the turn answers now: the question, or a later answer
    tokens: tuple[Part, ...] = ()  # what each message to this peer carries: echoed tokens first, then our own
    conversation: Part | None = None  # our own token, if there is one
    moved: EventSink | None = None
    ended: asyncio.Future[None] | None = None
    state: TurnState = TurnState.ASKED
    on_slow: OnSlow | None = None  # called once, with the turn's task, if the turn is slow
    waiting: Waiting | None = None  # the answer it waits for, while suspended
    is_screened: bool = False  # True while filters check the message, before the agent gets it
    timeline: Timeline = NO_TIMELINE  # set by the exchange, for callers who asked for one

    def take(self, step: TurnStep) -> bool:
        """Apply a step to the turn's state; False if it has no effect in this state."""
        before = self.state
        self.state = after(before, step)
        return self.state is not before

    @property
    def ended_early(self) -> bool:
        """Whether the turn is being ended before its agent answered."""
        return self.state in ENDED_EARLY

    def answer(self, message: Message) -> None:
        """Answer the Question that was sent to this sink; for doors with a back channel."""
        if self.waiting is None or self.waiting.answer.done():
            raise Cancelled("no question is open")
        self.waiting.answer.set_result((message, None))

    def addressed(self, reply: Message, asked: Message) -> Message:
        """A reply as it is sent: echoed tokens, then ours (CORE-6.2), and control marked as control (CORE-6.3)."""
        if asked.messagetype is reply.messagetype is asked.control is reply.control is None:
            return reply.with_parts(self.tokens) if self.tokens else reply
        if asked.is_control:
            control = True if asked.control is not None else None  # only peers that use the flag get it (D-19)
            reply = msgspec.structs.replace(reply, messagetype=CONTROL, control=control)
        elif reply.is_control:
            reply = msgspec.structs.replace(reply, messagetype=None, control=None)
        return reply.with_parts(self.tokens)

    def why_ended(self, agent: str) -> SabirError:
        """The error that explains why the turn was ended early."""
        if self.state is TurnState.CANCELLED:
            return Cancelled("the request was cancelled")
        if self.state is TurnState.STOPPED:
            return ShuttingDown(f"the gateway is stopping and {agent} had not answered; try again")
        return DeadlineExceeded(f"{agent} did not answer in time")

    def unforeseen(self, raised: Exception) -> TurnFailed:
        """The agent returned something that cannot be stored, such as a lone surrogate; reported as its failure."""
        return self.failed(raised, "The reply of %s in turn %s cannot be passed on")

    def failed(self, raised: Exception, why: str = "Agent %s failed in turn %s") -> TurnFailed:
        """What a caller sees of an internal error; the details go to the log."""
        agent, turn = (self.turn.agent, self.turn.id) if self.turn is not None else ("the gateway", "")
        words = (
            f": {raised}" if isinstance(raised, WrongEvent) else ""
        )  # our own error text is safe to show; details of other errors are only logged
        logger.error(f"{why}%s", agent, turn, words, exc_info=raised)
        return TurnFailed(f"{agent} failed; the operator's log says why (turn {turn})")

    def extend(self, seconds: float) -> None:
        """Set the deadline to this long from now."""
        if self.turn is not None:
            self.turn.deadline = time.monotonic() + seconds

    def move(self, other: EventSink) -> None:
        """Redirect further events to another sink, whose waiter is notified when the turn ends."""
        self.send, self.moved = other.send, other
        self.tokens, self.conversation = other.tokens, other.conversation
        other.turn, other.caller = self.turn, self.caller
        if self.turn is not None:
            self.turn.carries = other.tokens

    def end(self, exc: SabirError | None = None) -> None:
        moved = self.moved
        if moved is None:
            return
        self.moved = None
        if moved.ended is not None and not moved.ended.done():
            moved.ended.set_exception(exc) if exc is not None else moved.ended.set_result(None)


class Waiting:
    """A suspended turn: the answer it waits for, and the sink of the request that brings it."""

    __slots__ = ("agent", "answer", "confirms")

    def __init__(self, agent: str = "", *, confirms: bool = False) -> None:
        self.agent = agent  # the calling agent
        self.confirms = confirms  # only a yes or a no answers it
        self.answer: asyncio.Future[tuple[Message, EventSink | None]] = asyncio.get_running_loop().create_future()

    def is_answered_by(self, message: Message, agent: str | None = None) -> bool:
        """Whether the message answers it: not a control message (except yes or no to a control question), and not a
        message to another ``agent``.
        """
        if agent is not None and self.agent and agent != self.agent:
            return False
        if self.confirms:
            return assent(message) is not None or takes_back(message)
        return not message.is_control

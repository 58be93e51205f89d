"""Turn, Caller and Conversation: what an Agent is given."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any, Protocol
from uuid import uuid4

import msgspec

from .card import Card
from .errors import TurnFailed
from .events import Question
from .message import Message, Part

MAX_HOPS = 8


class Caller(msgspec.Struct, frozen=True, omit_defaults=True):
    """Who asks. ``id`` is stable for a known caller and ``"anonymous"`` for anybody else."""

    id: str = "anonymous"
    kind: str = "anonymous"  # anonymous, key, subject, certificate, token, local
    roles: frozenset[str] = frozenset()
    address: str = ""
    name: str = ""
    claims: dict[str, Any] = {}  # of a verified token; never shown to agents of other services

    @property
    def is_anonymous(self) -> bool:
        return self.kind == "anonymous"


ANONYMOUS = Caller()


class PastTurn(msgspec.Struct, frozen=True, omit_defaults=True):
    """One recorded turn: what was asked and what was answered, tokens taken out."""

    id: str
    at: float
    agent: str
    asked: Message
    answered: Message
    speaker: str = ""
    conversation: str = ""


class Conversation(msgspec.Struct, frozen=True, omit_defaults=True):
    """The turns so far, oldest first, within the agreed window. ``agreed`` is what was negotiated."""

    id: str
    turns: tuple[PastTurn, ...] = ()
    agreed: dict[str, Any] = {}
    count: int = 0  # all turns ever recorded in it, also those outside the window


class Answering(Protocol):
    """What ``Turn.sub`` needs to know of an agent; ``sabir.agent.Agent`` is one."""

    card: Card


AskBack = Callable[[Question], Awaitable[Message]]


async def _nobody_to_ask(question: Question) -> Message:
    raise TurnFailed(f"nobody can be asked here: {question.text}")


@dataclass(slots=True, eq=False)
class Turn:
    """One question and all that belongs to it; never shared between turns."""

    message: Message
    conversation: Conversation = field(default_factory=lambda: Conversation(""))
    caller: Caller = ANONYMOUS
    deadline: float = float("inf")  # on time.monotonic()
    id: str = field(default_factory=lambda: uuid4().hex)
    agent: str = ""
    hops: int = 0
    seen: tuple[str, ...] = ()  # names of the agents this question has passed, for loops
    trace: str | None = None  # W3C traceparent of this hop
    door: str = ""  # by which protocol it came
    attachments: Any = None  # opens the uploads that parts refer to; set by the exchange
    ask_back: AskBack = _nobody_to_ask
    questions: int = 0  # asked back so far
    waits: bool = False  # whether it waits for an answer now

    @property
    def text(self) -> str:
        """What is said, in words."""
        return self.message.text

    @property
    def parts(self) -> tuple[Part, ...]:
        return self.message.parts

    @property
    def remaining(self) -> float:
        """Seconds until the deadline, never below zero."""
        return max(0.0, self.deadline - time.monotonic())

    async def ask(self, question: Question | str) -> Message:
        """Ask the caller for input, by whatever protocol it came, and wait for the answer.

        Raises:
            TurnFailed: nobody is there to be asked.
            Cancelled: the caller took the question back.
        """
        if isinstance(question, str):
            question = Question(question)
        return await self.ask_back(question)

    def sub(self, message: Message, to: Answering) -> Turn:
        """A turn inside this one: deadline, trace and hop count inherited, identity and tokens not.

        Raises:
            TurnFailed: the question has passed too many agents, or this one already.
        """
        name = to.card.name
        if self.hops + 1 > MAX_HOPS:
            raise TurnFailed(f"the question passed {MAX_HOPS} agents; a loop is likely")
        return replace(
            self,
            id=f"{self.id}.{uuid4().hex[:8]}",
            message=message.without_tokens(),
            conversation=Conversation(self.conversation.id),
            caller=Caller(id=f"agent:{self.agent or 'gateway'}", kind="local", roles=self.caller.roles),
            agent=name,
            hops=self.hops + 1,
            seen=(*self.seen, name),
        )

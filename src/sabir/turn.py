"""Turn, Caller and Conversation: what an Agent is given."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

import msgspec

from .card import Card
from .errors import TurnFailed
from .events import Question, check_question
from .message import Message, Part
from .randomness import new_id

MAX_HOPS = 8


class Caller(msgspec.Struct, frozen=True, omit_defaults=True):
    """Who asks. ``id`` is stable for a known caller and ``"anonymous"`` for anybody else."""

    id: str = "anonymous"
    kind: str = "anonymous"  # anonymous, key, subject, certificate, token, agent, local
    roles: frozenset[str] = frozenset()
    address: str = ""
    name: str = ""
    claims: dict[str, Any] = {}  # of a verified token; never shown to agents of other services
    on_behalf_of: str = ""  # the id of the caller for whom an agent asks; its identity is not passed on, only named
    handed_on: bool = False  # by another node of this gateway, where it came in: admitted and counted there

    @property
    def is_anonymous(self) -> bool:
        return self.kind == "anonymous"

    @property
    def is_counted_elsewhere(self) -> bool:
        """Whether what is asked was counted before: where the caller came in for whom an agent, or a node, asks."""
        return self.handed_on or self.kind == "agent"

    @property
    def standing(self) -> frozenset[str]:
        """Every role this caller has: its own, those everybody has, and the one that only it has.

        An agent that asks on behalf of somebody stands exactly where that caller does (SEC-P2.3).
        """
        if self.kind == "agent":
            return self.roles
        if self.is_anonymous:
            return frozenset({"anonymous"})
        return self.roles | {"anonymous", "known", f"id:{self.id}"}


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


NOWHERE = Conversation("")


class Meter(msgspec.Struct, eq=False, omit_defaults=True):
    """What a turn has used of models and tools, its sub-turns included, against a budget (0: none)."""

    most_calls: int = 0
    most_tokens: int = 0
    most_cost: float = 0.0
    calls: int = 0
    tokens: int = 0
    cost: float = 0.0
    account: str = ""  # whose it goes on, where anything is counted
    own_tokens: int = 0  # of those above: what was used on this node
    own_cost: float = 0.0

    @property
    def has_budget(self) -> bool:
        return bool(self.most_calls or self.most_tokens or self.most_cost)

    def elsewhere(self, calls: int, tokens: int, cost: float) -> None:
        """Add what another node has used for this turn, and has put on the account."""
        self.add(calls, tokens, cost, here=False)

    def add(self, calls: int, tokens: int, cost: float, *, here: bool = True) -> None:
        if here:
            self.own_tokens += tokens
            self.own_cost += cost
        self.calls += calls
        self.tokens += tokens
        self.cost += cost
        for kind, used, most in (
            ("calls", self.calls, self.most_calls),
            ("tokens", self.tokens, self.most_tokens),
            ("cost", self.cost, self.most_cost),
        ):
            if most and used > most:
                raise TurnFailed(f"the turn's budget of {most:g} {kind} is used up")


class Permit(Protocol):
    """Asks the guard whether the caller may use a tool or a skill; raises ``Refused`` if not."""

    def __call__(self, *, tool: str = "", skill: str = "") -> None: ...


def anything(*, tool: str = "", skill: str = "") -> None:
    return None


class Answering(Protocol):
    """What ``Turn.sub`` needs to know of an agent; ``sabir.agent.Agent`` is one."""

    card: Card


AskBack = Callable[[Question], Awaitable[Message]]


async def nobody_to_ask(question: Question) -> Message:
    raise TurnFailed(f"nobody can be asked here: {question.text}")


class Turn(msgspec.Struct, eq=False):
    """One question and all that belongs to it; never shared between turns."""

    message: Message
    conversation: Conversation = NOWHERE
    caller: Caller = ANONYMOUS
    deadline: float = float("inf")  # on time.monotonic()
    id: str = msgspec.field(default_factory=new_id)
    agent: str = ""
    hops: int = 0
    seen: tuple[str, ...] = ()  # names of the agents this question has passed, for loops
    trace: str | None = None  # W3C traceparent of this hop
    door: str = ""  # by which protocol it came
    attachments: Any = None  # opens the uploads that parts refer to; set by the exchange
    ask_back: AskBack = nobody_to_ask
    permit: Permit = anything  # set by the exchange; asked again before each tool call
    meter: Meter = msgspec.field(default_factory=Meter)  # shared with sub-turns
    used: list[str] = []  # tools that were called, for the audit; shared with sub-turns
    issued: list[Part] = []  # tokens that go back with the reply; the concierge's passes
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

    @property
    def told_used(self) -> dict[str, str]:
        """The tools that were called, as an audit line tells them."""
        return {"tool": ", ".join(dict.fromkeys(self.used))[:200]} if self.used else {}

    async def ask(self, question: Question | str) -> Message:
        """Ask the caller for input, by whatever protocol it came, and wait for the answer.

        Raises:
            TurnFailed: nobody is there to be asked.
            Cancelled: the caller took the question back.
            WrongEvent: it is no question, or a field of it is not what it should be.
        """
        if isinstance(question, str):
            question = Question(question)
        check_question(question)
        return await self.ask_back(question)

    def spend(self, *, calls: int = 0, tokens: int = 0, cost: float = 0.0) -> None:
        """Put what a model or tool call used on this turn's account.

        Raises:
            TurnFailed: the turn's budget is used up.
        """
        self.meter.add(calls, tokens, cost)

    def sub(self, message: Message, to: Answering) -> Turn:
        """A turn inside this one: deadline, trace and hop count inherited, identity and tokens not.

        Raises:
            TurnFailed: the question has passed too many agents, or this one already.
        """
        name = to.card.name
        if self.hops + 1 > MAX_HOPS:
            raise TurnFailed(f"the question passed {MAX_HOPS} agents; a loop is likely")
        return msgspec.structs.replace(
            self,
            id=f"{self.id}.{new_id()[:8]}",
            message=message.without_tokens(),
            conversation=Conversation(self.conversation.id, agreed=_passed_on(self.conversation.agreed)),
            caller=_agent_of(self.caller, self.agent),
            issued=[],
            agent=name,
            hops=self.hops + 1,
            seen=(*self.seen, name),
        )


def _passed_on(agreed: dict[str, Any]) -> dict[str, Any]:
    """What was agreed for the whole way, and not for one hop: anonymity."""
    return {"anonymous": True} if agreed.get("anonymous") else {}


def _agent_of(caller: Caller, agent: str) -> Caller:
    """An agent that asks on behalf of a caller: with that caller's rights, and nothing that proves its identity."""
    return Caller(
        id=f"agent:{agent or 'gateway'}",
        kind="local" if caller.kind == "local" else "agent",
        roles=caller.standing,
        on_behalf_of=caller.on_behalf_of if caller.kind in ("agent", "anonymous") else caller.id,
    )

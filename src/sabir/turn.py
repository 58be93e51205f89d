"""Turn, Caller and Conversation: the input of an Agent."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

import msgspec

from .aio import Closing
from .card import Card
from .errors import NotFound, PolicyRequired, TurnFailed
from .events import Event, Fault, Question, Reply, check_question
from .ids import new_id
from .message import Message, Part
from .observe.timeline import NO_TIMELINE, Timeline

MAX_HOPS = 8
_STRANGER = frozenset({"anonymous"})


class Caller(msgspec.Struct, frozen=True, omit_defaults=True):
    """The caller. ``id`` is stable for a known caller and ``"anonymous"`` for anybody else."""

    id: str = "anonymous"
    kind: str = "anonymous"  # anonymous, key, subject, certificate, token, user, agent, local
    roles: frozenset[str] = frozenset()
    address: str = ""
    name: str = ""
    claims: dict[str, Any] = {}  # of a verified token; never shown to agents of other services
    on_behalf_of: str = ""  # the id of the caller for whom an agent asks; only the id is passed on
    handed_on: bool = False  # forwarded by another node of this gateway, which admitted and charged it

    @property
    def is_anonymous(self) -> bool:
        return self.kind == "anonymous"

    @property
    def is_counted_elsewhere(self) -> bool:
        """True if this request was already charged to a quota (sub-turns, requests from another node)."""
        return self.handed_on or self.kind == "agent"

    @property
    def effective_roles(self) -> frozenset[str]:
        """Every role of this caller: its own roles, the roles that everybody has, and its id as a role.

        An agent that asks on behalf of a caller has exactly that caller's roles (SEC-P2.3).
        """
        if self.kind == "agent":
            return self.roles
        if self.is_anonymous:
            return _STRANGER
        return self.roles | {"anonymous", "known", f"id:{self.id}"}


ANONYMOUS = Caller()


class PastTurn(msgspec.Struct, frozen=True, omit_defaults=True):
    """One recorded turn: the question and the answer, without tokens."""

    id: str
    at: float
    agent: str
    asked: Message
    answered: Message
    speaker: str = ""
    conversation: str = ""


class Conversation(msgspec.Struct, frozen=True, omit_defaults=True):
    """The turns so far, oldest first, within the agreed window. ``agreed`` has the agreements."""

    id: str
    turns: tuple[PastTurn, ...] = ()
    agreed: dict[str, Any] = {}
    count: int = 0  # all turns ever recorded in it, including those outside the window


NO_CONVERSATION = Conversation("")


class Meter(msgspec.Struct, eq=False, omit_defaults=True):
    """What a turn has used of models and tools, including sub-turns, against a budget (0: none)."""

    max_calls: int = 0
    max_tokens: int = 0
    max_cost: float = 0.0
    calls: int = 0
    tokens: int = 0
    cost: float = 0.0
    account: str = ""  # the account that is charged, if anything is counted
    own_tokens: int = 0  # of those above: used on this node
    own_cost: float = 0.0
    own_completion_tokens: int = 0  # of own_tokens: written by models; the rest is input

    @property
    def has_budget(self) -> bool:
        return bool(self.max_calls or self.max_tokens or self.max_cost)

    @property
    def is_used_up(self) -> bool:
        """Whether a budget is used up."""
        pairs = ((self.calls, self.max_calls), (self.tokens, self.max_tokens), (self.cost, self.max_cost))
        return any(limit and used >= limit for used, limit in pairs)

    def elsewhere(self, calls: int, tokens: int, cost: float) -> None:
        """Add what another node has used for this turn, and has already charged."""
        self.add(calls, tokens, cost, here=False)

    def add(self, calls: int, tokens: int, cost: float, *, completion_tokens: int = 0, here: bool = True) -> None:
        if here:
            self.own_tokens += tokens
            self.own_completion_tokens += completion_tokens
            self.own_cost += cost
        self.calls += calls
        self.tokens += tokens
        self.cost += cost
        for kind, used, limit in (
            ("calls", self.calls, self.max_calls),
            ("tokens", self.tokens, self.max_tokens),
            ("cost", self.cost, self.max_cost),
        ):
            if limit and used > limit:
                raise TurnFailed(f"the turn's budget of {limit:g} {kind} is used up")


class OpenedUpload(Protocol):
    """One complete upload, not loaded."""

    @property
    def size(self) -> int: ...

    @property
    def subformat(self) -> str: ...

    @property
    def name(self) -> str: ...

    @property
    def path(self) -> Path: ...

    def chunks(self) -> AsyncIterator[bytes]: ...

    async def part(self) -> Part: ...


class OpensUploads(Protocol):
    """What a turn needs from the uploads of its conversation (``sabir.uploads.Attachments``)."""

    def refers(self, message: Message) -> bool: ...

    def is_ours(self, part: Part) -> bool: ...

    async def check(self, message: Message) -> None: ...

    async def all(self, message: Message) -> Sequence[OpenedUpload]: ...

    async def open(self, reference: Part | str) -> OpenedUpload: ...

    async def give(self, data: bytes | Path | AsyncIterator[bytes], subformat: str = ..., name: str = ...) -> Part: ...


class Permit(Protocol):
    """Checks that the caller may use a tool or a skill; raises ``Refused`` if not."""

    def __call__(self, *, tool: str = "", skill: str = "") -> None: ...


def allow_all(*, tool: str = "", skill: str = "") -> None:
    return None


class Answering(Protocol):
    """What ``Turn.sub`` needs from an agent; ``sabir.agent.Agent`` is one."""

    card: Card


class Callee(Answering, Protocol):
    """What ``Turn.call`` needs from an agent; ``sabir.agent.Agent`` is one."""

    def __call__(self, turn: Turn, /) -> AsyncIterator[Event]: ...


class Siblings(Protocol):
    """The other agents of the gateway."""

    def find(self, name: str) -> Callee:
        """Raises ``NotFound`` for an unknown agent."""

    async def dispatch(self, name: str, turn: Turn) -> Message:
        """Send a turn as a message to the agent through the exchange: admitted, filtered, recorded and audited."""


class NoSiblings:
    """Outside a gateway there are no other agents."""

    def find(self, name: str) -> Callee:
        raise NotFound(f"there is no agent {name!r}: this turn runs outside a gateway")

    async def dispatch(self, name: str, turn: Turn) -> Message:
        raise NotFound(f"there is no agent {name!r}: this turn runs outside a gateway")


NO_SIBLINGS = NoSiblings()


AskBack = Callable[[Question], Awaitable[Message]]
Screen = Callable[[Message], Awaitable[Message]]


async def unchanged(message: Message) -> Message:
    return message


class Journal(Protocol):
    """What an agent records while a turn runs, so that the same turn can resume after a crash."""

    async def append(self, turn: str, entry: bytes) -> None: ...

    async def entries(self, turn: str) -> list[bytes]: ...


class NoJournal:
    """Keeps nothing: for turns outside a gateway."""

    async def append(self, turn: str, entry: bytes) -> None:
        return None

    async def entries(self, turn: str) -> list[bytes]:
        return []


NO_JOURNAL = NoJournal()


async def no_back_channel(question: Question) -> Message:
    raise TurnFailed(f"the caller cannot be asked: {question.text}")


class Turn(msgspec.Struct, eq=False):
    """One question and everything that belongs to it; never shared between turns."""

    message: Message
    conversation: Conversation = NO_CONVERSATION
    caller: Caller = ANONYMOUS
    deadline: float = float("inf")  # on time.monotonic()
    id: str = msgspec.field(default_factory=new_id)
    agent: str = ""
    hops: int = 0
    seen: tuple[str, ...] = ()  # names of the agents this question has passed, to detect loops
    trace: str | None = None  # W3C traceparent of this hop
    door: str = ""  # the door it came through
    named: str = ""  # the agent that the caller named, or empty
    carries: tuple[Part, ...] = ()  # the tokens to echo with the reply; a limit on its size includes them
    attachments: OpensUploads | None = None  # the uploads that parts refer to; set by the exchange
    ask_back: AskBack = no_back_channel
    screen: Screen = (
        unchanged  # the content filters for output of tools and models inside the turn; set by the exchange
    )
    journal: Journal = NO_JOURNAL  # set by the exchange
    siblings: Siblings = NO_SIBLINGS  # set by the exchange
    permit: Permit = allow_all  # set by the exchange; checked again before each tool call
    meter: Meter = msgspec.field(default_factory=Meter)  # shared with sub-turns
    used: list[str] = []  # tools that were called, for the audit; shared with sub-turns
    issued: list[Part] = []  # tokens to send with the reply; the concierge's passes
    questions: int = 0  # asked so far
    timeline: Timeline = NO_TIMELINE  # shared with sub-turns; set by the exchange, for callers who asked for one

    @property
    def text(self) -> str:
        """The text of the message."""
        return self.message.text

    @property
    def parts(self) -> tuple[Part, ...]:
        return self.message.parts

    @property
    def remaining(self) -> float:
        """Seconds until the deadline, never below zero."""
        return max(0.0, self.deadline - time.monotonic())

    @property
    def used_detail(self) -> dict[str, str]:
        """The called tools, as an audit entry names them."""
        return {"tool": ", ".join(dict.fromkeys(self.used))[:200]} if self.used else {}

    async def ask(self, question: Question | str) -> Message:
        """Ask the caller for input, over whatever protocol it uses, and wait for the answer.

        Raises:
            TurnFailed: the caller cannot be asked.
            Cancelled: the caller cancelled the turn.
            WrongEvent: it is not a Question, or a field of it is invalid.
        """
        if isinstance(question, str):
            question = Question(question)
        check_question(question)
        return await self.ask_back(question)

    def spend(self, *, calls: int = 0, tokens: int = 0, cost: float = 0.0, completion_tokens: int = 0) -> None:
        """Charge what a model or tool call used to this turn.

        ``tokens`` are all tokens, ``completion_tokens`` those of them that a model wrote, ``cost`` is in US dollars.

        Raises:
            TurnFailed: the turn's budget is used up.
        """
        self.meter.add(calls, tokens, cost, completion_tokens=completion_tokens)

    async def call(self, to: str | Callee, message: Message | str, *, history: bool = False) -> Message:
        """Ask another agent of the gateway by its name, or any agent, and wait for its reply.

        It shares this turn's deadline, trace, hop count and budget.

        Raises:
            NotFound: unknown agent.
            SabirError: it failed, refused, or the question passed too many agents.
        """
        async with Closing(self.stream(to, message, history=history)) as events:
            async for event in events:
                if isinstance(event, Reply):
                    return event.message.without_tokens()
                if isinstance(event, Fault):
                    raise event.error()
        raise TurnFailed("the agent ended without a reply")

    async def stream(self, to: str | Callee, message: Message | str, *, history: bool = False) -> AsyncIterator[Event]:
        """Like ``call``, with every event as it arrives."""
        agent = self.siblings.find(to) if isinstance(to, str) else to
        if not hasattr(agent, "card"):
            raise TypeError(f"{getattr(agent, 'name', agent)!r} is not an agent; call a function of your own directly")
        said = Message.text(message) if isinstance(message, str) else message
        with self.timeline.span("agent", agent.card.name) as hop:
            async with Closing(agent(self.sub(said, agent, history=history))) as events:
                async for event in events:
                    if isinstance(event, Reply | Fault):
                        hop.end(failed=isinstance(event, Fault))
                    yield event

    def sub(self, message: Message, to: Answering, *, history: bool = False, checked: bool = False) -> Turn:
        """A sub-turn: inherits deadline, trace and hop count, but not identity and tokens.

        With ``history`` the other agent takes part in the conversation and gets its earlier turns; without, it gets one
        self-contained question. ``checked``: the exchange checks whether the policies of the other agent are accepted.

        Raises:
            TurnFailed: the question has passed too many agents, or already passed this one.
            PolicyRequired: the other agent requires a policy that the conversation has not accepted.
        """
        name = to.card.name
        if self.hops + 1 > MAX_HOPS:
            raise TurnFailed(f"the question passed {MAX_HOPS} agents; a loop is likely")
        if self.conversation.id and not checked and (missing := to.card.missing_policies(self.conversation.agreed)):
            raise PolicyRequired.of(missing, name)
        return msgspec.structs.replace(
            self,
            id=f"{self.id}.{new_id()[:8]}",
            message=message.without_tokens(),
            conversation=self.conversation_for_others(history=history),
            caller=_agent_of(self.caller, self.agent),
            issued=[],
            named="",
            carries=(),
            agent=name,
            hops=self.hops + 1,
            seen=(*self.seen, name),
        )

    def conversation_for_others(self, *, history: bool = False) -> Conversation:
        """What another agent gets of the conversation: the agreements that it is bound by and, if wished, the turns."""
        here = self.conversation
        agreed = _passed_on(here.agreed)
        return (
            Conversation(here.id, here.turns, agreed, here.count) if history else Conversation(here.id, agreed=agreed)
        )


def _passed_on(agreed: dict[str, Any]) -> dict[str, Any]:
    """The agreements that hold for the whole way, and not for one hop: anonymity, and accepted policies."""
    passed: dict[str, Any] = {"anonymous": True} if agreed.get("anonymous") else {}
    accepted = agreed.get("policy", {}).get("accepted")
    if accepted:
        passed["policy"] = {"accepted": accepted}
    return passed


def _agent_of(caller: Caller, agent: str) -> Caller:
    """An agent that asks on behalf of a caller: with that caller's rights, but not its credentials."""
    return Caller(
        id=f"agent:{agent or 'gateway'}",
        kind="local" if caller.kind == "local" else "agent",
        roles=caller.effective_roles,
        on_behalf_of=caller.on_behalf_of if caller.kind in ("agent", "anonymous") else caller.id,
    )

"""``ask``: one turn of an agent, without a server, and its outcome."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, Final

from sabir.agent import Agent, reply_of
from sabir.errors import Cancelled, Forbidden, NotFound, TurnFailed
from sabir.events import Delta, Event, Fault, Progress, Question, Reply
from sabir.message import Message, Part, json_part
from sabir.turn import ANONYMOUS, NO_CONVERSATION, Caller, Conversation, Meter, PastTurn, Turn, no_back_channel

SECONDS: Final = 10.0  # time limit of a turn


class _Decline:
    def __repr__(self) -> str:
        return "DECLINE"


DECLINE: Final = _Decline()  # as an answer: the caller cancels the question

# The answer to a question: text, the values of its fields, a whole message, DECLINE, or a function of it.
Answer = str | Mapping[str, Any] | Message | _Decline | Callable[[Question], "str | Mapping[str, Any] | Message"]


class Unanswered(AssertionError):
    """The agent asked more, or less, than the test answers."""


@dataclass(frozen=True, slots=True)
class Answered:
    """A finished turn."""

    message: Message
    events: tuple[Event, ...]
    questions: tuple[Question, ...]
    tools: tuple[str, ...]  # called, in order
    meter: Meter = field(repr=False)

    @property
    def text(self) -> str:
        return self.message.text

    @property
    def parts(self) -> tuple[Part, ...]:
        return self.message.parts

    @property
    def data(self) -> Any:
        """The value of the first structured part, or None."""
        return next((part.value for part in self.parts if part.format == "structured"), None)

    @property
    def streamed(self) -> str:
        """The text that was streamed before the reply, joined."""
        pieces = (event.part for event in self.events if isinstance(event, Delta))
        return "".join(str(part.content) for part in pieces if part.format == "text")

    @property
    def notes(self) -> list[str]:
        """The progress that was reported."""
        return [event.note for event in self.events if isinstance(event, Progress)]

    @property
    def tokens(self) -> int:
        return self.meter.tokens

    @property
    def cost(self) -> float:
        return self.meter.cost


class MemoryJournal:
    """Keeps the journal of a turn. A second call with the same journal and turn id resumes the turn."""

    def __init__(self) -> None:
        self._entries: dict[str, list[bytes]] = {}

    async def append(self, turn: str, entry: bytes) -> None:
        self._entries.setdefault(turn, []).append(entry)

    async def entries(self, turn: str) -> list[bytes]:
        return list(self._entries.get(turn, ()))


class _Others:
    """Agents that the tested one calls by name."""

    def __init__(self, agents: Iterable[Agent]) -> None:
        self._agents = {agent.card.name: agent for agent in agents}

    def find(self, name: str) -> Agent:
        if name not in self._agents:
            raise NotFound(f"there is no agent {name!r}; give it to ask() with others=[…]")
        return self._agents[name]

    async def dispatch(self, name: str, turn: Turn) -> Message:
        return (await reply_of(self.find(name)(turn))).without_tokens()


class _ScriptedAnswers:
    """Answers questions in order, and records them."""

    def __init__(self, answers: Sequence[Answer]) -> None:
        self.left = list(answers)
        self.asked: list[Question] = []

    async def __call__(self, question: Question) -> Message:
        self.asked.append(question)
        if not self.left:
            raise Unanswered(f"the agent asks {question.text!r}, and no answer is left; give answers=[…]")
        answer = self.left.pop(0)
        if isinstance(answer, _Decline):
            raise Cancelled("the caller cancelled the question")
        return _message(answer(question) if callable(answer) else answer)


async def ask(
    agent: Agent,
    said: str | Mapping[str, Any] | Message,
    *,
    answers: Sequence[Answer] | None = None,
    history: Sequence[tuple[str, str]] = (),
    others: Iterable[Agent] = (),
    caller: Caller = ANONYMOUS,
    may_use: Sequence[str] | None = None,
    seconds: float = SECONDS,
    budget: Meter | None = None,
    journal: MemoryJournal | None = None,
    turn_id: str = "test",
) -> Answered:
    """Let an agent answer, and return its reply with everything that came before it.

    Args:
        agent: any Agent.
        said: the question: text, a JSON object with its arguments, or a whole Message.
        answers: to the agent's questions, in order. None: the caller cannot be asked.
        history: earlier turns of the conversation, as pairs of question and answer.
        others: agents that it may call by name.
        caller: the caller of the turn.
        may_use: patterns of the tools that the caller may use. None: all.
        seconds: the time limit of the turn.
        budget: a Meter with limits, such as ``Meter(most_tokens=1000)``.
        journal: the record of earlier runs of the same turn.
        turn_id: the id of the turn.

    Raises:
        SabirError: the agent failed.
        Unanswered: it asked more questions than there are answers, or fewer.
    """
    answering = _ScriptedAnswers(answers or ())
    past = tuple(PastTurn(str(n), 0.0, "", Message.text(a), Message.text(b)) for n, (a, b) in enumerate(history))
    turn = Turn(
        _message(said),
        Conversation("test", past, count=len(past)) if past else NO_CONVERSATION,
        caller,
        time.monotonic() + seconds,
        turn_id,
        agent.card.name,
        ask_back=no_back_channel if answers is None else answering,
        siblings=_Others(others),
        permit=_permit(may_use),
        meter=budget or Meter(),
        used=[],
        journal=journal or MemoryJournal(),
    )
    events: list[Event] = []
    async with asyncio.timeout(seconds):
        async for event in agent(turn):
            events.append(event)
    if answering.left:
        raise Unanswered(f"the agent asked {len(answering.asked)} questions; {len(answering.left)} answers are left")
    return Answered(_reply(events), tuple(events), tuple(answering.asked), tuple(turn.used), turn.meter)


def ask_sync(agent: Agent, said: str | Mapping[str, Any] | Message, **options: Any) -> Answered:
    """The same as ``ask``, outside an event loop."""
    return asyncio.run(ask(agent, said, **options))


def _message(said: str | Mapping[str, Any] | Message) -> Message:
    if isinstance(said, Message):
        return said
    return Message.text(said) if isinstance(said, str) else Message.of(json_part(dict(said)))


def _permit(patterns: Sequence[str] | None) -> Callable[..., None]:
    def permit(*, tool: str = "", skill: str = "") -> None:
        if patterns is not None and tool and not any(fnmatchcase(tool, pattern) for pattern in patterns):
            raise Forbidden(f"no right to use {tool}")

    return permit


def _reply(events: list[Event]) -> Message:
    last = events[-1] if events else None
    if isinstance(last, Fault):
        raise last.error()
    if not isinstance(last, Reply):
        raise TurnFailed("the agent ended without a reply")
    return last.message

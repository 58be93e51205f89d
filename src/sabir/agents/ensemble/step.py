"""One step of one member: it sees the answers, and ends with a new answer or a vote.

A language model gets two tools, ``new_answer`` and ``vote``. Any other agent, and so any remote one, is asked in text:
a reply that starts with ``VOTE: agent2`` is a vote, every other reply is an answer.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Final

from sabir.agent import Agent
from sabir.agents.llm import LLM
from sabir.agents.panel_words import ONLY_VOTE, OWN_ANSWER, SAYS, WON
from sabir.errors import TurnFailed
from sabir.message import Message, Part, json_part
from sabir.tools import Tool, tool
from sabir.turn import Turn

from .state import PanelState

LABEL: Final = "ensemble"  # of the part that holds the answers, for members that read structured parts
_VOTE: Final = re.compile(
    r"\s*vote:\s*((?:sub)*agent\s?\d{1,6})\b[\s:,.–-]*(?:because\b)?(.*)", re.IGNORECASE | re.DOTALL
)
_RULES: Final = """\
You are one of several agents that work on the same question.
Either give a better answer than those below, or vote for the one that is best."""
_BY_TOOLS: Final = "End with exactly one call: new_answer(content) or vote(agent_id, reason)."
_BY_WORDS: Final = """\
To vote, reply with a line such as: VOTE: {}1 because …
Anything else is taken as your new answer."""
_AGAIN: Final = "You ended without new_answer or vote. Call exactly one of them now."
_AGAIN_IN_WORDS: Final = "Your last reply could not be used: {}. Reply again."


class UnclearStep(TurnFailed):
    """A member's reply is neither an answer nor a vote. It is asked once more."""


@dataclass(frozen=True, slots=True)
class NewAnswer:
    content: str


@dataclass(frozen=True, slots=True)
class Vote:
    choice: int
    reason: str = ""


Decision = NewAnswer | Vote
Ask = Callable[[Agent, Message], Awaitable[Message]]  # runs a member in a separate turn


@dataclass(slots=True)
class _Ballot:
    """The calls of a model in one step."""

    state: PanelState
    may_answer: bool
    choices: frozenset[int]
    answers: list[str] = field(default_factory=list)
    votes: list[Vote] = field(default_factory=list)

    def tools(self) -> list[Tool]:
        made = [self._vote()] if self.choices else []
        if self.may_answer or not made:
            made.append(self._new_answer())
        return [replace(item, kind="builtin", internal=True) for item in made]

    def _new_answer(self) -> Tool:
        @tool(name="new_answer", description="Gives a new answer to the question, better than those there are.")
        def new_answer(content: str) -> str:
            self.answers.append(content)
            return "recorded"

        return new_answer

    def _vote(self) -> Tool:
        names = ", ".join(self.state.alias(choice) for choice in sorted(self.choices))

        @tool(name="vote", description=f"Votes for the best answer there is: {names}.")
        def vote(agent_id: str, reason: str = "") -> str:
            choice = self.state.member_of(agent_id)
            if choice is None or choice not in self.choices:
                raise TurnFailed(f"agent_id: expected one of {names}, not {agent_id[:80]!r}")
            self.votes.append(Vote(choice, reason))
            return "recorded"

        return vote

    def decision(self) -> Decision | None:
        """The last vote or the last answer; None if the model gave neither, or both."""
        if bool(self.answers) == bool(self.votes):
            return None
        return self.votes[-1] if self.votes else NewAnswer(self.answers[-1])


def brief(question: Message, state: PanelState, member: int, *, may_answer: bool, by_tools: bool) -> Message:
    """The prompt of a step, with the images and files of the question."""
    newest = state.newest()
    words = [_RULES, _BY_TOOLS if by_tools else _BY_WORDS.format(state.prefix)]
    if not may_answer:
        words.append(ONLY_VOTE)
    words.append(f"\nQuestion: {question.text}")
    if member in newest:
        words.append(f"\n{OWN_ANSWER} {state.alias(member)}:\n{newest[member].content}")
    others = {state.alias(number): answer.content for number, answer in sorted(newest.items()) if number != member}
    words += [f"\n{name} {SAYS}\n{content}" for name, content in others.items()]
    if not newest:
        words.append("\nThere are no answers yet.")
    part = json_part({"you": state.alias(member), "answers": others, "depth": state.depth}, label=LABEL)
    return Message.text("\n".join(words)).with_parts([part, *_beside(question)])


def _beside(question: Message) -> list[Part]:
    """The parts of a question that are not text."""
    parts = question.without_tokens().parts
    return [part for part in parts if part.format != "text" and part.label != LABEL]


def depth_of(question: Message) -> int:
    """How many panels a question is nested in."""
    part = question.labelled(LABEL)
    outer = part.value if part is not None and part.format == "structured" else None
    depth = outer.get("depth") if isinstance(outer, dict) else None
    return min(depth, 8) + 1 if isinstance(depth, int) and depth >= 0 else 0


async def decide(
    agent: Agent,
    ask: Ask,
    turn: Turn,
    state: PanelState,
    member: int,
    *,
    may_answer: bool,
    choices: frozenset[int],
    in_words: bool = False,
) -> Decision:
    """Let a member take one step; ``in_words`` asks a language model without tools, like any other agent.

    Raises:
        TurnFailed: it ended twice without an answer or a vote.
        SabirError: it could not be asked.
    """
    if isinstance(agent, LLM) and not in_words:
        return await _by_tools(agent, ask, turn, state, member, may_answer, choices)
    return await _by_words(agent, ask, turn, state, member, may_answer, choices)


async def _by_words(
    agent: Agent, ask: Ask, turn: Turn, state: PanelState, member: int, may_answer: bool, choices: frozenset[int]
) -> Decision:
    message = brief(turn.message, state, member, may_answer=may_answer, by_tools=False)
    for attempt in range(2):
        try:
            decision = read(await ask(agent, message), state, choices)
            if isinstance(decision, NewAnswer) and not may_answer and choices:
                raise UnclearStep("it has given all its answers, and did not vote")
            return decision
        except UnclearStep as exc:
            if attempt:
                raise
            message = Message.text(f"{message.text}\n\n{_AGAIN_IN_WORDS.format(exc)}", parts=message.submessages)
    raise TurnFailed("it was not asked")


async def _by_tools(
    agent: LLM, ask: Ask, turn: Turn, state: PanelState, member: int, may_answer: bool, choices: frozenset[int]
) -> Decision:
    message = brief(turn.message, state, member, may_answer=may_answer, by_tools=True)
    await agent.toolbox.load()
    for _ in range(2):
        ballot = _Ballot(state, may_answer, choices)
        await ask(agent.with_final_tools(ballot.tools()), message)
        decision = ballot.decision()
        if decision is not None:
            return decision
        message = Message.text(f"{message.text}\n\n{_AGAIN}", parts=message.submessages)
    raise TurnFailed("it ended without an answer or a vote")


def read(reply: Message, state: PanelState, choices: frozenset[int]) -> Decision:
    """Parse a text reply: a vote, or an answer.

    Raises:
        UnclearStep: it is empty, or votes for an answer that does not exist.
    """
    found = _VOTE.match(reply.text)
    if found is None or not found[1].casefold().startswith(state.prefix):
        if not reply.text.strip():
            raise UnclearStep("it said nothing")
        return NewAnswer(reply.text)
    choice = state.member_of(found[1])
    if choice is None or choice not in choices:
        raise UnclearStep(f"it voted for {found[1]}, which has no answer")
    return Vote(choice, found[2].strip())


def final_brief(question: Message, state: PanelState, winner: int) -> Message:
    """What the winner is asked at the end."""
    newest = state.newest()
    words = [f"{WON} Write the final answer for the user, from all that was said."]
    words.append(f"\nQuestion: {question.text}")
    words.append(f"\nYour answer:\n{newest[winner].content}")
    words += [
        f"\n{state.alias(number)} said:\n{answer.content}" for number, answer in newest.items() if number != winner
    ]
    return Message.text("\n".join(words), parts=_beside(question))

"""Fake agents and tools with scripted results, which record their input."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

from sabir.agent import joined
from sabir.agents.llm import LLM
from sabir.agents.llm.mock import ScriptedModel, ScriptStep
from sabir.card import Card
from sabir.events import Delta, Event, Question, Reply
from sabir.message import Message, Part, text_part
from sabir.tools import Tool
from sabir.tools.tool import parts_of
from sabir.turn import Turn


class FakeAgent:
    """Stands for any agent, such as a remote one: returns its answers in order, then repeats the last one.

    An answer is text, a Message, a Part, a list of pieces to stream, a Question to ask first, or an exception to raise.
    ``turns`` are the turns it received.
    """

    def __init__(
        self, name: str, *answers: Any, description: str = "", seconds: float = 0.0, card: Card | None = None
    ) -> None:
        """``seconds`` is how long each answer takes."""
        self.card = card or Card(name, description or f"Stands for {name} in a test")
        self.turns: list[Turn] = []
        self._answers = list(answers) or ["ok"]
        self._seconds = seconds

    @property
    def asked(self) -> list[str]:
        """The texts of its questions."""
        return [turn.text for turn in self.turns]

    async def __call__(self, turn: Turn, /) -> AsyncIterator[Event]:
        self.turns.append(turn)
        if self._seconds:
            await asyncio.sleep(self._seconds)
        answer = self._next()
        while isinstance(answer, Question):
            await turn.ask(answer)
            answer = self._next()
        if isinstance(answer, BaseException):
            raise answer
        if isinstance(answer, Message):
            yield Reply(answer)
            return
        pieces = [_part(piece) for piece in answer] if isinstance(answer, list) else [_part(answer)]
        for piece in pieces:
            yield Delta(piece)
        yield Reply(joined(pieces))

    def _next(self) -> Any:
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]


def scripted_member(name: str, *answers: str, vote: str = "agent1", reason: str = "", present: str = "") -> LLM:
    """A member of an ensemble with a script.

    It gives its answers in order, then votes, and presents the result if it wins. ``vote`` is the alias of a member
    (``agent2`` is the second one), or words of the answer that it votes for. Without ``present`` it repeats its answer.
    For other behaviour, such as an error or a delay, give ``LLM(name, ScriptedModel([…]))`` a script.
    """
    steps: list[ScriptStep] = [{"answer": answer} for answer in answers]
    steps.append({"vote": vote, "reason": reason})
    if present:
        steps.append({"present": present})
    return LLM(name, ScriptedModel(steps))


def _part(piece: Any) -> Part:
    return piece if isinstance(piece, Part) else text_part(str(piece))


class FakeTool:
    """Stands for a tool: returns its results in order, then repeats the last one. ``calls`` are the arguments.

    A result is anything that a tool may return, or an exception to raise. Pass ``tool`` to an agent.
    """

    def __init__(
        self,
        name: str,
        *results: Any,
        description: str = "",
        schema: Mapping[str, Any] | None = None,
        confirm: bool = False,
        repeatable: bool = False,
    ) -> None:
        self.calls: list[dict[str, Any]] = []
        self._results = list(results) or ["ok"]
        self.tool = Tool(
            name,
            description or f"Stands for {name} in a test",
            schema or {"type": "object"},
            self._run,
            confirm=confirm,
            repeatable=repeatable,
        )

    async def _run(self, turn: Turn, arguments: Mapping[str, Any]) -> tuple[Part, ...]:
        self.calls.append(dict(arguments))
        result = self._results.pop(0) if len(self._results) > 1 else self._results[0]
        if isinstance(result, BaseException):
            raise result
        return parts_of(result)

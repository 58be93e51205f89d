"""The agents at the far end of the bridge. They know nothing of protocols."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from gates import Gate
from sabir.agent import FunctionAgent, agent
from sabir.events import Fault, Field, Progress, Question
from sabir.message import Message, binary_part, json_part, text_part
from sabir.turn import Turn

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(64))
DATA = {"size": [8, 8], "id": 2**60, "name": "heron", "none": None}


def agents(gate: Gate) -> list[FunctionAgent]:
    @agent(description="Says it back", remembers=False)
    async def echo(turn: Turn) -> str:
        return f"You said: {turn.text}"

    @agent(description="Counts the turns of a conversation")
    async def counter(turn: Turn) -> str:
        return f"turn {len(turn.conversation.turns) + 1}: {turn.text}"

    @agent(description="Paints herons")
    async def painter(turn: Turn) -> Message:
        return Message.of(text_part("A heron."), binary_part(PNG, "image/png"))

    @agent(description="Measures herons")
    async def surveyor(turn: Turn) -> Message:
        return Message.of(text_part("Measured."), json_part(DATA))

    @agent(description="Answers in pieces")
    async def pieces(turn: Turn) -> AsyncIterator[Any]:
        yield "one, "
        yield Progress(0.5, "half way")
        yield "two, "
        yield "three"

    @agent(description="Takes its time")
    async def slow(turn: Turn) -> str:
        await gate.passed()
        return "done at last"

    @agent(description="Asks which colour")
    async def asker(turn: Turn) -> str:
        colour = Field("colour", "Colour", "single_select", ("red", "blue"))
        answer = await turn.ask(Question("Which colour?", (colour,), id="q1"))
        given = next((p.value for p in answer.parts if p.label == "answer" and isinstance(p.value, dict)), {})
        return f"You chose {given.get('colour') or answer.text}."

    @agent(description="Fails")
    async def broken(turn: Turn) -> Fault:
        return Fault("the heron flew away")

    return [echo, counter, painter, surveyor, pieces, slow, asker, broken]

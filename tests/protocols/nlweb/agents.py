"""Agents that the NLWeb tests ask, and a reader of streams."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

from sabir import agent
from sabir.events import Delta, Field, Progress, Question, Reply
from sabir.message import Message, json_part, text_part
from sabir.turn import Turn

Heard = list[tuple[str, dict[str, Any]]]


def events(text: str) -> Heard:
    """The named events of a stream, comments left out."""
    found: Heard = []
    for block in text.split("\n\n"):
        lines = dict(line.split(": ", 1) for line in block.splitlines() if line and not line.startswith(":"))
        if "data" in lines:
            found.append((lines["event"], json.loads(lines["data"])))
    return found


@agent(description="Asks which colour before it answers")
async def asker(turn: Turn) -> str:
    answer = await turn.ask(
        Question("Which colour?", (Field("colour", "Which colour?", "single_select", ("red", "blue")),))
    )
    given = answer.labelled("answer")
    return f"You chose {given.value['colour'] if given is not None else answer.text}."


@agent(description="Says why it cannot", repeatable=True)
async def broken(turn: Turn) -> str:
    raise RuntimeError("the password is hunter2")


@agent(description="Sends one result, and the next on request")
async def stepper(turn: Turn) -> AsyncIterator[Any]:
    first, second = ({"@type": "Thing", "@id": f"urn:x:{n}", "name": n, "score": 9} for n in "ab")
    yield Delta(json_part(first, label="result"))
    await STEP.get(turn.text, asyncio.Event()).wait()
    yield Progress(0.9, "nearly")
    yield Reply(Message.of(text_part("two"), json_part(first, label="result"), json_part(second, label="result")))


STEP: dict[str, asyncio.Event] = {}

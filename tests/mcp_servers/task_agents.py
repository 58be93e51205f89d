"""Agents whose calls become tasks, because what they do takes a while."""

from __future__ import annotations

import asyncio

from sabir.agent import agent
from sabir.events import Question
from sabir.protocols.mcp.wire.elicitation import Several
from sabir.turn import Turn

A_WHILE = 0.3  # seconds


@agent(description="Takes a while", repeatable=True)
async def slow(turn: Turn) -> str:
    await asyncio.sleep(A_WHILE if turn.text == "soon" else 600)
    return "here it is"


@agent(description="Fails after a while")
async def failing(turn: Turn) -> str:
    await asyncio.sleep(A_WHILE)
    raise RuntimeError("inside")


@agent(description="Asks after a while")
async def curious(turn: Turn) -> str:
    await asyncio.sleep(A_WHILE)
    answer = await turn.ask(Question("Which size?", id="size"))
    return f"You want {answer.text}"


@agent(description="Asks several things after a while")
async def thorough(turn: Turn) -> str:
    await asyncio.sleep(A_WHILE)
    answer = await turn.ask(Several.of(Question("Which size?", id="size"), Question("Which colour?", id="colour")))
    return f"You want {', '.join(str(part.content) for part in answer.parts)}"


@agent(description="Asks at once, and then takes a while")
async def hesitant(turn: Turn) -> str:
    answer = await turn.ask(Question("Which size?", id="size"))
    await asyncio.sleep(A_WHILE)
    return f"You want {answer.text}"

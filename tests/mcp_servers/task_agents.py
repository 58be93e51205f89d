"""Agents whose calls become tasks, because what they do takes a while."""

from __future__ import annotations

import asyncio

from sabir.agent import agent
from sabir.events import Question
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

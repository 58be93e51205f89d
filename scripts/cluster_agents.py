"""The agents of the cluster durability runs; each shows in its answer what could be lost or doubled."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator

from sabir import agent
from sabir.events import Progress
from sabir.turn import Turn

STEPS = 8


@agent(description="Says how many turns there were, and every word that was said so far")
async def teller(turn: Turn) -> str:
    said = [past.asked.text for past in turn.conversation.turns] + [turn.text]
    return f"{turn.conversation.count + 1}: {' '.join(said)}"


@agent(description="Works for a while", repeatable=True)
async def worker(turn: Turn) -> AsyncIterator[object]:
    for step in range(STEPS):
        yield Progress(step / STEPS, f"step {step}")
        await asyncio.sleep(0.1)
    yield f"done: {turn.text}"


@agent(description="Asks before it answers")
async def clerk(turn: Turn) -> str:
    answer = await turn.ask("How many?")
    return f"{turn.text}: {answer.text}"


async def _where(turn: Turn) -> str:
    return f"{turn.text} at {os.environ['CLUSTER_NODE']}"


alpha = agent(name="alpha", description="Is on node a alone")(_where)
beta = agent(name="beta", description="Is on node b alone")(_where)

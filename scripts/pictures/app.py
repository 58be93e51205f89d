"""The agents in the pictures of the README."""

from __future__ import annotations

import asyncio
from typing import Any

from sabir import LLM, Ensemble, Turn, agent
from sabir.agents.llm import ScriptedModel

ANSWER = """### Three ways to cross the harbour

| way | minutes | price |
|---|---|---|
| ferry | 12 | 3.20 EUR |
| bridge | 35 | free |

Buy a ticket at the pier, and show it to the `deckhand`.
"""


@agent(description="Explains how to get around")
async def guide(turn: Turn) -> Any:
    for start in range(0, len(ANSWER), 60):
        yield ANSWER[start : start + 60]
        await asyncio.sleep(0)


def member(name: str, answer: str, choice: str) -> LLM:
    """A member of the panel: it answers once and then votes."""

    def step(messages: Any) -> Any:
        last = messages[-1].content
        if "your answer won" in last:
            return answer
        if "Your own answer" in last:
            return {"tool_calls": [{"name": "vote", "arguments": {"agent_id": choice, "reason": "it is longer"}}]}
        return {"tool_calls": [{"name": "new_answer", "arguments": {"content": answer}}]}

    return LLM(name, ScriptedModel([step] * 30))


panel = Ensemble(
    [
        member("rhine", "The Rhine, with 1,230 km.", "agent2"),
        member("danube", "The **Danube**: it runs 2,850 km from the Black Forest to the Black Sea.", "agent2"),
        member("elbe", "The Elbe, with 1,094 km.", "agent2"),
    ],
    name="panel",
)

"""An ensemble: three models answer, see each other's answers, vote, and the winner presents.

The models follow a script, so that it runs without a key. For real ones, use ``model_agent`` of ``sabir.agents.llm``.
"""

import asyncio

from sabir import LLM, Ensemble, connect
from sabir.testing import ScriptedModel, served


def member(name: str, answer: str, choice: str) -> LLM:
    """A model that gives its answer first, and votes once it sees the others."""

    def step(messages):
        said = messages[-1].content
        if "your answer won" in said:
            return f"We agree: {answer}"
        if "Your own answer" in said:
            return {"tool_calls": [{"name": "vote", "arguments": {"agent_id": choice, "reason": "it is complete"}}]}
        return {"tool_calls": [{"name": "new_answer", "arguments": {"content": answer}}]}

    return LLM(name, ScriptedModel([step] * 12))


async def main() -> None:
    panel = Ensemble(
        [
            member("ada", "It depends.", "agent2"),
            member("bo", "Use a queue, and retry with the same key.", "agent2"),
            member("cy", "Retry.", "agent2"),
        ],
        name="panel",
    )
    with served(panel) as url:
        async with connect(url) as peer:
            reply = await peer.ask("How do I deliver a message exactly once?")
            outcome = reply.labelled("ensemble").value
            print(reply.first.content)
            print(f"{outcome['winner']} won, because {outcome['ended']}: {outcome['votes']}")


if __name__ == "__main__":
    asyncio.run(main())

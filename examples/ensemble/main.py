"""An ensemble: three models answer, see each other's answers, vote, and the winner presents.

The members follow a script, so that it runs without a key. For real ones, use ``model_agent`` of ``sabir.agents.llm``.
"""

import asyncio

from sabir import Ensemble, connect
from sabir.testing import scripted_member, served


async def main() -> None:
    panel = Ensemble(
        [
            scripted_member("ada", "It depends.", vote="queue"),
            scripted_member(
                "bo",
                "Use a queue, and retry with the same key.",
                vote="agent2",
                present="We agree: Use a queue, and retry with the same key.",
            ),
            scripted_member("cy", "Retry.", vote="queue", reason="it is complete"),
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

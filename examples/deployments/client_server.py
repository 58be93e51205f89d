"""Client and server: the simplest deployment. The server keeps the conversation; the client keeps only its token."""

import asyncio
import sys

from sabir import Gateway, Turn, agent, connect


@agent(description="Counts what you say")
async def counter(turn: Turn) -> str:
    return f"{turn.text} ({len(turn.conversation.turns) + 1})"


def gateway(home: str = ".sabir") -> Gateway:
    return Gateway(counter, home=home)


async def talk(url: str) -> list[str]:
    async with connect(url) as peer:
        return [(await peer.ask(word)).text for word in ("one", "two", "three")]


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print("\n".join(asyncio.run(talk(sys.argv[1]))))
    else:
        gateway().run()

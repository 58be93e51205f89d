"""A federation of three: the same question to three agents, by vote, by merging, and with one that is down."""

import asyncio

from sabir import Federation, Turn, agent, connect
from sabir.errors import Unavailable
from sabir.testing import served


@agent(description="An almanac")
async def almanac(turn: Turn) -> str:
    return "The Danube is 2850 km long."


@agent(description="An atlas")
async def atlas(turn: Turn) -> str:
    return "The Danube is 2850 km long."


@agent(description="A blog")
async def blog(turn: Turn) -> str:
    if "delta" in turn.text:
        raise Unavailable("the blog is being moved")
    return "The Danube has 1900 km."


async def main() -> None:
    members = [almanac, atlas, blog]
    vote = Federation(members, strategy="vote", name="vote")
    everybody = Federation(members, name="everybody")
    with served(vote, everybody) as url:
        async with connect(f"{url}/nlip/vote") as peer:
            reply = await peer.ask("How long is the Danube?")
            print(f"vote: {reply.first.content} {reply.labelled('agreement').value}")
        async with connect(f"{url}/nlip/everybody") as peer:
            reply = await peer.ask("How long is the Danube with its delta?")
            print(reply.first.content)
            print(f"left out: {reply.labelled('sources').value['failed']}")


if __name__ == "__main__":
    asyncio.run(main())

"""Runs inside the environment of AG2: its NLIP client asks a gateway, as its users would."""

import asyncio
import json
import sys

from ag2 import Agent
from ag2.extensions.nlip import NlipConfig


async def main(url: str) -> None:
    agent = Agent("asker", config=NlipConfig(url=url))
    first = await agent.ask("Hello from AG2")
    second = await first.ask("and again")
    print(json.dumps({"first": first.body, "second": second.body}))


asyncio.run(main(sys.argv[1]))

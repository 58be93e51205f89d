"""The tools of an MCP server behind NLIP: a part labelled with the name of a tool holds its arguments."""

import asyncio
import shlex
import sys
from pathlib import Path

from sabir import Message, connect, json_part
from sabir.testing import served

SERVER = Path(__file__).with_name("server.py")
CALLS = {"working_days": {"weeks": 3}, "room_for": {"people": 6}}


async def main() -> None:
    office = connect(f"stdio:{shlex.join([sys.executable, str(SERVER)])}", name="office")
    with served(office, beside=[office]) as url:
        async with connect(f"{url}/nlip") as peer:
            for name, arguments in CALLS.items():
                reply = await peer.ask(Message.of(json_part(arguments, label=name)))
                print(f"{name}: {reply.first.content}")


if __name__ == "__main__":
    asyncio.run(main())

"""Ask any agent, by its address."""

import asyncio
import sys

from sabir import connect


async def main(url: str) -> None:
    async with connect(url) as peer:
        reply = await peer.ask("Hello")
        print(reply.text)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8080"))

"""Letters: a letter to a name is kept until a receiver of that name has handled it.

python examples/letters.py nats://127.0.0.1:4222
"""

import asyncio
import sys

from sabir.bus import Letter, open_bus


async def main(address: str = "memory:") -> None:
    bus = open_bus(address)
    await bus.open()
    await bus.send(Letter("hotel", b"a room for two", sender="guide"))  # stored by the bus when this returns

    async def book(letter: Letter) -> None:
        print(f"{letter.sender} wants {letter.body.decode()}")  # the letter is done once this has returned

    receiver = await bus.receive("hotel", book)  # on any node, at any time: now, or tomorrow
    while await bus.waiting("hotel"):
        await asyncio.sleep(0.01)
    await receiver.stop()
    await bus.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))

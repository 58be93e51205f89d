"""Deposit a check: the client sends a picture; the bank looks at it, asks what is missing, and confirms."""

import asyncio
import struct
import zlib

from sabir import Field, Message, Part, Question, Turn, agent, connect
from sabir.testing import served

SMALLEST = (200, 80)  # pixels; smaller pictures cannot be read


@agent(description="Deposits checks from their pictures")
async def bank(turn: Turn) -> str:
    picture = next((part for part in turn.parts if part.subformat == "image/png"), None)
    if picture is None:
        return "Send a picture of the check, as PNG."
    width, height = struct.unpack(">II", picture.content[16:24])
    if (width, height) < SMALLEST:
        return f"The picture has {width} x {height} pixels; I need {SMALLEST[0]} x {SMALLEST[1]}."
    amount = await turn.ask(Question("Which amount is on the check?", (Field("amount", "Amount in USD", "number"),)))
    sure = await turn.ask(f"Deposit {amount.text} USD?")
    return f"Deposited {amount.text} USD." if sure.text.lower().startswith("y") else "Nothing was deposited."


def png(width: int, height: int) -> bytes:
    """A white picture; a client has a photo instead."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    rows = zlib.compress((b"\0" + b"\xff" * width) * height)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


async def main() -> None:
    with served(bank) as url:
        async with connect(url) as client:
            for size in ((60, 30), (600, 270)):
                picture = Part("binary", "image/png", png(*size), "front.png")
                print((await client.ask(Message.text("Deposit this check", parts=[picture]))).first.content)
            for answer in ("125.50", "yes"):
                print(f"> {answer}")
                print((await client.ask(answer)).first.content)


if __name__ == "__main__":
    asyncio.run(main())

"""``sabir bus``: an operator looks at what waits and what is dead, and sends it again."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from uuid import uuid4

import pytest

from sabir.bus import Letter, open_bus
from sabir.cli.main import main
from sabir.errors import TurnFailed

from .conftest import QUICK
from .on_nats import NATS, need_nats, remove_streams


@pytest.fixture
async def address() -> AsyncIterator[str]:
    need_nats()
    prefix = f"test{uuid4().hex[:12]}"
    yield f"{NATS}?prefix={prefix}"
    await remove_streams(NATS, prefix)


class Command:
    """``sabir bus …``, in a thread of its own: it runs its own event loop."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    async def __call__(self, *arguments: str) -> tuple[int, str]:
        code = await asyncio.to_thread(main, ["bus", *arguments])
        said = self._capsys.readouterr()
        return code, said.out + said.err


@pytest.fixture
def sabir(capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(capsys)


async def test_dead_letters_are_listed_without_their_content_and_replayed(address: str, sabir: Command) -> None:
    bus = open_bus(address, limits=QUICK)
    await bus.open()

    async def handler(letter: Letter) -> None:
        raise TurnFailed("the room is taken")

    receiver = await bus.receive("hotel", handler)
    await bus.send(Letter("hotel", b"a s3cret", sender="guide", order="c1"))
    async with asyncio.timeout(30):
        while not await bus.dead("hotel"):
            await asyncio.sleep(0.01)
    await receiver.stop()

    code, said = await sabir("dead", "hotel", "--bus", address)
    assert code == 0
    assert "from guide, 8 bytes, 3 attempts\n        the room is taken" in said
    assert "s3cret" not in said
    code, said = await sabir("dead", "hotel", "--bus", address, "--json")
    (row,) = json.loads(said)
    assert (row["number"], row["sender"], row["order"], row["reason"]) == (1, "guide", "c1", "the room is taken")
    assert await sabir("replay", "hotel", "1", "--bus", address) == (0, "1 replayed\n")
    assert await sabir("waiting", "hotel", "--bus", address) == (0, "1 frames\n")
    assert await sabir("dead", "hotel", "--bus", address) == (0, "No dead letters to hotel.\n")
    await bus.close()


async def test_without_a_bus_the_command_says_what_to_give(sabir: Command) -> None:
    assert await sabir("dead", "hotel") == (2, "sabir: bus: none is configured; give --bus nats://host:port\n")

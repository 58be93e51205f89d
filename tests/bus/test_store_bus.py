"""The bus in the gateway's own store: what it does besides the contract of every bus."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from deadline import DEADLINE
from sabir.bus import Letter, Receiving, open_bus
from sabir.bus.framing import BusLimits
from sabir.bus.store import StoreBus, head_of, letter_of, row_of
from sabir.errors import ConfigError, StoreUnavailable, TooLarge
from sabir.stores import open_store
from sabir.stores.memory import MemoryStore

from .conftest import QUICK


class Counting(MemoryStore):
    """A store that counts removals, and is unavailable at first, if configured so."""

    def __init__(self, away: int = 0) -> None:
        super().__init__()
        self.away = away
        self.drops: list[int] = []

    async def finish_letters(self, numbers: tuple[int, ...]) -> None:
        if self.away:
            self.away -= 1
            raise StoreUnavailable("away")
        self.drops.append(len(numbers))
        await super().finish_letters(numbers)


@pytest.fixture(params=["memory:", "sqlite:///{}/sabir.db"])
async def bus(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[StoreBus]:
    store = open_store(request.param.format(tmp_path))
    await store.open()
    bus = StoreBus(store, QUICK)
    await bus.open()
    yield bus
    await bus.close()
    await store.close()


async def test_what_was_handled_is_dropped_when_its_receiver_has_stopped(bus: StoreBus) -> None:
    handled = asyncio.Event()

    async def handler(letter: Letter) -> None:
        if letter.body == b"last":
            handled.set()

    await bus.send(*(Letter("hotel", b"x") for _ in range(20)), Letter("hotel", b"last"))
    receiver = await bus.receive("hotel", handler, Receiving(width=1))
    async with asyncio.timeout(DEADLINE):
        await handled.wait()
    await receiver.stop()
    assert await bus.waiting("hotel") == 0


async def test_letters_that_are_handled_together_are_dropped_together() -> None:
    store = Counting()
    await store.open()
    bus = StoreBus(store, QUICK)
    await bus.open()
    left = 50
    done = asyncio.Event()

    async def handler(letter: Letter) -> None:
        nonlocal left
        left -= 1
        if not left:
            done.set()

    await bus.send(*(Letter("hotel", b"x") for _ in range(50)))
    receiver = await bus.receive("hotel", handler)
    async with asyncio.timeout(DEADLINE):
        await done.wait()
    await receiver.stop()
    await bus.close()
    assert sum(store.drops) == 50
    assert len(store.drops) <= 5


async def test_a_letter_that_could_not_be_dropped_comes_again_and_is_not_handled_twice() -> None:
    store = Counting(away=1)
    await store.open()
    bus = StoreBus(store, msgspec.structs.replace(QUICK, ack_seconds=0.3))
    await bus.open()
    handled: list[bytes] = []

    async def handler(letter: Letter) -> None:
        handled.append(letter.body)

    await bus.send(Letter("hotel", b"once"))
    await bus.receive("hotel", handler)
    async with asyncio.timeout(DEADLINE):
        while await bus.waiting("hotel"):
            await asyncio.sleep(0.02)
    await bus.close()
    assert (handled, store.away) == ([b"once"], 0)


async def test_an_address_of_a_store_is_a_bus_whose_letters_outlive_it(tmp_path: Path) -> None:  # ACL-30
    address = f"sqlite:///{tmp_path}/sabir.db"
    bus = open_bus(address)
    await bus.open()
    await bus.send(Letter("hotel", b"kept"))
    await bus.close()
    await bus.close()  # again is nothing
    again = open_bus(address, limits=QUICK)
    await again.open()
    heard: asyncio.Queue[bytes] = asyncio.Queue()

    async def handler(letter: Letter) -> None:
        heard.put_nowait(letter.body)

    await again.receive("hotel", handler)
    async with asyncio.timeout(DEADLINE):
        assert await heard.get() == b"kept"
    await again.close()


@pytest.mark.parametrize("address", ["sqlite", "carrier-pigeon://loft", "/var/lib/sabir.db"])
def test_an_address_of_no_bus_is_refused_with_what_is_expected(address: str) -> None:
    with pytest.raises(ConfigError, match=r"bus: expected memory:, store:, nats://host:port, sqlite:///path or"):
        open_bus(address)


@pytest.mark.parametrize("to", ["hotel", "h" * 1000])
@pytest.mark.parametrize("shared", [False, True])
def test_a_letter_is_the_same_after_it_was_kept(shared: bool, to: str) -> None:
    letter = Letter(to, b"body\x00\xff", "id", "eddy", "c1", {"priority": "high"}, 5.0, "m")
    row = row_of(letter, BusLimits())
    kept = msgspec.structs.replace(row, body=head_of(letter, BusLimits()) + letter.body) if shared else row
    assert letter_of(kept) == letter


@pytest.mark.parametrize("kept", [row_of, head_of])
def test_the_limit_of_a_letter_counts_its_body_wherever_that_is_kept(kept: Callable[..., Any]) -> None:
    with pytest.raises(TooLarge):
        kept(Letter("hotel", b"x" * 1000), BusLimits(letter_bytes=1000))


@pytest.mark.parametrize("body", [b"", b"\x01", b"\x01\x00\x00\x00\x09", b"\x01\xff\xff\xff\xff\x98"])
def test_a_row_that_is_cut_off_is_unreadable(body: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        letter_of(msgspec.structs.replace(row_of(Letter("hotel", b"x"), BusLimits()), body=body))

"""What a receiver does with the frames it was given, whatever bus they came by."""

from __future__ import annotations

import asyncio

import pytest

from deadline import DEADLINE
from sabir.bus import DeadLetter, Letter, Receiving
from sabir.bus.base import Handler
from sabir.bus.delivery import Delivery, Seen
from sabir.bus.memory import MemoryBus
from sabir.errors import BusUnavailable, TurnFailed

from .conftest import QUICK


class Parcel:
    """A frame that writes down what becomes of it."""

    def __init__(self, key: int, *letters: Letter, deliveries: int = 1) -> None:
        self.key = key
        self.letters = letters
        self.deliveries = deliveries
        self.fate = asyncio.Event()
        self.said: list[str] = []

    async def ack(self) -> None:
        self.said.append("ack")
        self.fate.set()

    async def hold(self) -> None:
        self.said.append("hold")

    async def release(self) -> None:
        self.said.append("release")
        self.fate.set()

    async def ended(self) -> str:
        async with asyncio.timeout(DEADLINE):
            await self.fate.wait()
        return " ".join(self.said)


class DeadLetters:
    """Where the dead go; closed at first, if told so."""

    def __init__(self, closed: int = 0) -> None:
        self.dead: list[DeadLetter] = []
        self.closed = closed

    async def __call__(self, dead: DeadLetter, key: int) -> None:
        if self.closed:
            self.closed -= 1
            raise BusUnavailable("away")
        self.dead.append(dead)


def delivery_of(handler: Handler, dead: DeadLetters | None = None, width: int = 4) -> Delivery:
    return Delivery("hotel", handler, Receiving(width=width), QUICK, seen=Seen(100), store_dead=dead or DeadLetters())


async def nothing(letter: Letter) -> None:
    return None


async def test_a_frame_is_acknowledged_once_all_its_letters_are_handled() -> None:
    gate = asyncio.Event()

    async def handler(letter: Letter) -> None:
        if letter.body == b"slow":
            await gate.wait()

    delivery = delivery_of(handler)
    both, one = Parcel(1, Letter("hotel", b"slow"), Letter("hotel", b"fast")), Parcel(2, Letter("hotel", b"fast"))
    await delivery.take(both)
    await delivery.take(one)
    assert await one.ended() == "ack"
    assert both.said == []
    gate.set()
    assert await both.ended() == "ack"
    assert (delivery.in_hand, delivery.parcels()) == (0, [])


async def test_a_frame_that_comes_again_while_in_hand_is_handled_once_and_its_latest_delivery_acknowledged() -> None:
    gate, handled = asyncio.Event(), 0

    async def handler(letter: Letter) -> None:
        nonlocal handled
        handled += 1
        await gate.wait()

    delivery, letter = delivery_of(handler), Letter("hotel", b"x")
    first, again = Parcel(1, letter), Parcel(1, letter, deliveries=2)
    await delivery.take(first)
    await delivery.take(again)
    gate.set()
    assert await again.ended() == "ack"
    assert (first.said, handled) == ([], 1)


async def test_two_frames_with_one_letter_are_both_acknowledged_when_it_was_handled() -> None:
    gate, handled = asyncio.Event(), 0

    async def handler(letter: Letter) -> None:
        nonlocal handled
        handled += 1
        await gate.wait()

    delivery, letter = delivery_of(handler), Letter("hotel", b"x")
    one, two = Parcel(1, letter), Parcel(2, letter, letter)
    await delivery.take(one)
    await delivery.take(two)
    gate.set()
    assert (await one.ended(), await two.ended(), handled) == ("ack", "ack", 1)


async def test_a_frame_of_known_letters_is_acknowledged_at_once() -> None:
    delivery, letter = delivery_of(nothing), Letter("hotel", b"x")
    first = Parcel(1, letter)
    await delivery.take(first)
    await first.ended()
    late = Parcel(2, letter)
    await delivery.take(late)
    assert late.said == ["ack"]


async def test_what_is_not_finished_when_it_stops_is_given_back() -> None:
    begun, cancelled = asyncio.Event(), asyncio.Event()

    async def never(letter: Letter) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    delivery = delivery_of(never)
    parcel = Parcel(1, Letter("hotel", b"x"))
    await delivery.take(parcel)
    await begun.wait()
    await delivery.stop()
    assert cancelled.is_set()
    assert parcel.said == ["release"]


async def test_a_letter_that_is_to_be_set_aside_waits_until_it_can_be() -> None:
    async def handler(letter: Letter) -> None:
        raise TurnFailed("no")

    dead = DeadLetters(closed=3)
    delivery, parcel = delivery_of(handler, dead), Parcel(1, Letter("hotel", b"x"))
    await delivery.take(parcel)
    assert await parcel.ended() == "ack"
    assert [item.reason for item in dead.dead] == ["no"]


async def test_a_frame_delivered_too_often_is_set_aside_without_another_try() -> None:
    dead, handled = DeadLetters(), []

    async def handler(letter: Letter) -> None:
        handled.append(letter)

    delivery = delivery_of(handler, dead)
    parcel = Parcel(1, Letter("hotel", b"x"), deliveries=QUICK.deliveries + 1)
    await delivery.take(parcel)
    assert await parcel.ended() == "ack"
    assert (len(dead.dead), handled) == (1, [])


async def test_a_receiver_that_is_full_takes_no_more_until_there_is_room() -> None:
    gate = asyncio.Event()

    async def handler(letter: Letter) -> None:
        await gate.wait()

    delivery = delivery_of(handler)
    await delivery.take(Parcel(1, *(Letter("hotel", b"x") for _ in range(QUICK.in_hand))))
    room = asyncio.create_task(delivery.room())
    await asyncio.sleep(0)
    assert not room.done()
    gate.set()
    async with asyncio.timeout(DEADLINE):
        await room


def test_ids_are_remembered_as_far_back_as_was_agreed() -> None:
    seen = Seen(10)
    for n in range(100):
        seen.add(str(n))
    assert all(str(n) in seen for n in range(95, 100))
    assert "80" not in seen


async def test_an_inbox_in_process_that_is_full_says_so() -> None:
    bus = MemoryBus(type(QUICK)(inbox_letters=3))
    await bus.open()
    await bus.send(*(Letter("absent", b"x") for _ in range(3)))
    with pytest.raises(BusUnavailable, match="the inbox of absent is full"):
        await bus.send(Letter("absent", b"x"))
    await bus.close()


async def test_slow_letters_are_handled_as_many_at_once_as_the_width_and_quick_ones_by_one_worker() -> None:
    async def busiest(handler: Handler) -> int:
        peak = 0

        async def counted(letter: Letter) -> None:
            nonlocal peak
            peak = max(peak, len(delivery._workers))
            await handler(letter)

        delivery = delivery_of(counted, width=4)
        parcels = [Parcel(key, Letter("hotel", b"x", f"letter-{key}")) for key in range(50)]
        for parcel in parcels:
            await delivery.take(parcel)
        assert {await parcel.ended() for parcel in parcels} == {"ack"}
        await delivery.stop()
        return peak

    async def slow(letter: Letter) -> None:
        await asyncio.sleep(0.001)

    assert await busiest(slow) == 4
    assert await busiest(nothing) <= 2  # who is at it, and the next, which has not begun


async def test_quick_letters_leave_others_their_turn() -> None:
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    beside = asyncio.create_task(other())
    delivery = delivery_of(nothing, width=1)
    parcel = Parcel(1, *(Letter("hotel", b"x", f"letter-{n}") for n in range(1_000)))
    await delivery.take(parcel)
    await parcel.ended()
    beside.cancel()
    assert turns >= 10

"""Calls over a post that loses, repeats and delays: both sides find out, and nobody waits for ever."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import msgspec
import pytest

from sabir.bus import Called
from sabir.bus.calls import Calls
from sabir.bus.framing import Kind, Packet
from sabir.errors import Cancelled, PeerUnavailable, TooBig, Unavailable

from .conftest import QUICK

LIMITS = msgspec.structs.replace(QUICK, alive_seconds=0.02, missed=2, chunk_bytes=10, piece_bytes=100)


class Wire:
    """Two nodes and what passes between them; ``spoil`` says what becomes of a packet."""

    def __init__(self) -> None:
        self.passed: list[Packet] = []
        self.spoil: Callable[[Packet], list[Packet]] = lambda packet: [packet]
        self.caller = Calls("caller", self._post, LIMITS)
        self.server = Calls("server", self._post, LIMITS)
        self.serve = _echo

    async def _post(self, address: str, packet: Packet) -> None:
        for each in self.spoil(packet):
            self.passed.append(each)
            if each.kind is Kind.OPEN:
                self.server.open(address.removeprefix("call:"), each, lambda called: self.serve(called))
            else:
                (self.caller if address == "back:caller" else self.server).arrived(each)

    async def ask(self, body: bytes = b"x") -> list[bytes]:
        async with asyncio.timeout(30), self.caller.call("hotel", body, None, None) as call:
            return [piece async for piece in call]


async def _echo(called: Called) -> None:
    await called.send(called.body)


@pytest.fixture
async def wire() -> AsyncIterator[Wire]:
    wire = Wire()
    yield wire
    wire.spoil = lambda packet: [packet]
    await wire.caller.close()
    await wire.server.close()


def dropping(*kinds: Kind) -> Callable[[Packet], list[Packet]]:
    return lambda packet: [] if packet.kind in kinds else [packet]


async def test_a_call_on_the_wire(wire: Wire) -> None:
    assert await wire.ask() == [b"x"]
    steps = [(packet.kind, packet.number, packet.body) for packet in wire.passed]
    assert steps == [(Kind.OPEN, 1, b"x"), (Kind.TAKEN, 0, b""), (Kind.DATA, 1, b"x"), (Kind.END, 0, b"")]


async def test_a_long_question_goes_on_when_it_was_taken(wire: Wire) -> None:
    assert await wire.ask(b"0123456789abcdefghijKLM") == [b"0123456789abcdefghijKLM"]
    kinds = [packet.kind for packet in wire.passed[:4]]
    assert kinds == [Kind.OPEN, Kind.TAKEN, Kind.MORE, Kind.DATA]


async def test_a_lost_piece_ends_the_call_instead_of_leaving_a_hole(wire: Wire) -> None:
    async def three(called: Called) -> None:
        for n in range(3):
            await called.send(b"%d" % n)

    wire.serve = three
    wire.spoil = lambda packet: [] if packet.kind is Kind.DATA and packet.number == 2 else [packet]
    with pytest.raises(PeerUnavailable, match="hotel: a piece of the answer was lost on the way"):
        await wire.ask()


async def test_a_lost_question_is_noticed(wire: Wire) -> None:
    wire.spoil = dropping(Kind.OPEN)
    with pytest.raises(PeerUnavailable, match="hotel: the one who answered is gone"):
        await wire.ask()


async def test_a_lost_end_is_noticed_once_the_server_is_silent(wire: Wire) -> None:
    wire.spoil = dropping(Kind.END)
    with pytest.raises(PeerUnavailable, match="the one who answered is gone"):
        await wire.ask()


async def test_a_caller_that_fell_silent_is_given_up(wire: Wire) -> None:
    cancelled = asyncio.Event()

    async def never(called: Called) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    wire.serve = never
    wire.spoil = lambda packet: [] if packet.kind in (Kind.ALIVE, Kind.CANCEL) else [packet]
    with pytest.raises(PeerUnavailable):
        await wire.ask()
    async with asyncio.timeout(30):
        await cancelled.wait()


async def test_the_same_question_twice_is_answered_once(wire: Wire) -> None:
    served = 0

    async def once(called: Called) -> None:
        nonlocal served
        served += 1
        await called.send(b"ok")

    wire.serve = once
    wire.spoil = lambda packet: [packet, packet] if packet.kind is Kind.OPEN else [packet]
    assert await wire.ask() == [b"ok"]
    assert served == 1


async def test_a_piece_over_the_limit_is_refused_by_who_sends_it_and_by_who_gets_it(wire: Wire) -> None:
    with pytest.raises(TooBig, match="at most 100 bytes, not 101"):
        await wire.ask(b"x" * 101)

    def flood(packet: Packet) -> list[Packet]:
        if packet.kind is not Kind.DATA:
            return [packet]
        return [Packet(Kind.MORE, packet.call, n + 1, b"y" * 10) for n in range(20)]

    wire.spoil = flood
    with pytest.raises(TooBig, match="at most 100 bytes"):
        await wire.ask()


async def test_another_task_that_still_sends_is_told_that_the_caller_has_left(wire: Wire) -> None:
    told = asyncio.Event()
    senders: list[asyncio.Task[None]] = []

    async def server(called: Called) -> None:
        async def keep_sending() -> None:
            try:
                while True:
                    await called.send(b"more")
                    await asyncio.sleep(0)
            except Cancelled:
                told.set()

        senders.append(asyncio.create_task(keep_sending()))
        await asyncio.Event().wait()

    wire.serve = server
    async with asyncio.timeout(30):
        async with wire.caller.call("hotel", b"", None, None) as call:
            assert await anext(call) == b"more"
        await told.wait()


async def test_closing_ends_calls_on_both_sides(wire: Wire) -> None:
    begun = asyncio.Event()

    async def never(called: Called) -> None:
        begun.set()
        await asyncio.Event().wait()

    wire.serve = never
    asking = asyncio.create_task(wire.ask())
    async with asyncio.timeout(30):
        await begun.wait()
        await wire.server.close()
        with pytest.raises(Unavailable, match="hotel is stopping"):
            await asking
    assert (wire.caller.made, wire.server.served) == (0, 0)

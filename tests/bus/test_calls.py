"""Calls over a transport that loses, repeats and delays packets: both sides notice, and nobody waits forever."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import msgspec
import pytest

from deadline import DEADLINE
from sabir.bus import Called
from sabir.bus.calls import Calls
from sabir.bus.framing import Kind, Packet
from sabir.errors import Cancelled, DeadlineExceeded, PeerError, PeerUnavailable, TooLarge, Unavailable

from .conftest import QUICK

LIMITS = msgspec.structs.replace(
    QUICK, alive_seconds=0.02, missed=2, chunk_bytes=10, piece_bytes=100, window=20, window_bytes=100
)


class Wire:
    """Two nodes and what passes between them; ``spoil`` says what becomes of a packet."""

    def __init__(self) -> None:
        self.passed: list[Packet] = []
        self.spoil: Callable[[Packet], list[Packet]] = lambda packet: [packet]
        self.caller = Calls("caller", self, LIMITS)
        self.server = Calls("server", self, LIMITS)
        self.serve = _echo
        self.slow = False  # whether everybody who sends has to wait a moment

    def ask(self, name: str, opening: Packet) -> None:
        for item in self.spoil(opening):
            self.passed.append(item)
            self.server.open(name, item, lambda called: self.serve(called))

    def back(self, instance: str, packet: Packet, *, more: bool) -> Awaitable[None] | None:
        for item in self.spoil(packet):
            self.passed.append(item)
            {"caller": self.caller, "server": self.server}[instance].arrived(item)
        return asyncio.sleep(0) if self.slow else None

    @property
    def steps(self) -> list[tuple[Kind, int, bytes]]:
        return [(packet.kind, packet.number, packet.body) for packet in self.passed]

    async def question(self, body: bytes = b"x") -> list[bytes]:
        async with asyncio.timeout(DEADLINE), self.caller.call("hotel", body, None, None) as call:
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


async def _three(called: Called) -> None:
    for n in range(3):
        await called.send(b"%d" % n)
        await asyncio.sleep(0.001)


async def _flood(called: Called) -> None:
    for n in range(60):
        await called.send(b"%d" % n)


async def test_a_call_that_is_answered_at_once_is_one_packet_each_way(wire: Wire) -> None:
    assert await wire.question() == [b"x"]
    assert wire.steps == [(Kind.OPEN, 1, b"x"), (Kind.LAST, 1, b"x")]


async def test_a_call_that_takes_its_time_on_the_wire(wire: Wire) -> None:
    wire.serve = _three
    assert await wire.question() == [b"0", b"1", b"2"]
    # On a slow machine a sign of life may pass, too.
    assert [step for step in wire.steps if step[0] is not Kind.ALIVE] == [
        (Kind.OPEN, 1, b"x"),
        *[(Kind.DATA, n, b"%d" % (n - 1)) for n in (1, 2, 3)],
        (Kind.END, 3, b""),
    ]
    addresses = [packet.address for packet in wire.passed if packet.kind is not Kind.ALIVE]
    assert addresses == ["caller", "server", "", "", ""]


async def test_a_slow_server_confirms_a_call_at_once(wire: Wire) -> None:
    async def thinking(called: Called) -> None:
        while Kind.TAKEN not in [packet.kind for packet in wire.passed]:
            await asyncio.sleep(0)
        await called.send(b"I see")

    wire.serve = thinking
    assert await wire.question() == [b"I see"]
    assert wire.steps == [(Kind.OPEN, 1, b"x"), (Kind.TAKEN, 0, b""), (Kind.LAST, 1, b"I see")]


async def test_what_was_sent_before_a_failure_arrives_before_it(wire: Wire) -> None:
    async def half(called: Called) -> None:
        await called.send(b"half")
        raise Unavailable("the rest is missing")

    wire.serve = half
    async with asyncio.timeout(DEADLINE), wire.caller.call("hotel", b"x", None, None) as call:
        assert await anext(call) == b"half"
        with pytest.raises(Unavailable, match="the rest is missing"):
            await anext(call)


async def test_long_pieces_of_two_tasks_do_not_mix(wire: Wire) -> None:
    async def both(called: Called) -> None:
        await asyncio.gather(called.send(b"a" * 45), called.send(b"b" * 7), called.send(b"c" * 45))

    wire.serve = both
    wire.slow = True
    assert sorted(await wire.question()) == [b"a" * 45, b"b" * 7, b"c" * 45]


async def test_a_question_that_is_late_is_given_up_and_others_wait_on(wire: Wire) -> None:
    """One timer serves all calls; the earlier end is served first, though it was asked later."""
    let = asyncio.Event()

    async def later(called: Called) -> None:
        await let.wait()
        await called.send(b"at last")

    wire.serve = later
    async with asyncio.timeout(DEADLINE), wire.caller.call("hotel", b"", None, 20) as patient:
        waiting = asyncio.create_task(anext(patient))
        await asyncio.sleep(0)
        for _ in range(2):
            async with wire.caller.call("hotel", b"", None, 0.02) as hasty:
                for _ in range(2):  # asking again after the end gives the same error
                    with pytest.raises(DeadlineExceeded, match="hotel did not answer in time"):
                        await anext(hasty)
        let.set()
        assert await waiting == b"at last"


async def test_a_long_question_continues_once_it_is_accepted(wire: Wire) -> None:
    assert await wire.question(b"0123456789abcdefghijKLM") == [b"0123456789abcdefghijKLM"]
    kinds = [packet.kind for packet in wire.passed[:4]]
    assert kinds == [Kind.OPEN, Kind.TAKEN, Kind.MORE, Kind.DATA]


async def test_a_lost_piece_ends_the_call_instead_of_leaving_a_hole(wire: Wire) -> None:
    wire.serve = _three
    for lost in (2, 3):  # in the middle, and just before the end
        wire.spoil = lambda packet, lost=lost: [] if (packet.kind, packet.number) == (Kind.DATA, lost) else [packet]
        with pytest.raises(PeerUnavailable, match="hotel: a piece was lost on the way"):
            await wire.question()


async def test_a_window_that_was_lost_whole_ends_the_call(wire: Wire) -> None:
    """The server waits until the caller has taken something, and the caller waits for something to come."""
    wire.serve = _flood
    wire.spoil = lambda packet: [] if packet.kind is Kind.DATA and packet.number > 3 else [packet]
    with pytest.raises(PeerUnavailable, match="hotel: a piece was lost on the way"):
        await wire.question()


async def test_a_credit_that_was_lost_is_given_again(wire: Wire) -> None:
    lost: list[Packet] = []

    def losing(packet: Packet) -> list[Packet]:
        if packet.kind is Kind.CREDIT and not lost:
            lost.append(packet)
            return []
        return [packet]

    wire.serve = _flood
    wire.spoil = losing
    assert await wire.question() == [b"%d" % n for n in range(60)] and lost


async def test_the_last_that_a_caller_sends_is_missed_when_it_is_lost(wire: Wire) -> None:
    lines: list[str] = []

    async def asking(called: Called) -> None:
        await called.send(b"which day?")
        try:
            await called.receive()
        except PeerUnavailable as lost:
            lines.append(str(lost))
            raise

    wire.serve = asking
    wire.spoil = lambda packet: [] if packet.kind is Kind.DATA and packet.body == b"Monday" else [packet]
    async with asyncio.timeout(DEADLINE), wire.caller.call("hotel", b"a room", None, None) as call:
        assert await anext(call) == b"which day?"
        await call.send(b"Monday")
        with pytest.raises(PeerError, match="a piece was lost on the way"):
            await anext(call)
    assert lines == ["hotel: a piece was lost on the way"]


async def test_a_caller_that_is_behind_holds_its_server_up_by_pieces_and_by_bytes(wire: Wire) -> None:
    for long, ahead in ((1, LIMITS.window), (10, LIMITS.window_bytes // 10)):
        sent = 0

        async def endless(called: Called, long: int = long) -> None:
            nonlocal sent
            while True:
                await called.send(b"x" * long)
                sent += 1

        wire.serve = endless
        async with asyncio.timeout(DEADLINE), wire.caller.call("hotel", b"", None, None) as call:
            await anext(call)
            before = -1
            while sent != before:
                before = sent
                await asyncio.sleep(0.01)
            assert sent in (ahead, ahead + 1)  # a sign of life may have told of the one that was taken
            for _ in range(3 * ahead):
                await anext(call)
            assert sent > 2 * ahead


async def test_a_lost_question_is_noticed(wire: Wire) -> None:
    wire.spoil = dropping(Kind.OPEN)
    with pytest.raises(PeerUnavailable, match="hotel: the node that answered is gone"):
        await wire.question()


async def test_a_lost_end_is_noticed_once_the_server_is_silent(wire: Wire) -> None:
    wire.spoil = dropping(Kind.END, Kind.LAST)
    with pytest.raises(PeerUnavailable, match="the node that answered is gone"):
        await wire.question()


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
        await wire.question()
    async with asyncio.timeout(DEADLINE):
        await cancelled.wait()


async def test_the_same_question_twice_is_answered_once(wire: Wire) -> None:
    served = 0

    async def once(called: Called) -> None:
        nonlocal served
        served += 1
        await called.send(b"ok")

    wire.serve = once
    wire.spoil = lambda packet: [packet, packet] if packet.kind is Kind.OPEN else [packet]
    assert await wire.question() == [b"ok"]
    assert served == 1


async def test_a_piece_over_the_limit_is_rejected_by_sender_and_receiver(wire: Wire) -> None:
    with pytest.raises(TooLarge, match="at most 100 bytes, not 101"):
        await wire.question(b"x" * 101)

    def flood(packet: Packet) -> list[Packet]:
        if packet.kind is not Kind.LAST:
            return [packet]
        return [Packet(Kind.MORE, packet.call, n + 1, b"y" * 10) for n in range(20)]

    wire.spoil = flood
    with pytest.raises(TooLarge, match="at most 100 bytes"):
        await wire.question()


async def test_another_task_that_still_sends_learns_that_the_caller_has_left(wire: Wire) -> None:
    answer = asyncio.Event()
    senders: list[asyncio.Task[None]] = []

    async def server(called: Called) -> None:
        async def keep_sending() -> None:
            try:
                while True:
                    await called.send(b"more")
                    await asyncio.sleep(0)
            except Cancelled:
                answer.set()

        senders.append(asyncio.create_task(keep_sending()))
        await asyncio.Event().wait()

    wire.serve = server
    async with asyncio.timeout(DEADLINE):
        async with wire.caller.call("hotel", b"", None, None) as call:
            assert await anext(call) == b"more"
        await answer.wait()


async def test_closing_ends_calls_on_both_sides(wire: Wire) -> None:
    begun = asyncio.Event()

    async def never(called: Called) -> None:
        begun.set()
        await asyncio.Event().wait()

    wire.serve = never
    asking = asyncio.create_task(wire.question())
    async with asyncio.timeout(DEADLINE):
        await begun.wait()
        await wire.server.close()
        with pytest.raises(Unavailable, match="hotel is stopping"):
            await asking
    assert (wire.caller.made, wire.server.served) == (0, 0)

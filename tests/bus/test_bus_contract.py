"""What every bus promises, over the bus in this process and over a real NATS server."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable

import msgspec
import pytest

from deadline import DEADLINE
from sabir.bus import Bus, Called, Letter, Receiving
from sabir.bus.base import Load
from sabir.errors import (
    BadMessage,
    BusUnavailable,
    DeadlineExceeded,
    Forbidden,
    PeerUnavailable,
    SabirError,
    TooLarge,
    TurnFailed,
    Unavailable,
)

from .conftest import QUICK, Nodes


class Box:
    """Somebody who keeps what it is given, and can be waited for."""

    def __init__(self) -> None:
        self.letters: list[Letter] = []
        self._came = asyncio.Event()

    async def __call__(self, letter: Letter) -> None:
        self.letters.append(letter)
        self._came.set()

    @property
    def bodies(self) -> list[bytes]:
        return [letter.body for letter in self.letters]

    async def holds(self, count: int) -> list[bytes]:
        async with asyncio.timeout(DEADLINE):
            while len(self.letters) < count:
                self._came.clear()
                await self._came.wait()
        return self.bodies


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    """Wait until something is so; the limit is only for when it never is."""
    async with asyncio.timeout(DEADLINE):
        while not await condition():
            await asyncio.sleep(0.01)


def letters(to: str, *bodies: bytes, order: str = "") -> list[Letter]:
    return [Letter(to, body, sender="me", order=order) for body in bodies]


# -- letters to a name ---------------------------------------------------------------------------


async def test_a_letter_reaches_the_receiver_of_its_name_unchanged(bus: Bus) -> None:
    box = Box()
    await bus.receive("hotel", box)
    letter = Letter("hotel", b"a room", sender="guide", order="c1", headers={"traceparent": "00-ab-cd-01"}, at=1.5)
    await bus.send(letter)
    await box.holds(1)
    assert box.letters == [letter]


async def test_a_letter_for_somebody_absent_waits_until_they_come(bus: Bus) -> None:
    await bus.send(*letters("absent", b"1", b"2"))
    assert await bus.waiting("absent") >= 1
    box = Box()
    await bus.receive("absent", box)
    assert await box.holds(2) == [b"1", b"2"]


async def test_what_was_handled_is_gone(bus: Bus) -> None:
    box = Box()
    receiver = await bus.receive("hotel", box)
    await bus.send(*letters("hotel", b"1"))
    await box.holds(1)

    async def none_waits() -> bool:
        return await bus.waiting("hotel") == 0

    await until(none_waits)
    await receiver.stop()
    later = Box()
    await bus.receive("hotel", later)
    await bus.send(*letters("hotel", b"2"))
    assert await later.holds(1) == [b"2"]


async def test_names_with_dots_stars_and_letters_of_any_script_are_kept_apart(bus: Bus) -> None:
    names = ["a.b", "a", "b", "*", ">", "a=b", "hôtel", "旅館"]
    boxes = {name: Box() for name in names}
    for name, box in boxes.items():
        await bus.receive(name, box)
    for name in names:
        await bus.send(Letter(name, name.encode()))
    for name, box in boxes.items():
        assert await box.holds(1) == [name.encode()]


async def test_receivers_of_one_name_share_its_letters(nodes: Nodes) -> None:
    one, two = await nodes.node(), await nodes.node()
    first, second = Box(), Box()
    await one.receive("hotel", first)
    await two.receive("hotel", second)
    for n in range(100):
        await one.send(Letter("hotel", b"%d" % n))

    async def all_there() -> bool:
        return len(first.letters) + len(second.letters) >= 100

    await until(all_there)
    assert sorted(first.bodies + second.bodies, key=int) == [b"%d" % n for n in range(100)]


async def test_letters_of_one_lane_are_handled_in_order_and_others_meanwhile(bus: Bus) -> None:
    handled: list[bytes] = []
    gate, others = asyncio.Event(), asyncio.Event()

    async def handler(letter: Letter) -> None:
        if letter.body == b"slow":
            await gate.wait()
        handled.append(letter.body)
        if letter.body == b"other":
            others.set()

    await bus.receive("hotel", handler)
    await bus.send(*letters("hotel", b"slow", b"after", order="c1"), *letters("hotel", b"other", order="c2"))
    async with asyncio.timeout(DEADLINE):
        await others.wait()
    assert handled == [b"other"]
    gate.set()

    async def all_there() -> bool:
        return len(handled) == 3

    await until(all_there)
    assert handled == [b"other", b"slow", b"after"]


async def test_an_ordered_inbox_keeps_the_order_of_a_lane_over_nodes_and_failures(nodes: Nodes) -> None:
    one, two = await nodes.node(), await nodes.node()
    handled: list[int] = []
    failed: set[bytes] = set()

    async def handler(letter: Letter) -> None:
        await asyncio.sleep(0)
        if int(letter.body) % 7 == 0 and letter.body not in failed:
            failed.add(letter.body)
            raise TurnFailed("not yet")
        handled.append(int(letter.body))

    for node in (one, two):
        await node.receive("inbox", handler, Receiving(ordered=True))
    for n in range(60):
        await one.send(Letter("inbox", b"%d" % n, sender="me", order="c"))

    async def all_there() -> bool:
        return len(handled) == 60

    await until(all_there)
    assert handled == list(range(60))


async def test_no_more_letters_than_the_width_are_handled_at_once(bus: Bus) -> None:
    running = peak = done = 0

    async def handler(letter: Letter) -> None:
        nonlocal running, peak, done
        running += 1
        peak = max(peak, running)
        await asyncio.sleep(0.005)
        running -= 1
        done += 1

    await bus.receive("hotel", handler, Receiving(width=3))
    await bus.send(*letters("hotel", *(b"%d" % n for n in range(20))))

    async def all_done() -> bool:
        return done == 20

    await until(all_done)
    assert peak == 3


async def test_a_duplicate_id_is_dropped(bus: Bus) -> None:
    box = Box()
    await bus.receive("hotel", box)
    letter = Letter("hotel", b"once")
    await bus.send(letter, letter)
    await bus.send(letter)
    await bus.send(Letter("hotel", b"end"))
    assert await box.holds(2) == [b"once", b"end"]
    await bus.send(letter)
    await bus.send(Letter("hotel", b"the very end"))
    assert await box.holds(3) == [b"once", b"end", b"the very end"]


async def test_a_letter_over_the_limit_is_refused_and_nothing_is_sent(bus: Bus) -> None:
    with pytest.raises(TooLarge, match="bus: at letter: expected at most 524288 bytes"):
        await bus.send(Letter("hotel", b"small"), Letter("hotel", b"x" * (QUICK.letter_bytes + 1)))
    assert await bus.waiting("hotel") == 0


async def test_big_letters_are_spread_over_frames(bus: Bus) -> None:
    box = Box()
    await bus.receive("hotel", box)
    bodies = [bytes([n]) * 400_000 for n in range(8)]
    await bus.send(*letters("hotel", *bodies, order="c"))
    assert await box.holds(8) == bodies


@pytest.mark.parametrize("name", ["", "two words", "new\nline", "x" * 201])
async def test_a_name_that_cannot_be_carried_is_refused(bus: Bus, name: str) -> None:
    with pytest.raises(BadMessage, match="bus: at name: expected 1 to 200 printable"):
        await bus.send(Letter(name, b"x"))
    with pytest.raises(BadMessage):
        await bus.receive(name, Box())


async def test_a_discarded_inbox_is_empty(bus: Bus) -> None:
    await bus.send(*letters("hotel", b"old"))
    await bus.discard("hotel")
    box = Box()
    await bus.receive("hotel", box)
    await bus.send(*letters("hotel", b"new"))
    assert await box.holds(1) == [b"new"]


# -- acknowledgement and redelivery ---------------------------------------------------------------


async def test_a_letter_that_failed_comes_again(bus: Bus) -> None:
    tries: list[str] = []

    async def handler(letter: Letter) -> None:
        tries.append(letter.id)
        if len(tries) < 3:
            raise TurnFailed("not yet")

    await bus.receive("hotel", handler)
    letter = Letter("hotel", b"x")
    await bus.send(letter)

    async def none_waits() -> bool:
        return await bus.waiting("hotel") == 0

    await until(none_waits)
    assert tries == [letter.id] * 3
    assert await bus.dead("hotel") == []


async def test_what_a_stopped_receiver_had_not_handled_goes_to_another(nodes: Nodes) -> None:
    one, two = await nodes.node(), await nodes.node()
    begun = asyncio.Event()

    async def never_well(letter: Letter) -> None:
        begun.set()
        raise Unavailable("the store is unavailable")

    receiver = await one.receive("hotel", never_well)
    await one.send(*letters("hotel", b"1"))
    async with asyncio.timeout(DEADLINE):
        await begun.wait()
    await receiver.stop()
    box = Box()
    await two.receive("hotel", box)
    assert await box.holds(1) == [b"1"]


async def test_a_handler_that_takes_longer_than_the_ack_time_is_not_called_twice(nodes: Nodes) -> None:
    limits = msgspec.structs.replace(QUICK, ack_seconds=1.0)
    one, two = await nodes.node(limits), await nodes.node(limits)
    begun = 0
    ended = asyncio.Event()

    async def slow(letter: Letter) -> None:
        nonlocal begun
        begun += 1
        await asyncio.sleep(1.5)
        ended.set()

    await one.receive("hotel", slow)
    await two.receive("hotel", slow)
    await one.send(Letter("hotel", b"x"))
    async with asyncio.timeout(DEADLINE):
        await ended.wait()

    async def none_waits() -> bool:
        return await one.waiting("hotel") == 0

    await until(none_waits)
    assert begun == 1


async def test_a_store_that_is_away_kills_no_letter(bus: Bus) -> None:
    tries = 0

    async def handler(letter: Letter) -> None:
        nonlocal tries
        tries += 1
        if tries <= QUICK.attempts * 3:
            raise Unavailable("the store is unavailable")

    await bus.receive("hotel", handler)
    await bus.send(Letter("hotel", b"x"))

    async def none_waits() -> bool:
        return await bus.waiting("hotel") == 0

    await until(none_waits)
    assert await bus.dead("hotel") == []
    assert tries == QUICK.attempts * 3 + 1


# -- dead letters ---------------------------------------------------------------------------------


async def test_a_letter_that_keeps_failing_is_dead_and_the_others_continue(bus: Bus) -> None:
    box = Box()

    async def handler(letter: Letter) -> None:
        if letter.body == b"bad":
            raise TurnFailed("cannot be done")
        await box(letter)

    await bus.receive("hotel", handler)
    bad, good = letters("hotel", b"bad", b"good", order="c")
    await bus.send(bad, good)
    await box.holds(1)
    (dead,) = await bus.dead("hotel")
    assert dead.letter == bad
    assert (dead.reason, dead.attempts, dead.member) == ("cannot be done", QUICK.attempts, "")
    assert dead.at > 0


async def test_a_handler_that_breaks_is_a_failure_of_the_letter_and_not_of_the_bus(
    bus: Bus, caplog: pytest.LogCaptureFixture
) -> None:
    box = Box()

    async def handler(letter: Letter) -> None:
        if letter.body == b"bad":
            raise KeyError("a secret")
        await box(letter)

    await bus.receive("hotel", handler)
    await bus.send(*letters("hotel", b"bad", b"good", order="c"))
    await box.holds(1)
    (dead,) = await bus.dead("hotel")
    assert re.fullmatch(r"KeyError in \w+, test_bus_contract.py:\d+", dead.reason)  # its words may be somebody's
    assert await bus.dead_letter_counts() == {"hotel": 1}
    assert "The handler of hotel failed" in caplog.text


async def test_dead_letters_are_replayed_and_can_die_again(bus: Bus) -> None:
    box, well = Box(), False

    async def handler(letter: Letter) -> None:
        if not well:
            raise TurnFailed("not well")
        await box(letter)

    await bus.receive("hotel", handler)
    await bus.send(*letters("hotel", b"1", b"2"))

    async def two_dead() -> bool:
        return len(await bus.dead("hotel")) == 2

    await until(two_dead)
    assert await bus.replay("hotel") == 2
    await until(two_dead)
    well = True
    first, _ = await bus.dead("hotel")
    assert await bus.replay("hotel", first.number) == 1
    assert await box.holds(1) == [first.letter.body]
    assert len(await bus.dead("hotel")) == 1
    assert await bus.discard_dead("hotel") == 1
    assert await bus.dead("hotel") == []


# -- groups ---------------------------------------------------------------------------------------


async def test_every_member_of_a_group_receives_published_letters(nodes: Nodes) -> None:
    one, two = await nodes.node(), await nodes.node()
    a, b = Box(), Box()
    await one.join("travel", "hotel", a)
    await two.join("travel", "taxi", b)
    await one.publish(*letters("travel", b"1", b"2", order="c"))
    assert await a.holds(2) == [b"1", b"2"]
    assert await b.holds(2) == [b"1", b"2"]


async def test_an_absent_member_receives_it_later_and_one_that_left_does_not(bus: Bus) -> None:
    first = Box()
    receiver = await bus.join("travel", "hotel", first)
    gone = await bus.join("travel", "taxi", Box())
    await receiver.stop()
    await gone.stop()
    await bus.leave("travel", "taxi")
    await bus.publish(*letters("travel", b"while away"))
    box, again = Box(), Box()
    await bus.join("travel", "hotel", box)
    await bus.join("travel", "taxi", again)
    assert await box.holds(1) == [b"while away"]
    await bus.publish(*letters("travel", b"now"))
    assert await again.holds(1) == [b"now"]


async def test_a_group_and_an_inbox_of_one_name_are_two_things(bus: Bus) -> None:
    inbox, member = Box(), Box()
    await bus.receive("travel", inbox)
    await bus.join("travel", "hotel", member)
    await bus.send(Letter("travel", b"to the name"))
    await bus.publish(Letter("travel", b"to the group"))
    assert await inbox.holds(1) == [b"to the name"]
    assert await member.holds(1) == [b"to the group"]


async def test_a_dead_letter_of_one_member_is_replayed_to_that_member_alone(bus: Bus) -> None:
    well, sick, is_well = Box(), Box(), False

    async def handler(letter: Letter) -> None:
        if not is_well:
            raise TurnFailed("not well")
        await sick(letter)

    await bus.join("travel", "well", well)
    await bus.join("travel", "sick", handler)
    await bus.publish(Letter("travel", b"x"))

    async def one_dead() -> bool:
        return len(await bus.dead("travel")) == 1

    await until(one_dead)
    assert (await bus.dead("travel"))[0].member == "sick"
    is_well = True
    assert await bus.replay("travel") == 1
    assert await sick.holds(1) == [b"x"]
    await bus.publish(Letter("travel", b"end"))
    assert await well.holds(2) == [b"x", b"end"]


# -- calls ----------------------------------------------------------------------------------------


async def echo(called: Called) -> None:
    await called.send(called.body)


async def answers(bus: Bus, name: str, body: bytes, **options: float) -> list[bytes]:
    async with bus.call(name, body, **options) as call:  # type: ignore[arg-type]
        return [piece async for piece in call]


async def test_a_call_is_answered_by_the_server_of_the_name(nodes: Nodes) -> None:
    one, two = await nodes.node(), await nodes.node()

    async def server(called: Called) -> None:
        assert (called.name, called.headers) == ("hotel", {"traceparent": "00-ab"})
        await called.send(b"re: " + called.body)
        await called.send(b"end")

    await two.serve("hotel", server)
    async with one.call("hotel", b"a room", headers={"traceparent": "00-ab"}) as call:
        assert [piece async for piece in call] == [b"re: a room", b"end"]


async def test_pieces_come_while_the_server_is_still_at_work(bus: Bus) -> None:
    go_on = asyncio.Event()

    async def server(called: Called) -> None:
        await called.send(b"first")
        await go_on.wait()
        await called.send(b"second")

    await bus.serve("hotel", server)
    async with bus.call("hotel", b"", seconds=10) as call:
        assert await anext(call) == b"first"
        go_on.set()
        assert await anext(call) == b"second"
        with pytest.raises(StopAsyncIteration):
            await anext(call)


async def test_a_call_to_a_name_nobody_serves_fails_at_once(bus: Bus) -> None:
    with pytest.raises(PeerUnavailable, match="ghost: no node serves this name now"):
        await answers(bus, "ghost", b"", seconds=10)


async def test_a_name_that_is_no_longer_served_fails_at_once(bus: Bus) -> None:
    serving = await bus.serve("hotel", echo)
    assert await answers(bus, "hotel", b"x") == [b"x"]
    await serving.stop()
    await serving.stop()

    async def refused() -> bool:
        try:
            await answers(bus, "hotel", b"x", seconds=10)
        except PeerUnavailable:
            return True
        return False

    await until(refused)


async def test_the_error_of_a_server_keeps_its_class(bus: Bus) -> None:
    async def server(called: Called) -> None:
        await called.send(b"so far")
        raise Forbidden("not for you")

    await bus.serve("hotel", server)
    got: list[bytes] = []
    with pytest.raises(Forbidden, match="not for you"):
        async with bus.call("hotel", b"") as call:
            async for piece in call:
                got.append(piece)
    assert got == [b"so far"]


async def test_a_server_that_breaks_shows_nothing_from_inside(bus: Bus, caplog: pytest.LogCaptureFixture) -> None:
    async def server(called: Called) -> None:
        raise KeyError("a secret")

    await bus.serve("hotel", server)
    with pytest.raises(TurnFailed, match=r"^hotel failed$"):
        await answers(bus, "hotel", b"", seconds=10)
    assert "The server of hotel failed" in caplog.text


async def test_leaving_a_call_cancels_its_server(bus: Bus) -> None:
    cancelled = asyncio.Event()

    async def server(called: Called) -> None:
        try:
            await called.send(b"begun")
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    await bus.serve("hotel", server)
    async with bus.call("hotel", b"") as call:
        assert await anext(call) == b"begun"
    async with asyncio.timeout(DEADLINE):
        await cancelled.wait()


async def serve_endlessly(bus: Bus, name: str) -> asyncio.Event:
    """Serve calls that never end; the event is set when one is cancelled."""
    cancelled = asyncio.Event()

    async def server(called: Called) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    await bus.serve(name, server)
    return cancelled


async def test_a_call_left_before_anybody_took_it_is_cancelled_too(bus: Bus) -> None:
    cancelled = await serve_endlessly(bus, "hotel")
    async with bus.call("hotel", b""):
        pass
    async with asyncio.timeout(DEADLINE):
        await cancelled.wait()


async def test_a_call_ends_at_its_deadline_and_its_server_is_notified(bus: Bus) -> None:
    cancelled = await serve_endlessly(bus, "hotel")
    with pytest.raises(DeadlineExceeded, match="hotel did not answer in time"):
        await answers(bus, "hotel", b"", seconds=0.1)
    async with asyncio.timeout(DEADLINE):
        await cancelled.wait()


async def test_a_question_back_is_answered_within_the_call(bus: Bus) -> None:
    async def server(called: Called) -> None:
        await called.send(b"how many nights?")
        nights = await called.receive()
        await called.send(b"booked " + nights)

    await bus.serve("hotel", server)
    async with bus.call("hotel", b"a room") as call:
        assert await anext(call) == b"how many nights?"
        await call.send(b"three")
        assert await anext(call) == b"booked three"


async def test_long_pieces_travel_in_chunks_both_ways(bus: Bus) -> None:
    async def server(called: Called) -> None:
        await called.send(called.body)
        await called.send(await called.receive())

    await bus.serve("hotel", server)
    question, more = b"q" * 3_000_001, b"m" * 2_000_000
    async with bus.call("hotel", question, seconds=60) as call:
        assert await anext(call) == question
        await call.send(more)
        assert await anext(call) == more


async def test_a_server_is_held_back_while_the_caller_is_behind(nodes: Nodes) -> None:
    limits = msgspec.structs.replace(QUICK, window=8)
    bus = await nodes.node(limits)
    sent = 0
    full = asyncio.Event()

    async def server(called: Called) -> None:
        nonlocal sent
        for n in range(50):
            await called.send(b"%d" % n)
            sent += 1
            if sent == limits.window:
                full.set()

    if nodes.kind == "memory":
        bus._calls.limits = limits  # type: ignore[attr-defined]
    await bus.serve("hotel", server)
    async with bus.call("hotel", b"") as call:
        async with asyncio.timeout(DEADLINE):
            await full.wait()
        await bus.ping()
        assert sent == limits.window
        assert [piece async for piece in call] == [b"%d" % n for n in range(50)]


async def test_many_calls_at_once_are_kept_apart(bus: Bus) -> None:
    await bus.serve("hotel", echo)
    said = await asyncio.gather(*(answers(bus, "hotel", b"%d" % n) for n in range(200)))
    assert said == [[b"%d" % n] for n in range(200)]


async def test_a_long_silent_call_is_kept_alive(bus: Bus) -> None:
    async def server(called: Called) -> None:
        await asyncio.sleep(QUICK.alive_seconds * (QUICK.missed + 3))
        await called.send(b"at last")

    await bus.serve("hotel", server)
    assert await answers(bus, "hotel", b"") == [b"at last"]


# -- load -----------------------------------------------------------------------------------------


async def test_running_work_is_reported(bus: Bus) -> None:
    gate, both = asyncio.Event(), asyncio.Barrier(3)

    async def handler(letter: Letter) -> None:
        await both.wait()
        await gate.wait()

    async def server(called: Called) -> None:
        await both.wait()
        await gate.wait()

    assert bus.load() == Load()
    await bus.receive("hotel", handler)
    await bus.serve("hotel", server)
    await bus.send(Letter("hotel", b"x"))
    asking = asyncio.create_task(answers(bus, "hotel", b""))
    async with asyncio.timeout(DEADLINE):
        await both.wait()
    assert bus.load() == Load(in_hand=1, sending=0, calls=1, serving=1)
    gate.set()
    await asking

    async def quiet() -> bool:
        return bus.load() == Load()

    await until(quiet)


# -- closing --------------------------------------------------------------------------------------


async def test_a_closed_bus_says_so(bus: Bus) -> None:
    await bus.close()
    with pytest.raises(BusUnavailable):
        await bus.ping()
    with pytest.raises(BusUnavailable):
        await bus.send(Letter("hotel", b"x"))
    with pytest.raises(SabirError):
        await answers(bus, "hotel", b"", seconds=1)
    await bus.close()


async def test_closing_notifies_callers_that_wait_for_an_answer(nodes: Nodes) -> None:
    one = await nodes.node()
    two = await nodes.node()
    begun = asyncio.Event()

    async def server(called: Called) -> None:
        begun.set()
        await asyncio.Event().wait()

    await two.serve("hotel", server)
    asking = asyncio.create_task(answers(one, "hotel", b""))
    async with asyncio.timeout(DEADLINE):
        await begun.wait()
    await two.close()
    with pytest.raises(Unavailable):
        await asking


async def test_names_with_dead_letters_are_listed_however_they_are_spelled(bus: Bus) -> None:
    async def handler(letter: Letter) -> None:
        raise TurnFailed("no")

    names = ["agent.hôtel", "a_b-c", "x=y%20*"]
    for name in names:
        await bus.receive(name, handler)
        await bus.send(Letter(name, b"x"))

    async def all_dead() -> bool:
        return await bus.dead_letter_counts() == dict.fromkeys(sorted(names), 1)

    await until(all_dead)

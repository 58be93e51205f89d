"""What is lost, and what is not, when NATS or a node goes away."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest
import uvloop

from deadline import DEADLINE
from sabir.bus import BusLimits, Called, Letter, open_bus
from sabir.bus.nats import NatsBus
from sabir.errors import BusUnavailable, ConfigError, PeerUnavailable

from .conftest import QUICK
from .nats_server import NatsServer

PATIENT = msgspec.structs.replace(QUICK, send_seconds=30.0)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[NatsServer]:
    with NatsServer(tmp_path / "nats") as server:
        yield server


@pytest.fixture
async def bus(server: NatsServer) -> AsyncIterator[NatsBus]:
    bus = await _open(server)
    yield bus
    await bus.close()


async def _open(server: NatsServer, limits: BusLimits = PATIENT) -> NatsBus:
    bus = open_bus(server.url, limits=limits)
    assert isinstance(bus, NatsBus)
    await bus.open()
    return bus


@pytest.mark.parametrize("how", ["stop", "kill"])
async def test_a_restart_under_load_loses_nothing_that_was_acknowledged(
    bus: NatsBus, server: NatsServer, how: str
) -> None:
    got: dict[int, int] = {}
    acknowledged: set[int] = set()
    busy, stop = asyncio.Event(), asyncio.Event()

    async def handler(letter: Letter) -> None:
        got[int(letter.body)] = got.get(int(letter.body), 0) + 1

    async def sender(start: int) -> None:
        n = start
        while not stop.is_set():
            await bus.send(Letter("load", b"%d" % n))
            acknowledged.add(n)
            n += 4
            if len(acknowledged) > 500:
                busy.set()

    await bus.receive("load", handler)
    senders = [asyncio.create_task(sender(start)) for start in range(4)]
    async with asyncio.timeout(DEADLINE):
        await busy.wait()
    getattr(server, how)()
    before = len(acknowledged)
    server.start()
    async with asyncio.timeout(DEADLINE):
        while len(acknowledged) < before + 500:  # it goes on by itself
            await asyncio.sleep(0.01)
        stop.set()
        await asyncio.gather(*senders)
        while not acknowledged <= got.keys():
            await asyncio.sleep(0.01)
    assert set(got.values()) == {1}, "handled twice"


async def test_a_pull_that_was_lost_is_made_again(server: NatsServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cluster that agrees on a new leader answers some requests with nothing at all."""
    bus = await _open(server, msgspec.structs.replace(PATIENT, lost_seconds=0.2))
    publish, lost = bus.client.publish, []

    async def lossy(subject: str, *args: object, **options: object) -> None:
        if ".CONSUMER.MSG.NEXT." in subject and not lost:
            lost.append(subject)
        else:
            await publish(subject, *args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(bus.client, "publish", lossy)
    came = asyncio.Event()

    async def handler(letter: Letter) -> None:
        came.set()

    await bus.receive("hotel", handler)
    await bus.send(Letter("hotel", b"x"))
    async with asyncio.timeout(DEADLINE):
        await came.wait()
    assert lost
    await bus.close()


async def test_letters_wait_through_a_restart_of_everything(server: NatsServer) -> None:
    first = await _open(server)
    await first.send(*(Letter("absent", b"%d" % n, sender="me", order="c") for n in range(10)))
    await first.close()
    server.kill()
    server.start()
    second = await _open(server)
    got: list[bytes] = []
    done = asyncio.Event()

    async def handler(letter: Letter) -> None:
        got.append(letter.body)
        if len(got) == 10:
            done.set()

    await second.receive("absent", handler)
    async with asyncio.timeout(DEADLINE):
        await done.wait()
    assert got == [b"%d" % n for n in range(10)]
    await second.close()


async def test_calls_work_again_after_a_restart(bus: NatsBus, server: NatsServer) -> None:
    async def echo(called: Called) -> None:
        await called.send(called.body)

    await bus.serve("hotel", echo)
    server.kill()
    server.start()
    async with asyncio.timeout(DEADLINE):
        while True:
            try:
                async with bus.call("hotel", b"x", seconds=2) as call:
                    assert await anext(call) == b"x"
                return
            except (PeerUnavailable, BusUnavailable):
                await asyncio.sleep(0.05)


async def test_what_a_dead_node_had_in_hand_goes_to_another(bus: NatsBus, server: NatsServer) -> None:
    dying = await _open(server)
    begun, done = asyncio.Event(), asyncio.Event()

    async def never(letter: Letter) -> None:
        begun.set()
        await asyncio.Event().wait()

    async def handler(letter: Letter) -> None:
        done.set()

    await dying.receive("hotel", never)
    await bus.send(Letter("hotel", b"x"))
    async with asyncio.timeout(DEADLINE):
        await begun.wait()
        await dying.client.close()  # as kill -9 would: no acknowledgement, no word
        await bus.receive("hotel", handler)
        await done.wait()
    await dying.close()


async def test_a_call_whose_server_died_ends(bus: NatsBus, server: NatsServer) -> None:
    dying = await _open(server)
    begun = asyncio.Event()

    async def never(called: Called) -> None:
        begun.set()
        await asyncio.Event().wait()

    await dying.serve("hotel", never)
    with pytest.raises(PeerUnavailable, match="hotel: the node that answered is gone"):
        async with bus.call("hotel", b"", seconds=20) as call:
            await begun.wait()
            await dying.client.close()
            await anext(call)
    await dying.close()


async def test_a_name_is_served_from_the_moment_that_serve_returns(bus: NatsBus, server: NatsServer) -> None:
    other = await _open(server)

    async def echo(called: Called) -> None:
        await called.send(called.body)

    for n in range(100):
        await other.serve(f"hotel{n}", echo)
        async with bus.call(f"hotel{n}", b"hi", seconds=10) as call:
            assert await anext(call) == b"hi"
    await other.close()


async def test_a_call_whose_caller_died_is_cancelled(bus: NatsBus, server: NatsServer) -> None:
    dying = await _open(server)
    cancelled = asyncio.Event()

    async def server_of_hotel(called: Called) -> None:
        try:
            await called.send(b"begun")
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    await bus.serve("hotel", server_of_hotel)
    async with dying.call("hotel", b"") as call:
        assert await anext(call) == b"begun"
        await dying.client.close()
        async with asyncio.timeout(DEADLINE):
            await cancelled.wait()
    await dying.close()


async def test_a_frame_that_kills_its_receiver_again_and_again_ends_among_the_dead(server: NatsServer) -> None:
    limits = msgspec.structs.replace(PATIENT, deliveries=1, ack_seconds=0.3)
    bus = await _open(server, limits)
    await bus.send(Letter("hotel", b"poison"))
    dying = await _open(server, limits)
    begun = asyncio.Event()

    async def dies(letter: Letter) -> None:
        begun.set()
        await asyncio.Event().wait()

    await dying.receive("hotel", dies)
    async with asyncio.timeout(DEADLINE):
        await begun.wait()
    await dying.client.close()
    await dying.close()
    handled: list[Letter] = []

    async def handler(letter: Letter) -> None:
        handled.append(letter)

    await bus.receive("hotel", handler)
    async with asyncio.timeout(DEADLINE):
        while not (dead := await bus.dead("hotel")):
            await asyncio.sleep(0.01)
    assert re.fullmatch(r"was delivered \d times and never acknowledged", dead[0].reason)
    assert handled == []
    await bus.close()


async def test_a_malformed_frame_ends_among_the_dead(bus: NatsBus) -> None:
    await bus._js.publish("sabir.inbox.hotel", b"\x09not a frame")
    got = asyncio.Event()

    async def handler(letter: Letter) -> None:
        got.set()

    await bus.receive("hotel", handler)
    await bus.send(Letter("hotel", b"good"))
    async with asyncio.timeout(DEADLINE):
        await got.wait()
    (dead,) = await bus.dead("hotel")
    assert dead.reason == "bus: at frame: expected version 1"
    assert dead.letter.body == b"\x09not a frame"


async def test_letters_that_are_ready_together_share_a_frame(bus: NatsBus) -> None:
    await asyncio.gather(*(bus.send(Letter("hotel", b"%d" % n)) for n in range(640)))
    frames = await bus.waiting("hotel")
    assert 640 / QUICK.frame_letters <= frames <= 20


async def test_a_full_stream_refuses_and_keeps_what_it_has(server: NatsServer) -> None:
    bus = open_bus(f"{server.url}?max_bytes=20000&prefix=small", limits=PATIENT)
    await bus.open()
    sent = 0
    with pytest.raises(BusUnavailable, match="NATS rejected it: maximum bytes exceeded"):
        for _ in range(100):
            await bus.send(Letter("hotel", b"x" * 1000))
            sent += 1
    assert 10 < sent < 100
    assert await bus.waiting("hotel") == sent
    await bus.close()


async def test_a_missing_server_is_reported(server: NatsServer) -> None:
    server.kill()
    soon = msgspec.structs.replace(QUICK, connect_seconds=0.5)
    bus = open_bus(f"nats://ann:s3cret@127.0.0.1:{server.port}", limits=soon)
    with pytest.raises(BusUnavailable, match=f"^no NATS server answers at 127.0.0.1:{server.port}$"):
        await bus.open()
    await bus.close()


async def test_a_wrong_log_in_and_a_server_without_jetstream_are_reported(tmp_path: Path) -> None:
    locked = NatsServer(tmp_path / "locked", "-js", "--user", "ann", "--pass", "s3cret")
    plain = NatsServer(tmp_path / "plain", "--http_port", "0")
    locked.start()
    plain.start()
    try:
        for log_in, raised in (("ann:s3cret@", None), ("ann:guess@", "rejects the login"), ("", "rejects the login")):
            bus = open_bus(f"nats://{log_in}127.0.0.1:{locked.port}")
            if raised is None:
                await bus.open()
            else:
                with pytest.raises(ConfigError, match=raised):
                    await bus.open()
            await bus.close()
        bus = open_bus(plain.url)
        with pytest.raises(ConfigError, match="bus: the NATS server has no JetStream; start it with -js"):
            await bus.open()
        await bus.close()
    finally:
        locked.kill()
        plain.kill()


async def test_send_reports_that_the_server_stays_unavailable(server: NatsServer) -> None:
    bus = await _open(server, msgspec.structs.replace(QUICK, send_seconds=0.5))
    server.kill()
    with pytest.raises(BusUnavailable, match="the letter was not sent"):
        await bus.send(Letter("hotel", b"x"))
    with pytest.raises(BusUnavailable, match="NATS is not connected"):
        await bus.ping()
    await bus.close()


async def test_a_server_that_hangs_is_noticed_left_and_found_again(server: NatsServer) -> None:
    bus = await _open(server, msgspec.structs.replace(QUICK, ping_seconds=1))
    server.pause()
    try:
        async with asyncio.timeout(DEADLINE):
            while bus.client.is_connected:
                await asyncio.sleep(0.05)
        with pytest.raises(BusUnavailable):
            await bus.ping()
    finally:
        server.resume()
    async with asyncio.timeout(DEADLINE):
        while not bus.client.is_connected:
            await asyncio.sleep(0.05)
    await bus.send(Letter("hotel", b"x"))
    await bus.close()


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
@pytest.mark.parametrize("how", ["pause", "kill"])
def test_a_bus_can_be_closed_while_its_server_is_gone_or_hangs(
    server: NatsServer, how: str, loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    async def opened_and_closed() -> None:
        bus = await _open(server, QUICK)
        await bus.receive("hotel", _taken)
        getattr(server, how)()
        if how == "kill":
            async with asyncio.timeout(DEADLINE):
                while bus.client.is_connected:
                    await asyncio.sleep(0.01)
        sending = asyncio.create_task(bus.send(Letter("hotel", b"x")))  # something is left to be written
        await asyncio.sleep(0)
        async with asyncio.timeout(3 * QUICK.stop_seconds + 20):
            await bus.close()
        with suppress(BusUnavailable):
            await sending

    try:
        with asyncio.Runner(loop_factory=loop) as runner:
            runner.run(opened_and_closed())
    finally:
        if how == "pause":
            server.resume()


async def _taken(letter: Letter) -> None:
    """It is enough that it came."""


def test_addresses_are_read_and_wrong_ones_explained() -> None:
    assert open_bus("nats://a:4222,b:4222?prefix=mine&replicas=3")._servers == [  # type: ignore[attr-defined]
        "nats://a:4222",
        "nats://b:4222",
    ]
    with pytest.raises(ConfigError, match="bus: 'prefx' is not an option of a NATS address; known: credentials, "):
        open_bus("nats://a?prefx=mine")
    with pytest.raises(ConfigError, match="bus: expected memory:, store:, nats://host:port, sqlite:///path"):
        open_bus("redis://a")
    with pytest.raises(ConfigError, match="bus: replicas: expected a number"):
        open_bus("nats://a?replicas=many")

"""The short way of calls over NATS: that it is taken, that order holds on it, and that nothing depends on it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import msgspec
import pytest
from nats.aio.client import Client

from deadline import DEADLINE
from sabir.bus import Bus, Called, open_bus
from sabir.bus.nats import NatsBus
from sabir.bus.nats_client import QuickClient
from sabir.errors import PeerUnavailable
from tcp_proxy import tcp_proxy

from .conftest import QUICK, Nodes
from .on_nats import NATS, need_nats, remove_streams

PLACE = (urlsplit(NATS).hostname or "127.0.0.1", urlsplit(NATS).port or 4222)


@pytest.fixture
async def nodes() -> AsyncIterator[Nodes]:
    need_nats()
    nodes = Nodes("nats")
    yield nodes
    await nodes.close()


async def _echo(called: Called) -> None:
    await called.send(called.body)


async def _many(called: Called) -> None:
    """So many pieces as the question says, of very different lengths."""
    for n in range(int(called.body)):
        await called.send(b"%d " % n + b"x" * (n * 37 % 5000))


async def _asked(bus: Bus, name: str, body: bytes) -> list[bytes]:
    async with asyncio.timeout(DEADLINE), bus.call(name, body) as call:
        return [piece async for piece in call]


async def test_a_question_and_its_answer_wait_for_no_task_of_the_client(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = await nodes.node(), await nodes.node()
    await there.serve("hotel", _echo)
    published: list[str] = []
    read: list[bytes] = []
    for bus in (here, there):
        assert isinstance(bus, NatsBus)
        monkeypatch.setattr(bus.client, "publish", lambda subject, *_, **__: published.append(subject))
        monkeypatch.setattr(bus.client._ps, "parse", read.append)
    assert await _asked(here, "hotel", b"a room?") == [b"a room?"]
    assert not published, "a packet went by the queue of the client"
    assert not read, "a packet was read by the client's task"
    monkeypatch.undo()


async def test_without_the_short_way_calls_are_answered_all_the_same(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(QuickClient, "put", lambda *_: False)
    monkeypatch.setattr(QuickClient, "_read_loop", Client._read_loop)
    monkeypatch.setattr(QuickClient, "_process_msg", Client._process_msg)
    here, there = await nodes.node(), await nodes.node()
    await there.serve("hotel", _many)
    assert len(await _asked(here, "hotel", b"100")) == 100
    with pytest.raises(PeerUnavailable, match="no node serves this name"):
        await _asked(here, "taxi", b"?")


async def test_pieces_keep_their_order_however_the_network_cuts_them() -> None:
    need_nats()
    prefix = f"cut{random.randrange(1 << 40):x}"
    cut = random.Random(7)
    async with tcp_proxy(PLACE, read_size=lambda: cut.choice((1, 7, 100, 4096, 65536))) as proxy:
        buses = [open_bus(f"nats://127.0.0.1:{proxy.port}?prefix={prefix}", limits=QUICK) for _ in range(2)]
        try:
            for bus in buses:
                await bus.open()
            await buses[1].serve("hotel", _many)
            answers = await asyncio.gather(*(_asked(buses[0], "hotel", b"120") for _ in range(5)))
            for pieces in answers:
                assert [int(piece.split()[0]) for piece in pieces] == list(range(120))
        finally:
            for bus in buses:
                await bus.close()
            await remove_streams(NATS, prefix)


@pytest.mark.parametrize("whose", ["the caller", "the server"])
async def test_a_connection_that_breaks_once_hangs_no_call_that_streams(whose: str) -> None:
    """Either nothing was missed and all pieces come, or the call ends: neither side waits for the other."""
    need_nats()
    prefix = f"broken{random.randrange(1 << 40):x}"
    # A sign of life every minute only: what is noticed here is noticed because the connection is back.
    limits = msgspec.structs.replace(QUICK, alive_seconds=60.0)
    async with tcp_proxy(PLACE) as proxy:
        broken, whole = f"nats://127.0.0.1:{proxy.port}?prefix={prefix}", f"{NATS}?prefix={prefix}"
        here = open_bus(broken if whose == "the caller" else whole, limits=limits)
        there = open_bus(whole if whose == "the caller" else broken, limits=limits)
        try:
            for bus in (here, there):
                await bus.open()
            await there.serve("hotel", _many)
            pieces = 0
            async with asyncio.timeout(DEADLINE):
                try:
                    async with here.call("hotel", b"5000") as call:
                        async for _ in call:
                            pieces += 1
                            if pieces == 700:
                                proxy.cut()
                except PeerUnavailable as lost:
                    assert "a piece was lost on the way" in str(lost)
                else:
                    assert pieces == 5000
        finally:
            for bus in (here, there):
                await bus.close()
            await remove_streams(NATS, prefix)


async def test_a_packet_that_nobody_can_read_ends_nothing(nodes: Nodes) -> None:
    here, there = await nodes.node(), await nodes.node()
    await there.serve("hotel", _echo)
    assert isinstance(here, NatsBus) and isinstance(there, NatsBus)
    for junk in (b"", b"\xff\xff", b"\x91\x93\x01\xa1x\xc0", b"x" * 5000):
        assert here.client.put(f"{nodes.prefix}.call.hotel", junk)
        assert here.client.put(f"{nodes.prefix}.back.{there._instance}.0", junk)
    assert await _asked(here, "hotel", b"still there?") == [b"still there?"]

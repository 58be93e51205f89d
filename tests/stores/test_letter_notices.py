"""On PostgreSQL a node learns of letters that other nodes put at once, and looks again only now and then."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from deadline import DEADLINE
from sabir.bus import Letter
from sabir.bus.store import StoreBus
from sabir.dialogues.service import Dialogues
from sabir.stores import Store, open_store
from sabir.stores.letters import Letters

from .places import schema

Opened = Callable[[str], Awaitable[Any]]


@pytest.fixture
async def address() -> AsyncIterator[str]:
    async with schema() as place:
        yield place


@pytest.fixture
async def opened() -> AsyncIterator[Opened]:
    made: list[Store] = []

    async def open_one(place: str) -> Store:
        store = open_store(place)
        await store.open()
        made.append(store)
        return store

    yield open_one
    for store in made:
        await store.close()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(DEADLINE):
        while not condition():
            await asyncio.sleep(0.01)


async def test_letters_of_other_nodes_are_announced_and_own_ones_are_not(address: str, opened: Opened) -> None:
    here, there = await opened(address), await opened(address)
    heard: list[str] = []
    notices = await here.notice_letters(heard.append)
    try:
        await until(lambda: notices.live)
        assert heard == [""]  # what was put before may be anywhere
        for store, box in ((here, "own"), (there, "hotel")):
            bus = StoreBus(store)
            await bus.open()
            await bus.send(Letter(box, b"x"))
            await bus.close()
        await until(lambda: len(heard) > 1)
        assert heard == ["", "hotel"]
    finally:
        await notices.stop()


async def test_a_broken_connection_is_made_again_and_everybody_looks(address: str, opened: Opened) -> None:
    store = await opened(address)
    bus = StoreBus(store)
    await bus.open()
    woken: list[str] = []
    bus.on_letters(woken.append)
    try:
        await until(lambda: bus.look_seconds > 1)
        looks = woken.count("")
        sql = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN %' AND query LIKE $1"
        connection = await asyncpg.connect(address)
        channel = await connection.fetchval("SELECT 'sabir_' || md5(current_schema())")
        assert await connection.fetch(sql, f"%{channel}%")
        await connection.close()
        await until(lambda: woken.count("") > looks)
        assert bus.look_seconds > 1
    finally:
        await bus.close()


async def test_a_reader_that_waits_for_a_message_of_another_node_is_woken(address: str, opened: Opened) -> None:
    here, there = await opened(address), await opened(address)
    assert isinstance(here, Letters)
    bus = StoreBus(here)
    dialogues = Dialogues(here, bus)
    await bus.open()
    try:
        await until(lambda: bus.look_seconds > 1)
        with dialogues.watch(["jules"]) as woken:
            other = StoreBus(there)
            await other.open()
            await other.send(Letter("jules", b"x"))
            await other.close()
            async with asyncio.timeout(DEADLINE):
                await woken.wait()  # nothing else would wake it
    finally:
        await bus.close()


async def test_a_store_that_announces_nothing_is_looked_at(tmp_path: Path, opened: Opened) -> None:
    bus = StoreBus(await opened(f"sqlite:///{tmp_path}/sabir.db"))
    await bus.open()
    assert bus.look_seconds < 1
    await bus.close()

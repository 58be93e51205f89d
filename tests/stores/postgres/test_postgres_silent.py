"""A PostgreSQL that accepts requests and does not answer: nobody waits for it forever."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from deadline import DEADLINE
from sabir import agent
from sabir.agent import Agent
from sabir.errors import StoreUnavailable
from sabir.gateway.gateway import Gateway
from sabir.server.server import CLOSE_SECONDS
from sabir.stores.base import AuditLine, Record
from sabir.stores.postgres.store import PostgresStore
from sabir.turn import Turn
from stores.private_postgres import PrivatePostgres

PATIENCE = 1.0


@pytest.fixture(scope="module")
def server() -> Iterator[PrivatePostgres]:
    with PrivatePostgres() as private:
        yield private


@pytest.fixture
async def store(server: PrivatePostgres) -> AsyncIterator[PostgresStore]:
    opened = PostgresStore(await server.schema("silent"), patience=PATIENCE)
    await opened.open()
    yield opened
    await opened.close()


async def refused_after(store: PostgresStore, many: int) -> float:
    """How long the slowest of many callers waits for its error."""

    async def one(number: int) -> None:
        with pytest.raises(StoreUnavailable, match="the store is unavailable"):
            await (store.ping() if number % 2 else store.audit(AuditLine(0.0, "key", "ada")))

    begun = time.monotonic()
    async with asyncio.timeout(60):
        await asyncio.gather(*(one(number) for number in range(many)))
    return time.monotonic() - begun


async def test_callers_of_a_silent_server_get_an_error_in_time_and_its_return_is_noticed(
    server: PrivatePostgres, store: PostgresStore
) -> None:
    await store.put(Record("s", "k", b"kept"))
    await asyncio.gather(*(store.ping() for _ in range(8)))  # every connection of the pool is there
    server.pause()
    try:
        assert await refused_after(store, 40) < 10 * PATIENCE  # five times as many as there are connections
        assert await refused_after(store, 40) < 10 * PATIENCE  # and it does not add up
    finally:
        server.resume()
    async with asyncio.timeout(DEADLINE):
        while True:
            try:
                kept = await store.get("s", "k")
                await store.audit(AuditLine(0.0, "key", "ada"))
                break
            except StoreUnavailable:
                continue
    assert kept is not None and kept.value == b"kept"


async def test_a_store_on_a_silent_server_closes(server: PrivatePostgres, store: PostgresStore) -> None:
    await asyncio.gather(*(store.ping() for _ in range(8)))
    server.pause()
    try:
        writing = asyncio.create_task(store.audit(AuditLine(0.0, "key", "ada")))
        await asyncio.sleep(0)
        begun = time.monotonic()
        async with asyncio.timeout(60):
            await store.close()
        assert time.monotonic() - begun < 15.0
        with pytest.raises(StoreUnavailable):
            await writing
    finally:
        server.resume()


def named(name: str) -> Agent:
    @agent(name=name)
    async def quiet(turn: Turn) -> str:
        return ""

    return quiet


async def test_a_node_on_a_silent_server_stops_however_many_agents_it_offers(
    server: PrivatePostgres, store: PostgresStore, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    agents = [named(f"agent{n}") for n in range(30)]
    own = PostgresStore(store._address, patience=PATIENCE)  # it opens and closes its store itself
    gateway = Gateway(*agents, home=tmp_path, store=own, bus="memory:")
    await gateway.start()
    server.pause()
    try:
        async with asyncio.timeout(CLOSE_SECONDS):  # after that the process would be ended
            await gateway.stop()
    finally:
        server.resume()
    assert "Traceback" not in caplog.text


async def test_a_batch_that_was_given_up_is_not_done_after_later_ones(store: PostgresStore) -> None:
    """It was reported as not done; a silent server may get to it long after its writer has continued."""
    writer = store._writer
    assert writer is not None
    batches: list[tuple[object, ...]] = []
    send = writer._send

    async def seen(values: tuple[object, ...]) -> object:
        batches.append(values)
        return await send(values)

    writer._send = seen  # type: ignore[method-assign, assignment]
    for _ in range(2):
        await store.count("q", "k", 1)
    await send(batches[0])  # the first one again, late
    assert await store.count("q", "k", 0) == 2

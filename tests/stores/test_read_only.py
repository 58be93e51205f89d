"""A store that can be read and not written is not ready, and the log says why (issue 11, D15)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import httpx2
import pytest

from deadline import DEADLINE
from sabir import Gateway
from sabir.agents.echo import echo
from sabir.gateway.endpoints import metrics
from sabir.stores import open_store
from sabir.stores.sqlite import store as sqlite_store
from stores.private_postgres import PrivatePostgres


async def health(gateway: Gateway) -> tuple[int, str]:
    transport = httpx2.ASGITransport(gateway)
    async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1:8080") as client:
        said = await client.get("/health/ready")
        return said.status_code, said.json()["status"]


async def until(gateway: Gateway, wanted: tuple[int, str]) -> None:
    async with asyncio.timeout(DEADLINE):
        while await health(gateway) != wanted:
            await asyncio.sleep(0.01)


async def turn(gateway: Gateway) -> int:
    transport = httpx2.ASGITransport(gateway)
    async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1:8080") as client:
        body = {"format": "text", "subformat": "english", "content": "hi"}
        return (await client.post("/nlip", json=body)).status_code


@pytest.fixture
def new_server() -> Iterator[PrivatePostgres]:
    with PrivatePostgres() as server:
        yield server


async def test_a_sqlite_file_that_becomes_read_only_makes_the_gateway_unready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sqlite_store, "PROBE_SECONDS", 0.0)  # every look is a write
    gateway = Gateway(echo, home=tmp_path)
    await gateway.start()
    assert await health(gateway) == (200, "ok")
    writer = gateway.store._writer  # type: ignore[attr-defined]
    await writer.submit(lambda connection: setattr(gateway, "connection", connection))
    gateway.connection.execute("PRAGMA query_only = 1")  # type: ignore[attr-defined]  # as SQLite sees a read-only disk
    assert await health(gateway) == (503, "store unavailable")
    assert await turn(gateway) == 503
    assert "The store cannot write: attempt to write a readonly database" in caplog.messages
    gateway.connection.execute("PRAGMA query_only = 0")  # type: ignore[attr-defined]
    assert await health(gateway) == (200, "ok")
    assert await turn(gateway) == 200
    await gateway.stop()


async def test_a_postgresql_that_becomes_read_only_makes_the_gateway_unready(
    tmp_path: Path, new_server: PrivatePostgres, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(metrics, "LOOK_SECONDS", 1.5)
    caplog.set_level(logging.INFO, "sabir.store")
    gateway = Gateway(echo, home=tmp_path, store=await new_server.schema("read_only"))
    await gateway.start()
    assert await health(gateway) == (200, "ok")
    server = await asyncpg.connect(new_server.address)
    await _read_only(server, "on")
    await until(gateway, (503, "store unavailable"))
    while not any(" is unavailable: it is a standby, which takes no writes" in message for message in caplog.messages):
        assert await health(gateway) == (503, "store unavailable")
    await _read_only(server, "off")
    await until(gateway, (200, "ok"))
    await server.close()
    await gateway.stop()


async def _read_only(server: asyncpg.Connection[asyncpg.Record], setting: str) -> None:
    """From now on every session of the server is, or is no longer, read-only."""
    await server.execute("SET default_transaction_read_only = off")
    await server.execute(f"ALTER SYSTEM SET default_transaction_read_only = {setting}")
    await server.execute("SELECT pg_reload_conf()")


async def test_looking_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_store, "PROBE_SECONDS", 0.0)
    store = open_store(f"sqlite:///{tmp_path}/sabir.db")
    await store.open()
    await store.ping()
    assert await store.list("probe") == []
    await store.close()

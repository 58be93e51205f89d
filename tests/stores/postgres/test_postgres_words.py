"""An unavailable PostgreSQL: its operator learns where and why, callers only that it is; the log stays short."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import asyncpg
import httpx2
import pytest

from deadline import DEADLINE
from free_ports import free_port
from sabir import Gateway, agent
from sabir.cli.main import main
from sabir.errors import ConfigError, StoreUnavailable
from sabir.stores.postgres import retry as outage
from sabir.stores.postgres.retry import where
from sabir.stores.postgres.store import PostgresStore
from sabir.turn import Turn
from stores.private_postgres import PrivatePostgres

HELLO = {"format": "text", "subformat": "english", "content": "hello"}


@agent(name="echo")
async def echo(turn: Turn) -> str:
    return turn.text


@pytest.fixture(scope="module")
def server() -> Iterator[PrivatePostgres]:
    with PrivatePostgres() as private:
        yield private


@pytest.fixture
async def address(server: PrivatePostgres) -> str:
    return await server.schema("words")


@pytest.mark.parametrize(
    ("address", "text"),
    [
        ("postgresql://ann:s3cret@db.internal:6543/shop", "PostgreSQL at db.internal:6543, database shop"),
        ("postgresql://db.internal/shop?search_path=x", "PostgreSQL at db.internal:5432, database shop"),
        ("postgresql://ann:s3cret@a,b:6000/shop", "PostgreSQL at a:5432, b:6000, database shop"),
        ("postgresql://ann@[::1]:5432", "PostgreSQL at [::1]:5432, database ann"),
        ("postgresql:///shop?host=/run/postgresql", "PostgreSQL at /run/postgresql:5432, database shop"),
    ],
)
def test_where_it_is_names_host_port_and_database_and_no_password(address: str, text: str) -> None:
    assert where(address) == text


def test_commands_say_where_it_should_be_and_what_is_wrong(
    server: PrivatePostgres, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (port,) = re.findall(r":(\d+)/", server.address)
    nowhere = free_port()
    for at, code, answer in (
        (
            f"127.0.0.1:{port}/none",
            2,
            f"store: PostgreSQL at 127.0.0.1:{port}, database none: database not found",
        ),
        (f"127.0.0.1:{nowhere}/shop", 3, f"PostgreSQL at 127.0.0.1:{nowhere}, database shop: connection refused"),
        (
            "no.such.host.invalid/shop",
            3,
            "PostgreSQL at no.such.host.invalid:5432, database shop: host not found",
        ),
    ):
        (tmp_path / "sabir.yaml").write_text(f"store: postgresql://postgres:s3cret@{at}\n")
        assert main(["audit", "verify"]) == code
        assert capsys.readouterr().err == f"sabir: {answer}\n"


async def test_a_wrong_password_is_reported_as_one(server: PrivatePostgres) -> None:
    connection = await asyncpg.connect(server.address)
    await connection.execute("CREATE ROLE ann LOGIN PASSWORD 'right'")
    await connection.close()
    with server.asking_for_passwords():
        store = PostgresStore(server.address.replace("postgres@", "ann:wr0ng@"))
        with pytest.raises(ConfigError) as raised:
            await store.open()
    assert str(raised.value).endswith(", database postgres: the password is wrong, or the user does not exist")
    assert "wr0ng" not in str(raised.value)


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(DEADLINE):
        while not holds():
            await asyncio.sleep(0.02)


async def test_an_outage_is_one_warning_and_its_end_one_line_and_callers_learn_no_address(
    server: PrivatePostgres, address: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    gateway = Gateway(echo, home=tmp_path, store=PostgresStore(address, patience=0.5))
    await gateway.start()
    transport = httpx2.ASGITransport(gateway)
    async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1:8080") as client:
        await asyncio.to_thread(server.stop)
        refused = [await client.post("/nlip", json=HELLO), await client.get("/health")]
        await until(lambda: "is unavailable" in caplog.text)
        for _ in range(3):  # the worker of tasks has looked several times by then
            await asyncio.sleep(0.5)
            refused.append(await client.get("/health"))
        for item in refused:
            assert item.status_code == 503
            assert not re.search(r"127\.0\.0\.1|postgres|connection ?refused", item.text, re.IGNORECASE), item.text
        assert refused[0].json()["content"] == "the store is unavailable; retry shortly"
        await asyncio.to_thread(server.start)
        await until(lambda: "available again" in caplog.text)
        assert (await client.get("/health")).status_code == 200
    logged = [f"{r.levelname} {r.getMessage()}" for r in caplog.records if r.name.startswith("sabir")]
    await gateway.stop()
    place = where(server.address)
    assert len(logged) == 2, logged
    assert logged[0].startswith(f"WARNING {place} is unavailable: ")
    assert re.fullmatch(rf"INFO {re.escape(place)} available again after \d+\.\d s", logged[1])


async def test_a_long_outage_is_logged_again_after_a_while(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    away = outage.Outage(0.0, "PostgreSQL at here")

    async def refused() -> None:
        raise ConnectionRefusedError

    async def warnings_after(times: int) -> int:
        for _ in range(times):
            with pytest.raises(StoreUnavailable, match="the store is unavailable"):
                await away.ride_out(refused)
        return caplog.text.count("WARNING")

    assert await warnings_after(20) == 1
    monkeypatch.setattr(outage, "_TOLD_AGAIN", 0.0)
    assert await warnings_after(2) == 3

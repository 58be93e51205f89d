"""``sabir store copy`` and ``migrate``: every row arrives, or none; and the new store goes on from there."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import time
from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path

import asyncpg
import msgspec
import pytest

from conftest import serving
from sabir import Gateway
from sabir.agents.echo import echo
from sabir.cli import main
from sabir.errors import ConfigError, StoreUnavailable
from sabir.guard.audit.verify import verify
from sabir.message import Message
from sabir.stores import Store, open_store
from sabir.stores.base import AuditLine, ConversationRow, Record, TaskEvent, TaskRow, TurnEntry, chain
from sabir.stores.copy import copy
from sabir.stores.sqlite.store import MIGRATIONS
from sabir.stores.tables import TABLES
from sabir.turn import PastTurn
from stores.places import schema

NOW = 1_800_000_000.0


@pytest.fixture
async def postgres() -> AsyncIterator[str]:
    async with schema() as address:
        yield address


def entry(n: int) -> TurnEntry:
    past = PastTurn(f"t{n}", NOW + n, "echo", Message.text(f"ask {n}"), Message.text(f"say {n}"), "Ada", f"c{n % 7}")
    row = ConversationRow(past.conversation, "ada", NOW, NOW + n, NOW + 9e6, agreed={"n": n}, peer_token=f"p{n}")
    return TurnEntry(row, past, AuditLine(NOW + n, "turn", "ada", turn=past.id), 3)


async def fill(store: Store, turns: int = 1500) -> None:
    for n in range(turns):
        if n % 100 == 99:
            await store.audit(AuditLine(NOW, "key", "ada", detail={"n": n}))

    await asyncio.gather(*(store.record(entry(n)) for n in range(turns)))
    await store.agree(ConversationRow("ended", "ada", NOW, NOW, NOW + 9e6, ended=True))
    task = TaskRow("task", "ada", "echo", "working", NOW, NOW, NOW + 9e6, Message.text("work"), node="n1")
    await store.put_task(task, lease=60.0)
    for n in range(3):
        await store.add_task_event("task", TaskEvent(0, NOW, "delta", {"n": n, "raw": b"\0\xff"}))
    await store.put(Record("keys", "ä", b"\0\xff", owner="ada"))
    await store.count("quota", "ada", 2.5, expires=time.time() + 9e6)
    await store.audit_prune(3)  # the chain need not begin at 1


async def everything(store: Store) -> list[object]:
    """All that the Store interface shows."""
    ids = [*(f"c{n}" for n in range(7)), "ended"]
    task = await store.task("task")
    assert task is not None
    return [
        [await store.conversation(item_id) for item_id in ids],
        [await store.turns(item_id, 10_000) for item_id in ids],
        task,
        await store.task_events("task"),
        await store.audit_lines(limit=10_000),
        [await store.list(space) for space in ("keys", "quota")],
    ]


async def opened(address: str) -> Store:
    store = open_store(address)
    await store.open()
    return store


async def test_everything_is_copied_there_and_back_and_still_works(tmp_path: Path, postgres: str) -> None:
    first, last = f"sqlite:///{tmp_path}/first.db", f"sqlite:///{tmp_path}/last.db"
    source = await opened(first)
    await fill(source)
    received: list[tuple[str, int, int]] = []
    counts = await copy(first, postgres, lambda *progress: received.append(progress))
    assert counts["turns"] == 1500 and counts["conversations"] == 8 and counts["records"] == 2
    assert counts.keys() == TABLES.keys()
    assert ("turns", 1000, 1500) in received and ("turns", 1500, 1500) in received
    middle = await opened(postgres)
    assert await everything(middle) == await everything(source)
    # The new store goes on: turns stay in order, the chain is unbroken, ids are still known, events are numbered on.
    assert await middle.record(entry(1500)) is True
    assert await middle.record(entry(3)) is False
    assert (await middle.turns("c2", 1))[0].id == "t1500"
    assert await middle.add_task_event("task", TaskEvent(0, NOW, "reply", {})) == 4
    assert await middle.count("quota", "ada", 1) == 3.5
    lines = await middle.audit_lines(limit=10_000)
    assert await middle.audit_head() == (lines[-1].number, lines[-1].hash)
    assert all(b.previous == a.hash and b.number == a.number + 1 for a, b in pairwise(lines))
    assert all(line.hash == chain(line.previous, msgspec.json.encode(line.line)) for line in lines)
    await copy(postgres, last)
    end = await opened(last)
    assert await everything(end) == await everything(middle)
    for store in (source, middle, end):
        await store.close()


async def test_a_missing_end_of_a_log_is_still_noticed_after_a_copy(tmp_path: Path, postgres: str) -> None:
    first, last = f"sqlite:///{tmp_path}/first.db", f"sqlite:///{tmp_path}/last.db"
    source = await opened(first)
    for n in range(5):
        await source.audit(AuditLine(NOW + n, "key", "ada"))
    await source.close()
    with sqlite3.connect(tmp_path / "first.db") as cut:
        cut.execute("DELETE FROM audit WHERE number > 3")
    cut.close()
    await copy(first, postgres)
    await copy(postgres, last)
    for address in (postgres, last):
        store = await opened(address)
        assert [str(item) for item in (await verify(store)).broken] == ["line 4: is gone (lines 4 to 5)"]
        await store.close()


async def test_a_store_that_is_not_empty_is_not_copied_into(tmp_path: Path) -> None:
    first, second = f"sqlite:///{tmp_path}/first.db", f"sqlite:///{tmp_path}/second.db"
    for address in (first, second):
        store = await opened(address)
        await store.record(entry(1))
        await store.close()
    with pytest.raises(ConfigError, match="the target is not empty"):
        await copy(first, second)
    with pytest.raises(ConfigError, match="the same store"):
        await copy(first, first)
    with pytest.raises(ConfigError, match="does not exist"):
        await copy(f"sqlite:///{tmp_path}/none.db", second)
    with pytest.raises(ConfigError, match=r"expected sqlite:///path or postgresql://"):
        await copy("memory:", second)
    assert not (tmp_path / "none.db").exists()


async def test_a_copy_that_breaks_leaves_nothing_behind(tmp_path: Path, postgres: str) -> None:
    first = f"sqlite:///{tmp_path}/first.db"
    source = await opened(first)
    await fill(source, 50)
    await source.close()
    with sqlite3.connect(tmp_path / "first.db") as damaged:
        damaged.execute("UPDATE records SET key = key || char(0) WHERE space = 'keys'")  # PostgreSQL has no NUL in text
    damaged.close()
    with pytest.raises((StoreUnavailable, ValueError)):
        await copy(first, postgres)
    target = await opened(postgres)
    assert await target.turn("t1") is None
    assert await target.audit_lines() == []
    await target.close()


def test_the_command_copies_and_says_what(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:

    first, second = f"sqlite:///{tmp_path}/first.db", f"sqlite:///{tmp_path}/second.db"

    async def make() -> None:
        store = await opened(first)
        await fill(store, 20)
        await store.close()

    asyncio.run(make())
    assert main(["store", "copy", first, second]) == 0
    out = capsys.readouterr().out
    assert "  turns                    20\n" in out
    assert "rows copied and verified in" in out
    assert "Also copy secret.key" in out
    assert main(["store", "copy", first, f"sqlite:///{tmp_path}/third.db", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["turns"] == 20
    assert main(["store", "copy", first, second]) == 2
    assert "sabir: copy: the target is not empty" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_a_store_on_which_a_gateway_runs_is_copied_only_by_force(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    address = f"sqlite:///{tmp_path}/old/sabir.db" if kind == "sqlite" else request.getfixturevalue("postgres")
    first, second = (f"sqlite:///{tmp_path}/{name}/new.db" for name in ("first", "second"))
    assert main(["store", "migrate", address]) == 0
    with serving(Gateway(echo, home=tmp_path / "home", store=address)):
        capsys.readouterr()
        assert main(["store", "copy", address, first]) == 1
        printed = capsys.readouterr().err
        assert printed.startswith("sabir: copy: a gateway runs on ") and printed.count("\n") == 1
        assert printed.endswith(
            ", and what it writes during the copy would be missing; stop it first, or give --force\n"
        )
        assert "postgres@" not in printed and not (tmp_path / "first").exists()
        assert main(["store", "copy", address, first, "--force"]) == 0
        capsys.readouterr()
        assert main(["store", "copy", first, address]) == 1
        assert "it would not see the copied rows" in capsys.readouterr().err
    assert main(["store", "copy", address, second]) == 0, "it has stopped"


def test_the_command_migrates_an_old_store(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old = sqlite3.connect(tmp_path / "old.db")
    old.executescript(MIGRATIONS[0])
    task = TaskRow("task", "ada", "echo", "completed", NOW, NOW, NOW + 9e6, Message.text("work"))
    values = ("task", "ada", "completed", "", NOW, NOW, NOW + 9e6, "n1", 0.0, msgspec.msgpack.encode(task))
    old.execute("INSERT INTO tasks VALUES (?,?,?,?,?,?,?,?,?,?)", values)
    old.execute("PRAGMA user_version = 1")
    old.commit()
    old.close()
    address = f"sqlite:///{tmp_path}/old.db"
    assert main(["store", "migrate", address]) == 0
    assert capsys.readouterr().out == f"The store is migrated from schema 1 to {len(MIGRATIONS)}.\n"
    assert main(["store", "migrate", address]) == 0
    assert capsys.readouterr().out == f"The store is up to date (schema {len(MIGRATIONS)}).\n"

    async def look() -> None:
        store = await opened(address)
        found = await store.task("task")
        assert found is not None and (found.state, found.version) == ("completed", 1)
        await store.close()

    asyncio.run(look())


async def test_a_store_of_a_newer_version_is_refused(tmp_path: Path, postgres: str) -> None:

    newer = sqlite3.connect(tmp_path / "newer.db")
    newer.execute("PRAGMA user_version = 99")
    newer.commit()
    newer.close()
    with pytest.raises(ConfigError, match="written by a newer version"):
        await opened(f"sqlite:///{tmp_path}/newer.db")
    await (await opened(postgres)).close()
    connection = await asyncpg.connect(postgres)
    await connection.execute("UPDATE schema_version SET number = 99")
    await connection.close()
    with pytest.raises(ConfigError, match="written by a newer version"):
        await opened(postgres)


async def test_two_gateways_that_start_at_once_migrate_once(postgres: str) -> None:

    stores = await asyncio.gather(*(opened(postgres) for _ in range(4)))
    assert sorted(store.schema[0] for store in stores)[:1] == [0]
    assert [store.schema[0] for store in stores].count(0) == 1
    for store in stores:
        await store.close()


async def test_a_schema_that_does_not_exist_is_reported(postgres: str) -> None:
    with pytest.raises(ConfigError, match="create it first"):
        await opened(postgres.replace("search_path=", "search_path=no_"))

"""A gateway on a store of which every row is damaged: it starts, answers, and fails what it cannot read."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import httpx2
import pytest

from conftest import serving
from sabir import Gateway, Turn, agent
from sabir.bus.memory import MemoryBus
from sabir.cluster.directory import ENTRIES, NODE_OWNER, Directory, Entry
from sabir.errors import NotFound
from sabir.guard import Seal
from sabir.guard.identity.api_keys import ApiKeys
from sabir.guard.quotas.reservations import Cap, Reservations
from sabir.protocols.a2a.door.signing_keys import SigningKeys
from sabir.stores import Store, open_store
from sabir.stores.base import Record
from sabir.stores.memory import MemoryStore
from stores.places import by_hand, kept

SECRET = "c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0LXNlY3JldA"
GARBAGE = b"\xc1\xff\x00"


@agent(name="echo")
async def echo(turn: Turn) -> str:
    return f"You said: {turn.text}"


@agent(name="waits")
async def waits(turn: Turn) -> str:
    return (await turn.ask("Which colour?")).text


@pytest.fixture(params=["sqlite", "postgresql"])
async def address(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[str]:
    async with kept(request.param, tmp_path) as address:
        yield address


@contextmanager
def gateway(address: str, home: Path) -> Iterator[str]:
    made = Gateway(echo, waits, home=home, store=address, bus=MemoryBus(), node="a", secrets=(SECRET,))
    with serving(made) as served:
        yield served.url


def said(text: str) -> dict[str, str]:
    return {"format": "text", "subformat": "english", "content": text}


def filled(url: str) -> tuple[str, dict[str, object]]:
    """A task that waits, the last reply of a conversation; and beside them what a gateway keeps by itself."""
    place = httpx2.post(f"{url}/nlip/waits", json=said("x"), headers={"prefer": "respond-async"}).headers["location"]
    assert "Which colour?" in httpx2.get(f"{url}{place}", headers={"prefer": "wait=10"}).text
    return place, httpx2.post(f"{url}/nlip/echo", json=said("hello")).json()


async def test_it_starts_and_answers(address: str, home: Path, caplog: pytest.LogCaptureFixture) -> None:
    def first() -> tuple[str, dict[str, object]]:
        with gateway(address, home) as url:
            return filled(url)

    place, reply = await asyncio.to_thread(first)
    for table, column in (("tasks", "body"), ("task_events", "body"), ("records", "value"), ("turns", "answered")):
        await by_hand(address, f"UPDATE {table} SET {column} = $1", GARBAGE)
    entry = f"INSERT INTO records (space, key, value, owner, expires, version) VALUES ('{ENTRIES}', $1, $2, $3, 0, 1)"
    far = f"far/{uuid4().hex}"
    await by_hand(address, entry, far, GARBAGE, NODE_OWNER)
    caplog.clear()

    def again() -> None:
        with gateway(address, home) as url:
            assert httpx2.post(f"{url}/nlip/echo", json=said("hi")).json()["content"] == "You said: hi"
            lost = httpx2.get(f"{url}{place}")
            assert lost.status_code == 500 and "unreadable" in lost.json()["content"]
            tokens = [part for part in reply["submessages"] if part["format"] == "token"]  # type: ignore[attr-defined]
            on = httpx2.post(f"{url}/nlip/echo", json={**said("and on"), "submessages": tokens})
            assert (on.status_code, on.json()["content"]) == (200, "You said: and on")

    await asyncio.to_thread(again)
    logged = [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]
    assert f"{ENTRIES} {far} cannot be read from the store" in "\n".join(logged)
    assert f"Task {place.rpartition('/')[2]} cannot be read from the store and has failed" in "\n".join(logged)
    assert not [line for line in logged if "broke" in line or "ASGI" in line]


@pytest.fixture
async def store(address: str) -> AsyncIterator[Store]:
    opened = open_store(address)
    await opened.open()
    yield opened
    await opened.close()


async def test_an_entry_of_the_directory_that_cannot_be_read_hides_no_other_and_can_be_renewed(store: Store) -> None:
    directory = Directory(store, look_seconds=0.02)
    for name in ("one", "two"):
        await directory.register(Entry(name), "gateway")
    changes = directory.changes()
    assert [(await anext(changes)).entry.name for _ in range(2)] == ["one", "two"]
    known = (await store.list(ENTRIES, prefix="one/"))[0]
    await store.put(Record(ENTRIES, known.key, b"{", known.owner, known.expires))
    assert [entry.name for entry in await directory.search()] == ["two"]
    assert await directory.find("one") == []
    gone = await anext(changes)
    assert (gone.kind, gone.entry.name) == ("deregistered", "one")
    with pytest.raises(NotFound, match="cannot be read"):
        await directory.renew("one", "gateway")
    await directory.register(Entry("one"), "gateway")
    assert [entry.name for entry in await directory.find("one")] == ["one"]
    await changes.aclose()  # type: ignore[attr-defined]


async def test_an_api_key_that_cannot_be_read_is_not_known_and_hides_no_other(store: Store) -> None:
    keys = ApiKeys(store)
    made = [(await keys.add(name))[0] for name in ("one", "two")]
    await store.put(Record("keys", made[0].id, b"[]"))
    assert await keys.find(made[0].id) is None
    assert [key.name for key in await keys.list()] == ["two"]


async def test_an_unreadable_list_of_reservations_is_replaced_by_an_empty_one() -> None:
    store = MemoryStore()
    await store.open()
    await store.put(Record("holdings", "box:ada", b"[5]"))
    peak = Cap(10, 2)
    held = Reservations(store, "box", "all is taken")
    assert await held.begin("ada", "x", time.time() + 60, peak, Record("s", "x", b"")) == 10


async def test_an_unreadable_signing_key_is_replaced() -> None:
    store, seal = MemoryStore(), Seal(b"k" * 32)
    await store.open()
    await store.put(Record("a2a-key", "signing", GARBAGE))
    one, two = SigningKeys(store, seal), SigningKeys(store, seal)
    await one.start()
    await two.start()
    assert one.id == two.id


async def test_an_unreadable_record_is_logged_once(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    name = uuid4().hex
    await store.put(Record(ENTRIES, f"{name}/", b"{", "gateway"))
    directory = Directory(store)
    for _ in range(3):
        assert await directory.search() == []
    assert len([message for message in caplog.messages if name in message]) == 1

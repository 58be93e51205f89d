"""The secrets of a gateway: valid, and the same for all nodes on a store."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest

from guard_clock import Clock
from sabir import Gateway
from sabir.agents.echo import echo
from sabir.errors import ConfigError
from sabir.guard.seal import keys_from
from sabir.guard.secret_check import KEY, LIFE, SPACE, Fingerprints, fingerprint, slow_fingerprint
from sabir.stores import Store, open_store
from sabir.stores.base import Record
from sabir.stores.memory import MemoryStore
from stores.places import schema

OLD, NEW, OTHER = ("0123456789abcdef" * 2, "fedcba9876543210" * 2, "s" * 31 + "ö")


@pytest.mark.parametrize(
    ("written", "text"),
    [
        ("", "secrets[0]: expected 32 characters or more, and it is empty; `openssl rand -hex 32` makes one"),
        ("…", "secrets[0]: expected 32 characters or more, and it has 1; `openssl rand -hex 32` makes one"),
        ("env:NONE", "secrets[0]: the environment variable NONE: expected 32 characters or more, and it is not set; "),
        ("env:SHORT", "secrets[0]: the environment variable SHORT: expected 32 characters or more, and it has 5; "),
    ],
)
def test_an_invalid_secret_is_rejected_without_being_shown(tmp_path: Path, written: str, text: str) -> None:
    with pytest.raises(ConfigError) as refused:
        keys_from(tmp_path, [written], {"SHORT": "hello"})
    assert str(refused.value).startswith(text) and "hello" not in str(refused.value)
    assert list(tmp_path.iterdir()) == []


def test_a_secret_may_be_in_a_variable_and_an_empty_list_is_a_mistake(tmp_path: Path) -> None:
    assert keys_from(tmp_path, ["env:OPS", OLD], {"OPS": NEW}) == [NEW.encode(), OLD.encode()]
    with pytest.raises(ConfigError, match="secrets: expected at least one"):
        keys_from(tmp_path, [])
    assert keys_from(tmp_path) == [(tmp_path / "secret.key").read_bytes()]


def test_only_a_secret_that_somebody_chose_is_slow_to_try(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow: list[bytes] = []
    scrypt = hashlib.scrypt

    def watched(secret: bytes, **settings: Any) -> bytes:
        slow.append(secret)
        return scrypt(secret, **settings)

    monkeypatch.setattr(hashlib, "scrypt", watched)
    [generated] = keys_from(tmp_path)
    chosen = [OLD.encode(), OTHER.encode(), b"\xff" * 31]
    assert len({fingerprint(item) for item in (generated, *chosen)}) == 4
    assert slow == chosen


async def test_a_store_that_an_earlier_version_used_with_a_generated_secret_is_recognised(tmp_path: Path) -> None:
    [generated] = keys_from(tmp_path)
    store = MemoryStore()
    await store.open()
    kept_before = msgspec.json.encode({slow_fingerprint(generated): Clock().now + LIFE})
    assert await store.put(Record(SPACE, KEY, kept_before), expect=0)
    assert await Fingerprints(store, "start", [generated], Clock()).check()
    assert not await Fingerprints(store, "start", [b"\xfe" * 32], Clock()).check()


async def starts(store: Store, *secrets: str, start: str = "", clock: Clock | None = None) -> bool:
    made = Fingerprints(store, start or str(secrets), [secret.encode() for secret in secrets], clock or Clock())
    return await made.check()


async def test_nodes_with_the_same_secrets_and_rotation_are_silent(
    store: MemoryStore, caplog: pytest.LogCaptureFixture
) -> None:
    assert await starts(store, OLD)
    assert await starts(store, OLD)
    assert await starts(store, NEW, OLD)
    assert await starts(store, NEW)
    assert caplog.records == []


async def test_a_node_with_others_says_so_once_at_each_start(
    store: MemoryStore, caplog: pytest.LogCaptureFixture
) -> None:
    assert await starts(store, OLD)
    assert not await starts(store, OTHER, start="first")
    assert not await starts(store, OTHER, start="first")  # another process of the same start
    assert [(record.levelname, record.getMessage().count("\n")) for record in caplog.records] == [("ERROR", 0)]
    assert "same `secrets:`" in caplog.text and "secret.key" in caplog.text and OTHER not in caplog.text
    assert not await starts(store, OTHER, start="second")
    assert len(caplog.records) == 2
    assert await starts(store, OLD)  # the ones that were right stay so


async def test_a_secret_that_nobody_has_used_for_long_is_forgotten(store: MemoryStore) -> None:
    clock = Clock()
    lasting = Fingerprints(store, "a", [OLD.encode()], clock)
    assert await lasting.check()
    clock.now += LIFE - 1
    await lasting.renew()  # a node that runs keeps its own known
    clock.now += LIFE - 1
    assert not await starts(store, OTHER, clock=clock)
    clock.now += 2
    assert await starts(store, OTHER, clock=clock)
    assert not await starts(store, OLD, clock=clock)


async def test_the_stored_fingerprint_of_a_secret_reveals_nothing(store: MemoryStore) -> None:
    await starts(store, OLD)
    record = await store.get(SPACE, KEY)
    assert record is not None and OLD.encode() not in record.value
    assert fingerprint(OLD.encode()) in record.value.decode() and len(fingerprint(OLD.encode())) == 24


async def test_what_cannot_be_read_of_them_keeps_nobody_from_starting(store: MemoryStore) -> None:
    await store.put(Record(SPACE, KEY, b"\xff"))
    assert await starts(store, OLD)
    assert not await starts(store, OTHER)


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
async def test_of_two_that_start_at_once_with_different_secrets_one_logs_it(
    tmp_path: Path, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def both(place: str) -> None:
        stores = [open_store(place), open_store(place)]
        for store in stores:
            await store.open()
        known = await asyncio.gather(*(starts(item, secret) for item, secret in zip(stores, (OLD, NEW), strict=True)))
        assert sorted(known) == [False, True] and len(caplog.records) == 1
        for entry in stores:
            await entry.close()

    if kind == "sqlite":
        await both(f"sqlite:///{tmp_path}/s.db")
    else:
        async with schema() as place:
            await both(place)


async def test_a_store_that_was_moved_without_its_key_is_reported_and_with_it_is_not(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def started(home: Path) -> list[str]:
        caplog.clear()
        gateway = Gateway(echo, home=home)
        await gateway.start()
        await gateway.stop()
        return [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]

    first, second = tmp_path / "first", tmp_path / "second"
    assert await started(first) == []
    assert await started(first) == []
    second.mkdir()
    shutil.copy(first / "sabir.db", second)
    answer = await started(second)
    assert len(answer) == 1 and answer[0].startswith("None of this node's secrets was used with this store before")
    shutil.copy(first / "secret.key", second)
    assert await started(second) == []

"""The disk under SQLite is full: errors are clear, what was acknowledged is kept, service resumes by itself."""

from __future__ import annotations

import asyncio
import logging
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import httpx2
import pytest

from conftest import Serve
from sabir import agent
from sabir.errors import StoreUnavailable
from sabir.gateway.gateway import Gateway
from sabir.message import Message
from sabir.stores.base import AuditLine, ConversationRow, TurnEntry
from sabir.stores.sqlite.store import SQLiteStore
from sabir.turn import PastTurn, Turn


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of two megabytes."""
    if shutil.which("mount") is None:
        pytest.skip("a small tmpfs cannot be mounted here: there is no mount")
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(place)], capture_output=True, text=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"a small tmpfs cannot be mounted here: {mounted.stderr.strip()}")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def fill(place: Path) -> Path:
    """Take every byte that is left."""
    ballast = place / "ballast"
    with ballast.open("wb", buffering=0) as file:
        for size in (65536, 4096, 1):
            try:
                while file.write(b"\0" * size) == size:
                    pass
            except OSError:
                continue
    return ballast


def entry(turn: str) -> TurnEntry:
    now = time.time()
    past = PastTurn(turn, now, "echo", Message.text("x" * 3000), Message.text(turn), "ada", "c")
    return TurnEntry(ConversationRow("c", "ada", now, now, now + 60), past, AuditLine(now, "turn", "ada", turn=turn))


@pytest.mark.parametrize("durability", ["process", "power"])
async def test_a_full_disk_refuses_writes_and_keeps_what_was_acknowledged(small_disk: Path, durability: str) -> None:
    store = SQLiteStore(small_disk / "sabir.db", durability=durability)
    await store.open()
    kept = [f"early {n}" for n in range(20)]
    assert await asyncio.gather(*(store.record(entry(turn)) for turn in kept)) == [True] * 20
    ballast = fill(small_disk)
    refused = []
    for n in range(200):  # what SQLite had room for already may still go in
        turn = f"late {n}"
        try:
            await store.record(entry(turn))
            kept.append(turn)
        except StoreUnavailable as full:
            refused.append(turn)
            assert str(full) == "the store cannot write now (database or disk is full)"
    assert refused
    assert [turn.id for turn in await store.turns("c", 999)] == kept  # reading goes on
    ballast.unlink()
    assert await store.record(entry("again")) is True
    assert [turn.id for turn in await store.turns("c", 999)] == [*kept, "again"]
    assert len(await store.audit_lines()) == len(kept) + 1
    await store.close()
    again = SQLiteStore(small_disk / "sabir.db")
    await again.open()
    assert [turn.id for turn in await again.turns("c", 999)] == [*kept, "again"]
    await again.close()


@agent(name="echo")
async def echo(turn: Turn) -> str:
    return f"You said: {turn.text}"


async def test_a_gateway_on_a_full_disk_says_503_and_answers_again_when_there_is_room(
    small_disk: Path, serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "sabir.store")
    served = serve(Gateway(echo, home=small_disk))

    async def ask(http: httpx2.AsyncClient, text: str) -> httpx2.Response:
        return await http.post(f"{served.url}/nlip", json={"format": "text", "subformat": "english", "content": text})

    async with httpx2.AsyncClient(verify=False) as http:
        assert (await ask(http, "hello")).status_code == 200
        ballast = fill(small_disk)
        for _ in range(500):
            reply = await ask(http, uuid4().hex * 100)
            if reply.status_code != 200:
                break
        assert reply.status_code == 503
        assert "retry-after" in reply.headers
        assert reply.json()["messagetype"] == "error"
        assert "the store cannot write now" in reply.json()["content"]
        assert (await http.get(f"{served.url}/health/live")).status_code == 200
        ready = await http.get(f"{served.url}/health/ready")
        assert (ready.status_code, ready.json()["status"]) == (503, "store unavailable")
        assert "The store cannot write: database or disk is full" in caplog.messages
        ballast.unlink()
        assert (await http.get(f"{served.url}/health/ready")).status_code == 200  # by itself
        assert "The store can write again" in caplog.messages
        assert (await ask(http, "hello again")).status_code == 200

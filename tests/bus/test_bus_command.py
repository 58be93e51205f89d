"""``sabir bus``: an operator lists waiting and dead letters, and replays them."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from deadline import DEADLINE
from sabir.bus import Bus, Letter, open_bus
from sabir.bus.store import StoreBus
from sabir.cli.main import main
from sabir.errors import TurnFailed
from sabir.stores import open_store

from .conftest import QUICK
from .on_nats import NATS, need_nats, remove_streams

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
async def address() -> AsyncIterator[str]:
    need_nats()
    prefix = f"test{uuid4().hex[:12]}"
    yield f"{NATS}?prefix={prefix}"
    await remove_streams(NATS, prefix)


class Command:
    """``sabir bus …``, in a thread of its own: it runs its own event loop."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    async def __call__(self, *arguments: str) -> tuple[int, str]:
        code = await asyncio.to_thread(main, ["bus", *arguments])
        said = self._capsys.readouterr()
        return code, said.out + said.err


@pytest.fixture
def sabir(capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(capsys)


async def book(letter: Letter) -> None:
    if letter.body == b"now":
        raise ValueError("s3cret words of a caller")
    raise TurnFailed("the room is taken")


async def dead_letters(address: str, *letters: Letter) -> Bus:
    """A bus on which these letters have died, in this order."""
    bus = open_bus(address, limits=QUICK)
    await bus.open()
    receiver = await bus.receive(letters[0].to, book)
    for number, letter in enumerate(letters, 1):
        await bus.send(letter)
        async with asyncio.timeout(DEADLINE):
            while len(await bus.dead(letter.to)) < number:
                await asyncio.sleep(0.01)
    await receiver.stop()
    return bus


def masked(said: str) -> str:
    """Without what is another each time: when it was, the id, the place in this file, how often QUICK tries."""
    said = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ  [0-9a-f]+", "TIME  ID", said)
    return re.sub(r"in book, \w+\.py:\d+", "in book, FILE", re.sub(r"\d+ attempts", "N attempts", said))


async def test_what_the_docs_show_of_dead_letters_is_what_is_printed(address: str, sabir: Command) -> None:
    bus = await dead_letters(
        address, Letter("hotel", b"a room for two", sender="guide"), Letter("hotel", b"now", sender="guide")
    )
    page = (ROOT / "docs" / "many-nodes.md").read_text(encoding="utf-8")
    shown = page.partition("```console\n$ sabir bus dead\n")[2].partition("```")[0]
    steps = re.findall(r"^\$ sabir bus (.+)\n((?:(?!\$ ).*\n)*)", "$ sabir bus dead\n" + shown, re.MULTILINE)
    assert [words for words, _ in steps] == ["dead", "dead hotel", "replay hotel 1 99", "discard hotel --all"]
    for words, output in steps:
        code, said = await sabir(*words.split(), "--bus", address)
        assert masked(said) == masked(output)
        assert code == (1 if "99" in words else 0)
        assert "s3cret" not in said
    await bus.close()


async def test_dead_letters_are_listed_as_json_and_replayed(address: str, sabir: Command) -> None:
    bus = await dead_letters(address, Letter("hotel", b"a s3cret", id="0a1b", sender="guide", order="c1"))
    code, said = await sabir("dead", "hotel", "--bus", address, "--json")
    (row,) = json.loads(said)
    assert (row["number"], row["id"], row["sender"], row["order"], row["reason"]) == (
        1, "0a1b", "guide", "c1", "the room is taken",
    )  # fmt: skip
    assert json.loads((await sabir("dead", "--bus", address, "--json"))[1]) == [{"name": "hotel", "dead": 1}]
    assert await sabir("waiting", "hotel", "--bus", address) == (0, "0 frames\n")
    code, said = await sabir("replay", "hotel", "7", "1", "1", "--bus", address, "--json")
    assert (code, said.splitlines()[0]) == (1, '{"replayed":1,"missing":[7]}')
    assert await sabir("waiting", "hotel", "--bus", address) == (0, "1 frame\n")
    assert await sabir("dead", "hotel", "--bus", address) == (0, "No dead letters to hotel.\n")
    assert await sabir("dead", "--bus", address) == (0, "No dead letters.\n")
    await bus.close()


async def test_discarding_wants_numbers_or_all(address: str, sabir: Command) -> None:
    bus = await dead_letters(address, Letter("inn", b"x"), Letter("inn", b"x"))
    for raised in (["inn"], ["inn", "1", "--all"]):
        answer = "sabir: discard: name the dead letters by number, or use --all\n"
        assert await sabir("discard", *raised, "--bus", address) == (2, answer)
    assert await sabir("discard", "inn", "1", "--bus", address) == (0, "1 letter discarded\n")
    assert await bus.dead_letter_counts() == {"inn": 1}
    await bus.close()


async def test_without_a_bus_the_inboxes_of_the_store_are_meant(
    sabir: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # ACL-35
    monkeypatch.chdir(tmp_path)
    code, said = await sabir("dead", "hotel")
    assert (code, "there is no store at" in said) == (2, True)
    store = open_store(f"sqlite:///{tmp_path}/.sabir/sabir.db")
    (tmp_path / ".sabir").mkdir()
    await store.open()
    bus = StoreBus(store, QUICK)
    await bus.open()
    receiver = await bus.receive("hotel", book)
    await bus.send(Letter("hotel", b"a room", sender="guide"))
    async with asyncio.timeout(DEADLINE):
        while not await bus.dead("hotel"):
            await asyncio.sleep(0.01)
    await receiver.stop()
    for options in ((), ("--bus", "store:"), ("--store", f"sqlite:///{tmp_path}/.sabir/sabir.db")):
        assert await sabir("dead", *options) == (0, "hotel  1 dead letter\n")
    assert (await sabir("replay", "hotel"))[0] == 0
    assert await sabir("waiting", "hotel") == (0, "1 frame\n")
    await bus.close()
    await store.close()


@pytest.mark.parametrize("kind", ["memory", "nats"])
async def test_the_example_of_the_docs_runs(kind: str, address: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = (ROOT / "examples" / "letters.py").read_text(encoding="utf-8")
    page = (ROOT / "docs" / "many-nodes.md").read_text(encoding="utf-8")
    assert page.partition("```python\n")[2].partition("```")[0] in text
    example: dict[str, Any] = {"__name__": "example"}
    exec(compile(text, "letters.py", "exec"), example)
    await example["main"](address if kind == "nats" else "memory:")
    assert capsys.readouterr().out == "guide wants a room for two\n"

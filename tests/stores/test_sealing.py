"""Contents encrypted at rest: nothing that was said can be found in the database (MW-31)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import asyncpg
import httpx2
import pytest

from conftest import serving
from sabir import Gateway, Message, Turn, agent
from sabir.cli.main import main
from sabir.config.load import settings_of
from sabir.errors import ConfigError
from sabir.stores import Store, open_store
from sabir.stores.base import ConversationRow, Record, TaskEvent, TaskRow, TurnEntry
from sabir.stores.copy import copy
from sabir.stores.letters import DeadRow, DialogueEntry, DialogueRow, LetterRow, UtteranceRow
from sabir.stores.sealing import ContentCipher, EncryptionSettings, cipher_of
from sabir.stores.tables import CONTENTS, TABLES
from sabir.turn import PastTurn
from stores.places import kept

WORD = "xylophone-planted"
OLD, NEW = b"o" * 32, b"n" * 32
FOR_EVER = 4_000_000_000.0


async def fill(store: Store) -> None:
    """The word in every column that can hold contents."""
    said = Message.text(WORD)
    row = ConversationRow("c", "ann", 1.0, 1.0, FOR_EVER, agreed={"note": WORD})
    await store.record(TurnEntry(row, PastTurn("t", 1.0, "a", said, said, "ann", "c")))
    await store.agree(row)
    await store.put_task(TaskRow("k", "ann", "a", "submitted", 1.0, 1.0, FOR_EVER, said, note=WORD, reply=said))
    await store.add_task_event("k", TaskEvent(0, 1.0, "delta", {"text": WORD}))
    await store.put(Record("space", "key", WORD.encode(), "ann"))
    await store.count("counters", "n", 2.0)
    letters: Any = store
    body = WORD.encode()
    letter = LetterRow("box", "l", body, 1.0, FOR_EVER)
    await letters.put_letters((letter, LetterRow("box", "m", body, 1.0, FOR_EVER)))
    [first, _] = await letters.waiting_letters("box")
    await letters.move_to_dead(first.number, DeadRow("box", body, "reason", 1, 1.0, ""))
    dialogue = DialogueRow("d", "ann", "bob", "p", "s", "o", 1.0, 1.0, FOR_EVER, detail=body)
    utterance = UtteranceRow("u", "ann", "bob", "d", "ann", "bob", "INFORM", 1.0, FOR_EVER, body, "")
    put = LetterRow("bob", "u", body, 1.0, FOR_EVER, "ann")
    await letters.converse(DialogueEntry(dialogue, 0, (utterance,), (put,), shared=True))


async def check_filled(store: Store) -> None:
    letters: Any = store
    [turn] = await store.turns("c", 10)
    assert (turn.asked.text, turn.answered.text) == (WORD, WORD)
    assert (await store.turn("t")) == turn
    row = await store.conversation("c")
    assert row is not None
    assert row.agreed == {"note": WORD}
    task = await store.task("k")
    assert task is not None
    assert (task.message.text, task.note, task.unreadable) == (WORD, WORD, "")
    assert (await store.task_events("k"))[0].body == {"text": WORD}
    record = await store.get("space", "key")
    assert record is not None
    assert record.value == WORD.encode()
    assert [item.value for item in await store.list("space")] == [WORD.encode()]
    assert await store.count("counters", "n", 1.0) == 3.0
    assert [waiting_letter.body for waiting_letter in await letters.waiting_letters("box")] == [WORD.encode()]
    assert [waiting_letter.body for waiting_letter in await letters.waiting_letters("bob")] == [2 * WORD.encode()]
    assert [dead_letter.body for dead_letter in await letters.dead_letters("box")] == [WORD.encode()]
    found = await letters.dialogue("d", "ann", "bob")
    assert found.detail == WORD.encode()
    assert [utterance.body for utterance in await letters.utterances("d")] == [WORD.encode()]
    assert (await letters.utterance("u", "ann", "bob")).body == WORD.encode()


async def opened(address: str, *keys: bytes) -> Store:
    store = open_store(address, cipher=ContentCipher(*keys) if keys else None)
    await store.open()
    return store


async def bytes_of(address: str) -> bytes:
    """Everything that the database keeps, as it lies there."""
    if address.startswith("sqlite:"):
        folder = Path(address.removeprefix("sqlite:///")).parent
        return b"".join(path.read_bytes() for path in folder.iterdir() if path.is_file())
    connection = await asyncpg.connect(address)
    try:
        rows = [row for table in TABLES for row in await connection.fetch(f"SELECT * FROM {table}")]
    finally:
        await connection.close()
    return b"\x00".join(
        value if isinstance(value, bytes) else str(value).encode() for row in rows for value in row.values()
    )


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
async def test_a_planted_word_is_not_found_in_the_database(kind: str, tmp_path: Path) -> None:
    async with kept(kind, tmp_path) as address:
        store = await opened(address, OLD)
        await fill(store)
        await store.close()
        assert WORD.encode() not in await bytes_of(address)
        again = await opened(address, OLD)
        await check_filled(again)
        await again.close()


async def test_without_a_key_the_word_is_there(tmp_path: Path) -> None:
    """So that the test above can fail."""
    async with kept("sqlite", tmp_path) as address:
        store = await opened(address)
        await fill(store)
        await store.close()
        assert WORD.encode() in await bytes_of(address)


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
async def test_keys_rotate(kind: str, tmp_path: Path) -> None:
    async with kept(kind, tmp_path) as address:
        store = await opened(address, OLD)
        await fill(store)
        await store.close()
        with pytest.raises(ConfigError, match="this key does not decrypt the store"):
            await opened(address, NEW)
        rotated = await opened(address, NEW, OLD)
        await check_filled(rotated)
        await rotated.put(Record("space", "later", WORD.encode()))
        await rotated.close()


async def test_rows_from_before_there_was_a_key_are_read(tmp_path: Path) -> None:
    async with kept("sqlite", tmp_path) as address:
        store = await opened(address)
        await fill(store)
        await store.close()
        sealed = await opened(address, OLD)
        await check_filled(sealed)
        await sealed.close()


COPIES = [("sqlite", "postgresql", (OLD,), (NEW,)), ("postgresql", "sqlite", (OLD,), (NEW,)),
          ("sqlite", "sqlite", (), (NEW,)), ("sqlite", "sqlite", (OLD,), ())]  # fmt: skip


@pytest.mark.parametrize(("one", "other", "old", "new"), COPIES)
async def test_a_copy_is_sealed_again(
    one: str, other: str, old: tuple[bytes, ...], new: tuple[bytes, ...], tmp_path: Path
) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    async with kept(one, tmp_path / "a") as source, kept(other, tmp_path / "b") as target:
        store = await opened(source, *old)
        await fill(store)
        await store.close()
        ciphers = [ContentCipher(*keys) if keys else None for keys in (old, new)]
        if old:
            with pytest.raises(ConfigError, match="the source is encrypted; give its key with --from-key"):
                await copy(source, target, seals=ciphers[1])
            with pytest.raises(ConfigError, match="does not open with this key"):
                await copy(source, target, opens=ContentCipher(b"x" * 32))
        await copy(source, target, opens=ciphers[0], seals=ciphers[1])
        assert (WORD.encode() in await bytes_of(target)) == (not new)
        copied = await opened(target, *new)
        await check_filled(copied)
        await copied.close()


def test_every_column_of_bytes_is_sealed_or_known_to_be_plain() -> None:
    plain = {"audit": {"line"}}  # names and numbers, chained by hash
    found = {(table, column) for table, columns in CONTENTS.items() for column in columns}
    named = {"agreed", "asked", "answered", "body", "value", "detail", "line"}
    for table, (columns, _) in TABLES.items():
        for column in set(columns) & named:
            assert (table, column) in found or column in plain[table]


def test_a_value_that_was_changed_does_not_open() -> None:
    cipher = ContentCipher(OLD)
    stored = cipher.seal(b"words")
    with pytest.raises(ValueError, match="changed since"):
        cipher.open(stored[:-1] + bytes([stored[-1] ^ 1]))
    with pytest.raises(ValueError, match="another key"):
        ContentCipher(NEW).open(stored)
    assert cipher.open(b"plain") == b"plain"


def test_keys_are_read_from_the_environment() -> None:
    settings = settings_of({"encryption": {"key": "env:K", "previous": ["env:P"]}}).encryption
    assert settings is not None
    assert "env" not in repr(settings)
    assert cipher_of(settings, {"K": "k" * 32, "P": "p" * 32}) is not None
    assert cipher_of(None) is None
    with pytest.raises(ConfigError, match=r"encryption\.key: the environment variable K is not set"):
        cipher_of(settings, {})
    with pytest.raises(ConfigError, match=r"encryption\.previous\[0\].*expected 32 characters or more"):
        cipher_of(settings, {"K": "k" * 32, "P": "short"})


@agent(name="counting")
async def counting(turn: Turn) -> str:
    return f"{WORD}, after {len(turn.conversation.turns)}"


def asked(url: str, **more: Any) -> dict[str, Any]:
    message = {"format": "text", "subformat": "english", "content": f"say {WORD}", **more}
    return dict(httpx2.post(f"{url}/nlip", json=message).json())


def test_a_gateway_with_a_key_leaves_nothing_readable(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SABIR_TEST_KEY", "k" * 32)
    encryption = EncryptionSettings("env:SABIR_TEST_KEY")
    with serving(Gateway(counting, home=home, encryption=encryption)) as served:
        tokens = asked(served.url)["submessages"]
    assert WORD.encode() not in b"".join(path.read_bytes() for path in home.rglob("*") if path.is_file())
    with serving(Gateway(counting, home=home, encryption=encryption)) as served:
        assert asked(served.url, submessages=tokens)["content"] == f"{WORD}, after 1"

    async def start_without() -> None:
        unkeyed = Gateway(counting, home=home)
        with pytest.raises(ConfigError, match="its contents are encrypted; expected the key encryption"):
            await unkeyed._start()
        await unkeyed.store.close()

    asyncio.run(start_without())
    with pytest.raises(ConfigError, match="requires the address of a store"):
        Gateway(counting, home=home, store=open_store("memory:"), encryption=encryption)


def test_the_command_copies_with_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OLD_KEY", "o" * 32)
    monkeypatch.setenv("NEW_KEY", "n" * 32)

    async def make() -> None:
        store = await opened(f"sqlite:///{tmp_path}/a.db", OLD)
        await fill(store)
        await store.close()

    asyncio.run(make())
    source, target = f"sqlite:///{tmp_path}/a.db", f"sqlite:///{tmp_path}/b.db"
    assert main(["store", "copy", source, target]) != 0
    assert "--from-key" in capsys.readouterr().err
    assert main(["store", "copy", source, target, "--from-key", "env:OLD_KEY", "--to-key", "env:NEW_KEY"]) == 0

    async def look() -> None:
        store = await opened(target, NEW)
        await check_filled(store)
        await store.close()

    asyncio.run(look())

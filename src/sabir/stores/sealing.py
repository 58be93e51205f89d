"""Encryption at rest: messages, results, letters and records are sealed before they reach a table (MW-31).

Ids, owners, times and states stay readable, because queries use them. Values are sealed with AES-256-GCM by the first
key and opened by any, so that keys can be rotated. Rows written before there was a key are read as they are; ``sabir
store copy`` seals them, too.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from sabir.errors import ConfigError
from sabir.packing import pack

from .base import Record, Store
from .letters import DeadRow, DialogueRow, Entry, LetterRow, MessageEntry, Outcome, UtteranceRow

if TYPE_CHECKING:
    from .sqlite.store import SQLiteStore as _Store
else:
    _Store = object

T = TypeVar("T", bound=msgspec.Struct)

MAGIC: Final = b"\xc1sb1"  # no MessagePack value starts with this
LEAST_KEY: Final = 32  # characters; fewer could be guessed
CHECK: Final = ("encryption", "check")  # a record that shows whether a key is the right one
_KNOWN: Final = b"sabir"
_NONCE: Final = 12
_KEY_ID: Final = 4
_BOUND: Final = b"sabir store"


class EncryptionSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``encryption``: the key that seals contents in the store, and earlier keys."""

    key: str  # may be env:NAME
    previous: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return "EncryptionSettings()"  # never the keys


class ContentCipher:
    """Seals bytes with the first key, opens them with any."""

    def __init__(self, *keys: bytes) -> None:
        made = [(hashlib.sha256(b"sabir store key" + key).digest(), key) for key in keys]
        self._ciphers = {
            digest[:_KEY_ID]: AESGCM(hashlib.sha256(b"sabir store" + key).digest()) for digest, key in made
        }
        self._first = next(iter(self._ciphers))

    def seal(self, plain: bytes) -> bytes:
        nonce = os.urandom(_NONCE)
        return MAGIC + self._first + nonce + self._ciphers[self._first].encrypt(nonce, plain, _BOUND)

    def open(self, stored: bytes) -> bytes:
        """The original bytes; bytes that were never sealed are returned as they are.

        Raises:
            ValueError: none of our keys opens them.
        """
        if not is_sealed(stored):
            return stored
        rest = bytes(stored)[len(MAGIC) :]
        cipher = self._ciphers.get(rest[:_KEY_ID])
        if cipher is None:
            raise ValueError("sealed with another key")
        try:
            return cipher.decrypt(rest[_KEY_ID : _KEY_ID + _NONCE], rest[_KEY_ID + _NONCE :], _BOUND)
        except InvalidTag:
            raise ValueError("sealed, and changed since") from None


def is_sealed(stored: bytes | None) -> bool:
    return stored is not None and bytes(stored[: len(MAGIC)]) == MAGIC


def cipher_of(settings: EncryptionSettings | None, environment: Mapping[str, str] = os.environ) -> ContentCipher | None:
    """The cipher that the configuration describes, or None.

    Raises:
        ConfigError: a key is not set, or too short.
    """
    if settings is None:
        return None
    places = ["encryption.key", *(f"encryption.previous[{n}]" for n in range(len(settings.previous)))]
    written = [settings.key, *settings.previous]
    return ContentCipher(*(_key(place, item, environment) for place, item in zip(places, written, strict=True)))


def _key(place: str, written: str, environment: Mapping[str, str]) -> bytes:
    found: str | None = written
    if written.startswith("env:"):
        place = f"{place}: the environment variable {written[4:]}"
        found = environment.get(written[4:])
    if found is None:
        raise ConfigError(f"{place} is not set; `openssl rand -hex 32` makes a key")
    if len(found) < LEAST_KEY:
        raise ConfigError(f"{place}: expected {LEAST_KEY} characters or more; `openssl rand -hex 32` makes a key")
    return found.encode()


class SealedContents(_Store):
    """Adds encryption to a store. Mixed in before the store's own class."""

    cipher: ContentCipher

    def _pack(self, value: object) -> bytes:
        return self.cipher.seal(pack(value))

    def _open(self, stored: bytes) -> bytes:
        return self.cipher.open(stored)

    async def open(self) -> None:
        await super().open()
        known = await super().get(*CHECK)
        if known is None:
            await self.put(Record(*CHECK, _KNOWN))
            return
        try:
            self.cipher.open(known.value)
        except ValueError:
            await self.close()
            raise ConfigError(
                "encryption: this key does not decrypt the store; name the key that encrypted it in encryption.previous"
            ) from None

    # -- records ---------------------------------------------------------------------------------

    async def put(self, record: Record, *, expect: int | None = None) -> bool:
        return await super().put(self._sealed(record, "value"), expect=expect)

    async def get(self, space: str, key: str) -> Record | None:
        found = await super().get(space, key)
        return self._opened(found, "value") if found is not None else None

    # -- letters and dialogues -------------------------------------------------------------------

    async def put_letters(self, rows: tuple[LetterRow, ...]) -> None:
        await super().put_letters(self._all_sealed(rows))

    async def take_letters(self, box: str, member: str, holder: str, lease: float, limit: int) -> list[LetterRow]:
        return self._all_opened(await super().take_letters(box, member, holder, lease, limit))

    async def waiting_letters(self, box: str, member: str = "", after: int = 0, limit: int = 100) -> list[LetterRow]:
        return self._all_opened(await super().waiting_letters(box, member, after, limit))

    async def move_to_dead(self, number: int, dead: DeadRow) -> None:
        await super().move_to_dead(number, self._sealed(dead, "body"))

    async def dead_letters(self, box: str, limit: int = 100) -> list[DeadRow]:
        return self._all_opened(await super().dead_letters(box, limit))

    async def take_dead(self, box: str, numbers: tuple[int, ...] = ()) -> list[DeadRow]:
        return self._all_opened(await super().take_dead(box, numbers))

    async def converse(self, entry: Entry) -> Outcome:
        return await super().converse(self._entry_sealed(entry))

    async def converse_and_hand(self, entry: Entry, holder: str, lease: float) -> tuple[Outcome, int]:
        return await super().converse_and_hand(self._entry_sealed(entry), holder, lease)

    def _entry_sealed(self, entry: Entry) -> Entry:
        if isinstance(entry, MessageEntry):
            seal = self.cipher.seal
            head = entry.head + entry.body if entry.shared else entry.head
            return msgspec.structs.replace(
                entry, body=seal(entry.body), head=seal(head), shared=False, detail=seal(entry.detail)
            )
        letters = self._all_sealed(entry.whole_letters)  # each content is sealed separately
        changed: dict[str, Any] = {"said": self._all_sealed(entry.said), "letters": letters, "shared": False}
        if entry.dialogue is not None:
            changed["dialogue"] = self._sealed(entry.dialogue, "detail")
        return msgspec.structs.replace(entry, **changed)

    async def dialogue(self, conversation: str, initiator: str, participant: str) -> DialogueRow | None:
        found = await super().dialogue(conversation, initiator, participant)
        return self._opened(found, "detail") if found is not None else None

    async def dialogues(
        self, *, conversation: str | None = None, agent: str | None = None, limit: int = 100
    ) -> list[DialogueRow]:
        found = await super().dialogues(conversation=conversation, agent=agent, limit=limit)
        return [self._opened(item, "detail") for item in found]

    async def due_dialogues(self, now: float, limit: int = 100) -> list[DialogueRow]:
        return [self._opened(row, "detail") for row in await super().due_dialogues(now, limit)]

    async def utterance(self, reference: str, sender: str, receiver: str) -> UtteranceRow | None:
        found = await super().utterance(reference, sender, receiver)
        return self._opened(found, "body") if found is not None else None

    async def utterances(self, conversation: str, limit: int = 1000) -> list[UtteranceRow]:
        return self._all_opened(await super().utterances(conversation, limit))

    # -- values ----------------------------------------------------------------------------------

    def _sealed(self, row: T, name: str) -> T:
        return msgspec.structs.replace(row, **{name: self.cipher.seal(getattr(row, name))})

    def _opened(self, row: T, name: str) -> T:
        """The row with its content; one that no key opens stays sealed, and decoding reports it."""
        stored = getattr(row, name)
        try:
            return msgspec.structs.replace(row, **{name: self.cipher.open(stored)})
        except ValueError:
            return row

    def _all_sealed(self, rows: tuple[T, ...]) -> tuple[T, ...]:
        return tuple(self._sealed(row, "body") for row in rows)

    def _all_opened(self, rows: Iterable[T]) -> list[T]:
        return [self._opened(row, "body") for row in rows]

    async def list(self, space: str, *, prefix: str = "", owner: str | None = None, limit: int = 1000) -> list[Record]:
        found = await super().list(space, prefix=prefix, owner=owner, limit=limit)
        return [self._opened(item, "value") for item in found]


async def check_key(store: Store) -> None:
    """Raises:
    ConfigError: the store is encrypted, and there is no key.
    """
    known = await store.get(*CHECK)
    if known is not None and is_sealed(known.value):
        raise ConfigError("store: its contents are encrypted; expected the key encryption in the configuration")


@lru_cache(maxsize=8)
def sealed(kind: type[Any]) -> type[Any]:
    """The same kind of store, with encrypted contents."""
    return type(f"Sealed{kind.__name__}", (SealedContents, kind), {})

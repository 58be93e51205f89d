"""Tokens from remote agents, kept in the store, so that their conversations outlive this process.

They are sealed for their peer and conversation: the store reveals no token, and a row moved to another conversation
does not open.
"""

from __future__ import annotations

import time
from typing import Final

import msgspec

from sabir.guard.seal import Seal
from sabir.stores.base import Record, Store

from .tokens import PeerTokens

SPACE: Final = "peer-tokens"
_KIND: Final = "peer-tokens"


class StoredTokens(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is known of one of our conversations at a remote agent."""

    tokens: PeerTokens
    anonymous: bool = False


class KeptTokens:
    """Maps our conversations to the tokens of the next hop."""

    def __init__(self, store: Store, seal: Seal, *, seconds: float = 30 * 86400.0) -> None:
        self._store = store
        self._seal = seal
        self._seconds = seconds

    async def get(self, peer: str, conversation: str) -> StoredTokens | None:
        record = await self._store.get(SPACE, _key(peer, conversation))
        if record is None:
            return None
        payload = self._seal.open(_KIND, record.value.decode(errors="replace"), _key(peer, conversation))
        return msgspec.json.decode(payload, type=StoredTokens) if payload is not None else None

    async def put(self, peer: str, conversation: str, kept: StoredTokens) -> None:
        key = _key(peer, conversation)
        sealed = self._seal.seal(_KIND, msgspec.json.encode(kept), key).encode()
        await self._store.put(Record(SPACE, key, sealed, expires=time.time() + self._seconds))


def _key(peer: str, conversation: str) -> str:
    return f"{peer}/{conversation}"

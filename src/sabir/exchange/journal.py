"""Journals of turns, in the store: what agents recorded in order to resume after a crash."""

from __future__ import annotations

import time
from typing import Final

from sabir.stores.base import Record, Store

SPACE: Final = "journal"
KEPT_SECONDS: Final = 7 * 86_400.0
MAX_ENTRIES: Final = 100_000


class StoreJournal:
    """One record per entry, below the id of its turn."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._next: dict[str, int] = {}  # by turn, while it runs

    async def append(self, turn: str, entry: bytes) -> None:
        """Raises:
        StoreUnavailable: the entry was not written.
        """
        number = self._next.get(turn)
        if number is None:
            number = len(await self.entries(turn))
        self._next[turn] = number + 1
        if len(self._next) > 10_000:
            self._next = {turn: number + 1}
        record = Record(SPACE, f"{turn}/{number:08}", entry, expires=time.time() + KEPT_SECONDS)
        await self._store.put(record)

    async def entries(self, turn: str) -> list[bytes]:
        records = await self._store.list(SPACE, prefix=f"{turn}/", limit=MAX_ENTRIES)
        return [record.value for record in sorted(records, key=lambda record: record.key)]

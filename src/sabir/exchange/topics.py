"""``Topics``: events that agents publish, numbered and kept for a while for NLIP subscribers (MW-70)."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from typing import Final

import msgspec

from sabir.aio import Changes, until
from sabir.message import JSON
from sabir.stores.base import Record, Store

SPACE: Final = "topics"
SEEN: Final = "topics-seen"  # events that several nodes may report
KEEP_SECONDS: Final = 3600.0
KEPT: Final = 1000  # most events that a returning subscriber gets


class Topics:
    """The events of this gateway's topics, from any node."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.changes = Changes()

    async def add(self, agent: str, topic: str, event: JSON, key: str) -> int:
        """Store an event; returns how many follow the topic on this node. A repeated ``key`` is the same event."""
        name, expires = f"{agent}/{topic}", time.time() + KEEP_SECONDS
        if not await self._store.put(Record(SEEN, f"{name}/{key}", b"", expires=expires), expect=0):
            return 0
        number = int(await self._store.count(SPACE, name, 1.0))
        await self._store.put(Record(SPACE, f"{name}/{number}", msgspec.json.encode(event), expires=expires))
        return self.changes.notify(name)

    async def follow(self, agent: str, topic: str, since: int, look: float) -> AsyncIterator[tuple[int, JSON]]:
        """Events above ``since`` with their numbers, as they arrive. Other nodes are polled for theirs."""
        name, missing = f"{agent}/{topic}", 0
        with self.changes.watch(name) as changed:
            while True:
                changed.clear()
                last = int(await self._store.count(SPACE, name, 0.0))
                since = max(since, last - KEPT)
                while since < last:
                    record = await self._store.get(SPACE, f"{name}/{since + 1}")
                    if record is None and missing != since + 1 and since + 1 > last - 2:
                        missing = since + 1  # it has a number but may not be written yet
                        break
                    since += 1
                    if record is not None:
                        yield since, msgspec.json.decode(record.value)
                await until(changed, look)

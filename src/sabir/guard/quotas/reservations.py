"""Reservations: what each caller currently holds, counted in the store, so that limits are exact across nodes.

One record per holder lists what it holds: how much of each, and until when. The list is updated by compare-and-swap, so
if two nodes hand out the last of a limit at the same moment, one of them reads again and rejects. Expired entries do
not count, so a node that dies leaves nothing behind forever.

Changes that arrive at this node while one is being written are batched into the next write.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import msgspec

from sabir.errors import RateLimited
from sabir.stores.base import Record, Store
from sabir.stores.rows import value_of

SPACE: Final = "holdings"
NOTHING_SECONDS: Final = 60.0  # how long the empty list of a holder is kept

Held = dict[str, tuple[int, float]]  # by id: how much, and until when


class Cap(NamedTuple):
    """What one holder may hold."""

    amount: int
    number: int


class Reservations:
    """Reserves amounts against a cap, and commits what was really used."""

    def __init__(self, store: Store, kind: str, used_up: str) -> None:
        self._store = store
        self._kind = kind
        self._used_up = used_up
        self._waiting: dict[str, list[_Change]] = {}  # by holder, while one of its changes is being written
        self._writing: set[asyncio.Task[None]] = set()

    async def begin(self, holder: str, reservation: str, until: float, cap: Cap, record: Record) -> int:
        """Reserve one more, still empty; ``record`` is stored along with it. Returns how much is left.

        Raises:
            RateLimited: it would be one too many, or nothing is left.
        """

        def begun(held: Held) -> int:
            left = cap.amount - _sum(held)
            if len(held) >= cap.number or left <= 0:
                raise self._refusal()
            held[reservation] = 0, until
            return left

        return await self._change(holder, begun, record, new=True)

    async def reserve(
        self,
        holder: str,
        reservation: str,
        until: float,
        cap: Cap,
        wanted: int,
        *,
        least: int,
        refuse: bool = True,
        record: Record | None = None,
    ) -> int:
        """Reserve this much, or as much as is left; ``record`` is stored along with it. Returns how much.

        Raises:
            RateLimited: less than ``least`` is left, and it may be rejected.
        """

        def grown(held: Held) -> int:
            before = held.get(reservation, (0, until))[0]
            amount = min(wanted, max(before, cap.amount - _sum(held) + before)) if refuse else wanted
            if amount < least:
                raise self._refusal()
            if reservation in held or len(held) < cap.number:  # a holder at the limit is rejected in any case
                held[reservation] = amount, until
            return amount

        return await self._change(holder, grown, record)

    async def commit(self, holder: str, reservation: str, amount: int, record: Record | None = None) -> None:
        """Commit this much, at most what was reserved; ``record`` is stored along with it."""

        def settled(held: Held) -> int:
            if reservation in held:
                held[reservation] = amount, held[reservation][1]
            return amount

        await self._change(holder, settled, record)

    async def end(self, holder: str, reservation: str) -> None:
        """Release the reservation."""
        await self._change(holder, lambda held: held.pop(reservation, (0, 0.0))[0])

    def _refusal(self) -> RateLimited:
        return RateLimited(self._used_up, retry_after=60.0)

    # -- how it is written ------------------------------------------------------------------------

    def _change(
        self, holder: str, make: Callable[[Held], int], record: Record | None = None, *, new: bool = False
    ) -> asyncio.Future[int]:
        change = _Change(make, record, new)
        waiting = self._waiting.get(holder)
        if waiting is None:
            self._waiting[holder] = [change]
            writing = asyncio.create_task(self._write(holder), name="holdings")
            self._writing.add(writing)
            writing.add_done_callback(self._writing.discard)
        else:
            waiting.append(change)
        return change.done

    async def _write(self, holder: str) -> None:
        while changes := self._waiting[holder]:
            self._waiting[holder] = []
            try:
                await self._together(holder, changes)
            except BaseException as exc:
                for change in changes:
                    change.resolve(exc)
                if not isinstance(exc, Exception):
                    raise
        del self._waiting[holder]

    async def _together(self, holder: str, changes: list[_Change]) -> None:
        key, written = f"{self._kind}:{holder}", False
        stored: list[_Change] = []
        while not written:
            known = await self._store.get(SPACE, key)
            now = time.time()
            before = (value_of(known, _read) if known is not None else None) or {}
            held = {reservation: item for reservation, item in before.items() if item[1] > now}
            results = [change.made(held) for change in changes]
            made = [change for change, result in zip(changes, results, strict=True) if isinstance(result, int)]
            # Written at the same time, not afterwards: in one commit, if the store groups them.
            along = [change for change in made if change.record is not None and change not in stored]
            writes = [self._store.put(change.record) for change in along if change.record is not None]
            if held != before:
                until = max((item[1] for item in held.values()), default=now + NOTHING_SECONDS)
                version = known.version if known is not None else 0
                writes.append(self._store.put(Record(SPACE, key, _written(held), expires=until), expect=version))
            done = await asyncio.gather(*writes)
            written = held == before or done[-1]
            stored += along
        for change in stored:
            if change.new and change not in made and change.record is not None:  # another node took the last one
                await self._store.delete(change.record.space, change.record.key)
        for change, result in zip(changes, results, strict=True):
            change.resolve(result)


@dataclass(slots=True, eq=False)
class _Change:
    """One change to a list, and the future of its caller."""

    make: Callable[[Held], int]
    record: Record | None
    new: bool  # whether there was no such record before
    done: asyncio.Future[int] = field(default_factory=lambda: asyncio.get_running_loop().create_future())

    def made(self, held: Held) -> int | RateLimited:
        try:
            return self.make(held)
        except RateLimited as refused:
            return refused

    def resolve(self, result: int | BaseException) -> None:
        if self.done.done():  # its caller has gone
            return
        if isinstance(result, int):
            self.done.set_result(result)
        elif isinstance(result, Exception):
            self.done.set_exception(result)
        else:
            self.done.cancel()


def _sum(held: Held) -> int:
    return sum(amount for amount, _ in held.values())


_decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(Held)
_read: Callable[[bytes], Held] = _decoder.decode
_written = msgspec.json.Encoder().encode

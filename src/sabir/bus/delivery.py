"""Delivery: what every receiver does with its frames, whichever bus they came from.

Up to ``width`` letters are handled at once; letters of the same lane are handled one after the other. A letter that
fails is retried here after a while, and is dead after ``Limits.attempts``; ``Unavailable`` is not its fault and does
not count. A frame is acknowledged when each of its letters was handled, was a duplicate, or is stored among the dead
letters.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from itertools import count
from typing import Final, Protocol

from sabir.aio import cancel_and_wait
from sabir.errors import BusUnavailable, SabirError, Unavailable
from sabir.observe.logs import in_a_line

from .base import DeadLetter, Handler, Letter, Receiving
from .framing import BusLimits

logger = logging.getLogger("sabir.bus")

_TURNS: Final = 64  # letters that a worker handles before it yields


class Parcel(Protocol):
    """A received frame."""

    key: int  # the same if the same frame is delivered again
    letters: tuple[Letter, ...]
    deliveries: int

    def ack(self) -> Awaitable[None] | None:
        """Acknowledge it for good; await what is returned, if anything."""

    async def hold(self) -> None:
        """Report that it is still being handled."""

    async def release(self) -> None:
        """Release it for another receiver."""


class Seen:
    """The ids of recently handled letters."""

    __slots__ = ("_half", "_new", "_old")

    def __init__(self, limit: int) -> None:
        self._half = max(1, limit // 2)
        self._new: set[str] = set()
        self._old: set[str] = set()

    def add(self, letter_id: str) -> None:
        self._new.add(letter_id)
        if len(self._new) >= self._half:
            self._old, self._new = self._new, set()

    def __contains__(self, letter_id: str) -> bool:
        return letter_id in self._new or letter_id in self._old


class _Item:
    """A letter being handled, and the keys of the parcels that brought it."""

    __slots__ = ("attempts", "doom", "keys", "lane", "letter")

    def __init__(self, letter: Letter, key: int, doom: str) -> None:
        self.letter = letter
        self.lane = (letter.sender, letter.order) if letter.order else None
        self.keys: tuple[int, ...] = (key,)
        self.attempts = 0
        self.doom = doom  # why it becomes a dead letter


StoreDead = Callable[[DeadLetter, int], Awaitable[None]]


class Delivery:
    """Takes parcels, handles their letters, and acknowledges them."""

    def __init__(
        self,
        name: str,
        handler: Handler,
        receiving: Receiving,
        limits: BusLimits,
        *,
        seen: Seen,
        store_dead: StoreDead,
        member: str = "",
    ) -> None:
        self.name = name
        self._handler = handler
        self._width = receiving.width
        self._limits = limits
        self._seen = seen
        self._store_dead = store_dead
        self._member = member
        self._ready: deque[_Item] = deque()
        # Per lane that is being handled: the letters behind its first, if there are any.
        self._lanes: dict[tuple[str, str], deque[_Item] | None] = {}
        self._hand: dict[str, _Item] = {}
        self._parcels: dict[int, Parcel] = {}  # the latest delivery of each
        self._left: dict[int, int] = {}  # how many letters are not handled yet, of parcels with several
        self._workers: dict[asyncio.Task[None], list[_Item]] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._space = asyncio.Event()
        self._full = False  # somebody waits for space
        self._starting = False  # a worker that has not started yet
        self._stopped = False

    # -- for the bus ------------------------------------------------------------------------------

    async def room(self) -> None:
        """Wait until there is room for another parcel."""
        while not self.has_room:
            self._space.clear()
            self._full = True
            await self._space.wait()

    @property
    def has_room(self) -> bool:
        return len(self._hand) < self._limits.in_hand and not self._stopped

    @property
    def in_hand(self) -> int:
        """How many letters were received but not handled."""
        return len(self._hand)

    async def take(self, parcel: Parcel) -> None:
        """Queue the letters of a parcel."""
        if (acknowledging := self.begin(parcel)) is not None:
            await _all([acknowledging])

    def begin(self, parcel: Parcel) -> Awaitable[None] | None:
        """The same, without waiting; returns an acknowledgement that has to be awaited, if there is one."""
        key = parcel.key
        if key in self._parcels:
            self._parcels[key] = parcel  # redelivered while being handled: acknowledge the latest delivery
            return None
        self._parcels[key] = parcel
        doom = ""
        if parcel.deliveries > self._limits.deliveries:
            doom = f"was delivered {parcel.deliveries} times and never acknowledged"
        left = 0
        for letter in parcel.letters:
            if letter.id not in self._seen and letter.only in ("", self._member):
                left += self._add(letter, key, doom)
        if left > 1:
            self._left[key] = left
        if not self._starting:
            self._spawn()
        return None if left else self._acknowledge(key)

    def parcels(self) -> list[Parcel]:
        """The parcels being handled."""
        return list(self._parcels.values())

    async def stop(self) -> None:
        """Finish what was started, within a few seconds, and release the rest."""
        self._stopped = True
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        if self._workers:
            await asyncio.wait(tuple(self._workers), timeout=self._limits.stop_seconds)
        await cancel_and_wait(tuple(self._workers))
        for parcel in self.parcels():
            with suppress(BusUnavailable):
                await parcel.release()
        self._parcels.clear()
        self._left.clear()
        self._hand.clear()

    # -- letters ----------------------------------------------------------------------------------

    def _add(self, letter: Letter, key: int, doom: str) -> bool:
        """Queue a letter; False if this parcel has brought it before."""
        known = self._hand.get(letter.id)
        if known is not None:
            again = key in known.keys
            if not again:
                known.keys += (key,)
            return not again
        item = self._hand[letter.id] = _Item(letter, key, doom)
        lane = item.lane
        if lane is None:
            self._ready.append(item)
            return True
        if lane not in self._lanes:
            self._lanes[lane] = None
            self._ready.append(item)
        elif (behind := self._lanes[lane]) is not None:
            behind.append(item)
        else:
            self._lanes[lane] = deque((item,))
        return True

    def _spawn(self) -> None:
        """Start one more worker, if there is work. It starts the next before it begins: one worker serves quick
        handlers, ``width`` slow ones."""
        if self._ready and not self._starting and len(self._workers) < self._width and not self._stopped:
            self._starting = True
            current: list[_Item] = []
            worker = asyncio.create_task(self._work(current), name=f"letters of {self.name}")
            self._workers[worker] = current
            worker.add_done_callback(self._worker_gone)

    async def _work(self, current: list[_Item]) -> None:
        self._starting = False
        for turn in count(1):
            if turn % _TURNS == 0:
                await asyncio.sleep(0)  # yield to others
            if not self._ready:
                return
            item = self._ready.popleft()
            if self._ready:
                self._spawn()
            current[:] = (item,)
            if item.doom:
                await self._dead(item)
                continue
            try:
                await self._handler(item.letter)
            except Unavailable:
                self._later(item)
            except SabirError as exc:
                self._failed(item, str(exc))
            else:
                self._seen.add(item.letter.id)
                if acknowledging := self._done(item):
                    await _all(acknowledging)

    def _worker_gone(self, worker: asyncio.Task[None]) -> None:
        current = self._workers.pop(worker)
        exc = None if worker.cancelled() else worker.exception()
        if exc is not None and current:
            # A handler's error must not end the receiver: the letter failed, and the log says why.
            letter = current[0].letter
            logger.error("The handler of %s failed on letter %s", self.name, letter.id, exc_info=exc)
            self._failed(current[0], in_a_line(exc))
        if not worker.cancelled():
            self._spawn()

    def _done(self, item: _Item) -> list[Awaitable[None]]:
        """Remove a letter; returns acknowledgements that have to be awaited."""
        del self._hand[item.letter.id]
        lane = item.lane
        if lane is not None:
            if behind := self._lanes[lane]:
                self._ready.append(behind.popleft())
            else:
                del self._lanes[lane]
        if self._full:
            self._full = False
            self._space.set()
        waiting: list[Awaitable[None]] = []
        for key in item.keys:
            left = self._left.get(key, 1) - 1
            if left:
                self._left[key] = left
            elif (acknowledging := self._acknowledge(key)) is not None:
                waiting.append(acknowledging)
        return waiting

    def _acknowledge(self, key: int) -> Awaitable[None] | None:
        self._left.pop(key, None)
        return self._parcels.pop(key).ack()

    # -- failures ---------------------------------------------------------------------------------

    def _failed(self, item: _Item, reason: str) -> None:
        item.attempts += 1
        if item.attempts >= self._limits.attempts:
            item.doom = reason
            self._ready.append(item)
            self._spawn()
        else:
            self._later(item)

    def _later(self, item: _Item) -> None:
        if self._stopped:
            return
        backoff = self._limits.backoff
        delay = backoff[min(max(item.attempts, 1), len(backoff)) - 1]
        self._timers[item.letter.id] = asyncio.get_running_loop().call_later(delay, self._again, item)

    def _again(self, item: _Item) -> None:
        del self._timers[item.letter.id]
        self._ready.append(item)
        self._spawn()

    async def _dead(self, item: _Item) -> None:
        dead = DeadLetter(item.letter, item.doom, item.attempts, time.time(), self._member)
        try:
            await self._store_dead(dead, item.keys[0])
        except Unavailable:
            self._later(item)
            return
        logger.warning("Letter %s to %s is dead: %s", item.letter.id, self.name, item.doom)
        await _all(self._done(item))


async def _all(acknowledging: list[Awaitable[None]]) -> None:
    for one in acknowledging:
        with suppress(BusUnavailable):  # then it is delivered again, and its letters are known
            await one

"""Costly messages, one at a time: what a message costs to check grows with its values, and there is one event loop.

A costly message waits for its turn, and the next one for twice as long as it took: between two of them there is always
time for everybody else. A message costs more after it was decoded (its turn, the store, its reply), so the costly
messages of one address also keep a distance that grows with their cost. They are charged for their cost, too
(``Admission.charge_cost``).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final, Protocol

from sabir.limits import BYTES_AS_A_VALUE, FEW_VALUES

REST: Final = 2.0  # times what the work took: how long the next one waits
DISTANCE: Final = 4e-6  # seconds for each unit of cost, between two messages of one address; 60 ms for 1 MB of text
MAX_SLOWNESS: Final = 8.0
REJECTED_BYTES: Final = 16_384  # from here on a rejected message keeps its distance, too
REJECTED_COST: Final = 10_000  # of it at least: its values were counted as far as the limit
LOOK_SECONDS: Final = 0.25  # after which one that waits notices that the gateway stops
MAX_ADDRESSES: Final = 10_000


class Charged(Protocol):
    """What is charged for a message, such as an ``Admission``."""

    @property
    def paced_as(self) -> str | None:
        """The name under which its messages keep their distance; None if they need not."""

    def check_running(self) -> None:
        """Raises:
        ShuttingDown: the gateway stops, so that nothing new is begun.
        """

    def charge_cost(self, cost: int) -> None: ...


class Heavy:
    """Lets one costly message at a time onto the event loop."""

    def __init__(self) -> None:
        self._turn: asyncio.Lock | None = None  # belongs to the loop in which it is first used
        self._free_at = 0.0
        self._slowness = 1.0  # how much longer the last work took than it needed: other programs want the processor
        self._next_at: dict[str, float] = {}  # by address

    @asynccontextmanager
    async def work(self, cost: int, charged: Charged | None = None) -> AsyncIterator[None]:
        """To be put around the work on a message of this cost (``check_cost``)."""
        if cost <= FEW_VALUES:
            yield
            return
        if charged is not None:
            charged.charge_cost(cost)
            await self._keep_distance(charged, cost)
        if self._turn is None:
            self._turn = asyncio.Lock()
        async with self._turn:
            await asyncio.sleep(max(0.0, self._free_at - time.monotonic()))
            began, began_cpu = time.monotonic(), time.thread_time()
            try:
                yield
            finally:
                now = time.monotonic()
                took = now - began
                self._free_at = now + REST * took
                self._slowness = min(MAX_SLOWNESS, max(1.0, took / max(1e-4, time.thread_time() - began_cpu)))

    async def rejected(self, size: int, charged: Charged) -> None:
        """Let the next large message of an address wait after one that was rejected: reading it took time, too.

        Raises:
            ShuttingDown: the gateway stops.
        """
        if size > REJECTED_BYTES:
            await self._keep_distance(charged, max(size // BYTES_AS_A_VALUE, REJECTED_COST))

    async def _keep_distance(self, charged: Charged, cost: int) -> None:
        name = charged.paced_as
        if name is None:
            return
        now = time.monotonic()
        if len(self._next_at) > MAX_ADDRESSES:
            self._next_at = {known: at for known, at in self._next_at.items() if at > now}
        begins = max(now, self._next_at.get(name, now))
        self._next_at[name] = begins + DISTANCE * cost * self._slowness
        while begins > now:
            await asyncio.sleep(min(LOOK_SECONDS, begins - now))
            charged.check_running()
            now = time.monotonic()

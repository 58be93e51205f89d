"""Costly messages run one at a time: checking one takes time that grows with its values, and there is one event loop.

After a costly message, the next one waits for twice as long as that took, so there is always time for other requests
in between. A message keeps costing after decoding (its turn, the store, its reply), so the costly messages of one
address are also spaced in proportion to their cost. They are charged for it, too (``Admission.charge_cost``).
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext, suppress
from typing import Final, Protocol

from sabir.errors import ShuttingDown
from sabir.limits import BYTES_AS_A_VALUE, FEW_VALUES

REST: Final = 2.0  # how long the next one waits, as a multiple of the work's duration
DISTANCE: Final = 4e-6  # seconds per unit of cost between two messages of one address; 60 ms for 1 MB of text
MAX_SLOWNESS: Final = 8.0
REJECTED_BYTES: Final = 16_384  # rejected messages of this size or more are spaced, too
REJECTED_COST: Final = 10_000  # minimum cost of those: their values were counted up to the limit
LOOK_SECONDS: Final = 0.25  # how often a waiting message checks whether the gateway is stopping
MAX_ADDRESSES: Final = 10_000
_LIGHT: Final = nullcontext()  # around the work on a message that costs little


class Charged(Protocol):
    """Who is charged for a message, such as an ``Admission``."""

    @property
    def paced_as(self) -> str | None:
        """The key by which messages are spaced; None if they need not be."""

    def check_running(self) -> None:
        """Raises:
        ShuttingDown: the gateway is stopping and accepts nothing new.
        """

    def charge_cost(self, cost: int) -> None: ...


class Heavy:
    """Lets one costly message at a time onto the event loop."""

    def __init__(self) -> None:
        self._turn: asyncio.Lock | None = None  # belongs to the loop in which it is first used
        self._free_at = 0.0
        self._slowness = 1.0  # wall time over CPU time of the last work: how busy the processor is
        self._next_at: OrderedDict[str, float] = OrderedDict()  # by address

    def work(self, cost: int, charged: Charged | None = None) -> AbstractAsyncContextManager[None]:
        """Context manager around the work on a message of this cost (``check_cost``)."""
        return _LIGHT if cost <= FEW_VALUES else self._costly(cost, charged)

    @asynccontextmanager
    async def _costly(self, cost: int, charged: Charged | None) -> AsyncIterator[None]:
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
        """Delay the next large message of an address after a rejected one, because reading that took time, too."""
        if size > REJECTED_BYTES:
            with suppress(ShuttingDown):
                await self._keep_distance(charged, max(size // BYTES_AS_A_VALUE, REJECTED_COST))

    async def _keep_distance(self, charged: Charged, cost: int) -> None:
        name = charged.paced_as
        if name is None:
            return
        now = time.monotonic()
        begins = max(now, self._next_at.get(name, now))
        self._next_at[name] = begins + DISTANCE * cost * self._slowness
        self._next_at.move_to_end(name)
        if len(self._next_at) > MAX_ADDRESSES:
            self._next_at.popitem(last=False)
        while begins > now:
            await asyncio.sleep(min(LOOK_SECONDS, begins - now))
            charged.check_running()
            now = time.monotonic()

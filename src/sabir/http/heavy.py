"""Costly messages, one at a time: what a message costs to check grows with its values, and there is one event loop.

A costly message waits for its turn, and the next one for twice as long as it took: between two of them there is always
time for everybody else. It is also charged for what it costs (``Admission.charge_cost``).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final, Protocol

from sabir.limits import FEW_VALUES

REST: Final = 2.0  # times what the work took: how long the next one waits


class Charged(Protocol):
    """What is charged for a message, such as an ``Admission``."""

    def charge_cost(self, cost: int) -> None: ...


class Heavy:
    """Lets one costly message at a time onto the event loop."""

    def __init__(self) -> None:
        self._turn: asyncio.Lock | None = None  # belongs to the loop in which it is first used
        self._free_at = 0.0

    @asynccontextmanager
    async def work(self, cost: int, charged: Charged | None = None) -> AsyncIterator[None]:
        """To be put around the work on a message of this cost (``check_cost``)."""
        if cost <= FEW_VALUES:
            yield
            return
        if charged is not None:
            charged.charge_cost(cost)
        if self._turn is None:
            self._turn = asyncio.Lock()
        async with self._turn:
            await asyncio.sleep(max(0.0, self._free_at - time.monotonic()))
            began = time.monotonic()
            try:
                yield
            finally:
                now = time.monotonic()
                self._free_at = now + REST * (now - began)

"""A gate that holds an agent until the test opens it."""

from __future__ import annotations

import asyncio
import threading


class Gate:
    """Holds an agent of another thread until the test opens it; the wait is on the condition, not the clock."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.left = threading.Event()  # the agent was cancelled
        self._open = threading.Event()

    def open(self) -> None:
        self._open.set()

    def reset(self) -> None:
        for event in (self.entered, self.left, self._open):
            event.clear()

    async def passed(self) -> None:
        self.entered.set()
        try:
            while not self._open.is_set():
                await asyncio.sleep(0.005)
        except asyncio.CancelledError:
            self.left.set()
            raise

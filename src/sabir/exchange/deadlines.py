"""One timer for all running turns: ends those past their deadline and notifies doors of slow ones.

A timer per turn costs a fifth of a short turn (bench/shortcuts.py). This one ticks while turns are running and
checks each, so a deadline is accurate to one tick.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

from sabir.turn import Caller

from .request import EventSink
from .states import TurnStep

TICK: Final = 0.1  # seconds


class TurnTimer:
    """The running turns, each with its asyncio task."""

    __slots__ = ("_cancelled", "_loop", "_running", "_ticking", "cancel_tasks", "draining", "idle", "stopping")

    def __init__(self) -> None:
        # Cancels the caller's tasks in a conversation, queued ones included; returns how many there were.
        self.cancel_tasks: Callable[[str, Caller], Awaitable[int]] | None = None
        self._cancelled: set[str] = set()
        self._running: dict[EventSink, asyncio.Task[object] | None] = {}
        self._ticking = False
        self._loop: asyncio.AbstractEventLoop | None = None  # cached: looking it up each time is a system call
        self.idle = asyncio.Event()  # set when the last request of a stopping gateway has ended
        self.draining = False  # set when the gateway stops: requests that have not reached their agent are ended
        self.stopping = False  # set when the drain time is over: every running turn is ended

    def enter(self, sink: EventSink) -> None:
        """Register a turn of the current task. Its deadline is ``sink.turn.deadline``, which may change."""
        self._running[sink] = asyncio.current_task(self._loop)
        if not self._ticking:
            self._ticking = True
            self._loop = asyncio.get_running_loop()
            self._running[sink] = asyncio.current_task(self._loop)
            self._loop.call_later(TICK, self._tick)

    def leave(self, sink: EventSink) -> None:
        del self._running[sink]

    async def cancel_in(self, conversation: str, caller: Caller) -> None:
        """Cancel the running turns of a conversation for its owner; a suspended turn does not run, unless it is a
        task's.
        """
        if self.cancel_tasks is not None and conversation and await self.cancel_tasks(conversation, caller):
            self._cancelled.add(conversation)
        for sink, task in list(self._running.items()):
            turn = sink.turn
            if turn is None or task is None or not conversation or turn.conversation.id != conversation:
                continue
            if sink.take(TurnStep.CANCEL):
                self._cancelled.add(conversation)
                task.cancel("the request was cancelled")

    def pop_cancelled(self, conversation: str) -> bool:
        """Whether anything was cancelled there since the last call."""
        taken = conversation in self._cancelled
        self._cancelled.discard(conversation)
        return taken

    async def drain(self, seconds: float, is_idle: Callable[[], bool]) -> None:
        """Wait up to this long for running requests, then cancel the rest.

        Messages still in the filters are ended at once: no agent has them yet, and the caller can retry.
        """
        self.draining = True
        for wait in (seconds, 1.0):
            self.idle.clear()
            if not is_idle():
                with suppress(TimeoutError):
                    async with asyncio.timeout(wait):
                        await self.idle.wait()
            self.stopping = True

    def _tick(self) -> None:
        if not self._running:
            self._ticking = False
            return
        now = time.monotonic()
        for sink, task in list(self._running.items()):
            slow, sink.on_slow = sink.on_slow, None
            if slow is not None:
                slow(task)
            if sink.turn is None:
                continue
            is_stopped = self.stopping or (self.draining and sink.is_screened)
            if not is_stopped and now < sink.turn.deadline:
                continue
            if sink.take(TurnStep.STOP if is_stopped else TurnStep.EXPIRE) and task is not None:
                task.cancel("the turn is past its deadline")
        asyncio.get_running_loop().call_later(TICK, self._tick)

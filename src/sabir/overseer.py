"""One timer for all running turns: ends those past their deadline, and tells doors which take long.

A timer for each turn would cost more than most turns do. This one ticks while turns are running and looks
at each; so a deadline is kept to within a tick.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

from .line import Line
from .turn import Caller

TICK: Final = 0.1  # seconds


class Overseer:
    """The turns that run now, each with the task that runs it."""

    __slots__ = ("_loop", "_running", "_taken_back", "_ticking", "idle", "stopping", "take_tasks_back")

    def __init__(self) -> None:
        # Ends the caller's tasks in a conversation, those too that wait for their turn; says how many there were.
        self.take_tasks_back: Callable[[str, Caller], Awaitable[int]] | None = None
        self._taken_back: set[str] = set()
        self._running: dict[Line, asyncio.Task[object] | None] = {}
        self._ticking = False
        self._loop: asyncio.AbstractEventLoop | None = None  # told, not asked for each time: that is a system call
        self.idle = asyncio.Event()  # set, by who counts, when the last Ask of a gateway that stops has ended
        self.stopping = False  # set when the gateway has waited long enough: whatever runs still is ended

    def enter(self, line: Line) -> None:
        """A turn begins, in the current task. Its deadline is ``line.turn.deadline``, which may change."""
        self._running[line] = asyncio.current_task(self._loop)
        if not self._ticking:
            self._ticking = True
            self._loop = asyncio.get_running_loop()
            self._running[line] = asyncio.current_task(self._loop)
            self._loop.call_later(TICK, self._tick)

    def leave(self, line: Line) -> None:
        del self._running[line]

    async def take_back(self, conversation: str, caller: Caller) -> None:
        """End what is under way in a conversation, as its owner wishes. A turn that waits for an answer does not run,
        unless it is a task's."""
        if self.take_tasks_back is not None and conversation and await self.take_tasks_back(conversation, caller):
            self._taken_back.add(conversation)
        for line, task in list(self._running.items()):
            turn = line.turn
            if turn is None or task is None or line.waiting is not None or not conversation or line.late:
                continue
            if turn.conversation.id == conversation:
                line.late = line.taken_back = True
                self._taken_back.add(conversation)
                task.cancel("the question was taken back")

    def was_taken_back(self, conversation: str) -> bool:
        """Whether something was ended there since this was last asked."""
        taken = conversation in self._taken_back
        self._taken_back.discard(conversation)
        return taken

    async def see_out(self, seconds: float, is_idle: Callable[[], bool]) -> None:
        """Wait until nothing is asked any more, this long; then end whatever runs still."""
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
        for line, task in list(self._running.items()):
            slow, line.on_slow = line.on_slow, None
            if slow is not None:
                slow(task)
            if line.turn is not None and (self.stopping or now >= line.turn.deadline) and not line.late:
                line.late, line.stopped = True, self.stopping
                if task is not None:
                    task.cancel("the turn is past its deadline")
        asyncio.get_running_loop().call_later(TICK, self._tick)

"""Handles clients that disconnect early, and keeps silent streams open through proxies."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.types import Receive

from .response import COMMENT, KEEP_ALIVE

Comment = Callable[[bytes], Awaitable[None]]


async def disconnected(receive: Receive) -> None:
    """Wait until the client disconnects. The body must have been read."""
    while (await receive())["type"] != "http.disconnect":
        pass


class DisconnectWatcher:
    """Cancels a task when its client disconnects, unless the response has been sent by then.

    Most turns end before a client could disconnect, so it starts only for slow ones: by ``start``, or by itself after
    some seconds. ``comment`` is called periodically to keep a silent stream alive.
    """

    __slots__ = ("_comment", "_is_answered", "_receive", "_task", "_timer", "_watching", "is_gone")

    def __init__(
        self,
        receive: Receive,
        is_answered: Callable[[], bool],
        comment: Comment | None = None,
    ) -> None:
        self.is_gone = False
        self._receive = receive
        self._is_answered = is_answered
        self._comment = comment
        self._task: asyncio.Task[Any] | None = None
        self._watching: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    def start_after(self, seconds: float, task: asyncio.Task[Any] | None) -> None:
        self._timer = asyncio.get_running_loop().call_later(seconds, self.start, task)

    def start(self, task: asyncio.Task[Any] | None) -> None:
        """Watch from now on, for this task."""
        if self._watching is None:
            self._task = task
            self._watching = asyncio.get_running_loop().create_task(self._watch())

    async def _watch(self) -> None:
        while True:
            try:
                async with asyncio.timeout(KEEP_ALIVE if self._comment is not None else None):
                    await disconnected(self._receive)
                break
            except TimeoutError:
                if self._comment is not None and not self._is_answered():
                    await self._comment(COMMENT)
        # If a question was sent back, the turn waits for a later request, not for this one.
        if not self._is_answered() and self._task is not None:
            self.is_gone = True
            self._task.cancel("the client disconnected")

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._watching is not None:
            self._watching.cancel()

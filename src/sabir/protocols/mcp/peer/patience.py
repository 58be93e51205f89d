"""How long to wait for an answer of an MCP server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from .tasks import is_long


class Patience:
    """A timeout that restarts after each sign of life, pauses while somebody is asked, and is as long as the turn if
    that outlives its request anyway."""

    def __init__(self, seconds: float, left: Callable[[], float]) -> None:
        self._seconds = seconds
        self._left = left
        self._timeout = asyncio.timeout(None)
        self._timer: asyncio.TimerHandle | None = None
        self._ended = False

    async def __aenter__(self) -> Patience:
        await self._timeout.__aenter__()
        self.renew()
        return self

    async def __aexit__(self, *exc: Any) -> bool:
        self._ended = True
        self._stop()
        try:
            await self._timeout.__aexit__(*exc)
        except TimeoutError:
            return True  # the holder decides what that means
        return False

    def renew(self) -> None:
        """Restart the timeout after a sign of life."""
        self._stop()
        if not self._ended:  # an answer may arrive after nobody waits any more
            seconds = max(0.0, min(self._seconds, self._left()))
            self._timer = asyncio.get_running_loop().call_later(seconds, self._over)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Pause the timeout while somebody else is asked."""
        self._stop()
        try:
            yield
        finally:
            self.renew()

    def _over(self) -> None:
        if is_long(self._left()):
            self.renew()
        else:
            self._timeout.reschedule(0.0)

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

"""The clock for expiry, robust against changes of the system clock."""

from __future__ import annotations

import time
from collections.abc import Callable


class CautiousClock:
    """The earlier of the system clock and the time elapsed since the start.

    If the clock jumps ahead, nothing expires early, so nothing is removed by mistake; if it is set back, things are
    only kept longer.
    """

    def __init__(self, wall: Callable[[], float] | None = None, steady: Callable[[], float] | None = None) -> None:
        self._wall = wall or time.time
        self._steady = steady or time.monotonic
        self._ahead = self._wall() - self._steady()

    def __call__(self) -> float:
        return min(self._wall(), self._steady() + self._ahead)

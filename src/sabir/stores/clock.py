"""The time by which things are taken for expired, when the machine's clock may be set while we run."""

from __future__ import annotations

import time
from collections.abc import Callable


class CautiousClock:
    """The earlier of what the clock says and what has passed since the start.

    A clock that jumps ahead makes nothing expire before its time, so nothing is removed by mistake; one
    that is set back only keeps things longer.
    """

    def __init__(self, wall: Callable[[], float] | None = None, steady: Callable[[], float] | None = None) -> None:
        self._wall = wall or time.time
        self._steady = steady or time.monotonic
        self._ahead = self._wall() - self._steady()

    def __call__(self) -> float:
        return min(self._wall(), self._steady() + self._ahead)

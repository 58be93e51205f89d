"""The processor time that reading a question may take."""

from __future__ import annotations

from time import perf_counter, thread_time
from typing import Final

# Seconds that the filters of a question may take, and as many the questions before it: what is unread by then is only
# searched for as words.
READ_BUDGET: Final = 0.02


class Budget:
    """So many seconds of processor time on this thread; the cheaper clock on the wall says that they cannot be over."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._started = perf_counter()
        self._spent = thread_time()

    @property
    def is_spent(self) -> bool:
        if perf_counter() - self._started < self._seconds:
            return False
        return thread_time() - self._spent >= self._seconds

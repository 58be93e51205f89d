"""Applies patterns to long texts in slices, so that the event loop is not blocked.

Python's patterns hold the GIL while they match, so a thread would not help. A slice extends beyond its end by the
length of the longest match, so the result is the same as for the whole text.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Iterator
from typing import Final, TypeAlias
from weakref import WeakKeyDictionary

Replacement: TypeAlias = str | Callable[[re.Match[str]], str]

SLICE: Final = 8 * 1024  # characters; a few milliseconds for the slowest filter


async def substitute(pattern: re.Pattern[str], replacement: Replacement, text: str, longest: int) -> str:
    """``pattern.sub(replacement, text)`` for a pattern that matches at most ``longest`` characters."""
    if len(text) <= SLICE:
        return pattern.sub(replacement, text)
    pieces: list[str] = []
    copied = start = 0
    pace = SlicePace()
    while start < len(text):
        stop = start + SLICE
        for match in pattern.finditer(text, start, stop + longest + 1):
            if match.start() >= stop:
                break
            new = replacement if isinstance(replacement, str) else replacement(match)
            pieces += (text[copied : match.start()], new)
            copied = match.end()
        start = max(stop, copied)
        await pace.rest()
    pieces.append(text[copied:])
    return "".join(pieces)


def overlapping(text: str, overlap: int) -> Iterator[str]:
    """Slices of a text that overlap by ``overlap`` characters; a letter in front marks one that is not the
    beginning."""
    yield text[: SLICE + overlap]
    for start in range(SLICE, len(text), SLICE):
        yield f"x{text[start : start + SLICE + overlap]}"


class SlicePace:
    """Yields to the event loop after a number of characters.

    Between two slices the loop is free for as long as a slice took, because other requests need more than one pass of
    it.
    Several long texts take turns: the more there are, the longer each takes, while other requests do not wait.
    """

    def __init__(self) -> None:
        self._spent = 0
        self._began = time.thread_time()

    async def spend(self, characters: int) -> None:
        self._spent += characters + 16  # even an empty value costs something
        if self._spent > SLICE:
            self._spent = 0
            await self.rest()

    async def rest(self) -> None:
        """Call this after each slice."""
        took = time.thread_time() - self._began
        turn = _turns.setdefault(asyncio.get_running_loop(), asyncio.Lock())
        async with turn:
            await asyncio.sleep(took)
        self._began = time.thread_time()


_turns: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock]] = WeakKeyDictionary()

"""Patterns over long texts without holding up the event loop: a slice at a time, and others run in between.

Python's patterns keep the interpreter while they match, so a thread would not help. A slice reaches as far beyond its
end as the longest match, so the result is the same as for the text as a whole.
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
    """Slices of a text that share ``overlap`` characters; a letter in front says that one is not the beginning."""
    yield text[: SLICE + overlap]
    for start in range(SLICE, len(text), SLICE):
        yield f"x{text[start : start + SLICE + overlap]}"


class SlicePace:
    """Lets others run after so many characters were checked.

    Between two slices the loop is free for as long as a slice took, because an answer to somebody else needs more than
    one pass of it. Several long texts take turns: the more there are, the longer each takes, and nobody else waits.
    """

    def __init__(self) -> None:
        self._spent = 0
        self._began = time.thread_time()

    async def spend(self, characters: int) -> None:
        self._spent += characters + 16  # a value costs something even if it is empty
        if self._spent > SLICE:
            self._spent = 0
            await self.rest()

    async def rest(self) -> None:
        """To be called after each slice."""
        took = time.thread_time() - self._began
        turn = _turns.setdefault(asyncio.get_running_loop(), asyncio.Lock())
        async with turn:
            await asyncio.sleep(took)
        self._began = time.thread_time()


_turns: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock]] = WeakKeyDictionary()

"""Outbox: letters that are ready together are sent together.

One frame at a time is in flight to a destination, so that order is kept; letters that arrive in the meantime go into
the next frame. So frames grow with the load, and there is no overhead without load.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from sabir.errors import BusUnavailable

from .framing import BusLimits, batches, frame

Publish = Callable[[bytes, str], Awaitable[None]]  # a frame, and its unique id


class Outbox:
    """What is to be published to one destination."""

    def __init__(self, publish: Publish, limits: BusLimits) -> None:
        self._publish = publish
        self._limits = limits
        self._letters: list[tuple[bytes, str]] = []
        self._sent: list[tuple[int, asyncio.Future[None]]] = []  # how many letters must be sent, and who waits for it
        self._count = self._out = 0
        self._task: asyncio.Task[None] | None = None

    @property
    def waiting(self) -> int:
        """How many letters the server has not stored yet."""
        return self._count - self._out

    @property
    def empty(self) -> bool:
        return self._task is None and not self._letters

    def put(self, letters: Sequence[tuple[bytes, str]]) -> asyncio.Future[None]:
        """Add letters (packed, and their ids); the future is done when the server has stored the last of them."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._letters.extend(letters)
        self._count += len(letters)
        self._sent.append((self._count, done))
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="outbox")
        return done

    async def _run(self) -> None:
        try:
            while self._letters:
                letters, self._letters = self._letters, []
                for start, end in batches([letter for letter, _ in letters], self._limits):
                    batch = letters[start:end]
                    letter_id = batch[0][1] if len(batch) == 1 else f"{batch[0][1]}+{len(batch)}+{batch[-1][1]}"
                    try:
                        await self._publish(frame(letter for letter, _ in batch), letter_id)
                    except BusUnavailable as away:
                        self._letters[:0] = letters[start:]
                        self._fail(away)
                        return
                    self._out += len(batch)
                    self._resolve_sent()
        finally:
            self._task = None

    def _resolve_sent(self) -> None:
        while self._sent and self._sent[0][0] <= self._out:
            _, done = self._sent.pop(0)
            if not done.done():
                done.set_result(None)

    def _fail(self, exc: BusUnavailable) -> None:
        """Fail all waiting letters; their senders may retry with the same ids."""
        self._letters.clear()
        self._out = self._count
        sent, self._sent = self._sent, []
        for _, done in sent:
            if not done.done():
                done.set_exception(BusUnavailable(exc.reason))

"""Resource subscriptions: polls subscribed resources and notifies clients when they change.

Another door may change a conversation, ``sabir ingest`` an item of a site, and another node either of them: the store
and the index know, so they are polled. Only callers who may read a resource are notified.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

from sabir.errors import SabirError

LOOK: Final = 2.0  # seconds between polls
_PACE: Final = 50  # polls in a row, before yielding to other tasks
_REST: Final = 0.1

Mark = Callable[
    [], Awaitable[object]
]  # a value that differs once the resource has changed; None if there is no resource


class WatchedResource:
    """One resource, for one caller who may read it."""

    __slots__ = ("_last", "_mark", "notify", "uri")

    def __init__(self, uri: str, mark: Mark, last: object, notify: Callable[[str], Awaitable[None]]) -> None:
        self.uri = uri
        self.notify = notify
        self._mark = mark
        self._last = last

    async def is_changed(self) -> bool:
        mark = await self._mark()
        changed, self._last = mark != self._last, mark
        return changed


class ResourceWatcher:
    """All polled resources."""

    def __init__(
        self, notify: Callable[[str], Awaitable[None]], sessions: Callable[[], Iterable[WatchedResource]]
    ) -> None:
        """``notify`` notifies subscribers; ``sessions`` returns what the open sessions have subscribed to."""
        self.notify = notify
        self._sessions = sessions
        self._listened: set[WatchedResource] = set()

    @contextmanager
    def listening(self, watched: Iterable[WatchedResource]) -> Iterator[None]:
        """Poll a resource while a request is open."""
        mine = set(watched)
        self._listened |= mine
        try:
            yield
        finally:
            self._listened -= mine

    async def run(self) -> None:
        """Poll, endlessly."""
        while True:
            await asyncio.sleep(LOOK)
            for number, item in enumerate([*self._sessions(), *self._listened]):
                with suppress(SabirError):  # the store is unavailable: try again later
                    if await item.is_changed():
                        await item.notify(item.uri)
                if number % _PACE == _PACE - 1:
                    await asyncio.sleep(_REST)

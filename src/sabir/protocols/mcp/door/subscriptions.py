"""Resources that clients subscribed to: polled now and then, with a notification when they have changed.

A conversation may be changed by another door, an item of a site by ``sabir ingest``, each of them by another node: the
store and the index know, so they are looked into. Only who may read a resource hears of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

from sabir.errors import SabirError

LOOK: Final = 2.0  # seconds between looks
_PACE: Final = 50  # looks in a row, before others have a turn
_REST: Final = 0.1

Mark = Callable[
    [], Awaitable[object]
]  # a value that differs once the resource has changed; None if there is no resource


class WatchedResource:
    """One resource, for one who may read it."""

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
    """All that is watched here."""

    def __init__(
        self, notify: Callable[[str], Awaitable[None]], sessions: Callable[[], Iterable[WatchedResource]]
    ) -> None:
        """``notify`` notifies subscribers; ``sessions`` returns what the open sessions have subscribed to."""
        self.notify = notify
        self._sessions = sessions
        self._listened: set[WatchedResource] = set()

    @contextmanager
    def listening(self, watched: Iterable[WatchedResource]) -> Iterator[None]:
        """What is listened for as long as a request is open."""
        mine = set(watched)
        self._listened |= mine
        try:
            yield
        finally:
            self._listened -= mine

    async def run(self) -> None:
        """Look, without end."""
        while True:
            await asyncio.sleep(LOOK)
            for number, item in enumerate([*self._sessions(), *self._listened]):
                with suppress(SabirError):  # the store is unavailable: try again later
                    if await item.is_changed():
                        await item.notify(item.uri)
                if number % _PACE == _PACE - 1:
                    await asyncio.sleep(_REST)

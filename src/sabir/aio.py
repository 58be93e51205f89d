"""Helpers for asyncio: cancelling tasks and waiting for their end, closing iterators, and waiting for changes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final, Generic, TypeVar

logger = logging.getLogger("sabir")

AGAIN_SECONDS: Final = 3.0
T = TypeVar("T")


async def cancel_and_wait(tasks: Iterable[asyncio.Task[Any] | None]) -> None:
    """Cancel tasks, and wait until all have ended.

    A cancellation can be lost: ``asyncio.wait_for`` of Python 3.11 drops it if the awaited result arrives at the same
    moment, and libraries use it. So tasks that continue are cancelled again. If a task had failed before, its error is
    logged, because nobody else looks.
    """
    ending = {task for task in tasks if task is not None}
    for task in ending:
        if task.done() and not task.cancelled() and (exc := task.exception()) is not None:
            logger.error("%s had failed", task.get_name(), exc_info=exc)
    pending = {task for task in ending if not task.done()}
    while pending:
        for task in pending:
            task.cancel()
        ended, pending = await asyncio.wait(pending, timeout=AGAIN_SECONDS)
        for task in ended:
            task.cancelled() or task.exception()  # retrieved, so that asyncio does not complain


class Closing(Generic[T]):
    """Closes what is iterated when the block ends: ``contextlib.aclosing`` for iterators that may be generators.

    If a generator is merely dropped, asyncio closes it later, in a separate task. Its connections are then still open
    when its reader continues, or when the loop ends.
    """

    __slots__ = ("_items",)

    def __init__(self, items: AsyncIterator[T]) -> None:
        self._items = items

    async def __aenter__(self) -> AsyncIterator[T]:
        return self._items

    async def __aexit__(self, *exc_info: object) -> None:
        aclose = getattr(self._items, "aclose", None)
        if aclose is not None:
            await aclose()


class Changes:
    """Waiters in this process, by the change that they wait for."""

    def __init__(self) -> None:
        self._watching: dict[str, set[asyncio.Event]] = {}

    @contextmanager
    def watch(self, name: str) -> Iterator[asyncio.Event]:
        """An event that is set when this changes here."""
        changed = asyncio.Event()
        watchers = self._watching.setdefault(name, set())
        watchers.add(changed)
        try:
            yield changed
        finally:
            watchers.discard(changed)
            if not watchers:
                self._watching.pop(name, None)

    def notify(self, name: str) -> int:
        """Wake those that wait for this; returns how many there are."""
        watchers = self._watching.get(name, ())
        for changed in watchers:
            changed.set()
        return len(watchers)


async def until(changed: asyncio.Event, seconds: float) -> None:
    """Wait until it is set, or for a while: changes on other nodes are not announced here."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):  # wait_for can lose a cancellation (Python 3.11)
            await changed.wait()

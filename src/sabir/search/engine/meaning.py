"""What the engines share about meaning: the vectors of questions, and the task that computes those of passages."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final

from sabir.aio import cancel_and_wait
from sabir.errors import SabirError

from .embed import Embedder, MiniLM, Vectors

logger = logging.getLogger("sabir.search")

_CACHED: Final = 512


class QuestionVectors:
    """The vectors of the latest questions. All answers are None without an embedder, or while it is unavailable."""

    def __init__(self, embedder: Embedder | None) -> None:
        self._embedder = embedder
        self._cache: OrderedDict[str, Vectors] = OrderedDict()

    async def of(self, text: str) -> Vectors | None:
        text = " ".join(text.split())
        if self._embedder is None or not text:
            return None
        if text in self._cache:
            self._cache.move_to_end(text)
            return self._cache[text]
        try:
            vector: Vectors = (await self._embedder.embed([text]))[0]
        except SabirError as failed:  # words still work
            logger.warning("Searching by words alone: %s", failed)
            return None
        self._cache[text] = vector
        if len(self._cache) > _CACHED:
            self._cache.popitem(last=False)
        return vector

    async def similarities(self, text: str, others: Sequence[str]) -> Sequence[float] | None:
        """How similar a text is to others."""
        vector = await self.of(text)
        if self._embedder is None or vector is None:
            return None
        try:
            if isinstance(self._embedder, MiniLM):  # these are part of a question, however many, and no background work
                rows = await asyncio.to_thread(self._embedder.embed_now, others)
            else:
                rows = await self._embedder.embed(others)
        except SabirError as failed:
            logger.warning("Searching by words alone: %s", failed)
            return None
        return [float(value) for value in rows @ vector]


class Background:
    """One task that does what is missing, and does it again if it is woken meanwhile.

    ``work`` runs its passes in a loop ``while background.pending():``.
    """

    def __init__(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._work = work
        self._task: asyncio.Task[None] | None = None
        self.woken = False

    @property
    def started(self) -> bool:
        return self._task is not None

    def wake(self) -> None:
        self.woken = True
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._work())

    def pending(self) -> bool:
        """True if there is a pass to do; asking counts as doing it."""
        woken, self.woken = self.woken, False
        return woken

    async def settled(self) -> None:
        while self._task is not None and not self._task.done():
            await asyncio.shield(self._task)

    async def stop(self) -> None:
        if self._task is not None:
            await cancel_and_wait([self._task])

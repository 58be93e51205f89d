"""What the engines share about meaning."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from sabir.errors import PeerUnavailable
from sabir.search.engine.embed import Vectors
from sabir.search.engine.meaning import Background, QuestionVectors
from search.engines import Hashed


class Counting(Hashed):
    """Counts what it embeds; unavailable on demand."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.is_unavailable = False

    async def embed(self, texts: Sequence[str]) -> Vectors:
        if self.is_unavailable:
            raise PeerUnavailable("model", "it does not answer")
        self.texts += texts
        return await super().embed(texts)


async def test_a_question_is_embedded_once_whatever_its_spaces() -> None:
    embedder = Counting()
    vectors = QuestionVectors(embedder)
    assert await vectors.of("pumpkin  soup ") is await vectors.of("pumpkin soup")
    assert embedder.texts == ["pumpkin soup"]


async def test_a_failure_is_not_kept() -> None:
    embedder = Counting()
    vectors = QuestionVectors(embedder)
    embedder.is_unavailable = True
    assert await vectors.of("soup") is None
    assert await vectors.similarities("soup", ["bread"]) is None
    embedder.is_unavailable = False
    assert await vectors.similarities("soup", ["soup", "bread"]) == [1.0, 0.0]


async def test_work_that_is_woken_while_it_runs_does_another_pass() -> None:
    passes = 0
    begun, proceed = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        nonlocal passes
        while background.pending():
            passes += 1
            begun.set()
            await proceed.wait()

    background = Background(work)
    assert not background.started
    background.wake()
    await begun.wait()
    background.wake()
    proceed.set()
    await background.settled()
    assert passes == 2
    background.wake()
    await background.stop()

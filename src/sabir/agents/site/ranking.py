"""Ranking: orders the hits of a search one by one, and yields each as soon as its rank is final.

The index returns hits with their maximum score. Weighing (the caller's memory and languages, past events, an owner's
own weight) only lowers it, so a hit is final as soon as its score reaches the maximum of those not weighed yet. With a
model, the order is the model's, which names the best first. So the first hits can be shown while later ones are still
unranked.
"""

from __future__ import annotations

import heapq
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Final, Protocol

import msgspec

from sabir.search import Condition, Hit
from sabir.search.engine.rank import falling
from sabir.search.items.attributes import recalled
from sabir.search.items.types import is_a
from sabir.search.query.conditions import meets
from sabir.search.query.languages import welcome
from sabir.turn import Turn

AGAINST_MEMORY: Final = 0.7  # factor for a hit that contradicts the caller's memory
FOREIGN: Final = 0.6  # factor for a language that the caller does not read
OVER: Final = 0.7  # factor for a past event, if no time was asked for


class Weight(Protocol):
    """An owner's own weight in the ranking: stock, freshness, margin …"""

    async def __call__(self, turn: Turn, hit: Hit, /) -> float:
        """The factor of the hit's score, from 0 (shown last) to 1 (unchanged).

        May raise ``SabirError``; then the hit keeps its score.
        """
        ...


def evident(hit: Hit, wishes: Sequence[Condition], languages: Mapping[str, float], now: float | None) -> float:
    """The factor for a hit from what is known about the caller and the time; it never drops a hit."""
    left = FOREIGN + (1 - FOREIGN) * welcome(hit.item, languages)
    if wishes and not meets(hit.item, wishes):
        left *= AGAINST_MEMORY
    if now is not None and any(is_a(kind, "Event") for kind in hit.item.types):
        dates = recalled(hit.item).dates
        ends = dates.get("enddate") or dates.get("startdate")
        left *= OVER if ends is not None and ends.end <= now else 1.0
    return left


async def settled(
    hits: Sequence[Hit], weigh: Callable[[Hit], Awaitable[float]], count: int | None = None
) -> AsyncGenerator[Hit, None]:
    """The best hits, best first. ``hits`` come by falling score, and weighing only lowers it.

    A hit is weighed only after those certainly above it were yielded; after ``count`` of them, none at all.
    """
    waiting: list[tuple[float, int, Hit]] = []  # weighed, but not yet certainly the best
    given = 0
    for place, hit in enumerate(hits):
        while waiting and -waiting[0][0] >= hit.score:
            yield heapq.heappop(waiting)[2]
            given += 1
            if given == count:
                return
        score = hit.score * min(1.0, max(0.0, await weigh(hit)))
        heapq.heappush(waiting, (-score, place, hit if score == hit.score else rescored(hit, score)))
    for _ in range(len(waiting) if count is None else min(len(waiting), count - given)):
        yield heapq.heappop(waiting)[2]


async def led(
    named: AsyncGenerator[tuple[int, float], None],
    hits: Sequence[Hit],
    rest: AsyncGenerator[Hit, None],
    count: int | None = None,
) -> AsyncGenerator[Hit, None]:
    """Hits as a model ranks them, ``(index, score)``, best first; followed by ``rest`` in its own order.

    A score above the previous one is lowered to it: only the order was asked for. The model's output after ``count``
    hits is read but not used, because the usage comes at its end.
    """
    given: set[tuple[str, str]] = set()
    least = 100.0
    async with aclosing(named), aclosing(rest):
        async for place, score in named:
            if count is None or len(given) < count:
                hit = hits[place]
                least = min(least, score)
                given.add(_identity(hit))
                yield rescored(hit, least)
        if count is not None and len(given) >= count:
            return
        async for hit in rest:
            if _identity(hit) not in given:
                given.add(_identity(hit))
                yield rescored(hit, min(least, hit.score))
            if len(given) == count:
                return


def _identity(hit: Hit) -> tuple[str, str]:
    return hit.item.site, hit.item.id


def evened(hits: Sequence[Hit]) -> tuple[Hit, ...]:
    """The same order, such as that of prices, with scores that never rise: where one would, neighbours get their
    mean."""
    scores = falling([hit.score for hit in hits])
    return tuple(hit if hit.score == score else rescored(hit, score) for hit, score in zip(hits, scores, strict=True))


def rescored(hit: Hit, score: float) -> Hit:
    return msgspec.structs.replace(hit, score=round(score, 2))

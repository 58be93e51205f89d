"""Ranking: the hits of a search put in order one by one, each given as soon as its place is settled.

What the index found comes with the most that each hit can reach. Weighing (what the asker is known to want, the
languages that the asker reads, what is over, an owner's own say) only lowers that, so a hit stands above all that are
not weighed yet as soon as it has as much as the best of them can have. With a model, the order is the model's, which
names the best first. Who shows the hits has the first in hand while later ones are still unranked.
"""

from __future__ import annotations

import heapq
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Final, Protocol

import msgspec

from sabir.search import Condition, Hit
from sabir.search.items.attributes import recalled
from sabir.search.items.types import is_a
from sabir.search.query.conditions import holds
from sabir.search.query.languages import welcome
from sabir.turn import Turn

AGAINST_MEMORY: Final = 0.7  # what is left of the score of a hit that the asker's memory speaks against
FOREIGN: Final = 0.6  # of one in a language that the asker does not read
OVER: Final = 0.7  # and of an event that is over, where no time was asked for


class Weight(Protocol):
    """An owner's own say in the ranking: stock, freshness, margin …"""

    async def __call__(self, turn: Turn, hit: Hit, /) -> float:
        """What is left of the hit's score, from 0 (shown last) to 1 (as it was found).

        May raise ``SabirError``; the hit then stands as it was found.
        """
        ...


def evident(hit: Hit, wishes: Sequence[Condition], languages: Mapping[str, float], now: float | None) -> float:
    """What is left of a hit's score by what is known of the asker and the time; nothing is ever left out for it."""
    left = FOREIGN + (1 - FOREIGN) * welcome(hit.item, languages)
    if wishes and not all(holds(wish, recalled(hit.item)) for wish in wishes):
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

    None is weighed before those are given that stand above it in any case; after ``count`` of them, none at all.
    """
    waiting: list[tuple[float, int, Hit]] = []  # weighed, and not above all others for sure
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
    """Hits as a model names them, ``(place, score)``, best first; behind them the ``rest`` as it stands without.

    A score above the one before it is taken for that: the order is what was asked for. What the model says after
    ``count`` hits is heard and not given, so that its end tells what it cost.
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


def rescored(hit: Hit, score: float) -> Hit:
    return msgspec.structs.replace(hit, score=round(score, 2))

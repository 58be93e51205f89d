"""Ranking: combines two rankings of passages into one, with a score that says how good a hit is. Pure.

The order has no parameters: a passage's evidence by words and by meaning is each a share of all that there could be, is
divided by the square root of the best share for this query, and the two are added. So the two weigh alike, but a
ranking in which even the best has little of the query ("little binoculars" in a shop with "opera glasses") weighs less.
This orders better than shares of the best, and better than the shares themselves (``bench/retrieval.py``).

The score is separate: BM25, as a share of its maximum for this query, and cosine, as its distance above the cosine of
unrelated texts, mean the same for every query, so their sum can be shown and cut off. Where order and score disagree,
neighbours share their mean, so that scores always fall in the order shown.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence, Set
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

SEMANTIC: Final = 0.45  # the weight of meaning in the score that is shown; the order does not depend on it
FULL: Final = 0.75  # the sum of a passage that is all about the query: tf and cosine never reach 1
LIKING: Final = 0.1  # the weight of what is known about the caller
SMALL: Final = 1_000  # passages; with fewer, the rarity of a word says little


class Ranked(msgspec.Struct, frozen=True):
    """A passage with its evidence."""

    key: int
    score: float
    lexical: float
    semantic: float | None


def fused(
    lexical: Mapping[int, float],
    cosine: Mapping[int, float],
    *,
    floor: float,
    semantic: bool,
    unknown: Set[int] = frozenset(),
    liking: Mapping[int, float] | None = None,
) -> list[Ranked]:
    """All passages of both, best first. ``lexical`` is a share from 0 to 1, ``cosine`` is raw.

    Passages in ``unknown`` have no vector yet, and their words stand in for it; if there are no vectors at all
    (``semantic`` unset), only words count.
    """
    keys = list(lexical.keys() | cosine.keys())
    words = np.array([lexical.get(key, 0.0) for key in keys])
    cosines = np.array([cosine.get(key, -1.0) for key in keys])
    likeness = np.maximum(0.0, (cosines - floor) / (1 - floor))
    order_words, order_likeness = words / _weight(words), likeness / _weight(likeness)
    if unknown:
        missing = np.array([key in unknown and key not in cosine for key in keys])
        likeness = np.where(missing, words, likeness)
        order_likeness = np.where(missing, order_words, order_likeness)
    totals = (1 - SEMANTIC) * words + SEMANTIC * likeness if semantic else words
    ranks = order_words + order_likeness if semantic else words
    if liking:
        liked = np.maximum(0.0, (np.array([liking.get(key, -1.0) for key in keys]) - floor) / (1 - floor))
        totals = totals + LIKING * liked
        ranks = ranks + 2 * LIKING * liked
    # By key if equal, so that pages do not overlap.
    order = np.lexsort((np.array(keys, np.int64), -np.round(ranks, 9)))
    scores = falling((100 * np.minimum(1.0, totals / FULL))[order].tolist())
    rows = zip((keys[at] for at in order), scores, words[order].tolist(), likeness[order].tolist(), strict=True)
    return [Ranked(key, score, share, like if key in cosine else None) for key, score, share, like in rows]


def _weight(values: NDArray[np.float64]) -> float:
    """What the shares of a ranking are divided by."""
    return math.sqrt(max(float(values.max(initial=0.0)), 1e-9))


def falling(scores: Sequence[float]) -> list[float]:
    """Scores that never rise: where one is above the previous one, both get their mean, and so on (isotonic)."""
    blocks: list[tuple[float, int]] = []  # mean and count
    for score in scores:
        mean, count = score, 1
        while blocks and blocks[-1][0] < mean:
            before, many = blocks.pop()
            mean, count = (before * many + mean * count) / (many + count), many + count
        blocks.append((mean, count))
    return [round(mean, 2) for mean, count in blocks for _ in range(count)]


def rarity(count: int, having: int) -> float:
    """The weight of a word that this many of all passages have: BM25's idf.

    A small site is treated as part of a larger one that has its words nowhere else: otherwise a word in all its
    passages would count for nothing, and an unknown word for everything.
    """
    return math.log(1 + (max(count, SMALL) - having + 0.5) / (having + 0.5))


def unknown(known: Collection[float]) -> float:
    """The weight of a word that no passage has: as much as the words around it."""
    return sum(known) / len(known) if known else rarity(SMALL, 1)


def above_floor(cosine: Mapping[int, float], floor: float) -> dict[int, float]:
    """How far each cosine is above the cosine of unrelated texts, as it counts in the order."""
    return balanced({key: max(0.0, value - floor) / (1 - floor) for key, value in cosine.items()})


def balanced(shares: Mapping[int, float]) -> dict[int, float]:
    """The shares of a ranking, as they count in the order."""
    weight = _weight(np.array(list(shares.values()), np.float64))
    return {key: value / weight for key, value in shares.items()}


def contenders(known: Mapping[int, float], others: Mapping[int, float], depth: int, count: int) -> list[int]:
    """The passages of ``known`` that are not in ``others`` and could be among the best ``count``.

    Both are as they count in the order. Given are the best ``depth`` of each ranking, so what is missing in the other
    has at most its lowest. Knowing only these candidates exactly gives the same best as knowing all.
    """
    highest = min(others.values()) if len(others) >= depth else 0.0
    sums = [value + others.get(key, 0.0) for key, value in known.items()]
    sums += [value for key, value in others.items() if key not in known]
    sums.sort(reverse=True)
    bar = sums[count - 1] if len(sums) >= count else 0.0
    return [key for key, value in known.items() if key not in others and value + highest >= bar]

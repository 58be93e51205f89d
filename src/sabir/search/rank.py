"""Ranking: two rankings of passages made one, and a score that says how good a hit is. Pure.

Both evidences are brought to the same scale before they are added: BM25 as a share of the most it could
give for this query, cosine as its distance above that of unrelated texts. On Cranfield this ranks as
well as reciprocal rank fusion or better (``bench/retrieval.py`` prints both), and unlike it the sum means
the same for every query, so it can be shown and cut.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Set
from typing import Final

import msgspec
import numpy as np

SEMANTIC: Final = 0.45  # the weight of meaning against words; between what two unlike collections like best
FULL: Final = 0.75  # the sum that a passage all about the query reaches: tf and cosine never reach 1
LIKING: Final = 0.1  # the weight of what is known of the asker
RRF_K: Final = 60
SMALL: Final = 1_000  # passages; of fewer, how rare a word is says little


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
    """All passages of both, best first. ``lexical`` is a share from 0 to 1, ``cosine`` as it was measured.

    Of passages in ``unknown`` meaning is not computed yet, and their words stand for it; where nothing is
    known of meaning at all (``semantic`` unset), words are all there is.
    """
    keys = list(lexical.keys() | cosine.keys())
    words = np.array([lexical.get(key, 0.0) for key in keys])
    cosines = np.array([cosine.get(key, -1.0) for key in keys])
    likeness = np.maximum(0.0, (cosines - floor) / (1 - floor))
    if unknown:
        likeness = np.where([key in unknown and key not in cosine for key in keys], words, likeness)
    totals = (1 - SEMANTIC) * words + SEMANTIC * likeness if semantic else words
    if liking:
        liked = np.array([liking.get(key, -1.0) for key in keys])
        totals = totals + LIKING * np.maximum(0.0, (liked - floor) / (1 - floor))
    scores = np.round(100 * np.minimum(1.0, totals / FULL), 2)
    # By key where scores are equal, so that pages do not overlap.
    order = np.lexsort((np.array(keys, np.int64), -totals, -scores))
    rows = zip(
        (keys[at] for at in order), scores[order].tolist(), words[order].tolist(), likeness[order].tolist(), strict=True
    )
    return [Ranked(key, score, share, like if key in cosine else None) for key, score, share, like in rows]


def rarity(count: int, having: int) -> float:
    """How much a word says that so many of all passages have: BM25's idf.

    A small site is taken for a part of a larger one that has its words nowhere else: else a word that all its
    passages have would count for nothing, and one that nobody knows for everything.
    """
    return math.log(1 + (max(count, SMALL) - having + 0.5) / (having + 0.5))


def unknown(known: Collection[float]) -> float:
    """What a word that no passage has counts for: as much as those around it."""
    return sum(known) / len(known) if known else rarity(SMALL, 1)


def bar(lexical: Mapping[int, float], cosine: Mapping[int, float], *, floor: float, count: int) -> float:
    """The sum that a passage must reach to be among the best ``count``, by what is known for sure."""
    least = [
        (1 - SEMANTIC) * lexical.get(key, 0.0) + SEMANTIC * _likeness(cosine.get(key, -1.0), floor)
        for key in lexical.keys() | cosine.keys()
    ]
    least.sort(reverse=True)
    return least[count - 1] if len(least) >= count else 0.0


def contenders(
    known: Mapping[int, float], weight: float, others: Mapping[int, float], most: float, bar: float
) -> list[int]:
    """Those passages of ``known`` that are not in ``others`` and could reach the bar.

    Given are the best of each ranking, so what is missing in the other has at most its worst, ``most``.
    Knowing only the contenders exactly gives the same best as knowing all.
    """
    return [key for key, value in known.items() if key not in others and weight * value + (1 - weight) * most >= bar]


def _likeness(cosine: float, floor: float) -> float:
    return (cosine - floor) / (1 - floor) if cosine > floor else 0.0


def reciprocal(rankings: Iterable[Iterable[int]], k: int = RRF_K) -> list[int]:
    """Reciprocal rank fusion of any number of rankings; kept as the yardstick of ``fused``."""
    scores: dict[int, float] = {}
    for ranking in rankings:
        for place, key in enumerate(ranking, 1):
            scores[key] = scores.get(key, 0.0) + 1 / (k + place)
    return sorted(scores, key=lambda key: (-scores[key], key))

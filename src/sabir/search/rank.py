"""Ranking: two rankings of passages made one, and a score that says how good a hit is. Pure.

Both evidences are brought to the same scale before they are added: BM25 as a share of the most it could
give for this query, cosine as its distance above that of unrelated texts. On Cranfield this ranks as
well as reciprocal rank fusion or better (``bench/retrieval.py`` prints both), and unlike it the sum means
the same for every query, so it can be shown and cut.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

SEMANTIC: Final = 0.5  # the weight of meaning against words
FULL: Final = 0.75  # the sum that a passage all about the query reaches: tf and cosine never reach 1
LIKING: Final = 0.1  # the weight of what is known of the asker
RRF_K: Final = 60


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
    liking: Mapping[int, float] | None = None,
) -> list[Ranked]:
    """All passages of both, best first. ``lexical`` is a share from 0 to 1, ``cosine`` as it was measured.

    Where meaning is not known of a passage, its words stand for it; where nothing is known of meaning
    at all (``semantic`` unset), words are all there is.
    """
    ranked = []
    for key in lexical.keys() | cosine.keys():
        words = lexical.get(key, 0.0)
        likeness = max(0.0, (cosine[key] - floor) / (1 - floor)) if key in cosine else None
        meaning = words if likeness is None else likeness
        total = (1 - SEMANTIC) * words + SEMANTIC * meaning if semantic else words
        if liking and key in liking:
            total += LIKING * max(0.0, (liking[key] - floor) / (1 - floor))
        ranked.append(Ranked(key, round(100 * min(1.0, total / FULL), 2), words, likeness))
    # By key where scores are equal, so that pages do not overlap.
    ranked.sort(key=lambda each: (-each.score, -each.lexical - (each.semantic or 0.0), each.key))
    return ranked


def reciprocal(rankings: Iterable[Iterable[int]], k: int = RRF_K) -> list[int]:
    """Reciprocal rank fusion of any number of rankings; kept as the yardstick of ``fused``."""
    scores: dict[int, float] = {}
    for ranking in rankings:
        for place, key in enumerate(ranking, 1):
            scores[key] = scores.get(key, 0.0) + 1 / (k + place)
    return sorted(scores, key=lambda key: (-scores[key], key))

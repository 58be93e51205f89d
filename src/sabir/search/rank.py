"""Ranking: two rankings of passages made one, and a score that says how good a hit is. Pure.

Both evidences are brought to the same scale before they are added: BM25 as a share of the most it could
give for this query, cosine as its distance above that of unrelated texts. On Cranfield this ranks as
well as reciprocal rank fusion or better (``bench/retrieval.py`` prints both), and unlike it the sum means
the same for every query, so it can be shown and cut.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
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
    unknown: Container[int] = frozenset(),
    liking: Mapping[int, float] | None = None,
) -> list[Ranked]:
    """All passages of both, best first. ``lexical`` is a share from 0 to 1, ``cosine`` as it was measured.

    Of passages in ``unknown`` meaning is not computed yet, and their words stand for it; where nothing is
    known of meaning at all (``semantic`` unset), words are all there is.
    """
    ranked = []
    for key in lexical.keys() | cosine.keys():
        words = lexical.get(key, 0.0)
        likeness = max(0.0, (cosine[key] - floor) / (1 - floor)) if key in cosine else None
        meaning = likeness if likeness is not None else words if key in unknown else 0.0
        total = (1 - SEMANTIC) * words + SEMANTIC * meaning if semantic else words
        if liking and key in liking:
            total += LIKING * max(0.0, (liking[key] - floor) / (1 - floor))
        ranked.append(Ranked(key, round(100 * min(1.0, total / FULL), 2), words, likeness))
    # By key where scores are equal, so that pages do not overlap.
    ranked.sort(key=lambda each: (-each.score, -each.lexical - (each.semantic or 0.0), each.key))
    return ranked


def contenders(
    lexical: Mapping[int, float], cosine: Mapping[int, float], *, floor: float, count: int
) -> tuple[list[int], list[int]]:
    """The passages that could be among the best ``count`` and of which one evidence is not known yet.

    Given are the best of each ranking, so what is missing in one is at most its worst: ``(without
    lexical, without cosine)``. Knowing only these exactly gives the same first ``count`` as knowing all.
    """
    likeness = {key: max(0.0, (value - floor) / (1 - floor)) for key, value in cosine.items()}
    most_words = min(lexical.values(), default=0.0)
    most_likeness = min(likeness.values(), default=0.0)
    sure = [
        (1 - SEMANTIC) * lexical.get(key, 0.0) + SEMANTIC * likeness.get(key, 0.0)
        for key in lexical.keys() | likeness.keys()
    ]
    sure.sort(reverse=True)
    bar = sure[count - 1] if len(sure) >= count else 0.0
    return (
        [
            key
            for key, value in likeness.items()
            if key not in lexical and (1 - SEMANTIC) * most_words + SEMANTIC * value >= bar
        ],
        [
            key
            for key, value in lexical.items()
            if key not in likeness and (1 - SEMANTIC) * value + SEMANTIC * most_likeness >= bar
        ],
    )


def reciprocal(rankings: Iterable[Iterable[int]], k: int = RRF_K) -> list[int]:
    """Reciprocal rank fusion of any number of rankings; kept as the yardstick of ``fused``."""
    scores: dict[int, float] = {}
    for ranking in rankings:
        for place, key in enumerate(ranking, 1):
            scores[key] = scores.get(key, 0.0) + 1 / (k + place)
    return sorted(scores, key=lambda key: (-scores[key], key))

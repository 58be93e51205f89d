"""Two rankings made one: the order has nothing to tune, and the scores fall in it."""

from __future__ import annotations

import random

import pytest

from sabir.search.engine.rank import above_floor, contenders, falling, fused, of_best


@pytest.mark.parametrize(
    ("scores", "shown"),
    [
        ([], []),
        ([90.0, 50.0, 10.0], [90.0, 50.0, 10.0]),
        ([40.0, 60.0], [50.0, 50.0]),
        ([30.0, 60.0, 90.0, 10.0], [60.0, 60.0, 60.0, 10.0]),
    ],
)
def test_scores_never_rise(scores: list[float], shown: list[float]) -> None:
    assert falling(scores) == shown


def test_words_and_meaning_count_the_same_each_as_a_share_of_its_best() -> None:
    """A query whose words nothing has much of still ranks by words: BM25 of 0.1 is the best there is."""
    ranked = fused({1: 0.1, 2: 0.06}, {1: 0.3, 2: 0.5, 3: 0.5}, floor=0.1, semantic=True)
    assert [item.key for item in ranked] == [2, 1, 3]
    assert [item.score for item in ranked] == sorted((item.score for item in ranked), reverse=True)


@pytest.mark.parametrize("seed", range(20))
def test_knowing_the_contenders_gives_the_same_best_as_knowing_all(seed: int) -> None:
    chance = random.Random(seed)
    words = {key: chance.random() for key in range(300) if chance.random() < 0.6}
    cosines = {key: chance.uniform(-0.2, 1.0) for key in range(300)}
    depth, count, floor = 40, 10, 0.1
    best = dict(sorted(words.items(), key=lambda entry: -entry[1])[:depth])
    near = dict(sorted(cosines.items(), key=lambda value: -value[1])[:depth])
    shares = of_best(best)
    near |= {key: cosines[key] for key in contenders(shares, above_floor(near, floor), depth, count)}
    asked = contenders(above_floor(near, floor), shares, depth, count)
    best |= {key: words[key] for key in asked if key in words}
    few = fused(best, near, floor=floor, semantic=True)[:count]
    every = fused(words, cosines, floor=floor, semantic=True)[:count]
    assert [item.key for item in few] == [item.key for item in every]

"""Two rankings made one: the order has nothing to tune, and the scores fall in it."""

from __future__ import annotations

import random

import pytest

from sabir.search.engine.rank import above_floor, balanced, contenders, falling, fused


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


@pytest.mark.parametrize(
    ("lexical", "cosine", "order"),
    [
        ({1: 0.6, 2: 0.36}, {1: 0.4, 2: 0.6, 3: 0.7}, [1, 2, 3]),  # the best has most of the words: they count
        ({1: 0.1, 2: 0.06}, {1: 0.4, 2: 0.6, 3: 0.7}, [2, 3, 1]),  # the best has few of them: meaning counts more
        ({1: 0.6, 2: 0.5}, {1: 0.1, 2: 0.12, 3: 0.15}, [1, 2, 3]),  # nothing is near in meaning: words count more
        ({1: 0.1}, {}, [1]),
    ],
)
def test_a_ranking_in_which_the_best_has_little_of_the_query_weighs_less(
    lexical: dict[int, float], cosine: dict[int, float], order: list[int]
) -> None:
    ranked = fused(lexical, cosine, floor=0.1, semantic=True)
    assert [item.key for item in ranked] == order
    assert [item.score for item in ranked] == sorted((item.score for item in ranked), reverse=True)


@pytest.mark.parametrize("seed", range(20))
def test_knowing_the_contenders_gives_the_same_best_as_knowing_all(seed: int) -> None:
    chance = random.Random(seed)
    words = {key: chance.random() for key in range(300) if chance.random() < 0.6}
    cosines = {key: chance.uniform(-0.2, 1.0) for key in range(300)}
    depth, count, floor = 40, 10, 0.1
    best = dict(sorted(words.items(), key=lambda entry: -entry[1])[:depth])
    near = dict(sorted(cosines.items(), key=lambda value: -value[1])[:depth])
    shares = balanced(best)
    near |= {key: cosines[key] for key in contenders(shares, above_floor(near, floor), depth, count)}
    asked = contenders(above_floor(near, floor), shares, depth, count)
    best |= {key: words[key] for key in asked if key in words}
    few = fused(best, near, floor=floor, semantic=True)[:count]
    every = fused(words, cosines, floor=floor, semantic=True)[:count]
    assert [item.key for item in few] == [item.key for item in every]

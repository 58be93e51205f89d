"""Ranking one by one gives the order that ranking all at once would give, and weighs no more than it must."""

from __future__ import annotations

import random
from collections.abc import AsyncGenerator, Sequence

import pytest

from sabir.agents.site.agent import Site
from sabir.agents.site.ranking import evened, led, settled
from sabir.events import Reply
from sabir.message import Message
from sabir.search import Hit, Item, LocalIndex
from sabir.turn import Turn


def hits(*scores: float) -> list[Hit]:
    return [Hit(Item(str(place), "s", f"n{place}"), score) for place, score in enumerate(scores)]


def ids(ranked: Sequence[Hit]) -> list[str]:
    return [hit.item.id for hit in ranked]


@pytest.mark.parametrize("seed", range(20))
async def test_the_order_is_that_of_sorting_all(seed: int) -> None:
    rolled = random.Random(seed)
    found = hits(*sorted((rolled.choice(range(0, 100, 5)) for _ in range(30)), reverse=True))
    weights = {hit.item.id: rolled.choice((1.0, 1.0, 0.7, 0.42, 0.0)) for hit in found}

    async def weigh(hit: Hit) -> float:
        return weights[hit.item.id]

    ranked = [hit async for hit in settled(found, weigh)]
    assert ids(ranked) == ids(sorted(found, key=lambda hit: -hit.score * weights[hit.item.id]))
    assert ids([hit async for hit in settled(found, weigh, 7)]) == ids(ranked[:7])


async def test_no_more_are_weighed_than_the_page_needs() -> None:
    weighed: list[str] = []

    async def weigh(hit: Hit) -> float:
        weighed.append(hit.item.id)
        return 0.8 if hit.item.id == "1" else 1.0

    found = hits(90, 80, 70, 60, 50)
    assert ids([hit async for hit in settled(found, weigh, 2)]) == ["0", "2"]
    assert weighed == ["0", "1", "2"]


async def said(*rows: tuple[int, float]) -> AsyncGenerator[tuple[int, float], None]:
    for row in rows:
        yield row


async def given(found: Sequence[Hit]) -> AsyncGenerator[Hit, None]:
    for hit in found:
        yield hit


async def test_a_model_leads_and_what_it_does_not_name_follows() -> None:
    found = hits(90, 80, 70, 60)
    ranked = [hit async for hit in led(said((2, 75.0), (0, 88.0)), found, given(found))]
    assert ids(ranked) == ["2", "0", "1", "3"]
    assert [hit.score for hit in ranked] == [75.0, 75.0, 75.0, 60.0]  # falling, whatever the model says
    assert ids([hit async for hit in led(said(), found, given(found), 3)]) == ["0", "1", "2"]


async def test_a_model_is_read_to_its_end_and_shows_no_more_than_the_page() -> None:
    heard: list[int] = []

    async def speaking() -> AsyncGenerator[tuple[int, float], None]:
        for place in range(4):
            yield place, 50.0
            heard.append(place)

    found = hits(90, 80, 70, 60)
    assert ids([hit async for hit in led(speaking(), found, given(found), 2)]) == ["0", "1"]
    assert heard == [0, 1, 2, 3]


@pytest.mark.parametrize("order", ["cheapest", "most expensive"])
async def test_scores_never_rise_in_the_order_that_is_asked_for(order: str) -> None:
    index = LocalIndex(None, None)
    rows = (
        ("Oak table", "A table of oak.", 5),
        ("Round oak table", "A round table of oak.", 7),
        ("Oak table with a drawer and a shelf", "Table of oak for rooms that are not round", 9),
    )
    await index.put(
        [
            Item(
                name,
                "s",
                name,
                ("Product",),
                description=words,
                fields={"offers": {"price": price, "priceCurrency": "EUR"}},
            )
            for name, words, price in rows
        ]
    )
    site = Site(index, questions=False)
    [reply] = [
        event
        async for event in site(Turn(Message.text(f"{order} round table of oak with a shelf")))
        if isinstance(event, Reply)
    ]
    shown = [part.value for part in reply.message.parts if part.label == "result"]
    scores = [row["score"] for row in shown]
    assert len(shown) > 1 and scores == sorted(scores, reverse=True)


def test_an_order_by_a_field_is_kept_and_its_scores_even() -> None:
    even = evened(hits(40, 50, 45, 39))
    assert ids(even) == ["0", "1", "2", "3"]
    assert [hit.score for hit in even] == [45, 45, 45, 39]

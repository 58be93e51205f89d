"""The filter table: sixty filters as structured attributes and in words, and exactly what each lets through (W-5)."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from sabir.search import LocalIndex, Parsed, SearchQuery, decontextualized, from_text, resolved, structured
from sabir.search.items.attributes import attributes
from sabir.search.query.comparisons import bounds
from sabir.search.query.conditions import holds
from search.shelf import ALL, NOW, shelf

RECIPES = "r1 r2 r3 r4 r5"
EVENTS = "e1 e2 e3 e4"

# A query's attributes, and what they let through: no more, no less.
STRUCTURED: list[tuple[dict[str, Any], str]] = [
    ({"itemType": "Recipe"}, RECIPES),
    ({"itemType": "recipes"}, RECIPES),
    ({"@type": "https://schema.org/Event"}, EVENTS),
    ({"itemType": ["MusicEvent", "Museum"]}, "e1 e4 l3"),
    ({"itemType": "LocalBusiness"}, "l1 l2 l4"),
    ({"itemType": "Article"}, "a1 a2"),
    ({"site": "blog.example"}, "a1 a2"),
    ({"price": "less than $20"}, "r1 r2 e1 e2"),
    ({"price": "under 12 dollars"}, "r1 e1"),
    ({"price": "12 dollars or less"}, "r1 r2 e1"),
    ({"price": "$20 - $50"}, "r3 p2 e4"),
    ({"price": "between 20 and 50 USD"}, "r3 p2 e4"),
    ({"price": "over $100"}, "p1 e3"),
    ({"price": "under €10"}, "r4 e1"),
    ({"price": "more than 90 dollars", "itemType": "Product"}, "p1 p3"),
    ({"price": {"min": 10, "max": 25}}, "r2 r3 p2 e2"),
    ({"price": {"lt": 9}}, "r1 e1"),
    ({"price": "free"}, "e1"),
    ({"totalTime": "under 30 minutes"}, "r4 r5"),
    ({"totalTime": "at most half an hour"}, "r1 r4 r5"),
    ({"time": "PT20M"}, "r4"),
    ({"rating": ">= 4.5 stars"}, "r1 r3 p1 p4 l4"),
    ({"rating": "4+ stars", "itemType": "Recipe"}, "r1 r2 r3 r5"),
    ({"calories": "less than 350"}, "r1 r5"),
    ({"proteinContent": "at least 20 g"}, "r3 r5"),
    ({"startDate": "before June 2026"}, "e1 e4 r1 r2 r3 r4 r5 a1 a2"),
    ({"startDate": {"after": "2026-06-01", "before": "2026-10-01"}}, "e2 e3"),
    ({"datePublished": "2026"}, "r1 r4 r5 a1"),
    ({"datePublished": "since March 2026"}, "r4 r5"),
    ({"location": "Idaho"}, "r1 e1 e2 e4 l1 l2 l4"),
    ({"location": "near Boise"}, "r1 e1 e4 l1 l2"),
    ({"location": "within 10 km of Boise"}, "r1 e1 e4 l1"),
    ({"location": {"latitude": 45.5, "longitude": -122.7, "radius": 20}}, "e3 l3"),
    ({"location": "Portland, OR"}, "e3 l3"),
    ({"brand": "acme"}, "p1 p3"),
    ({"color": "not black", "itemType": "Product"}, "p1 p3"),
    ({"cuisine": "Indian or Thai"}, "r3 r4"),
    ({"author": "Smith"}, "a1"),
    ({"availability": "in stock"}, "p1 p2 p4"),
    ({"suitableForDiet": "vegetarian"}, "r1 r2 r4 r5"),
    ({"ingredients": "without nuts", "itemType": "Recipe"}, "r1 r3 r5"),
    ({"weight": "under 1 kg"}, "p2 p3 p4"),
    ({"storage": "at least 64 GB"}, "p4"),
]

# The same in words, and the words that are left to look for.
SPOKEN: list[tuple[str, str, str]] = [
    ("recipes under 10 dollars", "r1", "recipes"),
    ("vegetarian recipes under $20 without nuts near Boise", "r1", "vegetarian recipes"),
    ("dinner in 30 minutes or less", "r1 r4 r5", "dinner"),
    ("vegan", "r1 r4", "vegan"),
    ("gluten-free recipes", "r1 r4 r5", "gluten-free recipes"),
    ("recipes without nuts", "r1 r3 r5", "recipes"),
    ("recipes without dairy", "r1 r4", "recipes"),
    ("recipes with no eggs or meat", "r1 r4", "recipes"),
    ("something that has cinnamon in it", "r1", "something with cinnamon"),
    ("recipes under 400 calories with at least 9 g of protein", "r4 r5", "recipes"),
    ("rated at least 4.5", "r1 r3 p1 p4 l4", ""),
    ("products with more than 100 reviews", "p1 p4", "products"),
    ("events this weekend", "e1", "events"),
    ("events in September", "e2", "events"),
    ("events after June 1, 2026", "e2 e3", "events"),
    ("concerts before May 2026", "e4", "concerts"),
    ("free events", "e1", "events"),
    ("events in Idaho", "e1 e2 e4", "events"),
    ("restaurants near Boise", "l2", "restaurants"),
    ("museums in Portland", "l3", "museums"),
    ("camping gear between $20 and $50", "r3 p2 e4", "camping gear"),
    ("backpack under $100 in stock", "p2", "backpack"),
    ("serves 6", "r2 r3", ""),
    ("articles published before 2025", "a2", "articles"),
    ("products under 200 g", "p2 p4", "products"),
    ("not leather products", "p1 p2 p4", "products"),
]


@pytest.fixture(scope="module")
def index() -> LocalIndex:
    made = LocalIndex(None, None)
    asyncio.run(made.put(shelf()))
    return made


async def through(index: LocalIndex, parsed: Parsed) -> set[str]:
    """The ids of everything that the filters let through, and a check that the definition agrees."""
    settled = await resolved(parsed, index)
    found = {hit.item.id for hit in (await index.search(SearchQuery("", settled.conditions, limit=100))).hits}
    defined = {
        item.id for item in shelf() if all(holds(condition, attributes(item)) for condition in settled.conditions)
    }
    assert found == defined
    return found


def test_the_table_has_sixty_filters() -> None:
    assert len(STRUCTURED) + len(SPOKEN) >= 60


@pytest.mark.parametrize(("filters", "expected"), STRUCTURED, ids=lambda case: str(case)[:60])
async def test_a_structured_filter_lets_through_what_it_says(
    index: LocalIndex, filters: dict[str, Any], expected: str
) -> None:
    parsed = structured(filters, await index.fields(), NOW)
    assert not parsed.ignored
    assert await through(index, parsed) == set(expected.split())


@pytest.mark.parametrize(("text", "expected", "rest"), SPOKEN, ids=lambda case: str(case)[:60])
async def test_a_filter_in_words_lets_through_what_it_says(
    index: LocalIndex, text: str, expected: str, rest: str
) -> None:
    parsed = from_text(text, await index.fields(), NOW)
    assert not parsed.ignored
    assert await through(index, parsed) == set(expected.split())
    assert parsed.text == rest


@pytest.mark.parametrize(
    ("filters", "reason"),
    [
        ({"flavour": "sour"}, "no item states flavour"),
        ({"itemType": "Zorblax"}, "not a schema.org type and no item's type"),
        ({"calories": "plenty"}, None),
        ({"price": "soonish"}, None),
    ],
)
async def test_a_filter_that_cannot_be_applied_is_reported_with_the_reason(
    index: LocalIndex, filters: dict[str, Any], reason: str | None
) -> None:
    parsed = structured(filters, await index.fields(), NOW)
    if reason is not None:
        assert [item.reason for item in parsed.ignored] == [reason]
        assert parsed.conditions == ()
        assert await through(index, parsed) == set(ALL)
    else:  # understood as words, which no item has
        assert parsed.ignored or not await through(index, parsed)


async def test_a_filter_in_words_on_what_no_item_states_is_reported_and_not_applied() -> None:
    index = LocalIndex(None, None)
    await index.put([item for item in shelf() if item.site == "blog.example"])
    parsed = from_text("boots under $50", await index.fields(), NOW)
    assert parsed.text == "boots"
    assert parsed.conditions == ()
    assert [(entry.value, entry.reason) for entry in parsed.ignored] == [("under $50", "no item states a price")]


@pytest.mark.parametrize(
    "text", ["june bug spray", "a 2 kg bag of flour", "books about recipes", "chocolate cake", "what is Ecma?"]
)
async def test_words_that_only_look_like_filters_stay(index: LocalIndex, text: str) -> None:
    parsed = from_text(text, await index.fields(), NOW)
    assert (parsed.conditions, parsed.around, parsed.text) == ((), (), text)


@pytest.mark.parametrize(
    ("text", "order"),
    [("cheapest tent", ("price", True)), ("newest articles", ("date", False)), ("top rated phones", ("stars", False))],
)
async def test_an_order_in_words_is_understood(index: LocalIndex, text: str, order: tuple[str, bool]) -> None:
    assert from_text(text, await index.fields(), NOW).order == order


@pytest.mark.parametrize(
    "piece", ["1", "1,111", "1 ", "near Boise ", "not ", "without nuts, ", "between 1 and ", "A", ", and "]
)
async def test_a_long_text_costs_no_more_time_for_being_odd(index: LocalIndex, piece: str) -> None:
    """Patterns run on the head of a text only; on all of it, some of these took minutes."""
    text = piece * (32_000 // len(piece))
    started = time.process_time()
    parsed = from_text(text, await index.fields(), NOW)
    structured({"price": text, "location": text, "brand": text, "date": [text]}, await index.fields(), NOW)
    decontextualized(text, [text, "recipes"])
    assert time.process_time() - started < 1.0
    assert len(parsed.text) > 30_000


@pytest.mark.parametrize(
    ("said", "low", "high"),
    [("50 dollars at most", None, 50.0), ("30 euros at the most", None, 30.0), ("4 stars at least", 4.0, None)],
)
def test_a_bound_may_follow_its_amount(said: str, low: float | None, high: float | None) -> None:
    read = bounds(said)
    assert read is not None
    assert (read.low, read.high) == (low, high)

"""What a visitor of the sample site reads: where to eat and when, a fact and what belongs to it, and nothing beside."""

from __future__ import annotations

import pytest

from .asking import Judged, answered, opened

PLACES = "https://harbour.example/places/"
WORDS_ONLY = [False, pytest.param(True, marks=pytest.mark.slow)]


@pytest.mark.parametrize(
    "question",
    [
        "where can I have breakfast on Sunday?",
        "where can we get some breakfast on a Sunday",
        "Wo kann ich am Sonntag frühstücken?",
        "¿dónde puedo desayunar el domingo?",
        "Où peut-on prendre le petit-déjeuner dimanche ?",
    ],
)
async def test_breakfast_is_found_where_it_is_served_that_day(question: str) -> None:
    answer = await answered(await opened("harbour", vectors=False), Judged("language", question))
    assert answer.ids[:1] == (f"{PLACES}the-good-radish",), answer.text[:200]


@pytest.mark.parametrize(
    "question",
    ["where can I have dinner on Saturday?", "wo kann man am Samstag zu Abend essen?", "¿dónde puedo cenar el sábado?",
     "où peut-on dîner samedi ?", "où manger samedi ?", "¿dónde se puede comer el sábado?"],
)  # fmt: skip
async def test_places_to_eat_are_open_that_day(question: str) -> None:
    answer = await answered(await opened("harbour", vectors=False), Judged("language", question))
    rows = [line for line in answer.text.splitlines() if line[:1].isdigit()]
    assert len(rows) >= 5 and all(", open " in row and "Sat" in row for row in rows), rows


@pytest.mark.parametrize("vectors", WORDS_ONLY)
@pytest.mark.parametrize("question", ["how do I reset my password", "what will the weather be like tomorrow"])
async def test_out_of_scope_finds_nothing_with_and_without_vectors(question: str, vectors: bool) -> None:
    answer = await answered(await opened("harbour", vectors=vectors), Judged("out of scope", question))
    assert answer.ids == () and answer.text.startswith("I found nothing for that.")


@pytest.mark.parametrize("vectors", WORDS_ONLY)
async def test_only_what_speaks_of_a_thing_follows_its_fact(vectors: bool) -> None:
    index = await opened("harbour", vectors=vectors)
    answer = await answered(index, Judged("fact", "phone number of talon house"), 10)
    assert answer.text.startswith("The phone number of Talon House is +1-208-555-0137.")
    assert answer.ids == (f"{PLACES}talon-house", "https://harbour.example/events/owls-after-dark")


async def test_what_is_needed_for_a_dish_are_its_ingredients() -> None:
    index = await opened("harbour", vectors=False)
    answer = await answered(index, Judged("fact", "what do I need for chana masala"))
    assert "chickpeas" in answer.text.splitlines()[0], answer.text[:200]

"""What is stated answers an ordinary question; otherwise nothing is stated (issue 15)."""

from __future__ import annotations

import pytest

from .asking import Judged, answered, opened

FERRY = "costs four dollars each way"
BATHS = "a warm shallow one for small kids"


async def _stated(question: str, site: str = "harbour") -> str:
    """What is stated before the list; empty if nothing is."""
    text = (await answered(await opened(site), Judged("fact", question))).text
    before, between, _ = text.partition("\n\n")
    return before if between and not before.startswith(("1.", "Nothing", "I found")) else ""


@pytest.mark.parametrize(
    ("question", "said"),
    [
        ("when does the lighthouse close", "Lantern Point Light is open Sat, Sun 11:00–16:00."),
        ("where is the lighthouse", "Lantern Point Light is at 1 Lantern Point, Heron Harbour, ID, 83698, US."),
        ("how tall is the lighthouse", "forty-one feet tall"),
        ("how much is the ferry", FERRY),
        ("was kostet die Fähre?", FERRY),
        ("how much does the museum cost", "Entry is six dollars"),
        ("can children go to the harbour baths", BATHS),
        ("how long does the rye bread take", "takes three days"),
    ],
)
async def test_what_is_asked_of_a_thing_is_stated(question: str, said: str) -> None:
    assert said in await _stated(question)


@pytest.mark.parametrize(
    "question",
    [
        "where can I park my car",  # "leave the loud music in the car" is no answer
        "what should I wear to the lantern parade",
        "which classes are for beginners",
        "what books are there about the sea",
        "is there parking near the harbour",  # nothing about parking is "nearly"
        "who founded the bakery",
        "what time does the ferry leave",  # an evening on board has a time of its own
        "how long does the pumpkin soup take",  # "follow a day in the maze" is no duration
        "can you climb the lighthouse",  # "the only lighthouse" allows and denies nothing
    ],
)
async def test_nothing_is_stated_that_does_not_answer(question: str) -> None:
    assert await _stated(question) == ""


async def test_a_list_of_features_does_not_deny_that_somebody_may_come() -> None:
    assert not (await _stated("can children go to the harbour baths")).startswith("No")


@pytest.mark.parametrize(
    ("site", "question", "never"),
    [
        ("hollyoak", "can I return a plant", "Family-run"),  # "free parking" permits nothing
        ("ellery", "where is the life drawing class", "in language"),
        ("ellery", "how do I enrol", "Enrol."),  # it says no more than the question
        ("tarnside", "which coffee is from ethiopia", "category: Coffee"),
        ("tarnside", "who roasts the coffee", "roasted to order"),  # how it is done, not by whom
    ],
)
async def test_other_sites_state_nothing_beside_the_point(site: str, question: str, never: str) -> None:
    assert never not in await _stated(question, site)

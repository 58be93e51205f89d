"""The question sets: what visitors ask of 29 sites, and how many answers a careful reader finds right (issue 15).

The figures are printed by kind (``pytest -s``). docs/search.md has the figures of each set's first run, before any rule
was changed for it. That of the fifth set, 132 questions: 87.1 % right, 7.6 % partly right, 5.3 % wrong; by kind (right,
wrong): name 100, 0; fact 88, 0; yes/no 83, 11; filter 95, 0; negation 91, 9; date 71, 14; follow-up 88, 0; typo 71, 14;
language 90, 0; out of scope 100, 0; injection 100, 0.

That of the eighth set, 249 questions, 109 of them about a library, a kind of site that no rule had been tried on:
69.9 % right, 17.7 % partly right, 12.4 % wrong; by kind (right, wrong): name 85, 10; fact 67, 4; yes/no 54, 7; filter
72, 17; negation 67, 20; date 74, 13; follow-up 79, 11; typo 100, 0; language 39, 44; out of scope 100, 0; injection
71, 29. Its failures were then read, and rules were changed for kinds of them; what it says since is no first run.

The first run of the ninth set, 267 questions, 117 of them about a campsite: 73.4 % right, 11.6 % wrong. That of
"own_sites", 281 questions about six small sites: 53.4 % right, 12.5 % wrong. Neither meets the limits of the others;
their own (``OWN_LIMITS``) keep them from getting worse.

The tenth set, 331 questions, 240 of them about a music school (in German), a health centre and a dealer of used cars,
and the eleventh, 200 questions, 140 of them about a town council and a software project, were written blind and run on
the code before and after a session of work on general rules. 222 questions of the tenth (not ``held``) were used during
that work: 61.3 % right and 23.0 % wrong before, 72.1 % and 16.2 % after. The others were not: the rest of the tenth
59.6 % and 25.7 % before, 67.9 % and 15.6 % after; the eleventh 71.0 % and 15.0 % before, 77.0 % and 11.0 % after.

The twelfth set, 200 questions, 130 of them about a vet and a theatre, was written blind and run once on the code
that was there after the wrong rows of the tenth (not ``held``) had been sorted by cause: 74.5 % right, 12.5 % wrong; by
kind (right, wrong): name 78, 17; fact 70, 15; yes/no 59, 5; filter 81, 14; negation 56, 39; date 68, 11; follow-up 67,
22; typo 88, 0; language 71, 12; out of scope 100, 0; injection 93, 0. Its third that is kept apart (``held``): 73.1 %
right, 11.9 % wrong.

The wrong rows of the tenth and the twelfth (not ``held``) were then sorted by cause again, and rules were changed for
the causes. Those of the tenth: 79.3 % right and 9.0 % wrong before, 84.2 % and 6.8 % after; of the twelfth 75.2 % and
12.8 % before, 85.7 % and 6.0 % after. The rows that nobody read: the rest of the tenth 71.6 % and 13.8 % before, 72.5 %
and 13.8 % after; the eleventh 77.0 % and 11.0 % before, 78.0 % and 10.5 % after; the rest of the twelfth 73.1 % and
11.9 % before, 76.1 % and 10.4 % after. By kind, these 376 rows after (right, wrong): name 84, 11; fact 81, 3; yes/no
69, 3; filter 75, 8; negation 58, 32; date 76, 8; follow-up 67, 24; typo 88, 6; language 57, 29; out of scope 91, 3;
injection 93, 0.

Most wrong answers were not false statements but lists of one wrong item, where the right one was among the next by how
much of the question it accounts for. Since such lists are mended (``agents/site/weighing.py``), and a follow-up that
names nothing keeps to the thing before, the rows that nobody read have 76.1 % right and 9.8 % wrong (76.1 % and 11.4 %
before); by kind (right, wrong): name 84, 11; fact 81, 3; yes/no 69, 3; filter 72, 11; negation 58, 32; date 76, 5;
follow-up 73, 15; typo 84, 3; language 57, 23; out of scope 91, 3; injection 93, 0. Their figures by kind were looked at
five times during that work. One part of it, which was right more often on the rows that were read, was dropped because
filters were wrong more often on these. These rows have since been read, and rules were changed for their causes.

The thirteenth set, 433 questions, 268 of them about a garden centre, a college and a hostel (in Spanish), was written
blind and run on the code before those changes: 75.6 % right and 12.9 % wrong; its third that is kept apart (``held``)
81.8 % and 8.4 %. After those changes, which nobody made for it, except that pages are read with their text: 77.8 % and
11.5 %, and 83.8 % and 5.8 %. Its rows that are not ``held`` were then sorted by cause, and general rules were changed
for the causes: 87.1 % and 2.5 %, and 85.1 % and 4.5 % for the rows that are kept apart, which nobody has read.

The fourteenth set, 330 questions, 240 of them about a swimming pool (in French), a coffee shop and a letting agency,
was written blind: 66.4 % right and 13.2 % wrong; its third that is kept apart (``held``) 62.7 % and 16.4 %. After its
other rows had been read and rules were changed for their causes: 95.0 % and 2.3 %, and 69.1 % and 13.6 % for the rows
that are kept apart. So little of such work helps where nobody looked. The fifteenth set, 240 questions of the kinds
that fail most about nine of these sites, was written blind to measure what is general: 56.2 % right and 14.6 % wrong by
rules alone, 57.9 % and 14.6 % with the likeliest sentence where no rule answers (``agents/site/likely.py``), 64.6 % and
13.3 % with yes or no by the likeliest statements (``agents/site/whether_so.py``). One half of it (``held``) is kept
apart: 60.0 % and 15.0 % before the last of these changes, 65.0 % and 14.2 % after it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from sabir.search import Item, LocalIndex
from sabir.search.query.hours import open_days
from sabir.search.query.names import MIN_TYPO
from sabir.search.query.words import fold

from .asking import (
    NOW,
    SOURCES,
    UNSEEN,
    Answer,
    Judged,
    Verdict,
    answered,
    opened,
    questions,
    read,
    says_no,
    says_yes,
    table,
    verdict,
)

MIN_RIGHT = 0.92
MAX_WRONG = 0.02
MAX_FALSE_YES = 0.02  # of the things that are not there (questions/there.jsonl)
MIN_TRUE_YES = 0.80
# Least right, most wrong.
OWN_LIMITS = {
    "ninth": (0.88, 0.025),
    "own_sites": (0.91, 0.02),
    "tenth": (0.89, 0.045),
    "eleventh": (0.855, 0.045),
    "twelfth": (0.88, 0.06),
    "thirteenth": (0.895, 0.03),
    "fourteenth": (0.87, 0.065),
    "fifteenth": (0.65, 0.115),
}


pytestmark = pytest.mark.timeout(1800)  # the fixture asks nearly 4,000 questions

SETS: dict[str, Callable[[Judged], bool]] = {
    "open": lambda judged: not judged.held and judged.file not in UNSEEN,
    "held back": lambda judged: judged.held and judged.file not in UNSEEN,
    **{name: lambda judged, name=name: judged.file == name for name in UNSEEN},
}


async def _asked(site: str) -> list[tuple[Judged, Answer]]:
    index = await opened(site)
    there = [judged for judged in read("there") if judged.site == site]
    try:
        return [(judged, await answered(index, judged)) for judged in (*questions(site), *there)]
    finally:
        await index.close()


@pytest.fixture(scope="module")
def asked() -> list[tuple[Judged, Answer]]:
    """All questions and their answers. The vectors of a site are computed once for all of its questions."""
    return [row for site in SOURCES for row in asyncio.run(_asked(site))]


@pytest.fixture(scope="module")
def judged(asked: list[tuple[Judged, Answer]]) -> list[tuple[Judged, Verdict]]:
    return [(judged, verdict(judged, answer)) for judged, answer in asked if judged.file != "there"]


def test_there_are_enough_questions_and_a_third_is_held_back(judged: list[tuple[Judged, Verdict]]) -> None:
    assert len(judged) >= 400
    apart = sum(question.held or question.file in UNSEEN for question, _ in judged)
    assert apart >= len(judged) // 3


@pytest.mark.slow
@pytest.mark.parametrize("chosen", list(SETS))
def test_nearly_all_questions_are_answered_right(judged: list[tuple[Judged, Verdict]], chosen: str) -> None:
    rows = [(item, found) for item, found in judged if SETS[chosen](item)]
    print(f"\n{chosen}\n{table(rows)}")
    verdicts = [found for _, found in rows]
    missed = [item.question for item, found in rows if found == "wrong"]
    min_right, max_wrong = OWN_LIMITS.get(chosen, (MIN_RIGHT, MAX_WRONG))
    assert verdicts.count("right") / len(verdicts) >= min_right, missed
    assert verdicts.count("wrong") / len(verdicts) <= max_wrong, missed


@pytest.mark.slow
def test_yes_is_only_said_of_what_is_there(asked: list[tuple[Judged, Answer]]) -> None:
    """Most things that are not there are near misses: a dish that is not vegan, a colour that is not sold, an event on
    another day. Neither yes nor no is a fair answer; yes is not."""
    said: dict[bool, list[tuple[str, str]]] = {True: [], False: []}
    for question, answer in asked:
        if question.file == "there" and question.yes is not None:
            said[question.yes].append((question.question, answer.text))
    false_yes = [row for row in said[False] if says_yes(row[1])]
    true_yes = [row for row in said[True] if says_yes(row[1])]
    print(f"not there: {len(said[False])}, yes: {len(false_yes)}; there: {len(said[True])}, yes: {len(true_yes)}")
    assert len(said[False]) >= 40 and len(said[True]) >= 20
    assert len(false_yes) <= MAX_FALSE_YES * len(said[False]), false_yes
    assert len(true_yes) >= MIN_TRUE_YES * len(said[True])
    assert not [row for row in said[True] if says_no(row[1])]


async def _sample_items(index: LocalIndex) -> list[Item]:
    found = [
        await index.get(site, item_id) for site in SOURCES["harbour"] async for item_id, _, _ in index.listed(site)
    ]
    return [item for item in found if item is not None]


def _spellings(name: str) -> list[str]:
    """A name as people type it: in any case, without accents, with "and" for "&", with one typo."""
    longest = max(name.split(), key=len)
    middle = len(longest) // 2
    swapped = f"{longest[: middle - 1]}{longest[middle]}{longest[middle - 1]}{longest[middle + 1 :]}"
    typed = [name, name.lower(), name.upper(), f"tell me about {name}", fold(name), name.replace("&", "and")]
    typed += [name.replace(longest, swapped, 1)] if longest.isalpha() and len(longest) > MIN_TYPO else []
    return list(dict.fromkeys(typed))


@pytest.mark.slow
async def test_every_sample_item_is_first_under_its_own_name() -> None:
    index = await opened("harbour", vectors=False)
    items = await _sample_items(index)
    missed = []
    for item in items:
        for question in _spellings(item.name):
            answer = await answered(index, Judged("name", question), 1)
            if not answer.ids or answer.ids[0] != item.id:
                missed.append(question)
    assert len(items) > 300
    assert missed == []


DIETS = {
    "vegetarian": "VegetarianDiet",
    "vegan": "VeganDiet",
    "gluten-free": "GlutenFreeDiet",
    "gluten free": "GlutenFreeDiet",
}
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def _truths(item: Item) -> list[tuple[str, bool]]:
    """Questions whether something is so of an item, and what its fields say."""
    truths: list[tuple[str, bool]] = []
    diets = [entry.rsplit("/", 1)[-1] for entry in item.fields.get("suitableForDiet", ())]
    if "Recipe" in item.types:
        truths += [(f"is {item.name} {word}?", diet in diets) for word, diet in DIETS.items()]
    if hours := item.fields.get("openingHours"):
        days = open_days({"openingHours": hours})
        truths += [(f"is {item.name} open on {day}?", day.lower() in days) for day in DAYS]
    offers = item.fields.get("offers")
    if isinstance(offers, dict) and "Product" in item.types:
        truths.append((f"is the {item.name} in stock?", not offers["availability"].endswith("OutOfStock")))
        truths += [(f"is the {item.name} under ${amount}?", offers["price"] < amount) for amount in (20, 100)]
    if isinstance(offers, dict) and item.fields.get("startDate"):
        truths.append((f"is {item.name} free?", offers["price"] == 0))
    if "acceptsReservations" in item.fields:
        truths.append((f"does {item.name} take reservations?", item.fields["acceptsReservations"]))
    return truths


@pytest.mark.slow
async def test_yes_or_no_is_right_in_both_directions_for_every_field_that_has_them() -> None:
    index = await opened("harbour", vectors=False)
    missed = []
    count = {True: 0, False: 0}
    for item in await _sample_items(index):
        for question, yes in _truths(item):
            judged = Judged("yes/no", question, first=(item.id,), yes=yes)
            answer = await answered(index, judged, 1)
            count[yes] += 1
            if verdict(judged, answer) != "right":
                missed.append((question, yes, answer.text[:60]))
    print(f"yes: {count[True]}, no: {count[False]}, missed: {len(missed)}")
    assert min(count.values()) > 100
    assert missed == []


def test_the_clock_of_the_questions_is_a_monday() -> None:
    assert NOW.weekday() == 0


@pytest.mark.parametrize("vectors", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("question", "is_met"),
    [
        ("vegetarian dinner under 30 minutes without nuts", True),
        ("vegan gluten free dinner", True),
        ("toys for less than 40 dollars", True),
        ("zebra saddle", False),
    ],
)
async def test_what_meets_every_condition_scores_high_by_falling_score(
    question: str, is_met: bool, vectors: bool
) -> None:
    index = await opened("harbour", vectors=vectors)
    try:
        answer = await answered(index, Judged("filter", question))
    finally:
        await index.close()
    assert answer.ids and list(answer.scores) == sorted(answer.scores, reverse=True)
    assert all((score >= 80) is is_met for score in answer.scores), answer.scores

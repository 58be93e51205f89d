"""Any statement of an item may answer: a field under its own name, or a sentence with the asked kind of value."""

from __future__ import annotations

import pytest

from sabir.search import Item
from sabir.search.answers.reading import is_narrowed, kind_asked, readings, telling
from sabir.search.answers.whether import by_statement, days_named

LESSONS = Item(
    id="https://school.example/violin",
    site="school.example",
    name="Violin lessons",
    types=("Course",),
    description="Lessons last 45 minutes. A bow costs €12. It is sent by post. Works Monday to Wednesday. No cash.",
    fields={
        "instructor": {"@type": "Person", "name": "Marguerite Sloane"},
        "additionalProperty": [{"name": "Waiting list", "value": "8 months"}],
        "amenityFeature": [{"name": "Lift", "value": False}],
    },
)


@pytest.mark.parametrize(
    ("question", "said"),
    [
        ("how much is a bow for violin lessons?", "A bow costs €12."),
        ("how long is the waiting list?", "Waiting list: 8 months"),
        ("how long do lessons last?", "Lessons last 45 minutes."),
    ],
)
def test_the_statement_with_the_asked_kind_of_value_and_the_words_fits_best(question: str, said: str) -> None:
    found = readings(LESSONS, telling(question), kind_asked(question))
    assert max(found, key=lambda reading: reading.fit).statement.text == said


def test_a_word_that_nothing_has_narrows_what_is_asked() -> None:
    question = "how much is a haunted bow?"
    reading = next(row for row in readings(LESSONS, telling(question), kind_asked(question)) if "bow" in row.own)
    assert is_narrowed(question, reading)
    assert not is_narrowed("how much is a bow?", reading)


@pytest.mark.parametrize(
    ("question", "is_so"),
    [
        ("is there a lift?", False),
        ("do you take cash?", False),
        ("do you work on Tuesday?", True),
        ("do you work on Friday?", False),
        ("do you take gold?", None),
    ],
)
def test_yes_or_no_needs_every_telling_word(question: str, is_so: bool | None) -> None:
    found = by_statement(LESSONS, question)
    assert (found[0] if found is not None else None) is is_so


def test_days_between_two_are_named() -> None:
    assert days_named("Friday to Sunday") == {"friday", "saturday", "sunday"}
    assert len(days_named("every day")) == 7
    assert days_named("in May") == frozenset()

"""What is not so, of questions for that."""

from __future__ import annotations

import pytest

from sabir.search.answers.denials import denials, left_out, words_denied
from sabir.search.items.item import Item

YARD = Item(
    site="a.example",
    id="https://a.example/1",
    name="Scrap Yard",
    description="Takes copper and lead. It does not take tyres. No paint. No booking needed. Not on Mondays.",
)


@pytest.mark.parametrize(
    ("question", "sentences"),
    [
        ("what does the scrap yard not take?", ["It does not take tyres."]),
        ("what does the scrap yard take?", []),
        ("which yards are not near the lake?", []),
    ],
)
def test_a_sentence_that_denies_it_answers_what_is_not_so(question: str, sentences: list[str]) -> None:
    words = words_denied(question)
    assert [reading.statement.text for reading in (denials(YARD, words) if words else [])] == sentences


@pytest.mark.parametrize(
    ("question", "sentence"),
    [
        ("what can't you bring to the scrap yard?", "It does not take tyres."),
        ("which days is the scrap yard not open?", "Not on Mondays."),
        ("what can't you bring to the museum?", ""),
        ("what can you bring to the scrap yard?", ""),
    ],
)
def test_what_a_named_thing_leaves_out_needs_no_word_of_the_question(question: str, sentence: str) -> None:
    assert left_out(YARD, question) == sentence

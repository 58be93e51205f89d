"""Names as people say them: without the amount at the end, with numbers in words, with one letter wrong."""

from __future__ import annotations

import pytest

from sabir.search.query import names
from sabir.search.query.text import FREE, from_text
from search.generated import EVERYTHING, NOW


@pytest.mark.parametrize(
    ("question", "name", "is_named"),
    [
        ("gooseneck kettle", "Gooseneck Kettle 0.9 L", True),
        ("gosseneck ketle", "Gooseneck Kettle 0.9 L", True),
        ("night watch coffee", "Night Watch Coffee, 12 oz", True),
        ("kettle", "Gooseneck Kettle 0.9 L", False),
        ("calendar", "Harbour Calendar 2027", False),
    ],
)
def test_a_name_may_lack_the_amount_at_its_end(question: str, name: str, is_named: bool) -> None:
    match = names.find(question, name)
    assert (match is not None) is is_named
    assert match is None or not match.whole


@pytest.mark.parametrize(
    ("words", "name", "covered"),
    [
        ("four tent", "Heron 4 Tent", True),
        ("four tent", "Heron 2 Tent", False),
        ("building skiff", "Build a Skiff in Twelve Weeks", True),
        ("king", "K Street", False),
    ],
)
def test_a_name_is_described_by_its_words(words: str, name: str, covered: bool) -> None:
    assert names.covers(words, name) is covered


@pytest.mark.parametrize(
    ("question", "is_free"),
    [
        ("family events that are free", True),
        ("a talk which is free", True),
        ("soups that are free of nuts", False),
        ("soups that are gluten free", False),
    ],
)
def test_that_are_free_is_a_price(question: str, is_free: bool) -> None:
    found = from_text(question, EVERYTHING, NOW).conditions
    assert all(condition in found for condition in FREE) is is_free

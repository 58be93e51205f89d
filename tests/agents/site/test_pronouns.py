"""A follow-up on one thing, with its name in place of the pronoun (issue 15)."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from sabir.agents.site.pronouns import with_subject
from sabir.search import Fields
from sabir.search.query.asking import asked
from sabir.search.query.glossary import glossed, language_of


@pytest.mark.parametrize(
    ("question", "named"),
    [
        ("which room is it in", "which room is Open Mic in"),
        ("et c'est quel jour ?", "et Open Mic est quel jour ?"),
        ("c'est ouvert le lundi ?", "Open Mic est ouvert le lundi ?"),
        ("wann beginnt er?", "wann beginnt Open Mic ?"),
    ],
)
def test_a_pronoun_is_replaced_by_the_name_as_a_word_of_its_own(question: str, named: str) -> None:
    assert with_subject(question, "Open Mic") == named


@pytest.mark.parametrize(
    "question",
    ["which room is Open Mic in", "in which hall is Open Mic?", "what building is Open Mic held in?",
     "In welchem Raum ist Open Mic?", "dans quelle salle est Open Mic ?", "¿en qué sala es Open Mic?"],
)  # fmt: skip
def test_the_room_of_a_thing_is_where_it_is(question: str) -> None:
    english = glossed(question, language_of(question))
    wanted = asked(english, english.replace("Open Mic", ""), Fields(), datetime(2026, 11, 16, tzinfo=UTC))
    assert wanted.fields == ("address",), english


@pytest.mark.parametrize("question", ["which room has a balcony?", "which hall is the cheapest?"])
def test_which_room_may_look_for_a_room(question: str) -> None:
    assert "address" not in asked(question, question, Fields(), datetime(2026, 11, 16, tzinfo=UTC)).fields


@pytest.mark.parametrize("question", ["c'est quoi l'aquagym douce ?", "qu'est-ce que c'est que l'aquagym douce ?"])
def test_what_a_thing_is_asks_for_neither_yes_nor_no(question: str) -> None:
    english = glossed(question, "fr")
    assert not asked(english, english, Fields(), datetime(2026, 11, 16, tzinfo=UTC)).is_yes_no

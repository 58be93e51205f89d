"""Fields that no rule knows: they are asked for by their own names, in five languages, and stated only if every word of
the question is accounted for."""

from __future__ import annotations

import pytest

from sabir.search.query.field_names import is_kin, match

from ..asking import Judged, answered, opened, says_no, says_yes

SITE = "https://glen.example/"


@pytest.mark.parametrize(
    ("question", "stated"),
    [
        ("how many bedrooms does the Mill House have?", "4"),
        ("Wie viele Schlafzimmer hat The Mill House?", "4"),
        ("¿Cuántos dormitorios tiene The Mill House?", "4"),
        ("Combien de chambres a The Mill House ?", "4"),
        ("The Mill Houseの寝室はいくつですか", "4"),
        ("what time is check-in at Larch Cabin?", "15:00"),
        ("how big is the Shepherd's Hut?", "14 m²"),
        ("who guides the Five Sisters Ridge Walk?", "Calum Ross"),
        ("mileage of the Nissan Leaf", "18,500"),
        ("who guides the Five Sisters Ridge Walk and what time does it depart?", "Calum Ross"),
        ("who guides the Five Sisters Ridge Walk and what time does it depart?", "08:00"),
    ],
)
async def test_any_field_is_stated_by_its_own_name(question: str, stated: str) -> None:
    answer = await answered(await opened("glen", vectors=False), Judged("fact", question))
    assert stated in answer.text.splitlines()[0], answer.text[:200]


@pytest.mark.parametrize(
    ("question", "is_so"),
    [
        ("does Heron Bothy have wifi?", False),
        ("does Larch Cabin have wifi?", True),
        ("Y a-t-il le wifi à Heron Bothy ?", False),
        ("can I bring my dog to Larch Cabin?", True),
        ("are pets allowed in Ferryman's Flat?", False),
        ("Sind Hunde in Larch Cabin erlaubt?", True),
        ("Sind Haustiere in Heron Bothy erlaubt?", False),
    ],
)
async def test_a_feature_that_is_denied_is_not_there(question: str, is_so: bool) -> None:
    answer = await answered(await opened("glen", vectors=False), Judged("yes/no", question))
    assert (says_yes(answer.text), says_no(answer.text)) == (is_so, not is_so), answer.text[:200]


async def test_a_field_is_not_stated_where_a_word_of_the_question_is_not_accounted_for() -> None:
    index = await opened("glen", vectors=False)
    answer = await answered(index, Judged("fact", "how many haunted bedrooms does the Mill House have?"))
    assert answer.ids[:1] == (f"{SITE}stay/mill-house",)
    assert "number of bedrooms" not in answer.text


@pytest.mark.parametrize(
    ("before", "question", "stated"),
    [
        ("what time is check-in at Larch Cabin?", "what about Heron Bothy?", "16:00"),
        ("what time is check-in at the Mill House?", "and check-out?", "10:30"),
        ("how many seats does the Fiat 500 have?", "and the Nissan Leaf?", "5"),
    ],
)
async def test_a_follow_up_asks_the_same_of_another_thing_or_another_field_of_the_same(
    before: str, question: str, stated: str
) -> None:
    answer = await answered(await opened("glen", vectors=False), Judged("follow-up", question, before=(before,)))
    assert stated in answer.text.splitlines()[0], answer.text[:200]


@pytest.mark.parametrize(
    ("question", "names"),
    [
        ("how many bedrooms", ["numberOfBedrooms"]),
        ("when is check-in", ["checkinTime"]),
        ("when do we have to leave", ["checkoutTime"]),
        ("what is the odometer", []),
    ],
)
def test_fields_are_found_by_the_telling_words_of_their_names(question: str, names: list[str]) -> None:
    fields = ("numberOfBedrooms", "checkinTime", "checkoutTime", "mileageFromOdometer")
    assert [found.name for found in match(question, fields)] == names


@pytest.mark.parametrize(
    ("word", "other", "is_so"),
    [("seat", "seating", True), ("depart", "departure", True), ("checkin", "checkout", False), ("sea", "seat", False)],
)
def test_forms_of_a_word_are_kin(word: str, other: str, is_so: bool) -> None:
    assert is_kin(word, other) is is_so

"""Opening hours: read from both ways of schema.org, written for people, and asked for by day and by the clock."""

from __future__ import annotations

from typing import Any

import pytest

from sabir.search import Item, LocalIndex
from sabir.search.query.hours import in_words, open_slots, slot, stated
from search.asking import Judged, answered


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"openingHours": ["We-Su 11:30-21:00"]}, "Wed–Sun 11:30–21:00, closed Mon and Tue"),
        (
            {"openingHours": ["Mo-Fr 06:30-17:00", "Sa-Su 07:30-17:00"]},
            "Mon–Fri 06:30–17:00, Sat, Sun 07:30–17:00",
        ),
        ({"openingHours": "Mo-Su 11:30-21:30"}, "every day 11:30–21:30"),
        ({"openingHours": "Mo-Su 00:00-23:59"}, "every day 24 hours"),
        ({"openingHours": "Fr-Mo 10:00-16:00"}, "Fri–Mon 10:00–16:00, closed Tue, Wed and Thu"),
        ({"openingHours": ["Mo,Th 09:00-12:00, 14:00-18:00"]}, "Mon, Thu 09:00–12:00, 14:00–18:00"),
        ({"openingHours": "Sa by appointment"}, "Sat by appointment"),
        ({"openingHours": "9:00-17:00"}, "every day 09:00–17:00"),
        (
            {
                "openingHoursSpecification": [
                    {"dayOfWeek": ["Monday", "Tuesday", "Wednesday"], "opens": "09:00:00", "closes": "21:00"},
                    {"dayOfWeek": "https://schema.org/Sunday", "opens": "00:00", "closes": "00:00"},
                ]
            },
            "Mon–Wed 09:00–21:00",
        ),
        ({}, ""),
    ],
)
def test_hours_are_written_for_people(fields: dict[str, Any], words: str) -> None:
    assert in_words(fields) == words


def test_hours_are_written_in_the_language_of_the_question() -> None:
    fields = {"openingHours": ["We-Su 11:30-21:00"]}
    assert in_words(fields, "de") == "Mi–So 11:30–21:00, Mo und Di geschlossen"
    assert in_words(fields, "fr") == "mer–dim 11:30–21:00, fermé lun et mar"
    assert in_words(fields, "ja") == "水–日 11:30–21:00, 月、火 定休"
    assert stated(fields, "sunday", "es") == "dom 11:30–21:00"
    assert stated(fields, "monday") == ""


def test_the_half_hours_of_a_bar_go_past_midnight() -> None:
    slots = open_slots({"openingHours": ["Sa 17:00-01:00"]})
    assert slot("saturday", 17 * 60) in slots and slot("sunday", 30) in slots
    assert slot("saturday", 16 * 60 + 59) not in slots and slot("sunday", 60) not in slots
    assert len(slots) == 16


PLACES = (
    ("Early Bird", "Mo-Su 06:00-14:00"),
    ("Night Owl", "Th-Sa 18:00-02:00"),
    ("Nine to Five", "Mo-Fr 09:00-17:00"),
)


async def _answer(question: str) -> tuple[str, set[str]]:
    index = LocalIndex(None, None)
    await index.put([Item(name, "s", name, ("Restaurant",), fields={"openingHours": hours}) for name, hours in PLACES])
    try:
        answer = await answered(index, Judged("date", question))
    finally:
        await index.close()
    return answer.text, set(answer.ids)


@pytest.mark.parametrize(
    ("question", "names"),
    [
        ("restaurants open at 7 in the morning on Sundays", {"Early Bird"}),
        ("restaurants open on Friday after 10 pm", {"Night Owl"}),
        ("restaurants open until midnight on Saturday", {"Night Owl"}),
        ("restaurants that are open late", {"Night Owl"}),
        ("restaurants open before 8 am on Tuesday", {"Early Bird"}),
        ("restaurants open on Monday mornings", {"Early Bird", "Nine to Five"}),
        ("Restaurants, die am Sonntag geöffnet sind", {"Early Bird"}),
    ],
)
async def test_places_are_found_by_the_time_at_which_they_are_open(question: str, names: set[str]) -> None:
    assert (await _answer(question))[1] == names


@pytest.mark.parametrize(
    ("question", "said"),
    [
        ("is Night Owl open at 8pm on Fridays?", "Yes. Night Owl is open Thu–Sat 18:00–02:00."),
        ("is Night Owl open at 5pm on Fridays?", "No. Night Owl is open Thu–Sat 18:00–02:00."),
        ("is Nine to Five still open at 17:30 on Monday?", "No. Nine to Five is open Mon–Fri 09:00–17:00, closed Sat"),
        ("is Early Bird closed on Sunday evenings?", "Yes. Early Bird is open every day 06:00–14:00."),
        ("is Early Bird opne on Monday?", "Yes. Early Bird is open every day 06:00–14:00."),
    ],
)
async def test_whether_a_place_is_open_is_answered_by_the_clock(question: str, said: str) -> None:
    assert (await _answer(question))[0].startswith(said)

"""Dates in words and in items: the day that is meant."""

from __future__ import annotations

import pytest

from sabir.search import Fields, Item, from_text
from sabir.search.items.attributes import attributes
from sabir.search.query.conditions import holds
from search.shelf import NOW


def test_a_time_is_on_the_day_that_the_clock_shows_where_it_is() -> None:
    concert = Item("e", "s", "Jazz", ("MusicEvent",), fields={"startDate": "2027-01-16T19:30:00-07:00"})
    known = Fields.of([attributes(concert)])
    on, after = (from_text(f"jazz on January {day}, 2027", known, NOW).conditions[0] for day in (16, 17))
    assert holds(on, attributes(concert)) and not holds(after, attributes(concert))


@pytest.mark.parametrize(
    ("said", "day", "meant"),
    [
        ("on a Saturday", "2026-06-13", True),
        ("on Saturdays", "2027-01-16", True),
        ("on Saturdays", "2026-06-14", False),
        ("at weekends", "2026-06-14", True),
        ("on a weekday", "2026-06-14", False),
        ("on a weekday", "2026-06-15", True),
    ],
)
def test_a_day_that_comes_again_is_any_of_them(said: str, day: str, meant: bool) -> None:
    concert = Item("e", "s", "Jazz", ("MusicEvent",), fields={"startDate": f"{day}T19:30:00"})
    read = from_text(f"jazz {said}", Fields.of([attributes(concert)]), NOW)
    assert read.text == "jazz" and holds(read.conditions[0], attributes(concert)) is meant

"""Dates in words and in items: the day that is meant."""

from __future__ import annotations

from datetime import datetime

import pytest

from sabir.search import Fields, Item, from_text
from sabir.search.items.attributes import attributes
from sabir.search.query import dates
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


@pytest.mark.parametrize(
    ("said", "day", "meant"),
    [
        ("this December", "2026-12-19", True),
        ("this December", "2027-01-16", False),
        ("next March", "2027-03-12", True),
        ("next March", "2027-04-02", False),
        ("this coming August", "2026-08-02", True),
        ("in the last week of this December", "2026-12-28", True),
        ("in the last week of this December", "2026-12-05", False),
        ("between the 5th and the 13th of December", "2026-12-05", True),
        ("between the 5th and the 13th of December", "2026-12-13", True),
        ("between the 5th and the 13th of December", "2026-12-19", False),
        ("next Friday", "2026-05-29", True),
        ("this coming Friday", "2026-05-22", True),
        ("this coming Friday", "2026-05-29", False),
    ],
)
def test_a_month_or_day_that_is_pointed_at_filters(said: str, day: str, meant: bool) -> None:
    concert = Item("e", "s", "Jazz", ("MusicEvent",), fields={"startDate": f"{day}T19:30:00"})
    read = from_text(f"jazz {said}", Fields.of([attributes(concert)]), NOW)
    assert read.text == "jazz" and holds(read.conditions[0], attributes(concert)) is meant


@pytest.mark.parametrize("said", ["this may contain nuts", "I hear this may be good", "june bugs", "friday bread"])
def test_a_month_or_day_that_is_not_pointed_at_does_not_filter(said: str) -> None:
    concert = Item("e", "s", "Jazz", ("MusicEvent",), fields={"startDate": "2026-12-19T19:30:00"})
    assert not from_text(said, Fields.of([attributes(concert)]), NOW).conditions


@pytest.mark.parametrize(
    ("today", "said", "start"),
    [
        ("2026-11-16", "this december", "2026-12-01"),
        ("2026-11-16", "next december", "2026-12-01"),
        ("2026-11-16", "this november", "2026-11-01"),
        ("2026-11-16", "next november", "2027-11-01"),
        ("2026-11-16", "last november", "2025-11-01"),
        ("2026-11-16", "last december", "2025-12-01"),
        ("2026-11-16", "this may", "2027-05-01"),
    ],
)
def test_a_pointed_month_is_the_nearest_on_that_side(today: str, said: str, start: str) -> None:
    meant = dates.span(said, datetime.fromisoformat(f"{today}T12:00:00+00:00"))
    assert meant is not None and meant.start == datetime.fromisoformat(f"{start}T00:00:00+00:00").timestamp()

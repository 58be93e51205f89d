"""Dates in the many ways people write them, said the one way that the rules read."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from sabir.search.query.date_words import plain

NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("on 13.3.2027", "on 13 march 2027"),
        ("on 3/13/2027", "on 13 march 2027"),
        ("on 5/8/2027", "on 5 august 2027 or 8 may 2027"),
        ("in 03/2027", "in march 2027"),
        ("on Sat, Mar 13", "on saturday, Mar 13"),
        ("on the thirteenth of March", "on 13 March"),
        ("1-15 March", "from 1 March to 15 March"),
        ("March through May", "from March to May"),
        ("the week before Christmas", "from 18 december 2026 to 24 december 2026"),
        ("the weekend of 5 December", "from 5 december 2026 to 6 december 2026"),
        ("in two months", "in january 2027"),
        ("in the coming weeks", "in the next 28 days"),
        ("the first week of March", "the first week of March"),
    ],
)
def test_a_date_is_said_the_plain_way(said: str, meant: str) -> None:
    assert plain(said, NOW) == meant

"""Dates as people write them in tables, to ISO dates. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime
from typing import Final

_DATE: Final = re.compile(
    r"(\d{1,2})([./-])(\d{1,2})\2(\d{4}|\d{2})(?:,?[ T]+(\d{1,2})[:.](\d{2})(?::\d{2})?(?: Uhr| h)?)?"
)
_CLOCK: Final = re.compile(r"(\d{1,2})(?:[:.h](\d{2}))?(?::\d{2})?\s?(am|pm|uhr|h)?", re.IGNORECASE)
_BARE: Final = re.compile(r"\d{4}-\d{2}-\d{2}")


def day_first(values: Iterable[str]) -> bool | None:
    """Whether a column of dates has the day before the month; None if it can be read either way."""
    doubtful = False
    for value in values:
        found = _DATE.fullmatch(value.strip())
        if not found or found[2] == ".":
            continue
        if int(found[1]) > 12:
            return True
        if int(found[3]) > 12:
            return False
        doubtful = doubtful or found[1] != found[3]
    return None if doubtful else True


def iso_date(text: str, days_first: bool | None) -> str:
    """A date in ISO's form; any other text as it is. A date with dots has the day first."""
    found = _DATE.fullmatch(text.strip())
    if not found or (found[2] != "." and days_first is None):
        return text
    day, month = (found[1], found[3]) if found[2] == "." or days_first else (found[3], found[1])
    year = int(found[4]) + (2000 if len(found[4]) == 2 else 0)
    try:
        moment = datetime(year, int(month), int(day), int(found[5] or 0), int(found[6] or 0))
    except ValueError:
        return text
    return moment.isoformat(timespec="minutes") if found[5] else moment.date().isoformat()


def at_clock(day: str, clock: str) -> str:
    """A date with the time of another column: ``2027-01-12`` and ``18:30`` or ``6.30 pm``."""
    found = _CLOCK.fullmatch(clock.strip())
    if not found or not _BARE.fullmatch(day) or not (found[2] or found[3]):
        return day
    half = (found[3] or "").casefold()
    hour = int(found[1]) % 12 + 12 * (half == "pm") if half in ("am", "pm") else int(found[1])
    minute = int(found[2] or 0)
    return f"{day}T{hour:02}:{minute:02}" if hour < 24 and minute < 60 else day

"""Opening hours: on which days a place is open, from schema.org's two ways to say it. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from sabir.search.items.item import JSON
from sabir.search.items.schema_org import strings

from .dates import WEEKDAYS

_SHORT: Final = tuple(day[:2] for day in WEEKDAYS)
_DAYS: Final = re.compile(rf"\b({'|'.join(_SHORT)})\w*(?:\s*[-–]\s*({'|'.join(_SHORT)})\w*)?", re.IGNORECASE)
_TIME: Final = re.compile(r"\b\d{1,2}:\d{2}\b")


def open_days(fields: Mapping[str, JSON]) -> frozenset[str]:
    """The names of the days; none if nothing is stated."""
    return frozenset(day for line, days in _lines(fields) for day in days)


def stated(fields: Mapping[str, JSON], day: str) -> str:
    """What is stated of a day, as the item writes it."""
    return ", ".join(line for line, days in _lines(fields) if day in days)


def _lines(fields: Mapping[str, JSON]) -> Iterator[tuple[str, list[str]]]:
    for line in strings(fields.get("openingHours")):
        if days := list(_named(line)):
            yield line, days
        elif _TIME.search(line):  # hours without days are of every day
            yield line, WEEKDAYS
    given = fields.get("openingHoursSpecification")
    for item in given if isinstance(given, list) else [given]:
        if not isinstance(item, dict):
            continue
        opens, closes = str(item.get("opens") or "")[:5], str(item.get("closes") or "")[:5]
        if opens and opens == closes:
            continue  # as schema.org says that it is closed
        names = [name.rsplit("/", 1)[-1] for name in strings(item.get("dayOfWeek"))]
        days = [day for name in names for day in _named(name)]
        yield f"{', '.join(names)} {opens}-{closes}".strip(" -"), days


def _named(text: str) -> Iterator[str]:
    """The days that "Mo-Fr", "Tu,Th" or "Sunday" name; "Fr-Mo" goes over the end of the week."""
    for first, last in _DAYS.findall(text):
        start = _SHORT.index(first.lower())
        end = _SHORT.index(last.lower()) if last else start
        for step in range((end - start) % 7 + 1):
            yield WEEKDAYS[(start + step) % 7]

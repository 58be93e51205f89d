"""Rules for when: dates, days of opening, parts of the day, the next and the last of something. Pure."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Final

from sabir.search.engine.base import Fields
from sabir.search.items.attributes import OPEN_ON, START_HOUR
from sabir.search.items.types import TYPE_WORDS, ancestors

from . import dates
from .conditions import AnyOf, During, Is, Range
from .phrase import Phrase, after
from .structured import DATE_OPERATORS, dated


def on_date(match: re.Match[str], known: Fields, now: datetime) -> Phrase | None:
    words = " ".join(match["when"].casefold().split())
    operator = " ".join((match["operator"] or "").casefold().split())
    relative = re.fullmatch(dates.PHRASE, words, re.IGNORECASE)
    form = relative.lastgroup if relative else ""
    if not operator and form in ("month", "year", "my", "weekday", "feast", "season") and not match["published"]:
        return None  # "June bugs", "2024 wheat", "winter jazz": not said as a date
    if operator == "from" and form == "year" and not re.match(r"\s+on(?:wards?)?\b", after(match)):
        operator = "in"  # "books from 2024"
    field = _date_field(match["published"], known)
    if field is None:
        return Phrase(ignored="no item states a date")
    when = dates.span(words, now, past=field != "date")
    return Phrase((dated(field, DATE_OPERATORS.get(operator, "in"), when),)) if when else None


def between_dates(match: re.Match[str], known: Fields, now: datetime) -> Phrase | None:
    field = _date_field(match["published"], known)
    if field is None:
        return Phrase(ignored="no item states a date")
    first, last = (dates.span(match[item], now, past=field != "date") for item in ("first", "last"))
    return Phrase((dated(field, "in", first, last),)) if first and last else None


def open_on(match: re.Match[str], known: Fields, now: datetime) -> Phrase | None:
    """ "Open on Sunday" is about the hours of a place and not about what happens then."""
    word = match["day"].casefold()
    ahead = {"today": 0, "tonight": 0, "now": 0, "tomorrow": 1}
    days = ("saturday", "sunday") if word.startswith("weekend") else (word.rstrip("s"),)
    if word in ahead:
        days = (dates.WEEKDAYS[(now.weekday() + ahead[word]) % 7],)
    if OPEN_ON not in known.words:
        return Phrase(ignored="no item states when it is open", keep=match.group())
    return Phrase((AnyOf(tuple(Is(OPEN_ON, (day,)) for day in days)),), keep="open")


def starting(match: re.Match[str], known: Fields, now: datetime) -> Phrase | None:
    """ "That start in March" is about the first day, "in March" about any."""
    field = next(item for verb, item in _DATED_BY.items() if match["verb"].casefold().startswith(verb))
    when = dates.span(" ".join(match["when"].casefold().split()), now)
    if field not in known.dates or when is None:
        return None
    operator = " ".join(match["operator"].casefold().split())
    return Phrase((dated(field, DATE_OPERATORS[operator], when),))


# What is said to happen on a day, to the field that states the day.
_DATED_BY: Final = {"start": "startdate", "begin": "startdate", "end": "enddate", "clos": "validthrough",
                    "appl": "validthrough"}  # fmt: skip


def at_hours(match: re.Match[str], known: Fields, now: datetime) -> Phrase | None:
    """ "Evening events", "on Friday evenings", "in the morning": by the clock at which they start."""
    if START_HOUR not in known.numbers:
        return None
    first, last = _HOURS[(match["part"] or match["alone"]).casefold().rstrip("s")]
    return Phrase((Range(START_HOUR, first, last, with_high=False),), keep=match["things"] or "")


# Parts of the day, from one hour up to another.
_HOURS: Final = {"morning": (5.0, 12.0), "afternoon": (12.0, 17.0), "evening": (17.0, 24.0), "night": (18.0, 24.0)}


def nth_event(match: re.Match[str], known: Fields, now: datetime) -> Phrase | None:
    """ "The next event", "the last concert in May": in the order of their days."""
    thing = " ".join(match["things"].casefold().split())
    if "startdate" not in known.dates or "Event" not in ancestors(TYPE_WORDS.get(thing, "")):
        return None
    ahead = (During("startdate", now.timestamp(), None),)
    return Phrase(ahead, order=("date", match["nth"].casefold() != "last"), keep=match["things"])


def every_day(match: re.Match[str], known: Fields, now: datetime) -> Phrase | None:
    field = _date_field(None, known)
    if field is None:
        return Phrase(ignored="no item states a date")
    days = dates.every(match["every"], now)
    return Phrase((AnyOf(tuple(dated(field, "in", day) for day in days)),)) if days else None


def days_of_month(match: re.Match[str], known: Fields, now: datetime) -> Phrase | None:
    """ "On Saturday in March": each of that month."""
    field = _date_field(None, known)
    month = dates.span(match["month"], now)
    if field is None or month is None:
        return None
    days = dates.days_within(match["day"], month)
    return (
        Phrase((AnyOf(tuple(dated(field, "in", day) for day in days)),), keep=match["things"] or "") if days else None
    )


def _date_field(published: str | None, known: Fields) -> str | None:
    fields = ("datepublished", "dateposted", "datecreated", "date") if published else ("date", "datepublished")
    return next((field for field in fields if field in known.dates), None)

"""Dates as spans of time: ISO strings of items, and dates in words. Pure: now is an argument.

A span is half open, in seconds since 1970 UTC: a day, a month and a year are spans like any other.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from typing import Final

import msgspec

MONTHS: Final = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
]
WEEKDAYS: Final = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]
_SEASONS: Final = {"spring": (3, 6), "summer": (6, 9), "autumn": (9, 12), "fall": (9, 12), "winter": (12, 3)}

# Named days, as month and day; Thanksgiving is the fourth Thursday of November; without a month, they are days after
# Easter Sunday.
FEASTS: Final = {
    "christmas eve": (12, 24), "christmas day": (12, 25), "christmas": (12, 25), "boxing day": (12, 26),
    "new year's eve": (12, 31), "new years eve": (12, 31), "new year's day": (1, 1), "new years day": (1, 1),
    "new year's": (1, 1), "new year": (1, 1), "valentine's day": (2, 14), "valentines day": (2, 14),
    "valentine's": (2, 14), "st. patrick's day": (3, 17), "st patrick's day": (3, 17), "halloween": (10, 31),
    "independence day": (7, 4), "fourth of july": (7, 4), "thanksgiving": (11, 0),
    "good friday": (0, -2), "easter sunday": (0, 0), "easter monday": (0, 1), "easter": (0, 0),
}  # fmt: skip
# The nth of these within a month: "the first week of March", "the last weekend of May", "the second half of June".
_ORDINALS: Final = {
    "first": 0, "1st": 0, "second": 1, "2nd": 1, "third": 2, "3rd": 2, "fourth": 3, "4th": 3, "last": -1,
}  # fmt: skip
_THIRDS: Final = {"beginning": 0, "start": 0, "early": 0, "middle": 1, "mid": 1, "end": 2, "late": 2}  # of a month
_FEAST = "|".join(re.escape(name).replace("'", "['’]") for name in sorted(FEASTS, key=len, reverse=True))
MONTH: Final = "|".join([*MONTHS, "jan", "feb", "mar", "apr", "jun", "jul", "aug", "sept", "sep", "oct", "nov", "dec"])
_DAY = "|".join(WEEKDAYS)
_PART = (
    rf"(?:the\s+)?(?:{'|'.join(_ORDINALS)})\s+(?:weekend|week|half|{_DAY})"
    r"|(?:the\s+)?(?:beginning|start|middle|end)"
)


_DAY_SECONDS: Final = 86_400
_UNITS: Final = ("weekend", "week", "month", "year")


class Span(msgspec.Struct, frozen=True):
    """From ``start`` up to, but excluding, ``end``."""

    start: float
    end: float


_ISO: Final = re.compile(
    r"(\d{4})(?:-(\d{2})(?:-(\d{2})(?:[T ](\d{2}):(\d{2})(?::(\d{2})(?:\.\d+)?)?\s?(?:Z|[+-]\d{2}:?\d{2})?)?)?)?"
)

# A part of a month.
PART: Final = (
    rf"\b(?:{_PART})\s+of\s+(?:this\s+|next\s+|coming\s+)?(?:{MONTH})\b(?:,?\s+(?:19|20)\d{{2}}\b)?"
    rf"|\b(?:early|mid|late)[\s-]+(?:{MONTH})\b(?:,?\s+(?:19|20)\d{{2}}\b)?"
)
# Dates in words, longer forms first. Named groups say which form it is.
PHRASE: Final = (
    rf"(?P<part>{PART})"
    r"|(?P<iso>\b\d{4}-\d{2}(?:-\d{2})?\b)"
    rf"|(?P<dmy>\b(?:(?:{_DAY}),?\s+(?:the\s+)?)?\d{{1,2}}(?:st|nd|rd|th)?\s+(?:of\s+)?(?:{MONTH})\b\.?(?:,?\s+\d{{4}}\b)?)"
    rf"|(?P<mdy>\b(?:(?:{_DAY}),?\s+)?(?:{MONTH})\.?\s+\d{{1,2}}(?:st|nd|rd|th)?\b(?:,?\s+\d{{4}}\b)?)"
    rf"|(?P<my>\b(?:{MONTH})\.?,?\s+(?:of\s+)?\d{{4}}\b)"
    r"|(?P<ago>\b(?:the\s+)?(?:last|past|next|coming)\s+\d+\s+(?:day|week|month|year)s?\b)"
    r"|(?P<rel>\b(?:(?:the|this)\s+)?(?:this|next|last|past|coming)\s+(?:(?:weekend|week|month|year|spring|summer|autumn|fall|winter)\b"
    rf"|(?:{MONTH})\b(?!\s+\d)(?<!this\smay)|(?<=this\s)may(?=\s*(?:$|[?!.,;]))))"
    rf"|(?P<season>\b(?:{'|'.join(_SEASONS)})\b(?:\s+(?:of\s+)?(?:19|20)\d{{2}}\b)?)"
    rf"|(?P<feast>\b(?:{_FEAST})\b(?:,?\s+(?:of\s+)?20\d\d\b)?)"
    rf"|(?P<named>\b(?:today|tonight|tomorrow|yesterday)\b)"
    rf"|(?P<weekday>\b(?:(?:this\s+)?(?:this|next|coming)\s+)?(?:{_DAY})\b)"
    rf"|(?P<month>\b(?:{MONTH})\b)"
    r"|(?P<year>\b(?:19|20)\d{2}\b)"
)


def plain_phrase() -> str:
    """``PHRASE`` without group names, for use in another pattern."""
    return re.sub("P<[a-z]+>", ":", PHRASE)


_PHRASE: Final = re.compile(PHRASE, re.IGNORECASE)
# Recurring days: "on Saturdays", "on a Sunday", "at weekends".
EVERY: Final = rf"(?P<every>\b(?:an?\s+|any\s+)(?:{_DAY}|weekend|weekday)\b|\b(?:{_DAY}|weekend|weekday)s\b)"
_DAYS_OF: Final = re.compile(
    rf"\b(?P<lead>between|from)\s+(?:the\s+)?(?P<first>\d{{1,2}})(?:st|nd|rd|th)?\s*(?P<link>and|to|until|till|-|–)\s*"
    rf"(?:the\s+)?(?P<last>\d{{1,2}})(?:st|nd|rd|th)?\s+(?:of\s+)?(?P<month>{MONTH})\b(?P<year>,?\s+\d{{4}}\b)?"
    rf"|\b(?:(?P<lead2>between|from)\s+)?(?P<month2>{MONTH})\s+(?P<first2>\d{{1,2}})(?:st|nd|rd|th)?\s*"
    rf"(?P<link2>and|to|until|till|-|–)\s*(?P<last2>\d{{1,2}})(?:st|nd|rd|th)?\b(?!\s*(?:{MONTH}|:))(?P<year2>,?\s+\d{{4}}\b)?",
    re.IGNORECASE,
)
_WEEKS: Final = 53  # how far ahead recurring days are searched


def instant(text: str) -> Span | None:
    """The span of an ISO 8601 date or time; a time has length zero. None if it is neither.

    A time is taken as the local clock shows it, whatever its zone: a concert at ``19:30-07:00`` on Saturday is on
    Saturday, even if it is already Sunday in Greenwich.
    """
    match = _ISO.fullmatch(text.strip())
    if not match:
        return None
    year, month, day, hour, minute, second = match.groups()
    try:
        if month is None:
            return _years(int(year))
        if day is None:
            return _months(int(year), int(month))
        if hour is None:
            return _days(date(int(year), int(month), int(day)))
        at = datetime(int(year), int(month), int(day), int(hour), int(minute), int(second or 0), tzinfo=UTC)
    except (ValueError, OverflowError):
        return None
    return Span(at.timestamp(), at.timestamp())


def span(text: str, now: datetime, *, past: bool = False) -> Span | None:
    """The span of words such as "June 2026", "next weekend" or "2026-06-05".

    A month or day without a year is the next one, or with ``past`` the last one.
    """
    words = text.strip()
    match = _PHRASE.fullmatch(words)
    if not match:
        return instant(words)
    return from_match(match, now, past=past)


def from_match(match: re.Match[str], now: datetime, *, past: bool = False) -> Span | None:
    """The span of a match of ``PHRASE``."""
    form = match.lastgroup
    words = match.group().casefold().replace(",", " ").replace(".", " ").split()
    try:
        match form:
            case "iso" | "year":
                return instant(match.group())
            case "dmy" | "mdy":
                return _dated(words, now.date(), past)
            case "my":
                return _months(int(words[-1]), _month(words[0]))
            case "month":
                return _next_month(_month(words[0]), now.date(), past)
            case "ago":
                return _counted(words, now)
            case "rel":
                return _relative(words[-2], words[-1], now.date(), past)
            case "part":
                return _part(words, now.date(), past)
            case "season":
                return _season(words, now.date(), past)
            case "feast":
                return _feast(match.group().casefold().replace("’", "'"), now.date(), past)
            case "named":
                shift = {"today": 0, "tonight": 0, "tomorrow": 1, "yesterday": -1}[words[0]]
                return _days(now.date() + timedelta(days=shift))
            case _:
                return _weekday(words, now.date())
    except (ValueError, OverflowError):
        return None


def _stamp(day: date) -> float:
    return datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()


def _days(first: date, count: int = 1) -> Span:
    return Span(_stamp(first), _stamp(first + timedelta(days=count)))


def _months(year: int, month: int, count: int = 1) -> Span:
    last = year * 12 + month - 1 + count
    return Span(_stamp(date(year, month, 1)), _stamp(date(last // 12, last % 12 + 1, 1)))


def _years(year: int) -> Span:
    return Span(_stamp(date(year, 1, 1)), _stamp(date(year + 1, 1, 1)))


def _month(word: str) -> int:
    return next(number for number, name in enumerate(MONTHS, 1) if name.startswith(word[:3]))


def _dated(words: list[str], today: date, past: bool) -> Span:
    month = _month(next(word for word in words if word[0].isalpha() and word not in (*WEEKDAYS, "of", "the")))
    numbers = [int(re.sub(r"\D", "", word)) for word in words if word[0].isdecimal()]
    if len(numbers) > 1:
        return _days(date(numbers[1], month, numbers[0]))
    day = date(today.year, month, numbers[0])
    if past and day > today:
        day = date(today.year - 1, month, numbers[0])
    if not past and day < today:
        day = date(today.year + 1, month, numbers[0])
    return _days(day)


def _next_month(month: int, today: date, past: bool) -> Span:
    year = today.year
    if past and month > today.month:
        year -= 1
    if not past and month < today.month:
        year += 1
    return _months(year, month)


def _feast(name: str, today: date, past: bool) -> Span:
    """The next one, or the last one if the past is meant, or the one in a given year."""
    dated = re.fullmatch(r"(.+?),?\s+(?:of\s+)?(20\d\d)", name)
    name = dated[1] if dated else name

    def of(year: int) -> date:
        month, day = FEASTS[" ".join(name.split())]
        if not month:
            return _easter(year) + timedelta(days=day)
        first = date(year, month, day or 1)
        return first if day else first + timedelta(days=(3 - first.weekday()) % 7 + 21)

    year = int(dated[2]) if dated else today.year
    if dated:
        return _days(of(year))
    if past and of(year) > today:
        year -= 1
    elif not past and of(year) < today:
        year += 1
    return _days(of(year))


def _easter(year: int) -> date:
    """Easter Sunday, by the rule of the Gregorian calendar (Butcher's form of it)."""
    golden, century, rest = year % 19, year // 100, year % 100
    moon = (19 * golden + century - century // 4 - (century - (century + 8) // 25 + 1) // 3 + 15) % 30
    week = (32 + 2 * (century % 4) + 2 * (rest // 4) - moon - rest % 4) % 7
    days = moon + week - 7 * ((golden + 11 * moon + 22 * week) // 451) + 114
    return date(year, days // 31, days % 31 + 1)


def _part(words: list[str], today: date, past: bool) -> Span:
    """A part of a month: "first weekend of december", "end of may 2027", "late march"."""
    words = [
        piece for word in words for piece in word.split("-") if piece not in ("the", "of", "this", "next", "coming", "")
    ]
    year = int(words[-1]) if words[-1].isdecimal() else 0
    month = _month(words[-2] if year else words[-1])
    whole = _months(year, month) if year else _next_month(month, today, past)
    first = datetime.fromtimestamp(whole.start, UTC).date()
    length = round((whole.end - whole.start) / _DAY_SECONDS)
    if words[0] in _THIRDS:
        at = 10 * _THIRDS[words[0]]
        return _days(first + timedelta(days=at), length - at if at == 20 else 10)
    nth, what = _ORDINALS[words[0]], words[1]
    if what == "half":
        return _days(first, 15) if nth == 0 else _days(first + timedelta(days=15), length - 15)
    if what == "week":
        at = length - 7 if nth < 0 else 7 * nth
        return _days(first + timedelta(days=at), 7)
    starts = WEEKDAYS.index("saturday" if what == "weekend" else what)
    days = [day for day in range(length) if (first + timedelta(days=day)).weekday() == starts]
    return _days(first + timedelta(days=days[nth]), 2 if what == "weekend" else 1)


def _season(words: list[str], today: date, past: bool) -> Span:
    first = _SEASONS[words[0]][0]
    if words[-1].isdecimal():
        return _months(int(words[-1]), first, 3)
    year = today.year
    if not past and _months(year, first, 3).end <= _stamp(today):
        year += 1
    if past and _months(year, first, 3).start > _stamp(today):
        year -= 1
    return _months(year, first, 3)


def _counted(words: list[str], now: datetime) -> Span:
    count = int(next(word for word in words if word.isdecimal()))
    days = {"day": 1, "week": 7, "month": 30, "year": 365}[words[-1].rstrip("s")] * count
    if words[0 if words[0] != "the" else 1] in ("next", "coming"):
        return Span(now.timestamp(), _stamp(now.date() + timedelta(days=days + 1)))
    return Span(_stamp(now.date() - timedelta(days=days)), now.timestamp() + 1)


def _relative(which: str, what: str, today: date, past: bool) -> Span:
    step = {"next": 1, "last": -1, "past": -1}.get(which, 0)
    if what not in _UNITS and what not in _SEASONS:
        return _relative_month(step, _month(what), today, past)
    monday = today - timedelta(days=today.weekday())
    match what:
        case "weekend":
            return _days(monday + timedelta(days=5 + 7 * step), 2)
        case "week":
            return _days(monday + timedelta(days=7 * step), 7)
        case "month":
            number = today.year * 12 + today.month - 1 + step
            return _months(number // 12, number % 12 + 1)
        case "year":
            return _years(today.year + step)
        case season:
            first, _ = _SEASONS[season]
            year = today.year + step
            if step == 0 and today.month >= first + 3:
                year += 1  # this year's is over
            return _months(year, first, 3)


def _relative_month(step: int, month: int, today: date, past: bool) -> Span:
    """ "This December", "next March", "last June": the nearest one on that side, never the current month."""
    if step and month == today.month:
        return _months(today.year + step, month)
    return _next_month(month, today, step < 0 or (not step and past))


def _weekday(words: list[str], today: date) -> Span:
    ahead = (WEEKDAYS.index(words[-1]) - today.weekday()) % 7
    if words[0] == "next" and ahead < 7 - today.weekday():
        ahead += 7
    return _days(today + timedelta(days=ahead))


def every(text: str, now: datetime) -> tuple[Span, ...]:
    """The days that "Saturdays" or "a weekend" mean, from today on; empty for another word."""
    word = text.casefold().split()[-1].rstrip("s") if text.strip() else ""
    days = {"weekend": (5, 6), "weekday": (0, 1, 2, 3, 4)}.get(word)
    if days is None:
        days = (WEEKDAYS.index(word),) if word in WEEKDAYS else ()
    monday = now.date() - timedelta(days=now.date().weekday())
    first = [_days(monday + timedelta(days=days[0] + 7 * week), len(days)) for week in range(_WEEKS)] if days else []
    return tuple(item for item in first if item.end > _stamp(now.date()))


def days_within(text: str, month: Span) -> tuple[Span, ...]:
    """The days of that name within a span: every Saturday of March."""
    word = text.casefold().rstrip("s")
    wanted = (5, 6) if word == "weekend" else (WEEKDAYS.index(word),)
    day = datetime.fromtimestamp(month.start, UTC).date()
    found: list[Span] = []
    while _stamp(day) < month.end and len(found) < _WEEKS:
        if day.weekday() in wanted:
            found.append(_days(day))
        day += timedelta(days=1)
    return tuple(found)


def both_full(text: str) -> str:
    """ "Between 10 and 20 January" and "January 10-20" with the month, and the year, at both days."""

    def full(match: re.Match[str]) -> str:
        first, last, month, year = (
            match[name] or match[f"{name}2"] or "" for name in ("first", "last", "month", "year")
        )
        return f"from {first} {month}{year} to {last} {month}{year}"

    return _DAYS_OF.sub(full, text)

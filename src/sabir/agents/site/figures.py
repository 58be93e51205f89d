"""The figures of a text in one notation, so that two texts can be compared: times of day, numbers, phone numbers.

"9 am", "9h" and "09:00" are the same time; "€1,250" and "1.250 EUR" have the same number. Pure.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping
from datetime import date, datetime
from itertools import islice
from typing import Final

import msgspec

from sabir.search.items.item import JSON
from sabir.search.query.units import duration, number

_ISO: Final = re.compile(
    r"(?<![\w-])(?P<year>\d{4})-(?P<month>\d{2})-(?P<day>\d{2})"
    r"(?:[T ](?P<hour>\d{2}):(?P<minute>\d{2})(?::\d{2}(?:\.\d{1,9})?)?(?:Z|[+-]\d{2}:?\d{2})?)?(?![\w-])"
)
_DATE: Final = re.compile(r"(?<![\d./-])(\d{1,2})[./-](\d{1,2})[./-](\d{4})(?![\d/-])")
_LASTING: Final = re.compile(r"\bP(?:\d+D)?(?:T(?:\d+H)?(?:\d+M)?)?\b")
_PHONE: Final = re.compile(r"(?<![\w.,])[+(]{0,2}\d(?:[ ()./-]{0,2}\d){6,14}(?!\d)")
_CLOCK: Final = re.compile(
    r"(?<![\d.,:/$€£])(?:(?P<hour12>1[0-2]|0?[1-9])(?:[:.](?P<minute12>[0-5]\d))?\s?(?P<half>[ap])\.?\s?m\b\.?"
    r"|(?P<hour>2[0-4]|[01]?\d)[:.](?P<minute>[0-5]\d)(?![\d:]|[.,/]\d|\s?[%€$£])|(?P<word>\bnoon\b|\bmidnight\b))",
    re.IGNORECASE,
)
_HOUR: Final = re.compile(
    r"(?:\b(?:at|from|until|till|to|by|between|and)\s+|[-–]\s?)(?P<hour>2[0-4]|1?\d)(?![\w:]|[.,/]\d)"
    r"(?=\s*(?:$|[-–.,;!?)]|(?:to|until|till|and|on|every|each|daily|o['’]clock|in|uhr)\b))"
    r"|(?<![\d.,:/$€£])\b(?P<first>2[0-4]|1?\d)(?=\s?(?:[-–]|to|until|till)\s?\d)",
    re.IGNORECASE,
)
_NUMBER: Final = re.compile(r"\d+(?:[.,’'\u00a0]\d+)*")
_GROUPED: Final = re.compile(r"\d{1,3}(?:[.,’'\u00a0]\d{3})+")
_NOON: Final = 12 * 60
_DAY: Final = 24 * 60
_DIGITS: Final = 7  # of a phone number without the codes of its country and town


class Figures(msgspec.Struct, frozen=True):
    """``clocks`` are minutes from midnight, ``hours`` full hours of which only the number is stated. A number has
    several readings if its notation has ("1.250"), and so has a date ("2/3/2027"). ``phones`` are digits. ``exact`` are
    the clocks that say which half of the day they mean."""

    clocks: frozenset[int] = frozenset()
    hours: frozenset[int] = frozenset()
    numbers: tuple[frozenset[float], ...] = ()
    phones: frozenset[str] = frozenset()
    dates: tuple[frozenset[date], ...] = ()
    exact: frozenset[int] = frozenset()


def figures(text: str) -> Figures:
    """The figures of a text."""
    clocks: set[int] = set()
    numbers: list[frozenset[float]] = []
    rest = text
    for match in _ISO.finditer(text):
        numbers += [frozenset((float(match[name]),)) for name in ("year", "day")]
        if match["hour"]:
            clocks.add(60 * int(match["hour"]) + int(match["minute"]))
    rest = _ISO.sub(" ", rest)
    for match in _LASTING.finditer(rest):
        numbers += [frozenset((value,)) for value in _lasting(duration(match.group()))]
    found = [match.group() for match in _PHONE.finditer(rest) if not _DATE.fullmatch(match.group())]
    rest = _PHONE.sub(lambda match: f" {match.group()} " if _DATE.fullmatch(match.group()) else " ", rest)
    days = tuple(frozenset(_dates(match)) for match in _DATE.finditer(rest))
    rest = _DATE.sub(" ", rest)
    hours = frozenset(int(match["hour"] or match["first"]) for match in _HOUR.finditer(rest))
    rest = _HOUR.sub(" - ", rest)
    clocks.update(map(_minutes, _CLOCK.finditer(rest)))
    exact = frozenset(_minutes(match) for match in _CLOCK.finditer(rest) if match["half"] or match["word"])
    rest = _CLOCK.sub(" - ", rest)
    numbers += [_readings(match.group()) for match in _NUMBER.finditer(rest)]
    phones = frozenset(re.sub(r"\D", "", phone) for phone in found)
    iso = tuple(frozenset((day,)) for day in _stated_dates(text))
    return Figures(frozenset(clocks), hours, tuple(numbers), phones, (*iso, *days), exact)


def of_fields(fields: Mapping[str, JSON]) -> Figures:
    """The figures of an item's fields, and how long an event with a start and an end lasts."""
    found = figures("\n".join(islice((leaf for leaf in leaves(fields) if len(leaf) <= _PROSE), _LEAVES)))
    start, end = (_moment(fields.get(name)) for name in ("startDate", "endDate"))
    if start is None or end is None or (start.tzinfo is None) != (end.tzinfo is None) or end < start:
        return found
    lasts = tuple(frozenset((value,)) for value in _lasting((end - start).total_seconds() / 60))
    return msgspec.structs.replace(found, numbers=(*found.numbers, *lasts))


def unsupported(said: Figures, known: Figures) -> bool:
    """Whether a text has a figure that another does not have."""
    if not said.exact <= known.clocks:
        return True
    if not said.clocks <= known.clocks | {(clock + _NOON) % _DAY for clock in known.clocks if clock >= _NOON + 60}:
        return True
    if not all(any(_ends_alike(phone, other) for other in known.phones) for phone in said.phones):
        return True
    days = frozenset[date]().union(*known.dates)
    if any(readings.isdisjoint(days) for readings in said.dates):
        return True
    there = frozenset[float]().union(*known.numbers, map(float, known.hours))
    full = {clock % _NOON for clock in known.clocks}
    if not all(60 * hour % _NOON in full or hour in there for hour in said.hours):
        return True
    return any(readings.isdisjoint(there) for readings in said.numbers)


def _minutes(match: re.Match[str]) -> int:
    if word := match["word"]:
        return _NOON if word.casefold() == "noon" else 0
    if half := match["half"]:
        at = 60 * (int(match["hour12"]) % 12) + int(match["minute12"] or 0)
        return at + (_NOON if half.casefold() == "p" else 0)
    return (60 * int(match["hour"]) + int(match["minute"])) % _DAY


def _lasting(minutes: float | None) -> Iterator[float]:
    """How a number of minutes is said: 90, 1.5, or 1 and 30."""
    if minutes:
        yield from (minutes, minutes / 60, minutes // 60, minutes % 60, minutes / _DAY)


def _readings(written: str) -> frozenset[float]:
    found = {number(written), number(re.sub(r"\D", "", written)) if _GROUPED.fullmatch(written) else None}
    pieces = re.split(r"\D", written) if not found - {None} else []  # "12.3.2027" has three numbers
    return frozenset(float(value) for value in (*found, *pieces) if value not in (None, ""))


def _stated_dates(text: str) -> Iterator[date]:
    for match in _ISO.finditer(text):
        yield from _date(match["year"], match["month"], match["day"])


def _dates(match: re.Match[str]) -> Iterator[date]:
    """The dates that "2/3/2027" may be."""
    one, other, year = match.groups()
    yield from _date(year, other, one)
    yield from _date(year, one, other)


def _date(year: str, month: str, day: str) -> Iterator[date]:
    with contextlib.suppress(ValueError):
        yield date(int(year), int(month), int(day))


def _ends_alike(one: str, other: str) -> bool:
    """Whether two phone numbers are the same but for their codes: "+44 20 7946 0123", "020 7946 0123"."""
    one, other = one.lstrip("0"), other.lstrip("0")
    shorter, longer = sorted((one, other), key=len)
    return len(shorter) >= _DIGITS and longer.endswith(shorter)


def _moment(value: JSON) -> datetime | None:
    try:
        return datetime.fromisoformat(value) if isinstance(value, str) and "T" in value else None
    except ValueError:
        return None


def leaves(value: JSON, depth: int = 0) -> Iterator[str]:
    """The texts and numbers of a value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, int) and not isinstance(value, bool):
        yield str(value)
    elif isinstance(value, float):
        yield f"{value:g}" if abs(value) < 1e6 else f"{value:.2f}".removesuffix(".00")
    elif depth < _DEPTH:
        for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
            yield from leaves(item, depth + 1)


_DEPTH: Final = 6
_PROSE: Final = 200  # characters of a value; a longer one is prose, and is read as the text of the item
_LEAVES: Final = 400  # values of an item that are read

"""Opening hours: on which days and at which times a place is open, from schema.org's two notations. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import date, timedelta
from functools import lru_cache
from typing import Final

from sabir.search.items.item import JSON
from sabir.search.items.schema_org import strings

from .dates import WEEKDAYS
from .hours_abroad import in_codes

_SHORT: Final = tuple(day[:2] for day in WEEKDAYS)
_DAYS: Final = re.compile(rf"\b({'|'.join(_SHORT)})\w*(?:\s*[-–]\s*({'|'.join(_SHORT)})\w*)?", re.IGNORECASE)
_TIMES: Final = re.compile(r"\b(\d{1,2}):(\d{2})\s*[-–—]\s*(\d{1,2}):(\d{2})\b")
_TIME: Final = re.compile(r"\b\d{1,2}:\d{2}\b")
_HALF_HOUR: Final = 30  # minutes; the finest resolution of a time of day
_DAY: Final = 24 * 60
_KEPT: Final = 40  # characters of one day's hours whose slots are kept
_ALL_DAY: Final = ("00:00–23:59", "00:00–24:00", "00:00–00:00")
_CLOSED_DAYS: Final = 3  # with more closed days than this, the open ones say enough

# Abbreviated days of the week, Monday first, and the words around them, by language.
_NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "en": ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"),
    "de": ("Mo", "Di", "Mi", "Do", "Fr", "Sa", "So"),
    "es": ("lun", "mar", "mié", "jue", "vie", "sáb", "dom"),
    "fr": ("lun", "mar", "mer", "jeu", "ven", "sam", "dim"),
    "ja": ("月", "火", "水", "木", "金", "土", "日"),
}
_DAILY: Final = {"en": "every day", "de": "täglich", "es": "todos los días", "fr": "tous les jours", "ja": "毎日"}
_ROUND: Final = {"en": "24 hours", "de": "rund um die Uhr", "es": "24 horas", "fr": "24 h sur 24", "ja": "24時間"}
_CLOSED: Final = {"en": "closed {}", "de": "{} geschlossen", "es": "cerrado {}", "fr": "fermé {}", "ja": "{} 定休"}


def open_days(fields: Mapping[str, JSON]) -> frozenset[str]:
    """The names of the open days; empty if nothing is stated."""
    return frozenset(day for day, _ in _lines(fields))


def open_slots(fields: Mapping[str, JSON]) -> frozenset[str]:
    """The half hours of the week at whose start the place is open, each in the form of ``slot``."""
    found: set[str] = set()
    for day, text in _lines(fields):
        found |= _slots(day, text) if len(text) <= _KEPT else _slots.__wrapped__(day, text)
    return frozenset(found)


@lru_cache(maxsize=2_048)
def _slots(day: str, text: str) -> frozenset[str]:
    """The half hours of one day's hours; kept, because many places have the same."""
    found: set[str] = set()
    for hours, minutes, end_hours, end_minutes in _TIMES.findall(text):
        start, end = 60 * int(hours) + int(minutes), 60 * int(end_hours) + int(end_minutes)
        end += _DAY if end <= start else 0
        first = -(-start // _HALF_HOUR) * _HALF_HOUR
        found.update(_slot_of(WEEKDAYS.index(day), at) for at in range(first, min(end, start + _DAY), _HALF_HOUR))
    return frozenset(found)


def slot(day: str, minute: int) -> str:
    """The half hour of a day that contains this minute (from midnight), as one word."""
    return _slot_of(WEEKDAYS.index(day), minute)


def _slot_of(day: int, minute: int) -> str:
    days, within = divmod(minute, _DAY)
    within -= within % _HALF_HOUR
    return f"{WEEKDAYS[(day + days) % 7]}{within // 60:02}{within % 60:02}"


def stated(fields: Mapping[str, JSON], day: str, language: str = "en") -> str:
    """What is stated about a day, for people; empty if the place is closed then or states nothing."""
    texts = _by_day(fields).get(day)
    return _timed(_NAMES[language][WEEKDAYS.index(day)], texts, language) if texts else ""


def in_words(fields: Mapping[str, JSON], language: str = "en", *, with_closed: bool = True) -> str:
    """All opening hours for people: "Wed–Sun 11:30–21:00, closed Mon and Tue"; empty if none are stated."""
    by_day = _by_day(fields)
    if not by_day:
        return ""
    names = _NAMES[language]
    pieces: list[str] = []
    shown: set[tuple[str, ...]] = set()
    for day in WEEKDAYS:
        texts = by_day.get(day)
        if texts is None or texts in shown:
            continue
        shown.add(texts)
        days = [number for number, item in enumerate(WEEKDAYS) if by_day.get(item) == texts]
        said = _DAILY[language] if len(days) == len(WEEKDAYS) else ", ".join(_runs(days, names))
        pieces.append(_timed(said, texts, language))
    closed = [names[number] for number, day in enumerate(WEEKDAYS) if day not in by_day]
    if with_closed and 0 < len(closed) <= _CLOSED_DAYS:
        pieces.append(_CLOSED[language].format(_listed(closed, language)))
    return ", ".join(pieces)


def _timed(days: str, texts: tuple[str, ...], language: str) -> str:
    times = ", ".join(_ROUND[language] if text in _ALL_DAY else text for text in texts)
    return f"{days} {times}".strip()


def _listed(names: list[str], language: str) -> str:
    joins = {"en": " and ", "de": " und ", "es": " y ", "fr": " et "}
    return f"{', '.join(names[:-1])}{joins.get(language, '、')}{names[-1]}" if len(names) > 1 else names[0]


def _runs(days: list[int], names: tuple[str, ...]) -> Iterator[str]:
    """Adjacent days joined: "Mon–Fri"; two of them are listed. A run across Sunday stays one run."""
    start = next((day for day in days if (day - 1) % 7 not in days), days[0])
    ordered = sorted(days, key=lambda day: (day - start) % 7)
    at = 0
    while at < len(ordered):
        end = at
        while end + 1 < len(ordered) and (ordered[end + 1] - ordered[end]) % 7 == 1:
            end += 1
        if end - at >= 2:
            yield f"{names[ordered[at]]}–{names[ordered[end]]}"
        else:
            yield from (names[day] for day in ordered[at : end + 1])
        at = end + 1


def _by_day(fields: Mapping[str, JSON]) -> dict[str, tuple[str, ...]]:
    """What is stated about each open day."""
    found: dict[str, tuple[str, ...]] = {}
    for day, text in _lines(fields):
        pieces = [f"{int(a):02}:{b}–{int(c):02}:{d}" for a, b, c, d in _TIMES.findall(text)] or [text]
        found[day] = tuple(dict.fromkeys((*found.get(day, ()), *pieces)))
    return found


def _lines(fields: Mapping[str, JSON]) -> Iterator[tuple[str, str]]:
    """Each stated day with its text: "11:30-21:00", "by appointment"."""
    language = _language(fields)
    for line in in_codes(tuple(strings(fields.get("openingHours"))), language):
        text = _DAYS.sub("", line).strip(" ,;:")
        if days := list(_named(line)):
            yield from ((day, text) for day in days)
        elif _TIME.search(line):  # hours without days apply to every day
            yield from ((day, text) for day in WEEKDAYS)
    rows = [(f"{opens}-{closes}".strip("-"), name) for opens, closes, name in _specified(fields)]
    codes = in_codes(tuple(name for _, name in rows), language, are_names=True)
    yield from ((day, text) for (text, _), code in zip(rows, codes, strict=False) for day in _named(code))


def _language(fields: Mapping[str, JSON]) -> str:
    """The code of the only language of an item; empty if it states none, or several, or a name."""
    codes = {match[1] for said in strings(fields.get("inLanguage")) if (match := _CODE.fullmatch(said.casefold()))}
    return codes.pop() if len(codes) == 1 else ""


_CODE: Final = re.compile(r"([a-z]{2})(?:[-_].*)?")


def _specified(fields: Mapping[str, JSON]) -> Iterator[tuple[str, str, str]]:
    """When a place opens and closes on each named day of its specification."""
    given = fields.get("openingHoursSpecification")
    for item in given if isinstance(given, list) else [given]:
        if not isinstance(item, dict):
            continue
        opens, closes = str(item.get("opens") or "")[:5], str(item.get("closes") or "")[:5]
        if opens and opens == closes:
            continue  # schema.org's notation for closed
        yield from ((opens, closes, name.rsplit("/", 1)[-1]) for name in strings(item.get("dayOfWeek")))


def _named(text: str) -> Iterator[str]:
    """The days in "Mo-Fr", "Tu,Th" or "Sunday"; "Fr-Mo" wraps around the week."""
    for first, last in _DAYS.findall(text):
        start = _SHORT.index(first.lower())
        end = _SHORT.index(last.lower()) if last else start
        for step in range((end - start) % 7 + 1):
            yield WEEKDAYS[(start + step) % 7]


MAX_DAYS: Final = 200  # on which one thing is repeated
_STEPS: Final = {"P1D": 1, "P1W": 7, "P2W": 14, "DAILY": 1, "WEEKLY": 7}


def on_days(fields: Mapping[str, JSON]) -> list[str]:
    """The days of something that is repeated, as ``20261224``: those listed, or those of a schedule."""
    found: list[str] = []
    for row in _schedules(fields):
        if isinstance(row, str) and _ISO.match(row):
            found.append(row[:10].replace("-", ""))
        elif isinstance(row, dict):
            found += _scheduled(row)
    return list(dict.fromkeys(found))[:MAX_DAYS]


def start_hours(fields: Mapping[str, JSON]) -> list[float]:
    """The hours at which something that is repeated starts: 18.5 is half past six in the evening."""
    times = (str(row.get("startTime") or "") for row in _schedules(fields) if isinstance(row, dict))
    clocks = (match for said in times if (match := _CLOCK.match(said)))
    return list(dict.fromkeys(int(clock[1]) + int(clock[2]) / 60 for clock in clocks))


_CLOCK: Final = re.compile(r"(?:\d{4}-\d{2}-\d{2})?T?(\d{1,2}):(\d{2})")


def _schedules(fields: Mapping[str, JSON]) -> Iterator[JSON]:
    """The schedules of an event, and those of a course and its instances, with the dates of the instance."""
    given = fields.get("eventSchedule")
    yield from given if isinstance(given, list) else [given]
    instances = fields.get("hasCourseInstance")
    for course in (fields, *(instances if isinstance(instances, list) else [instances])):
        if not isinstance(course, dict):
            continue
        dated = {key: course[key] for key in ("startDate", "endDate") if key in course}
        rows = course.get("courseSchedule")
        for row in rows if isinstance(rows, list) else [rows]:
            if isinstance(row, dict):
                yield {"repeatFrequency": "P1W", **dated, **row} if "byDay" in row else {**dated, **row}


_ISO: Final = re.compile(r"\d{4}-\d{2}-\d{2}")


def _scheduled(row: Mapping[str, JSON]) -> list[str]:
    first, last = (str(row.get(key) or "")[:10] for key in ("startDate", "endDate"))
    step = _STEPS.get(str(row.get("repeatFrequency") or "").upper())
    if step is None or not (_ISO.match(first) and _ISO.match(last)):
        return []
    try:
        day, end = date.fromisoformat(first), date.fromisoformat(last)
    except ValueError:
        return []
    named = row.get("byDay")
    rows = named if isinstance(named, list) else [named]
    weekdays = {str(one).rsplit("/", 1)[-1].casefold() for one in rows if one} or {WEEKDAYS[day.weekday()]}
    all_days = (day + timedelta(days=count) for count in range(min((end - day).days + 1, _MAX_SPAN)))
    found = [one for one in all_days if _is_on(one, (one - day).days, step, weekdays)]
    return [f"{one:%Y%m%d}" for one in found]


_MAX_SPAN: Final = 1_000  # days


def _is_on(day: date, after: int, step: int, weekdays: set[str]) -> bool:
    """Whether something is on a day, so many days after the first one."""
    return step == 1 or (WEEKDAYS[day.weekday()] in weekdays and (after // 7) % (step // 7) == 0)

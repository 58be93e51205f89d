"""Rules for time: dates, opening days, parts of the day, the next and the last of something. Pure."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final

from sabir.search.engine.base import Fields
from sabir.search.items.attributes import ON_DAYS, OPEN_AT, OPEN_ON, START_HOUR
from sabir.search.items.types import TYPE_WORDS, ancestors, lineage

from . import dates
from .conditions import AnyOf, Condition, During, Is, Not, OfType, Range
from .hours import slot
from .negation import HAS_HOURS
from .phrase import Phrase, after
from .structured import DATE_OPERATORS, dated


def repeated(condition: Condition, known: Fields) -> Condition:
    """The same, also met by something that is repeated on one of the days: "in January", if it is every Tuesday."""
    match condition:
        case During(("date" | "startdate") as field, float(start), float(end)) if (
            ON_DAYS in known.words and end - start <= _LONG and (field == "date" or end - start <= _WEEKEND * _A_DAY)
        ):
            days = (start + at * _A_DAY for at in range(int((end - start + _A_DAY - 1) // _A_DAY)))
            on = [datetime.fromtimestamp(day, UTC) for day in days]
            weekly = (dates.WEEKDAYS[day.weekday()] for day in on) if len(on) <= _WEEKEND else ()
            named = (*(f"{day:%Y%m%d}" for day in on), *weekly)
            return AnyOf((condition, Is(ON_DAYS, named))) if named else condition
        case Not(inner):
            return Not(repeated(inner, known))
        case AnyOf((During(), *_) as conditions) if ON_DAYS in known.words:
            return AnyOf(tuple(repeated(item, known) for item in conditions))
        case _:
            return condition


_A_DAY: Final = 86_400
_LONG: Final = 62 * _A_DAY
_WEEKEND: Final = 2  # days; on longer ones, everything weekly is on


def on_date(match: re.Match[str], known: Fields, now: datetime) -> Phrase | None:
    words = " ".join(match["when"].casefold().split())
    operator = " ".join((match["operator"] or "").casefold().split())
    relative = re.fullmatch(dates.PHRASE, words, re.IGNORECASE)
    form = relative.lastgroup if relative else ""
    is_bare = form in ("month", "year", "weekday", "feast", "season") and not words.startswith(_POINTING)
    is_bare = is_bare and not re.search(r"\D\s20\d\d$", words)
    if not operator and is_bare and not match["published"]:
        return None  # "June bugs", "2024 wheat", "winter jazz": not a date
    if operator == "from" and form == "year" and not re.match(r"\s+on(?:wards?)?\b", after(match)):
        operator = "in"  # "books from 2024"
    field = _date_field(match["published"], known)
    if field is None:
        return Phrase(ignored="no item states a date")
    past = field != "date" or operator == "since"
    when = dates.span(words, now, past=past)
    if when is None:
        return None
    if operator == "from" and form in ("month", "my") and when.end <= now.timestamp():
        operator = "in"  # "episodes from September", in October
    if form == "feast" and operator == "at":
        operator = "towards"
    if form == "part" and operator == "before" and _TO_ITS_END.match(words):
        operator = "until"
    first = dated(field, DATE_OPERATORS.get(operator, "in"), when)
    more = match["more"] if "more" in match.re.groupindex else None
    others = [span for text in _JOINED.split(more or "") if text and (span := dates.span(text, now, past=past))]
    return Phrase((AnyOf((first, *(dated(field, "in", span) for span in others))) if others else first,))


_TO_ITS_END: Final = re.compile(r"(?:the\s+)?end\b")  # "before the end of May" is not before its last days
_JOINED: Final = re.compile(r"\s*(?:,|,?\s+(?:and|or|&))\s+(?:(?:on|in)\s+)?", re.IGNORECASE)
_POINTING: Final = ("this ", "next ", "coming ")  # "next Friday" is a date even without "on"


# "Which flat could I move into before December?"
_TO_BE_HAD: Final = re.compile(
    r"\bmov(?:e|ing)\s+in(?:to)?\b|\b(?:available|vacant|free)\s+(?:from|by|before|in|on|until)\b|\bto\s+(?:rent|let)\s+(?:from|by|before)\b",
    re.IGNORECASE,
)


def to_be_had(conditions: tuple[Condition, ...], question: str, known: Fields) -> tuple[Condition, ...]:
    """The same with the day from which a thing is to be had, if that is asked for and things state it; whatever is to
    be had earlier is also to be had then. What is on a day, "concerts that are free in December", keeps its date."""
    field = next((name for name in _HAD_FROM if name in known.dates), None)
    if field is None or not _TO_BE_HAD.search(question) or _is_of_others(conditions):
        return conditions
    return tuple(
        During(field, None, one.end or (one.start or 0.0) + _A_MONTH)
        if isinstance(one, During) and one.field == "date"
        else one
        for one in conditions
    )


def _is_of_others(conditions: tuple[Condition, ...]) -> bool:
    """Whether only things are asked for that nobody moves into, rents or buys: concerts, jobs."""
    kinds = [one.types for one in conditions if isinstance(one, OfType)]
    return any(_TO_HAVE.isdisjoint(lineage(types)) for types in kinds)


_TO_HAVE: Final = frozenset({"Place", "Product", "Offer", "RealEstateListing"})
_A_MONTH: Final = 31 * 86_400.0  # seconds: "from January" is in January
_HAD_FROM: Final = ("availabilitystarts", "availablefrom")


def between_dates(match: re.Match[str], known: Fields, now: datetime) -> Phrase | None:
    field = _date_field(match["published"], known)
    if field is None:
        return Phrase(ignored="no item states a date")
    first, last = (dates.span(match[item], now, past=field != "date") for item in ("first", "last"))
    return Phrase((dated(field, "in", first, last),)) if first and last else None


def open_on(match: re.Match[str], known: Fields, now: datetime) -> Phrase | None:
    """ "Open on Sunday" is about the opening hours of a place, not about events."""
    word = match["day"].casefold()
    ahead = {"today": 0, "tonight": 0, "now": 0, "tomorrow": 1}
    days = ("saturday", "sunday") if word.startswith("weekend") else (word.rstrip("s"),)
    if word in ahead:
        days = (dates.WEEKDAYS[(now.weekday() + ahead[word]) % 7],)
    if OPEN_ON not in known.words:
        return Phrase(ignored="no item states when it is open", keep=match.group())
    return Phrase((AnyOf(tuple(Is(OPEN_ON, (day,)) for day in days)),), keep="open")


# "Doctors who are there on Fridays", "who works on Mondays".
AT_WORK_PATTERN: Final = (
    r"\b(?:who\s+(?:(?:is|are)\s+)?(?:there|in|here|around|available|on\s+duty|works?|working)|working)\s+(?:on\s+)?(?:an?\s+)?"
    rf"(?P<day>{'|'.join(dates.WEEKDAYS)})s?\b"
)


def at_work(match: re.Match[str], known: Fields, now: datetime) -> Phrase | None:
    """The hours of people, if anything states hours."""
    return Phrase((Is(OPEN_ON, (match["day"].casefold(),)),)) if OPEN_ON in known.words else None


def closed_on(match: re.Match[str], known: Fields, now: datetime) -> Phrase | None:
    """ "Closed on Mondays", of places that state their hours."""
    if OPEN_ON not in known.words:
        return None
    return Phrase((Not(Is(OPEN_ON, (match["day"].casefold(),))), HAS_HOURS))


def starting(match: re.Match[str], known: Fields, now: datetime) -> Phrase | None:
    """ "That start in March" is about the first day, "in March" about any."""
    field = next(item for verb, item in _DATED_BY.items() if match["verb"].casefold().startswith(verb))
    when = dates.span(" ".join(match["when"].casefold().split()), now)
    if field not in known.dates or when is None:
        return None
    operator = " ".join(match["operator"].casefold().split())
    return Phrase((dated(field, DATE_OPERATORS[operator], when),))


# Verbs of things on a day, to the field that states the day.
_DATED_BY: Final = {"start": "startdate", "begin": "startdate", "end": "enddate", "clos": "validthrough",
                    "appl": "validthrough"}  # fmt: skip


def at_hours(match: re.Match[str], known: Fields, now: datetime) -> Phrase | None:
    """ "Evening events", "on Friday evenings", "in the morning": by the hour of their start."""
    if START_HOUR not in known.numbers:
        return None
    first, last = HOURS[(match["part"] or match["alone"] or match["today"]).casefold().rstrip("s")]
    keep = "today" if match["today"] else match["things"] or ""
    return Phrase((Range(START_HOUR, first, last, with_high=False),), keep=keep)


# Parts of the day, from one hour up to another.
HOURS: Final = {"morning": (5.0, 12.0), "afternoon": (12.0, 17.0), "evening": (17.0, 24.0), "night": (18.0, 24.0)}


def nth_event(match: re.Match[str], known: Fields, now: datetime) -> Phrase | None:
    """ "The next event", "the last concert in May": in the order of their days."""
    thing = match["things"].casefold().split()[-1]
    if "startdate" not in known.dates or not (thing == "tour" or "Event" in ancestors(TYPE_WORDS.get(thing, ""))):
        return None
    ahead = (During("startdate", now.timestamp(), None),)
    return Phrase(ahead, order=("date", match["nth"].casefold() != "last"), keep=match["things"])


def every_day(match: re.Match[str], known: Fields, now: datetime) -> Phrase | None:
    field = _date_field(None, known)
    if field is None:
        return Phrase(ignored="no item states a date")
    days = dates.every(match["every"], now)
    word = match["every"].casefold().split()[-1].rstrip("s")
    weekly = (Is("byday", _days_said(word, now)),) if "byday" in known.words else ()
    return Phrase((AnyOf((*(dated(field, "in", day) for day in days), *weekly)),)) if days else None


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
    return next((field for field in fields if field in known.dates), "date" if ON_DAYS in known.words else None)


# Opening times by the clock


_DAY = "|".join(dates.WEEKDAYS)
_ON_DAY = rf"(?:on\s+)?(?:an?\s+|the\s+)?(?P<{{name}}>(?:{_DAY}|weekend|weekday)s?|today|tonight|tomorrow)"
_CLOCK = (
    r"(?P<clock>(?P<hour>\d{1,2})(?:[:.](?P<minute>\d{2}))?\s*(?P<half>[ap]\.?m\b\.?|o['’]?\s?clock)?"
    r"(?:\s+(?:in\s+the|at)\s+(?P<daypart>morning|afternoon|evening|night))?|noon|midday|midnight)(?![\w:])"
)
# "Open at 7 in the morning on Sundays", "open on Friday until 10 pm", "open on Sunday mornings", "open late".
OPEN_AT_PATTERN: Final = (
    r"\b(?:(?:that|which)\s+(?:is|are)\s+)?"
    r"(?:open(?:s|ed)?(?:\s+for\s+[^\W\d_]+)?|(?P<meal>drinks?|eat|dinner|lunch|breakfast|brunch|coffee|food|meal))\s+"
    rf"(?:{_ON_DAY.format(name='first_day')}\s+)?"
    rf"(?:(?P<relation>at|after|past|until|till|before|by|from|around)\s+(?:about\s+)?{_CLOCK}"
    rf"(?:\s+{_ON_DAY.format(name='last_day')})?\b"
    rf"|(?:in\s+the\s+)?(?P<part>mornings?|afternoons?|evenings?|nights?)(?:\s+{_ON_DAY.format(name='part_day')})?\b"
    r"|(?P<vague>late|early)\b)"
)
_PART_MINUTES: Final = {"morning": 9 * 60, "afternoon": 14 * 60, "evening": 19 * 60, "night": 22 * 60}
_VAGUE_MINUTES: Final = {"late": 22 * 60, "early": 7 * 60}
# "Starts at 7 pm", "begins before noon".
START_AT_PATTERN: Final = rf"\b(?:start|begin)(?:s|ing)?\s+(?P<relation>at|after|past|before|by|from|around)\s+{_CLOCK}"


def starts_at(match: re.Match[str]) -> Range | None:
    """The condition that a match of ``START_AT_PATTERN`` states; None if it is not a time of day."""
    minute = _minute(match, until=())
    if minute is None:
        return None
    hour, relation = minute / 60, match["relation"].casefold()
    if relation in ("before", "by"):
        return Range(START_HOUR, None, hour, with_high=relation == "by")
    if relation in ("after", "past", "from"):
        return Range(START_HOUR, hour, None, with_low=relation == "from")
    return Range(START_HOUR, hour, hour)


def open_at(match: re.Match[str], known: Fields, now: datetime) -> Phrase | None:
    """ "Open until 10 pm on Fridays": by the half hours of the week at which a place is open."""
    if OPEN_AT not in known.words:
        return None
    if match["meal"] and not match["clock"]:
        return None  # "dinner on Friday evening" is a time, not an opening time
    condition = open_then(match, now)
    return Phrase((condition,), keep=match["meal"] or "open") if condition is not None else None


def open_then(match: re.Match[str], now: datetime) -> AnyOf | None:
    """The condition of a match of ``OPEN_AT_PATTERN``; None if it is not a time of day."""
    if match["clock"]:
        minute = _minute(match)
    elif match["part"]:
        minute = _PART_MINUTES[match["part"].casefold().rstrip("s")]
    else:
        minute = _VAGUE_MINUTES[match["vague"].casefold()]
    if minute is None:
        return None
    said = (match["first_day"] or match["last_day"] or match["part_day"] or "").casefold()
    days = _days_said(said, now)
    return AnyOf((Is(OPEN_AT, tuple(slot(day, minute) for day in days)),))


def _minute(match: re.Match[str], until: tuple[str, ...] = ("until", "till", "before", "by")) -> int | None:
    """The minute of the day: just before it, for "until 10 pm" and "before 8 am"."""
    word = match["clock"].casefold()
    named = {"noon": 12 * 60, "midday": 12 * 60, "midnight": 24 * 60}.get(word)
    if named is not None:
        minute = named
    else:
        hour = int(match["hour"])
        if hour > 24 or int(match["minute"] or 0) > 59:
            return None
        minute = 60 * _on_24_hours(hour, match) + int(match["minute"] or 0)
    is_before = (match["relation"] or "").casefold() in until
    return minute - 30 if is_before and minute >= 30 else minute


def _on_24_hours(hour: int, match: re.Match[str]) -> int:
    half = (match["half"] or "")[:1].casefold()
    part = (match["daypart"] or "").casefold()
    if half == "a" or part == "morning":
        return hour % 12
    if half == "p" or part in ("afternoon", "evening", "night"):
        return hour % 12 + 12 if hour <= 12 else hour
    if match["minute"] or hour > 12:
        return hour
    is_late = (match["relation"] or "").casefold() in ("until", "till", "after", "past")
    return hour + 12 if hour < 7 or (is_late and hour < 12) else hour  # "until 9", "at 5"


def _days_said(said: str, now: datetime) -> tuple[str, ...]:
    word = said.rstrip("s")
    if word in dates.WEEKDAYS:
        return (word,)
    ahead = {"today": 0, "tonight": 0, "tomorrow": 1}.get(said)
    if ahead is not None:
        return (dates.WEEKDAYS[(now.weekday() + ahead) % 7],)
    spans = {"weekend": dates.WEEKDAYS[5:], "weekday": dates.WEEKDAYS[:5]}
    return tuple(spans.get(word, dates.WEEKDAYS))

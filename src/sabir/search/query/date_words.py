"""The many spellings of a date, rewritten in the one way that the grammar of dates reads (``dates.PHRASE``). Pure.

"13.3.2027", "Sat, Mar 13", "the thirteenth of March", "1-15 March", "the week before Christmas", "in three weeks".
The spellings are a table; where a date is not plain (5/8/2027) both readings are said.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Final, TypeAlias

from . import dates
from .dates import MONTH, MONTHS, WEEKDAYS
from .prefilter import PatternTable
from .units import NUMBER_WORDS

_DAY = "|".join(WEEKDAYS)
_SHORT_DAYS: Final = {day[:3]: day for day in WEEKDAYS} | {
    "tues": "tuesday", "weds": "wednesday", "thur": "thursday", "thurs": "thursday",
}  # fmt: skip
_SHORT_DAY = "|".join(sorted(_SHORT_DAYS, key=len, reverse=True))
_ORDINALS: Final = tuple(
    """first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth fifteenth
    sixteenth seventeenth eighteenth nineteenth twentieth twenty-first twenty-second twenty-third twenty-fourth
    twenty-fifth twenty-sixth twenty-seventh twenty-eighth twenty-ninth thirtieth thirty-first""".split()  # noqa: SIM905
)
_ORDINAL = "|".join(word.replace("-", r"[\s-]") for word in sorted(_ORDINALS, key=len, reverse=True))
_COUNTS: Final = {
    word: str(value) for word, value in NUMBER_WORDS.items() if isinstance(value, int) and 0 < value <= 12
}
_COUNT = "|".join(sorted(_COUNTS, key=len, reverse=True))
_NTH = r"(?:st|nd|rd|th)?"
_TO = r"\s*(?:-|–|—|to|until|till|through)\s*"
_SPAN: Final = {"days": 7, "weeks": 28, "months": 92}  # how many days "the coming weeks" mean

_DAY_SECONDS: Final = 86_400

_Said: TypeAlias = Callable[[re.Match[str], datetime], str]


def plain(text: str, now: datetime) -> str:
    """The same text, with every date written in the plain way."""
    place = _TABLE.following(text)
    while place is not None:
        pattern, say = _TABLE.rows[place]
        text = pattern.sub(lambda match, say=say: say(match, now) or match.group(), text)  # type: ignore[misc]
        place = _TABLE.following(text, place + 1)
    return text


def _written(day: date) -> str:
    return f"{day.day} {MONTHS[day.month - 1]} {day.year}"


def _from_to(first: date, last: date) -> str:
    return f"from {_written(first)} to {_written(last)}"


def _numeric(match: re.Match[str], now: datetime) -> str:
    """Day and month in figures: "13.3.2027", "13/3"; "3/13" by the figure that is not a month, else both ways."""
    first, second = int(match["first"]), int(match["second"])
    year = int(match["year"] or 0)
    year += 2000 if 0 < year < 100 else 0
    orders = [(first, second)] if match["dot"] == "." else [(first, second), (second, first)]
    said = []
    for day, month in dict.fromkeys(orders):
        if 1 <= day <= 31 and 1 <= month <= 12:
            said.append(f"{day} {MONTHS[month - 1]}{f' {year}' if year else ''}")
    return " or ".join(said)


def _month_of_year(match: re.Match[str], now: datetime) -> str:
    return f"{MONTHS[int(match['month']) - 1]} {match['year']}" if 1 <= int(match["month"]) <= 12 else ""


def _ordinal(match: re.Match[str], now: datetime) -> str:
    word = re.sub(r"\s", "-", match["ordinal"].casefold())
    return f"{_ORDINALS.index(word) + 1} {match['month']}"


def _ahead(match: re.Match[str], now: datetime) -> str:
    """ "In three weeks", "two months from now": the day, week or month at that time."""
    count = int(_COUNTS.get((match["count"] or "1").casefold(), match["count"] or "1"))
    unit, today = match["unit"].casefold(), now.date()
    if unit == "month":
        number = today.year * 12 + today.month - 1 + count
        return f"in {MONTHS[number % 12]} {number // 12}"
    day = today + timedelta(days=count * (7 if unit == "week" else 1))
    monday = day - timedelta(days=day.weekday())
    return _from_to(monday, monday + timedelta(days=6)) if unit == "week" else f"on {_written(day)}"


def _of_day(match: re.Match[str], now: datetime) -> str:
    """ "The weekend of 5 December", "the week before Christmas"."""
    when = dates.span(match["when"], now)
    if when is None or when.end - when.start > 3 * _DAY_SECONDS:  # "the first week of March" is none of these
        return ""
    first, last = (datetime.fromtimestamp(at, UTC).date() for at in (when.start, max(when.start, when.end - 1)))
    relation, weekend = match["relation"].casefold(), match["unit"].casefold() == "weekend"
    if relation == "of":
        monday = first - timedelta(days=first.weekday())
        return _from_to(monday + timedelta(days=5 if weekend else 0), monday + timedelta(days=6))
    if weekend:
        saturday = first - timedelta(days=(first.weekday() - 5) % 7 or 7)
        saturday = saturday if relation == "before" else last + timedelta(days=(5 - last.weekday()) % 7 or 7)
        return _from_to(saturday, saturday + timedelta(days=1))
    if relation == "before":
        return _from_to(first - timedelta(days=7), first - timedelta(days=1))
    return _from_to(last + timedelta(days=1), last + timedelta(days=7))


def _weekday_beside(match: re.Match[str], now: datetime) -> str:
    """ "The Sunday before Christmas"."""
    when = dates.span(match["when"], now)
    if when is None or when.end - when.start > _DAY_SECONDS:
        return ""
    day = datetime.fromtimestamp(when.start, UTC).date()
    wanted = WEEKDAYS.index(match["day"].casefold())
    if match["relation"].casefold() == "before":
        return f"on {_written(day - timedelta(days=(day.weekday() - wanted) % 7 or 7))}"
    return f"on {_written(day + timedelta(days=(wanted - day.weekday()) % 7 or 7))}"


def _after_next(match: re.Match[str], now: datetime) -> str:
    """ "The week after next": two weeks from now."""
    unit, today = (match["unit"] or match["other"]).casefold(), now.date()
    if unit == "month":
        number = today.year * 12 + today.month + 1
        return f"in {MONTHS[number % 12]} {number // 12}"
    monday = today - timedelta(days=today.weekday()) + timedelta(days=14)
    first = monday + timedelta(days=5) if unit == "weekend" else monday
    return _from_to(first, monday + timedelta(days=6))


def _coming(match: re.Match[str], now: datetime) -> str:
    return f"in the next {_SPAN[match['unit'].casefold()]} days"


def _as(form: str) -> _Said:
    return lambda match, now: match.expand(form)


_YEAR = r"(?:,?\s+(?:19|20)\d{2}\b)?"
_FORMS: Final[tuple[tuple[str, _Said], ...]] = (
    # Figures.
    (r"(?<![\d.,/:$€£])(?P<first>\d{1,2})(?P<dot>[./])(?P<second>\d{1,2})(?P=dot)(?P<year>(?:19|20)?\d{2})(?![\d/:])",
     _numeric),
    (r"(?<![\d.,/:$€£])(?P<month>\d{1,2})/(?P<year>20\d{2})(?![\d/])", _month_of_year),
    (r"(?:(?<=\bon\s)|(?<=\bam\s)|(?<=\bel\s)|(?<=\ble\s))(?P<first>\d{1,2})(?P<dot>[./])(?P<second>\d{1,2})\.?(?P<year>(?!))?(?![\d/:%])",
     _numeric),
    (rf"\b(?P<first>\d{{1,2}})\.\s*(?P<link>and|to|until|-|–)\s*(?P<last>\d{{1,2}})\.\s*(?=(?:{MONTH})\b)",
     _as(r"\g<first> \g<link> \g<last> ")),
    (rf"\b(?P<day>\d{{1,2}})(?:\.|er)?\s+(?:de\s+)?(?=(?:{MONTH})\b)", _as(r"\g<day> ")),
    # "am 12. Dezember", "1er mars"
    (rf"\b(?P<month>{MONTH})\s+(?:de|del)\s+(?P<year>(?:19|20)\d\d)\b", _as(r"\g<month> \g<year>")),
    # Abbreviated weekdays.
    (rf"\b(?P<lead>on|at|this|next|open|each|every|until|closed|coming|last)\s+(?P<short>{_SHORT_DAY})\b\.?(?!\w)",
     lambda m, now: f"{m['lead']} {_SHORT_DAYS[m['short'].casefold()]}"),
    (rf"\b(?P<short>{_SHORT_DAY})\.?,?\s+(?=(?:the\s+)?\d{{1,2}}{_NTH}\s+(?:of\s+)?(?:{MONTH})\b|(?:{MONTH})\.?\s+\d)",
     lambda m, now: f"{_SHORT_DAYS[m['short'].casefold()]} "),
    # Days of a month.
    (rf"\b(?P<month>{MONTH})\.?\s+the\s+(?P<day>\d{{1,2}}){_NTH}\b", _as(r"\g<day> \g<month>")),
    (rf"\b(?:the\s+)?(?P<ordinal>{_ORDINAL})\s+(?:of\s+)?(?P<month>{MONTH})\b", _ordinal),
    (rf"\b(?P<month>{MONTH})\s+(?:the\s+)?(?P<ordinal>{_ORDINAL})\b(?!\s+(?:{_DAY}|week|half))", _ordinal),
    (rf"(?<!-)\b(?<!from\s)(?<!between\s)(?P<first>\d{{1,2}}){_NTH}{_TO}(?:the\s+)?(?P<last>\d{{1,2}}){_NTH}\s+(?:of\s+)?(?P<month>(?:{MONTH})\b{_YEAR})",
     _as(r"from \g<first> \g<month> to \g<last> \g<month>")),
    (rf"\b(?<!from\s)(?<!between\s)(?<!\d\s)(?P<first>{MONTH})(?:\s*[-–—]\s*|\s+(?:to|until|till|through)\s+)(?P<last>(?:{MONTH})\b{_YEAR})(?!\s+\d)",
     _as(r"from \g<first> to \g<last>")),
    (rf"\bfrom\s+(?P<first>{MONTH})\s+through\s+(?P<last>{MONTH})\b", _as(r"from \g<first> to \g<last>")),
    (rf"\b(?P<nth>first|second|third|fourth|last|1st|2nd|3rd|4th)\s+(?P<what>{_DAY}|weekend|week|half)\s+in\s+(?=(?:{MONTH})\b)",
     _as(r"\g<nth> \g<what> of ")),
    (r"\btowards?\s+the\s+(?=end|beginning|start|middle)", _as("at the ")),
    (r"\bfrom\s+(?=(?:before|after)\s)", _as("")),
    (r"\b(?:(?:that|which)\s+(?:is|are)\s+)?(?:running|showing|on\s+(?:show|display|view)|happening|on)\s+(?:at\s+the\s+moment|right\s+now|currently|now)\b"
     r"|\bcurrently\s+(?:running|showing|on(?:\s+(?:show|display|view))?)\b", _as("on today")),
    (rf"\b(?:on\s+|the\s+)*weekend\s+of\s+(?:the\s+)?(?P<first>\d{{1,2}}){_NTH}\s*(?:and|&|-|–|/|to)\s*(?P<last>\d{{1,2}}){_NTH}\s+(?:of\s+)?(?P<month>(?:{MONTH})\b{_YEAR})",
     _as(r"from \g<first> \g<month> to \g<last> \g<month>")),
    # Weeks and weekends.
    (rf"\b(?:(?:in|on|during|over)\s+)?(?:the\s+)?(?P<unit>weekend|week)\s+(?P<relation>of|before|after)\s+(?:the\s+)?(?P<when>{dates.plain_phrase()})",
     _of_day),
    (rf"\b(?:on\s+)?(?:the\s+)?(?P<last>last\s+)?(?P<day>{_DAY})\s+(?P<relation>before|after)\s+(?:the\s+)?(?P<when>{dates.plain_phrase()})",
     _weekday_beside),
    (rf"\bevery\s+(?P<day>{_DAY}|weekend|weekday)\b", _as(r"on \g<day>s")),
    (rf"\b(?:on\s+)?(?P<day>{_DAY}|weekend|weekday)\s+(?P<part>morning|afternoon|evening|night)s\b",
     _as(r"on \g<day>s in the \g<part>")),
    (r"\b(?:in\s+)?the\s+(?P<unit>week|weekend|month)\s+after\s+next\b|\b(?P<other>week|weekend|month)\s+after\s+next\b",
     _after_next),
    (r"\b(?:in|during|for|early\s+in)\s+the\s+new\s+year\b", lambda m, now: f"in {now.year + 1}"),
    (r"\b(?:(?:in|from|of)\s+)?(?P<year>(?:19|20)\d\d)\s+(?:or|and)\s+(?:newer|later|after|younger|onwards?|up)\b",
     _as(r"since \g<year>")),
    (r"\b(?:(?:in|from|of)\s+)?(?P<year>(?:19|20)\d\d)\s+(?:or|and)\s+(?:older|earlier|before)\b",
     _as(r"until \g<year>")),
    (r"\bnewer\s+than\s+(?P<year>(?:19|20)\d\d)\b", _as(r"after \g<year>")),
    (r"\bolder\s+than\s+(?P<year>(?:19|20)\d\d)\b", _as(r"before \g<year>")),
    # Future times.
    (r"\b(?:in|within|over|during)\s+the\s+(?:next|coming|following)\s+(?:few\s+|couple\s+of\s+)?(?P<unit>days|weeks|months)\b",
     _coming),
    (r"\b(?:in|within|over|during)\s+the\s+next\s+(?P<unit>week|month)\b",
     lambda m, now: f"in the next {7 if m['unit'].casefold() == 'week' else 30} days"),
    (rf"\b(?:within|over|during)\s+the\s+next\s+(?=(?:\d+|{_COUNT})\s)", _as("in the next ")),
    (rf"(?<=\bnext\s)(?P<count>{_COUNT})\s+(?=(?:day|week|month|year)s?\b)",
     lambda m, now: f"{_COUNTS[m['count'].casefold()]} "),
    (rf"(?<!ready\s)(?<!made\s)(?<!done\s)(?<!cooked\s)\bin\s+(?:(?P<count>\d{{1,2}}|{_COUNT})\s+(?P<unit>day|week|month)s|an?\s+(?:week|month))\b(?:['’]?\s+time)?",
     lambda m, now: _ahead(m, now) if m["unit"] else ""),
    (r"\b(?:(?:some\s?time|any\s?time|before|by|until|till)\s+(?:at\s+)?the\s+end\s+of|later|the\s+rest\s+of|in\s+the\s+rest\s+of)\s+(?:the|this)\s+(?P<unit>year|month|week)\b",
     _as(r"this \g<unit>")),
    (rf"(?P<when>\b(?:{MONTH})|\b20\d\d)\s+onwards?\b", _as(r"\g<when>")),
)  # fmt: skip
_TABLE: Final = PatternTable[_Said](_FORMS)

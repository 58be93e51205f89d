"""Whether a place is open on a holiday, by a sentence that names it or its day: "Closed on 25 December.". Pure."""

from __future__ import annotations

import re
from typing import Final

from sabir.search.items.item import Item
from sabir.search.query.words import sentences

_HOLIDAYS: Final = (
    (r"christmas\s+eve", 24, "december"),
    (r"christmas\s+day|(?:at|on|over)\s+christmas", 25, "december"),
    (r"boxing\s+day|st\.?\s+stephen['’]?s\s+day", 26, "december"),
    (r"new\s+year['’]?s\s+eve|silvester", 31, "december"),
    (r"new\s+year['’]?s\s+day|new\s+year", 1, "january"),
)
_ASKS: Final = tuple((re.compile(rf"\b(?:{name})\b", re.IGNORECASE), day, month) for name, day, month in _HOLIDAYS)
_OPENS: Final = re.compile(r"\b(?:open(?:ed|ing)?|closed?|shut)\b", re.IGNORECASE)
_CLOSED: Final = re.compile(r"\b(?:closed?|shut|not\s+open|no\s+opening)\b", re.IGNORECASE)
_ALL_YEAR: Final = re.compile(
    r"\b(?:every\s+day\s+(?:of\s+the\s+year|including)|365\s+days|all\s+year\s+round)\b", re.IGNORECASE
)
_EXCEPT: Final = re.compile(r"\b(?:except|apart\s+from|other\s+than)\b", re.IGNORECASE)


def on_holiday(item: Item, question: str) -> tuple[bool, str] | None:
    """Whether a place is open on the holiday of a question, and the sentence that says so; None if none does."""
    found = next(((day, month, name) for name, day, month in _ASKS if name.search(question)), None)
    if found is None or not _OPENS.search(question):
        return None
    day, month, name = found
    for sentence in sentences(f"{item.description}\n{item.text}"):
        is_about = name.search(sentence) is not None or _has_day(sentence, day, month)
        if is_about and _OPENS.search(sentence):
            is_open = not _CLOSED.search(sentence)
            is_open = False if is_open and _EXCEPT.search(sentence) else is_open
            is_asked_closed = _CLOSED.search(question) is not None
            return is_open is not is_asked_closed, f"{item.name}: {sentence}"
        if _ALL_YEAR.search(sentence) and not _EXCEPT.search(sentence):
            return _CLOSED.search(question) is None, f"{item.name}: {sentence}"
    return None


def _has_day(sentence: str, day: int, month: str) -> bool:
    """Whether a sentence names a day of a month, alone or in a list: "25 and 26 December", "24 to 26 December"."""
    for match in _DAYS.finditer(sentence):
        if match["month"].casefold() != month:
            continue
        numbers = [int(number) for number in re.findall(r"\d{1,2}", match["days"])]
        is_span = len(numbers) == 2 and re.search(r"\bto\b|[-–]", match["days"]) is not None
        if day in numbers or (is_span and numbers[0] <= day <= numbers[1]):
            return True
    return False


_DAYS: Final = re.compile(
    r"(?P<days>\b\d{1,2}(?:st|nd|rd|th)?(?:(?:\s*,\s*|\s+and\s+|\s+to\s+|\s*[-–]\s*)\d{1,2}(?:st|nd|rd|th)?){0,6})\s+(?:of\s+)?"
    r"(?P<month>december|january)\b",
    re.IGNORECASE,
)

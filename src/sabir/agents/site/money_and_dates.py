"""Whether the currencies and the days of months of a model's sentence are those of its item. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date
from itertools import islice
from typing import Final

from sabir.search import Item
from sabir.search.query.dates import MONTHS
from sabir.search.query.hours import on_days
from sabir.search.query.units import CURRENCIES, DOLLARS

from .figures import figures, leaves, of_fields

_DOLLARS: Final = (*DOLLARS, "MXN", "BRL", "ARS", "CLP", "COP", "TWD")
_SIGNS: Final = {"$": _DOLLARS, "dollar": _DOLLARS, "dollars": _DOLLARS, "pound": ("GBP",), "pounds": ("GBP",),
                 "franc": ("CHF", "XOF", "XAF"), "francs": ("CHF", "XOF", "XAF"), "franken": ("CHF",),
                 "円": ("JPY",)}  # fmt: skip
_CODES: Final = frozenset(code for codes in CURRENCIES.values() for code in codes)
_KNOWN: Final = {
    **{name: codes for name, codes in CURRENCIES.items() if name.upper() not in _CODES and not name.startswith("cent")},
    **_SIGNS,
}
_NAME: Final = "|".join(
    re.escape(name) if not name.isalpha() else rf"(?<![^\W\d_]){name}(?![^\W\d_])" if name.isascii() else name
    for name in sorted(_KNOWN, key=len, reverse=True)
)
_MONEY: Final = re.compile(rf"(?i:{_NAME})|(?<![A-Za-z])(?:{'|'.join(sorted(_CODES))})(?![A-Za-z])")
_AMOUNT: Final = re.compile(rf"(?:{_MONEY.pattern})\s?\d|\d\s?(?:{_MONEY.pattern})")
_PRICED: Final = re.compile(r"\b(?:costs?|prices?|priced|fees?|charges?|tickets?|pay|entry|admission)\b", re.IGNORECASE)
_WEIGHED: Final = re.compile(r"\b(?:lbs?|pounds?|kg|kilos?|grams?|oz|ounces?)\b|\d\s?g\b", re.IGNORECASE)
_LEAVES: Final = 400  # values of an item that are read


def spends_alike(sentence: str, text: str, item: Item) -> bool:
    """Whether an item has the currencies of a sentence's amounts."""
    amounts = [match.group() for match in _AMOUNT.finditer(sentence)]
    if not amounts:
        return True
    if _WEIGHED.search(text) and not _PRICED.search(sentence):
        amounts = [amount for amount in amounts if "pound" not in amount.casefold()]
    fields = "\n".join(islice(leaves(dict(item.fields)), _LEAVES))
    there = {code for match in _MONEY.finditer(f"{text}\n{fields}") for code in _codes(match.group())}
    return all(not there.isdisjoint(_codes(match.group())) for amount in amounts for match in _MONEY.finditer(amount))


def _codes(said: str) -> tuple[str, ...]:
    return _KNOWN.get(said.casefold(), (said,))


_MONTH: Final = "|".join(sorted((*MONTHS, *(name[:3] for name in MONTHS)), key=len, reverse=True))
_DAY: Final = r"(?P<{}>[0-3]?\d)(?:st|nd|rd|th)?(?![\w:]|[.,]\d|\s?[ap]\.?m\b)"
_DATED: Final = re.compile(
    rf"(?<![\w.,:/-]){_DAY.format('before')}\.?\s+(?:of\s+)?(?P<of>{_MONTH})\b"
    rf"|\b(?P<month>{_MONTH})\.?\s+(?:the\s+)?{_DAY.format('behind')}",
    re.IGNORECASE,
)
# Several days of a month: "2, 9 and 16 March", "March 2-14".
_LISTED: Final = (
    r"[0-3]?\d(?:st|nd|rd|th)?\.?(?:\s?(?:,|-|–|&|and|or|to|until|through)\s?[0-3]?\d(?:st|nd|rd|th)?\.?(?![\d:])){0,9}"
)
_NAMED: Final = re.compile(
    rf"(?<![\w.,:/$€£-])(?P<before>{_LISTED})\s?(?:of\s)?(?P<of>{_MONTH})\b"
    rf"|\b(?P<month>{_MONTH})\.?\s(?:the\s)?(?P<behind>{_LISTED})(?![\d:])",
    re.IGNORECASE,
)


def is_dated_alike(sentence: str, text: str, item: Item) -> bool:
    """Whether an item has the days of months that a sentence names: "March 12" is more than a month and a number."""
    said = {
        (_number(match["of"] or match["month"]), int(match["before"] or match["behind"]))
        for match in _DATED.finditer(sentence)
        if match["of"] or match["month"][0].isupper()
    }
    return not said or said <= set(_days_of(text, item))


def _days_of(text: str, item: Item) -> Iterator[tuple[int, int]]:
    known = frozenset[date]().union(*figures(text).dates, *of_fields(item.fields).dates)
    yield from ((day.month, day.day) for day in known)
    yield from ((int(day[4:6]), int(day[6:8])) for day in on_days(item.fields))
    for match in _NAMED.finditer(text):
        month = _number(match["of"] or match["month"])
        yield from ((month, int(day)) for day in re.findall(r"\d+", match["before"] or match["behind"]))


def _number(month: str) -> int:
    return next(number for number, name in enumerate(MONTHS, 1) if name.startswith(month[:3].casefold()))

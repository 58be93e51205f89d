"""Rules for numbers: prices, times, ratings, nutrients, what is counted, and what costs nothing. Pure."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Final

import msgspec

from sabir.search.engine.base import Fields

from .comparisons import Bounds, from_comparison
from .conditions import Condition, Not, Range
from .measures import field_of, of_unit
from .phrase import Phrase, after
from .structured import numeric
from .units import UNITS
from .vocabulary import NUTRIENTS


def measure(match: re.Match[str], known: Fields, now: datetime) -> Phrase | None:
    given = from_comparison(match)
    if given is None:
        return None
    if given.bare:
        # "a 30-minute dinner", "for $20" set a limit; "a 2 kg bag" only says what it is.
        spoken = match.group().casefold()
        if not (given.unit == "min" or (given.unit == "money" and spoken.startswith(("for ", "with ", "costing ")))):
            return None
        given = msgspec.structs.replace(given, low=None)
    if not given.unit:
        # A number without a unit is a price, unless something that can be counted follows.
        if match["link"] or not re.match(
            r"\s*(?:$|[,.;!?]|(?:and|or|but|near|in|with|without|for|please)\b)", after(match)
        ):
            return None
        given = msgspec.structs.replace(given, unit="money")
    if given.unit == "g" and _STERLING.search(match.group()) and not of_unit("g", known.numbers):
        given = _in_pounds_sterling(given)
    field = field_of(match, given, known)
    if field is None and given.unit in ("person", "serving"):
        return None
    if field is None:
        return Phrase(ignored=f"no item states {_OF_UNIT.get(given.unit, 'such a number')}")
    return Phrase((numeric(field, given),))


_STERLING: Final = re.compile(r"\s*\bpounds?\b", re.IGNORECASE)
_OF_UNIT: Final = {"money": "a price", "min": "a time", "star": "a rating", "kcal": "calories", "g": "a weight"}


def _in_pounds_sterling(given: Bounds) -> Bounds:
    low, high = (None if value is None else round(value / UNITS["pound"][1], 2) for value in (given.low, given.high))
    return msgspec.structs.replace(given, low=low, high=high, unit="money", currencies=("GBP",))


def rated(match: re.Match[str], known: Fields, now: datetime) -> Phrase | None:
    given = from_comparison(match)
    if given is None or given.unit not in ("", "star"):
        return None
    if given.bare:
        given = msgspec.structs.replace(given, high=None)
    return _known(Range("stars", given.low, given.high, given.with_low, given.with_high), known, "a rating")


def nutrient(match: re.Match[str], known: Fields, now: datetime) -> Phrase | None:
    given = from_comparison(match)
    if given is None or given.unit not in ("", "g"):
        return None
    if given.bare:
        given = msgspec.structs.replace(given, high=None)
    field = NUTRIENTS[" ".join(match["nutrient"].casefold().split())]
    return _known(numeric(field, given), known, match["nutrient"])


def paid(match: re.Match[str], known: Fields, now: datetime) -> Phrase | None:
    given = from_comparison(match)
    if given is None or given.unit not in ("", "money") or "basesalary" not in known.numbers:
        return None
    return Phrase((Range("basesalary", given.low, given.high, given.with_low, given.with_high),))


def _known(condition: Range, known: Fields, what: str) -> Phrase:
    if condition.field not in known.numbers:
        return Phrase(ignored=f"no item states {what}")
    return Phrase((condition,))


def free(match: re.Match[str], known: Fields, now: datetime) -> Phrase | None:
    if "price" not in known.numbers:
        return Phrase(ignored="no item states a price")
    return Phrase(FREE)


# Free for everyone, not only for children.
FREE: Final[tuple[Condition, ...]] = (Range("price", 0.0, 0.0), Not(Range("price", 0.0, None, with_low=False)))

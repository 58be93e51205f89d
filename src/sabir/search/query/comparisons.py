"""Comparisons as people write them: "less than $20", "4 stars or more", "between 5 and 10 km". Pure."""

from __future__ import annotations

import re
from typing import Final

import msgspec

from .units import Quantity, from_match, number, numbered

# Words before a quantity, to (upper bound?, bound included?).
BELOW: Final = {
    "less than": False, "fewer than": False, "cheaper than": False, "less expensive than": False,
    "lower than": False, "smaller than": False,
    "shorter than": False, "lighter than": False, "faster than": False, "quicker than": False, "under": False,
    "below": False, "beneath": False, "<": False, "up to": True, "at most": True, "no more than": True,
    "not more than": True, "not over": True, "not above": True, "maximum of": True, "maximum": True, "max": True,
    "within": True, "<=": True, "=<": True, "≤": True, "no longer than": True, "inside": True,
    "not exceeding": True, "limit of": True, "narrower than": False, "younger than": False, "closer than": False,
    "nearer than": False, "slower than": False,
}  # fmt: skip
ABOVE: Final = {
    "more than": False, "greater than": False, "higher than": False, "larger than": False, "bigger than": False,
    "longer than": False, "heavier than": False, "more expensive than": False,
    "pricier than": False, "dearer than": False,
    "costlier than": False, "better than": False, "over": False, "above": False,
    "exceeding": False, ">": False, "at least": True, "no less than": True, "not less than": True, "not under": True,
    "not below": True, "minimum of": True, "minimum": True, "min": True, "from": True, "starting at": True,
    ">=": True, "=>": True, "≥": True, "no fewer than": True, "taller than": False, "wider than": False,
    "deeper than": False, "older than": False, "thicker than": False, "stronger than": False, "further than": False,
    "farther than": False,
}  # fmt: skip
AFTER_BELOW: Final = (
    r"or\s+(?:less|under|fewer|lower|below|cheaper|shorter|faster|younger|smaller)"
    r"|and\s+(?:under|below)|max(?:imum)?|tops|at\s+(?:the\s+)?most(?=\W*(?:$|[?.!,;]))"
)
AFTER_ABOVE: Final = (
    r"or\s+(?:more|over|higher|above|better|longer|bigger|larger|older|taller)"
    r"|and\s+(?:up|above|over|more)|plus|\+|min(?:imum)?|at\s+(?:the\s+)?least(?=\W*(?:$|[?.!,;]))"
)
ABOUT: Final = ("about", "around", "approximately", "roughly", "circa", "~")

_words = [*BELOW, *ABOVE, *ABOUT, "exactly", "equal to", "=", "=="]
OPERATOR: Final = "|".join(
    re.escape(word).replace(r"\ ", r"\s+") + (r"\b" if word[-1].isalpha() else "")
    for word in sorted(_words, key=len, reverse=True)
)

# A bound or a span. "and" joins two quantities only after "between".
PATTERN: Final = (
    rf"(?:(?P<span>between|from)\s+)?{numbered('_low')}\s*(?P<link>\band\b|\bto\b|-|–|—)\s*{numbered('_high')}"
    rf"|(?:(?P<operator>(?<!\w)(?:{OPERATOR}))\s*)?(?:an?\s+)?{numbered('_one')}"
    rf"(?:\s*(?P<after_below>(?:{AFTER_BELOW})(?!\w))|\s*(?P<after_above>(?:{AFTER_ABOVE})(?!\w)))?"
)
_PATTERN: Final = re.compile(PATTERN, re.IGNORECASE)


class Bounds(msgspec.Struct, frozen=True):
    """The bounds of a comparison. ``unit`` is that of ``units``; ``bare``: a number without a comparing word."""

    low: float | None = None
    high: float | None = None
    with_low: bool = True
    with_high: bool = True
    unit: str = ""
    currencies: tuple[str, ...] = ()
    bare: bool = False


def bounds(text: str) -> Bounds | None:
    """The bounds that a whole text states, or None."""
    clean = plus_first(" ".join(text.strip().split()))
    if clean.casefold() in ("free", "for free", "free of charge", "no cost"):
        return Bounds(0.0, 0.0, unit="money")
    match = _PATTERN.fullmatch(clean)
    return from_comparison(match) if match else None


def plus_first(text: str) -> str:
    """ "4+ stars" as "at least 4 stars"."""
    return re.sub(r"(?<![\w.])([$€£]?\d+(?:\.\d+)?)\s?\+(?=\s|$)", r"at least \1", text)


def from_comparison(match: re.Match[str]) -> Bounds | None:
    """The bounds of a match of ``PATTERN``."""
    if match["link"]:
        return _span(match)
    one = from_match(match, "_one")
    if one is None:
        return None
    operator = " ".join((match["operator"] or "").casefold().split())
    if match["after_below"]:
        return _bounds(one, high=one.value)
    if match["after_above"]:
        return _bounds(one, low=one.value)
    if operator in BELOW:
        return _bounds(one, high=one.value, with_high=BELOW[operator])
    if operator in ABOVE:
        return _bounds(one, low=one.value, with_low=ABOVE[operator])
    if operator in ABOUT:
        return _bounds(one, low=one.value * 0.8, high=one.value * 1.2)
    return _bounds(one, low=one.value, high=one.value, bare=not operator)


def _span(match: re.Match[str]) -> Bounds | None:
    if (match["link"].casefold() == "and") != ((match["span"] or "").casefold() == "between"):
        return None
    low, high = from_match(match, "_low"), from_match(match, "_high")
    if low is None or high is None:
        return None
    unit = high if high.unit else low  # "5 to 10 km": the unit is said once
    if not low.unit and high.unit not in ("", "money"):
        low = Quantity(low.value * _factor(match, "_high", high), high.unit)
    return _bounds(unit, low=low.value, high=high.value) if low.value <= high.value else None


def _factor(match: re.Match[str], suffix: str, scaled: Quantity) -> float:
    plain = number(match[f"number{suffix}"])
    return scaled.value / plain if plain else 1.0


def _bounds(
    of: Quantity,
    low: float | None = None,
    high: float | None = None,
    with_low: bool = True,
    with_high: bool = True,
    bare: bool = False,
) -> Bounds:
    return Bounds(low, high, with_low, with_high, of.unit, of.currencies, bare)

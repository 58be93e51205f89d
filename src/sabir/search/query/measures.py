"""Which number of a site's items a question is about: by what it calls it, by its unit, or by what is counted. Pure.

"Taller than 2 metres" is about a height, "7 seats" about ``vehicleSeatingCapacity``, "sleeps six" about what says how
many people fit. No field is known here but by its name.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from datetime import datetime
from functools import lru_cache
from typing import Final

import msgspec

from sabir.search.engine.base import Fields
from sabir.search.items.attributes import AGES

from .comparisons import Bounds, from_comparison
from .conditions import AnyOf, Condition, Is, Range
from .field_names import other_words
from .phrase import Phrase, after
from .structured import numeric
from .units import NUMBER_WORDS
from .vocabulary import MEASURES
from .words import content_words

# Words of a field's name that tell nothing of what it measures.
_MEASURE: Final = re.compile(r"^numberof|^vehicle|^total|^maximum|^max|^minimum|capacity$|count$")
_SUFFIXES: Final = ("ful", "able", "ous", "ive", "ing", "est", "er", "y", "s")
_WORD: Final = 4  # letters of a word that may be within a field's name: "power", ``enginepower``
# What names a field in which numbers of this unit are stated, in this order.
_OF_UNIT: Final = {
    "m": ("distance", "mileage", "odometer", "range", "length", "height", "width", "depth", "altitude", "elevation",
          "diameter", "ascent"),
    "m2": ("floorsize", "area", "surface", "size", "space"),
    "min": ("duration",),
    "g": ("weight", "mass", "load"),
    "ml": ("volume", "capacity", "content"),
    "W": ("power", "output"),
    "km/h": ("speed",),
    "kWh": ("battery", "capacity", "energy"),
    "year": ("age", "warranty", "year"),
}  # fmt: skip
# What names a field that says how many people there is room for.
_ROOM: Final = (
    "people",
    "person",
    "guest",
    "occupancy",
    "sleep",
    "attendee",
    "yield",
    "participant",
    "seating",
    "berth",
)
_COUNTLESS: Final = frozenset({"price", "stars", "ratingvalue", "pricelevel", "starthour"})
# An adjective in the comparative, to the plain one.
_ADJECTIVES: Final = {
    "taller": "tall", "higher": "high", "longer": "long", "shorter": "long", "wider": "wide", "narrower": "wide",
    "deeper": "deep", "heavier": "heavy", "lighter": "heavy", "bigger": "big", "larger": "big", "smaller": "big",
    "older": "old", "younger": "old", "faster": "fast", "slower": "fast", "farther": "far", "further": "far",
    "closer": "far", "nearer": "far", "tall": "tall", "long": "long", "wide": "wide", "deep": "deep", "high": "high",
}  # fmt: skip


def measuring(word: str, numbers: Iterable[str]) -> list[str]:
    """The numeric fields, in lower case, that measure what a word says; the likeliest first."""
    own = next(iter(content_words(word)), "")
    stems = [own.removesuffix(end) for end in _SUFFIXES if own.endswith(end) and len(own) - len(end) >= _WORD]
    forms = [own, *other_words().get(own, ()), *stems] if own else []
    fields = [field for field in numbers if ":" not in field and field not in _COUNTLESS]
    found: list[str] = []
    for form in forms:
        starting = [field for field in fields if _measured_thing(field).startswith(form)]
        within = [field for field in fields if len(form) >= _WORD and form in field]
        found += sorted(starting, key=lambda field: (len(field), field)) + sorted(within)
    return list(dict.fromkeys(found))


@lru_cache(maxsize=4_096)
def _measured_thing(field: str) -> str:
    return _MEASURE.sub("", field).rstrip("s")


def of_unit(unit: str, numbers: Collection[str]) -> list[str]:
    """The numeric fields that may be stated in a unit, by their names; the likeliest first."""
    known = [field for field in MEASURES.get(unit, ()) if field in numbers]
    named = [
        field for part in _OF_UNIT.get(unit, ()) for field in sorted(numbers) if part in field and ":" not in field
    ]
    return list(dict.fromkeys((*known, *named)))


def field_of(match: re.Match[str], given: Bounds, known: Fields) -> str | None:
    """The field that a comparison is about: named by its adjective or by the words around it, else by its unit."""
    fitting = of_unit(given.unit, known.numbers)
    before = re.findall(r"[^\W\d_]+", match.string[: match.start()])[-2:]
    behind = re.findall(r"[^\W\d_]+", after(match))[:3]
    said = [word.casefold() for word in (*re.findall(r"[^\W\d_]+", match.group()), *behind, *reversed(before))]
    for word in said:
        named = measuring(_ADJECTIVES.get(word, word), known.numbers) if len(word) > 2 else []
        if chosen := next((field for field in named if field in fitting), None):
            return chosen
    return next(iter(fitting), None)


def counted(match: re.Match[str], known: Fields, now: datetime) -> Phrase | None:
    """ "7 seats", "at least 3 bedrooms", "fewer than 300 pages", if a field of that name has numbers."""
    given = from_comparison(match)
    if given is None or given.unit:
        return None
    fields = measuring(match["counted"], known.numbers)
    return Phrase((numeric(fields[0], given),)) if fields else None


def roomy(match: re.Match[str], known: Fields, now: datetime) -> Phrase | None:
    """ "Sleeps six", "for 8 people": by every number that says how many people there is room for."""
    given = from_comparison(match)
    if given is None or given.unit not in ("", "person", "serving"):
        return None
    if given.bare:
        given = msgspec.structs.replace(given, high=None)
    fields = [field for field in sorted(known.numbers) if any(part in field for part in _ROOM) and ":" not in field]
    if not fields:
        return None  # the words may still name it: "a two person tent"
    rooms: tuple[Condition, ...] = tuple(
        Range(field, given.low, given.high, given.with_low, given.with_high) for field in fields
    )
    return Phrase((AnyOf(rooms) if len(rooms) > 1 else rooms[0],))


def aged(match: re.Match[str], known: Fields, now: datetime) -> Phrase | None:
    """ "For a 7 year old": what is for this age, if things here say for which age they are."""
    said = next(group for group in match.groups() if group).casefold()
    age = int(said) if said.isdecimal() else NUMBER_WORDS.get(said)
    if AGES not in known.words or not isinstance(age, int) or age > _OLDEST:
        return None
    return Phrase((Is(AGES, (f"{age}y",)),))


_OLDEST: Final = 120
_AGE = r"(\d{1,3}|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve)"
AGE_PATTERN: Final = (
    rf"\b(?:for|with)\s+(?:an?\s+|my\s+|our\s+|the\s+|kids?\s+|children\s+|child\s+)?{_AGE}[\s-]*years?[\s-]*olds?\b"
    rf"|\b(?:aged|age|of\s+age)\s+{_AGE}\b(?!\s*(?:-|to|and)\s*\d)"
    rf"|\b(?:for\s+)?(?:my|our|a|the)?\s*(?:son|daughter|child|kid|boy|girl|grandson|granddaughter|nephew|niece)\s*(?:\(|,?\s+(?:who\s+)?is\s+){_AGE}\b\)?(?:\s+years?\s+old)?"
)
ROOM_PATTERN: Final = (
    r"\b(?:(?:that\s+|which\s+)?(?:serves?|feeds?|serving|feeding|sleeps?|sleeping|seats|fits?|holds?|accommodates?)"
    r"|(?:with\s+)?(?:room|space|place|beds)\s+for|we\s+are|there\s+are|(?:enough\s+)?for(?=\s+\S+\s+(?:people|persons|guests|adults)))\s+"
)

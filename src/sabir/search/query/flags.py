"""Filters by what a site states by yes or no, and orders by any number, read by the names of its fields. Pure.

"Cottages that allow dogs" is about ``petsAllowed``, "the biggest cottage" about ``floorSize``: no field is known here
but by its name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime
from functools import lru_cache
from typing import Final

from sabir.search.engine.base import Fields

from .conditions import AnyOf, Condition, Is
from .field_names import other_words
from .measures import measuring
from .phrase import Phrase
from .vocabulary import ALIKE
from .words import singular, tokens

_YES: Final = ("true", "yes")
_NO: Final = ("false", "no")
_ALLOWED: Final = r"allowed|permitted|welcome|accepted|included|friendly"
_ALLOW: Final = r"allow|accept|permit|welcome|include|provide|take"
_NOT: Final = r"not|n['’]?t|no"
# "Pets are not allowed", "dog friendly"; "that don't allow dogs", "allowing dogs".
FLAG_PATTERN: Final = (
    rf"\b(?:(?:where|that|which|with)\s+)?(?P<what>[^\W\d_]+)(?:\s+(?:is|are))?(?P<negated>(?:\s+|(?<=s)|(?<=e))(?:{_NOT}))?[\s-]+(?:{_ALLOWED})\b"
    rf"|\b(?:(?:that|which|where)\s+)?(?P<negated_too>(?:do|does|will)(?:\s+not|n['’]?t)\s+)?(?:{_ALLOW})(?:s|ing)?\s+(?P<things>[^\W\d_]+)\b"
)
# Words of a field's name that only say that it is a flag.
_IDLE: Final = re.compile(r"allowed|allows|accepted|accepts|included|includes|available|permitted|friendly|^is|^has")


def flagged(match: re.Match[str], known: Fields, now: datetime) -> Phrase | None:
    """What must be allowed or included, if a field of that name says so."""
    thing = match["what"] or match["things"]
    fields = [field for field in named(thing, known.words) if field not in known.numbers]
    if not fields:
        return None
    values = _NO if match["negated"] or match["negated_too"] else _YES
    conditions: tuple[Condition, ...] = tuple(Is(field, values) for field in fields)
    return Phrase((AnyOf(conditions),) if len(conditions) > 1 else conditions)


def named(word: str, fields: Iterable[str]) -> list[str]:
    """The fields, in lower case, whose name is a word or another word for it: "dogs", ``petsallowed``."""
    own = singular(tokens(word)[0]) if tokens(word) else ""
    forms = {own, *ALIKE.get(own, ()), *other_words().get(own, ())} - {""}
    return sorted(field for field in fields if _flagged_thing(field) in forms or field in forms)


@lru_cache(maxsize=4_096)
def _flagged_thing(field: str) -> str:
    return _IDLE.sub("", field).rstrip("s")


def refused_flag(scope: str, known: Fields) -> tuple[str, int]:
    """The field that says by yes or no what a scope names ("toxic to pets", ``toxictopets``), and how many of its
    words name it; empty and 0 if there is none."""
    words = tokens(scope)[:_NAMED]
    for count in range(len(words), 0, -1):
        if field := _field_said(words[:count], known):
            return field, count
    fields = [field for field in named(words[0], known.words) if _IDLE.search(field)] if words else []
    return (fields[0], 1) if fields else ("", 0)


def _field_said(words: list[str], known: Fields) -> str:
    """The field with yes or no whose whole name these words are: "taking on new patients",
    ``isAcceptingNewPatients``."""
    bare = [word for at, word in enumerate(words) if word not in _TAKES or at]
    bare = bare[1:] if bare[:1] == ["on"] else bare
    keys = dict.fromkeys("".join(said).rstrip("s") for said in (words, bare))
    return next((_flags(known)[key] for key in keys if len(key) >= _SHORTEST and key in _flags(known)), "")


@lru_cache(maxsize=16)
def _flags(known: Fields) -> dict[str, str]:
    """The fields that may say yes or no, by their whole names and by those without what begins them."""
    found: dict[str, str] = {}
    for field in sorted(known.words - known.numbers):
        own = _PREFIX.sub("", field)
        for name in (field, own, _VERB.sub("", own)):
            found.setdefault(name.rstrip("s"), field)
    return found


@lru_cache(maxsize=16)
def _has_flags(known: Fields) -> bool:
    """Whether a field here says by its name that it is a flag."""
    return any(_PREFIX.match(field) for field in known.words)


_PREFIX: Final = re.compile(r"^(?:is|has|are)(?=[a-z]{5})")
_VERB: Final = re.compile(r"^(?:accepting|accepts|taking|takes|allows|offers)(?=[a-z]{8})")
_TAKES: Final = frozenset("take takes taking accept accepts accepting allow allowing offer offering".split())  # noqa: SIM905
# "Doctors accepting new patients": two to four words that are the whole name of a field, from any word on.
STATED_PATTERN: Final = r"\b[^\W\d_]+(?=(?P<more>(?:\s+[^\W\d_]+){1,4}))"


def stated_flag(match: re.Match[str], known: Fields, now: datetime) -> Phrase | None:
    """What must be so, if a field of that whole name says so by yes or no."""
    if not _has_flags(known):
        return None
    said = match.group() + match["more"]
    spans = list(re.finditer(r"[^\W\d_]+", said))
    for count in range(min(len(spans), _NAMED), 1, -1):
        field = _field_said(tokens(said[: spans[count - 1].end()]), known)
        if field and _PREFIX.match(field):
            return Phrase((Is(field, _YES),), cut=spans[count - 1].end())
    return None


_NAMED: Final = 4  # words of a field's name
_SHORTEST: Final = 5  # letters of a field's name that is said without "allowed" and the like


_GREATEST: Final = {
    "strongest": "power", "thickest": "thick", "priciest": "price", "roomiest": "big",
    "biggest": "big", "largest": "big", "longest": "long", "tallest": "tall", "highest": "high", "heaviest": "heavy",
    "deepest": "deep", "widest": "wide", "oldest": "old", "fastest": "fast", "hardest": "hard", "loudest": "loud",
    "farthest": "far", "furthest": "far",
}  # fmt: skip
_LEAST: Final = {
    "smallest": "big", "shortest": "long", "lowest": "high", "lightest": "heavy", "narrowest": "wide",
    "easiest": "hard", "quietest": "loud", "nearest": "far", "closest": "far", "youngest": "old", "slowest": "fast",
    "tiniest": "big",
}  # fmt: skip
# "The biggest cottage", "the car with the most seats", "the fewest miles".
ORDER_PATTERN: Final = (
    rf"\b(?:the\s+)?(?P<adjective>{'|'.join((*_GREATEST, *_LEAST))})\b"
    r"|\b(?:with\s+|that\s+has\s+|have\s+)?(?:the\s+)?(?P<many>most|fewest|least|lowest|highest)\s+(?P<noun>[^\W\d_]{3,})\b"
)


def ordered(match: re.Match[str], known: Fields, now: datetime) -> Phrase | None:
    """An order by any number that a field of that name states."""
    word = (match["adjective"] or match["noun"]).casefold()
    if match["adjective"]:
        asked, ascending = _GREATEST.get(word) or _LEAST[word], word in _LEAST
    else:
        asked, ascending = word, match["many"].casefold() in ("fewest", "least", "lowest")
    fields = measuring(asked, known.numbers)
    return Phrase(order=(fields[0], ascending)) if fields else None

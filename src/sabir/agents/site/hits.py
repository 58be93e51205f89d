"""Small questions about single hits and conditions of a search. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from sabir.search import Condition, Found, Hit, OfType
from sabir.search.items.attributes import START_HOUR, recalled
from sabir.search.items.types import WIDER, is_a
from sabir.search.query.conditions import Range
from sabir.search.query.negation import denies, is_refused
from sabir.search.query.relaxing import is_time
from sabir.search.query.when import HOURS
from sabir.search.query.words import tokens

READ: Final = 2_000  # characters of a text


def widened(condition: Condition) -> Condition:
    if isinstance(condition, OfType):
        return OfType(tuple(WIDER.get(item, item) for item in condition.types))
    return condition


def is_hard(condition: Condition) -> bool:
    """Whether something that does not meet it is no help; a time of the day may not have been meant as a filter."""
    return not (is_time(condition) or (isinstance(condition, Range) and condition.field == START_HOUR))


def speaks_of(hit: Hit, other: Hit) -> bool:
    """Whether an item has the whole name of another one."""
    name = " ".join(tokens(other.item.name))
    texts = (hit.item.name, hit.item.description, hit.item.text[:READ])
    return bool(name) and any(f" {name} " in f" {' '.join(tokens(text))} " for text in texts)


def matches_of_words(found: Found) -> Found:
    """What was found by words alone: partial matches, if vectors cannot say that they are chance."""
    hits = tuple(hit for hit in found.hits if hit.semantic is None)
    return msgspec.structs.replace(found, hits=hits, total=len(hits))


def happens(hit: Hit) -> bool:
    return any(is_a(kind, "Event") for kind in hit.item.types)


def starts_in(hit: Hit, word: str) -> bool:
    """Whether a thing starts in a part of the day: "the knitting evening"."""
    first, last = HOURS.get(word, (0.0, 0.0))
    return any(first <= hour < last for hour in recalled(hit.item).numbers.get(START_HOUR, ()))


_ABOUT_AS_WELL: Final = 0.5  # share of the best score


def without_refused(hits: Sequence[Hit], stems: frozenset[str]) -> tuple[Hit, ...]:
    """The hits that have nothing of what a question leaves out. Those that say so themselves ("no interval") come
    first, if they match about as well as the best."""
    kept = [hit for hit in hits if not is_refused(hit.item, stems)]
    best = kept[0].score if kept and stems else 0.0
    first = [hit for hit in kept if stems and hit.score >= _ABOUT_AS_WELL * best and denies(hit.item, stems)]
    leading = [msgspec.structs.replace(hit, score=best) for hit in first]
    return (*leading, *(hit for hit in kept if hit not in first))

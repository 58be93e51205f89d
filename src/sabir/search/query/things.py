"""Lists of things in a question: "nuts, dairy or red meat", "a dog nor a cat". Pure."""

from __future__ import annotations

import re
from typing import Final

from sabir.search.items.types import TYPE_WORDS

from .glossary import same_words
from .vocabulary import FOOD_PAIRS, FOODS
from .words import STOPWORDS, fold, singular

# A word that ends a list of things to have or to avoid.
ENDS: Final = STOPWORDS | frozenset(
    """near around within without under over below above between before after since until less least most max cheap
    cheaper costing priced rated made taking ready serving please thanks today tomorrow tonight available
    """.split()  # noqa: SIM905
)
_THING = r"[^\W\d_][\w'’-]*"


def is_food(thing: str) -> bool:
    word = singular(fold(thing))
    return any(one in FOODS for one in (word, *same_words().get(word, ())))


def one_thing(text: str) -> tuple[list[str], int]:
    """The one thing that a text starts with, in up to three words ("paring knife"), and its length."""
    words: list[str] = []
    used = 0
    for match in re.finditer(rf"\s*({_THING}|\d{{1,4}}\b)", text):
        if match.start() != used or fold(match[1]) in ENDS or len(words) == _MAX_NAMED:
            break
        words.append(match[1])
        used = match.end()
    return ([" ".join(words)] if words else []), used


def named_things(text: str) -> tuple[list[str], int]:
    """The things that a text starts with, each in up to three words: "dog nor a cat"."""
    things, used = one_thing(text)
    while things and (joint := _NEXT.match(text[used:])):
        more, length = one_thing(text[used + joint.end() :])
        if not more:
            break
        things, used = [*things, *more], used + joint.end() + length
    return things, used


_NEXT: Final = re.compile(r"\s*,?\s*\b(?:and|or|nor)\s+(?:(?:an?|any|the)\s+)?", re.IGNORECASE)
_MAX_NAMED: Final = 3


def things_in(text: str, *, types: bool = False) -> tuple[list[str], int]:
    """The things that a text starts with ("nuts, dairy or red meat"), and where they end."""
    things: list[str] = []
    at = used = 0
    while match := re.match(rf"\s*(?:(?:,\s*)?(?:and|or|nor)\s+(?:(?:no|any|an?)\s+)?|,\s*)?({_THING})", text[at:]):
        joined = not things or bool((_LISTED if types and not is_food(match[1]) else _JOINED).match(text[at:]))
        word = fold(match[1])
        if word in ENDS or (word in TYPE_WORDS and not types) or not joined:
            break
        at += match.end()
        pair = re.match(rf"\s+({_THING})", text[at:])
        name = match[1]
        if pair and " ".join((singular(word), singular(fold(pair[1])))) in FOOD_PAIRS:
            name, at = f"{name} {pair[1]}", at + pair.end()
        things.append(name)
        used = at
    return things, used


_JOINED: Final = re.compile(r"\s*(?:,|(?:and|or|nor)\b)")
# "No violin, a small one": a comma goes on with what is left out only if "and" or "or" follows.
_LISTED: Final = re.compile(
    rf"\s*(?:,?\s*(?:and|or|nor)\b|,(?=\s*{_THING}(?:,?\s+{_THING}){{0,3}}?,?\s+(?:and|or|nor)\b))"
)

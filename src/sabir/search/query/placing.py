"""Rules for where: near a place, in it, not in it. Pure."""

from __future__ import annotations

import re
from collections.abc import Container
from datetime import datetime
from typing import Final

from sabir.search.engine.base import Fields

from . import places
from .conditions import AnyOf, Condition, In, Not
from .phrase import Phrase
from .structured import Around, kilometres
from .words import STOPWORDS, fold, singular


def _place_at(words: str, known: Fields, *, loose: bool) -> tuple[str, int] | None:
    """The longest name of a place that a text starts with, and its length."""
    found = [match.end() for match in re.finditer(r"[^\W_]['’.\w-]*(?=\W|$)", words)][:5]
    for end in reversed(found):
        name = words[:end]
        if singular(fold(name)) in STOPWORDS or (len(name) < 3 and name.islower()):
            continue
        if _is_place(name, known, places.CITIES):
            region = re.match(r",?\s+([A-Z]{2}|[A-Z][a-z]+)\b", words[end:])
            within = region and _is_place(region[1], known, places.REGIONS.values())
            return name, end + (region.end() if region and within else 0)
    if loose and (capital := re.match(r"(?:[A-Z][\w'’.-]*)(?:\s+[A-Z][\w'’.-]*){0,3}", words)):
        return capital.group().rstrip("."), capital.end()
    return None


def _is_place(name: str, known: Fields, more: Container[str]) -> bool:
    return any(item in known.places or item in more for item in places.names(name))


def near(match: re.Match[str], known: Fields, now: datetime) -> Phrase | None:
    found = _place_at(match["rest"], known, loose=True)
    if not found:
        return None
    cut = match.start("rest") - match.start() + found[1]
    if not known.places:
        return Phrase(ignored="no item states a place", cut=cut)
    return Phrase(around=Around(found[0], kilometres(match["far"], match["unit"])), cut=cut)


def within(match: re.Match[str], known: Fields, now: datetime) -> Phrase | None:
    found = _place_at(match["rest"], known, loose=False)
    at = match.start("rest")
    if not found and match["article"]:  # the article is part of the name: "The Net Loft"
        at = match.start("article")
        found = _place_at(match.string[at : match.end()], known, loose=False)
    if not found:
        return None
    cut = at - match.start() + found[1]
    if not known.places:
        return Phrase(ignored="no item states a place", keep=match.group()[:cut], cut=cut)
    named = [found[0]]
    while more := _OR_IN.match(match.group()[cut:]):
        found = _place_at(match.group()[cut + more.end() :], known, loose=False)
        if not found:
            break
        named.append(found[0])
        cut += more.end() + found[1]
    places_named = tuple(In(name) for name in named)
    condition: Condition = AnyOf(places_named) if len(named) > 1 else places_named[0]
    return Phrase((Not(condition) if match["negated"] else condition,), cut=cut)


_OR_IN: Final = re.compile(r"\s*(?:,|,?\s+(?:or|nor))\s+(?:in\s+)?(?:the\s+)?", re.IGNORECASE)

"""The fact of a thing that a question describes without its name: "the phone number of the vet".

Something is stated only of a thing that has every meaningful word of the question, in its name, its text, its fields or
its types. That is what tells it from others; without it, the best matches are shown and nothing is claimed.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Final

from sabir.search import Condition, Engine, Fields, Hit, OfType, SearchQuery
from sabir.search.answers.fields import covered, labels
from sabir.search.answers.statements import is_unsaid
from sabir.search.query.asking import Asked, asked, asks_whether_there, begins_open, is_yes_no
from sabir.search.query.field_names import all_named
from sabir.search.query.glossary import glossary, likenesses
from sabir.search.query.predicates import IDLE
from sabir.search.query.relaxing import asks_elsewhere
from sabir.search.query.text import from_text
from sabir.search.query.words import content_words, tokens

from .subject import ASKING, DEFINITE, MAX_LENGTH, SEARCHES, Subject, answered_subject

_LOOKED_AT: Final = 8  # hits that may be meant
_CLEARLY: Final = 1.25  # times the score of the next
_FEW: Final = 8  # words that describe a thing


async def described_subject(
    english: str, engine: Engine, where: tuple[Condition, ...], known: Fields, now: datetime, language: str
) -> Subject | None:
    """The thing that has every word of a question, and what it states; None if nothing does."""
    wanted = asked(english, english, known, now) if len(english) <= MAX_LENGTH else None
    if not wanted or not _is_asked(english, wanted):
        return None
    read = from_text(english, known, now)
    if wanted.fields and not all(isinstance(condition, OfType) for condition in read.conditions):
        return None  # "snacks under 150 calories" are looked for
    said = {word for words in read.said for word in tokens(words)}
    idle = glossary(language).words if language != "en" else frozenset[str]()
    words = [word for word in content_words(english) if not {word}.issubset(ASKING | IDLE | said | idle)]
    if not 1 <= len(words) <= _FEW:
        return None
    hits = (await engine.search(SearchQuery(" ".join(words), where, 0, _LOOKED_AT))).hits
    telling = [word for word in content_words(english) if word not in said]
    hit = _only_one([hit for hit in hits if has_every(words, hit)], telling)
    if hit is None:
        return None
    found = await answered_subject(hit, wanted, english, engine, known, language)
    return found if found.statement and not is_unsaid(found.statement) else None


def _only_one(hits: list[Hit], words: Collection[str]) -> Hit | None:
    """The one that is meant: the clearly best, by the words in its name and its short values, then by its score."""
    ranked = sorted(hits, key=lambda hit: (-_words_in_labels(words, hit), -hit.score))
    if len(ranked) > 1 and _words_in_labels(words, ranked[0]) == _words_in_labels(words, ranked[1]):
        return ranked[0] if ranked[0].score >= _CLEARLY * ranked[1].score else None
    return ranked[0] if ranked else None


def _is_asked(english: str, wanted: Asked) -> bool:
    """Whether a question asks something of one thing; "coffee that is not decaf" looks for things."""
    if SEARCHES.search(english) or asks_whether_there(english) or asks_elsewhere(english):
        return False
    if wanted.is_yes_no:
        return is_yes_no(english) and bool(wanted.conditions)
    return begins_open(english) or DEFINITE.search(english) is not None


def _words_in_labels(words: Collection[str], hit: Hit) -> int:
    """How many of some words are in the name of a thing, or in one of its short values."""
    there = {word for label in (hit.item.name, *labels(hit.item)) for word in tokens(label)}
    return len(there.intersection(words))


def has_every(words: Collection[str], hit: Hit) -> bool:
    """Whether a thing has each of some words, or another word for it."""
    there = labels(hit.item)
    return all(
        any(covered((form,), hit.item, ()) for form in (word, *likenesses().get(word, ())))
        or any(all_named((word,), label) for label in there)
        for word in words
    )

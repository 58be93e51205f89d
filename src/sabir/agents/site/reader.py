"""The statement that answers a question where no rule for its field does: any sentence or field of what was found.

An item is meant if its name, its types and the statement together have the words of the question. Yes or no is said
only if they have all of them; an open question is answered by the statement itself, which cannot claim more than the
item does.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from sabir.search import Condition, Engine, Hit, SearchQuery
from sabir.search.answers.abroad import beyond
from sabir.search.answers.denials import denials, left_out, words_denied
from sabir.search.answers.fields import labels
from sabir.search.answers.offers import is_sold_out
from sabir.search.answers.reading import (
    PRICE,
    WEAK,
    Reading,
    asks_how_many_come,
    focus,
    has,
    is_narrowed,
    kind_asked,
    naming,
    readings,
    statements,
    telling,
)
from sabir.search.answers.speaking_of import is_only_part
from sabir.search.answers.statements import stated_fact, yes_or_no
from sabir.search.answers.whether import by_statement, otherwise
from sabir.search.items.types import is_a
from sabir.search.query.asking import Asked, asks_whether_there, begins_open, is_yes_no
from sabir.search.query.glossary import glossed, language_of
from sabir.search.query.predicates import IDLE
from sabir.search.query.words import content_words, fold, spaced, tokens

from .own import own_thing, says_you
from .subject import MAX_LENGTH, SEARCHES, Subject

_RELATED: Final = 30.0  # from this score, a hit is related to the question
_CLEARLY: Final = 1.25  # times the score of the next
_SHORT: Final = 3  # words of a question that may be about the site itself
_LOOKED_AT: Final = 6  # items that are read
_MAX_WORDS: Final = 10  # that a question has besides those that only ask
_RANK: Final = 0.3  # what the score of the item counts
_FIELD: Final = 0.1  # what it counts that a field states it
# "When was the theatre opened?" does not ask for the day of an event there.
_BEGAN: Final = re.compile(r"\bwhen\s+(?:was|were)\b.*\b(?:opened|founded|established|launched|built)\b", re.IGNORECASE)
_OF_EVENTS: Final = frozenset({"startDate", "endDate", "doorTime", "previousStartDate"})
_TEASER: Final = 0.3  # what it costs that a sentence is only a teaser
_SHORT_TEASER: Final = 80  # characters
_LEAST: Final = 0.6  # share of the words that an answer must have


async def read_answer(
    english: str,
    named: Hit | None,
    pool: Sequence[Hit],
    engine: Engine,
    where: tuple[Condition, ...],
    language: str,
    asked: str = "",
) -> Subject | None:
    """The thing and the statement of it that answer a question; None if none does. ``named``: what it is about;
    ``asked``: the question in the language of the visitor."""
    people = asks_how_many_come(english)
    words = telling(f"{english[: people.start()]} {english[people.end() :]}" if people else english)
    whether = is_yes_no(english)
    kind = None if whether else kind_asked(english)
    if not 1 <= len(words) <= _MAX_WORDS or len(english) > MAX_LENGTH or not (whether or kind or begins_open(english)):
        return None
    if named is None and not whether and WEAK.issuperset(words) and not says_you(english):
        return None  # "when is the open day?" is not about the day on which something is closed
    hits = [named] if named is not None else await _candidates(english, words, pool, engine, where, asked)
    if whether:
        hits = _of_the_thing(english, hits) if named is None else hits
        is_of_place = named is None and _OF_VISITORS.match(english) is not None
        meant = [hit for hit in hits if not (is_of_place and _is_unnamed_ware(hit, words))]
        decided = _decided([*meant, *(hit for hit in pool[:_LOOKED_AT] if named is not None)], english, language)
        is_only_mentioned = decided is not None and _asks_for_thing(english) and _is_other_ware(decided.hit, words)
        return None if is_only_mentioned else decided
    noun, is_past = focus(english), _BEGAN.search(english) is not None
    # "which books are by …" looks for several
    is_plural = kind is None and bool(noun) and any(f"{noun}{end}" in fold(english) for end in ("s", "es"))
    rows = [
        (hit, reading)
        for hit in hits
        for reading in readings(hit.item, words, kind)
        if (not noun or noun in reading.own or noun in WEAK) and (reading.statement.field or not is_plural)
        if not (is_past and reading.statement.field in _OF_EVENTS)
        if _says_more(reading, hit, english)
        if not (is_plural and set(reading.own) == {noun} and len(words) > 1)
    ]
    best = max(rows, key=lambda row: _worth(*row), default=None)
    by_name = named is None and not asked  # in other languages, what is before a name may be a verb
    if best is None or best[1].fit < _LEAST or is_narrowed(english, best[1], by_name):
        return _only_value(english, words, kind, pool) if best is None and named is None else None
    if kind is PRICE and not WEAK.union(IDLE).issuperset(best[1].elsewhere):
        return None  # the hire of a hall with a wheelchair lift is not that of a wheelchair
    hit, reading = best
    if noun and reading.statement.field and _is_shared(reading, rows):
        return None
    fact = _FACTS.get(reading.statement.field)
    said = stated_fact(hit.item, Asked((fact,)), language) if fact else ""
    return _subject(hit, english, said or f"{hit.item.name}: {_ended(reading.statement.text)}")


def _says_more(reading: Reading, hit: Hit, english: str) -> bool:
    """Whether a statement says anything that is not in the question or the name: "Decaf Peru: decaf" does not."""
    known = {*tokens(english), *tokens(hit.item.name), *tokens(spaced(reading.statement.field))}
    return any(not has(known, word) for word in content_words(reading.statement.english))


# Fields that are stated in a sentence of their own.
_FACTS: Final = {"openingHours": "openinghours", "streetAddress": "address", "addressLocality": "address"}
_PAGES: Final = ("WebPage", "Article")


def _only_value(
    english: str, words: Sequence[str], kind: re.Pattern[str] | None, pool: Sequence[Hit]
) -> Subject | None:
    """The only sentence of a page with the asked kind of value, if the page is clearly the best and called by what is
    asked: "within 45 days" of the page on returns answers "how many days do I have to return a lamp?"."""
    if kind not in _TIMES or not leads(pool) or not any(is_a(one, of) for one in pool[0].item.types for of in _PAGES):
        return None
    item = pool[0].item
    called = [word for word in words if has(naming(item), word)]
    said = [one for one in statements(item) if not one.field and kind is not None and kind.search(one.text)]
    is_it = called and 2 * len(called) >= len(words) and len(said) == 1
    return _subject(pool[0], english, f"{item.name}: {_ended(said[0].text)}") if is_it else None


_TIMES: Final = tuple(kind_asked(question) for question in ("how long", "what time", "what day", "when", "how often"))


async def read_denial(
    english: str, named: Hit | None, pool: Sequence[Hit], engine: Engine, where: tuple[Condition, ...]
) -> Subject | None:
    """The sentence that says what is not so, of a question for that; None if no sentence has its words and denies."""
    words = words_denied(english) if len(english) <= MAX_LENGTH else []
    if not 1 <= len(words) <= _MAX_WORDS:
        return None
    hits = [named] if named is not None else await _candidates(english, words, pool, engine, where)
    rows = [(hit, reading) for hit in hits for reading in denials(hit.item, words)]
    if best := max(rows, key=lambda row: _worth(*row), default=None):
        return _subject(best[0], english, f"{best[0].item.name}: {_ended(best[1].statement.text)}")
    said = ((hit, left_out(hit.item, english)) for hit in hits)
    return next((_subject(hit, english, f"{hit.item.name}: {_ended(text)}") for hit, text in said if text), None)


async def denied(subject: Subject, question: str, engine: Engine, where: tuple[Condition, ...]) -> Subject:
    """The subject of a question with the sentence that says what is not so, if that is asked: "which days is the show
    not on?"."""
    return await read_denial(glossed(question, language_of(question)), subject.hit, (), engine, where) or subject


def _is_shared(reading: Reading, rows: Sequence[tuple[Hit, Reading]]) -> bool:
    """Whether several things have a field with the same value: then it does not tell them apart, and all are meant."""
    return len({hit.item.id for hit, other in rows if other.statement.text == reading.statement.text}) > 1


def _asks_for_thing(english: str) -> bool:
    """Whether something is to be had: "do you have a laptop?", "can I get a laptop here?"."""
    return asks_whether_there(english) or SEARCHES.search(english) is not None


def _is_other_ware(hit: Hit, words: Sequence[str]) -> bool:
    """Whether a thing for sale or for cooking only mentions what some words name.

    A place that mentions parking has it; a sticker that fits on laptops is no laptop, and a place with "electric
    vehicle charging" may have no electric vehicle.
    """
    said = {word for word in words if word not in IDLE and word not in WEAK}
    if is_only_part(said, hit.item):
        return True
    if said.issubset(word for label in (hit.item.name, *labels(hit.item)) for word in tokens(label)):
        return False
    return _is_ware(hit)


_THE: Final = re.compile(
    r"^\W*(?:is|are|was|were|do|does|did|can|could|has|have|will|would)\s+(?:the|your|this)\s+(?P<thing>[\w'’-]+)", re.I
)


def _of_the_thing(english: str, hits: list[Hit]) -> list[Hit]:
    """The hits that are called by the thing that is asked about, if any is: whether the turntable comes with a needle
    is not up to what else has needles."""
    asked_of = _THE.match(english)
    words = telling(asked_of["thing"]) if asked_of else []
    called = [hit for hit in hits if words and all(has(tokens(hit.item.name), word) for word in words)]
    return called or hits


# What visitors may do is asked of the place.
_OF_VISITORS: Final = re.compile(
    r"^\W*(?:and\s+)?(?:can|could|may|might|must|should|do|are|is)\s+(?:i|we|you|my|our|dogs?|pets?|kids|children)\b",
    re.IGNORECASE,
)


def _is_unnamed_ware(hit: Hit, words: Sequence[str]) -> bool:
    """Whether a thing for sale or for cooking is called by none of the words: "can I bring my dog?" asks of the place,
    and not of a plant that is safe for pets."""
    return _is_ware(hit) and not any(has(naming(hit.item), word) for word in words)


def _is_ware(hit: Hit) -> bool:
    return any(is_a(name, kind) for name in hit.item.types for kind in ("Product", "Recipe"))


def _worth(hit: Hit, reading: Reading) -> float:
    teaser = _TEASER if _is_teaser(hit, reading.statement.text) else 0.0
    return reading.fit + _RANK * hit.score / 100 + (_FIELD if reading.statement.field else 0.0) - teaser


def _is_teaser(hit: Hit, text: str) -> bool:
    """Whether a sentence only says what a page is about: "Address, bus, parking."."""
    is_short = len(text) <= _SHORT_TEASER and not any(char.isdigit() for char in text)
    return is_short and bool(hit.item.text) and hit.item.description.startswith(text)


async def _candidates(
    english: str,
    words: Sequence[str],
    pool: Sequence[Hit],
    engine: Engine,
    where: tuple[Condition, ...],
    asked: str = "",
) -> list[Hit]:
    texts = (" ".join(words), asked) if asked else (" ".join(words),)
    found = [hit for text in texts for hit in (await engine.search(SearchQuery(text, where, 0, _LOOKED_AT))).hits]
    hits: dict[str, Hit] = {}
    is_meant = says_you(english) or asks_whether_there(english) or len(words) <= _SHORT
    own = await own_thing(engine, where) if is_meant else None
    for hit in (*pool[:_LOOKED_AT], *found, *((own,) if own is not None else ())):
        hits.setdefault(hit.item.id, hit)
    return list(hits.values())


def _decided(hits: Sequence[Hit], english: str, language: str) -> Subject | None:
    """Yes or no, by the statement that fits best."""
    for hit in hits:
        if nowhere := beyond(hit.item, english):
            return _subject(hit, english, f"{yes_or_no(False, language)} {nowhere}")
    found = [(hit, said) for hit in hits if (said := by_statement(hit.item, english)) is not None]
    if not found and leads(hits) and (decided := otherwise(hits[0].item, english)) is not None:
        return _subject(hits[0], english, f"{yes_or_no(decided[0], language)} {decided[1]}")
    if not found:
        return None
    hit, (is_so, text, _) = max(found, key=lambda row: row[1][2] + _RANK * row[0].score / 100)
    if is_so and (variant := is_sold_out(hit.item, english)):
        return _subject(hit, english, f"{yes_or_no(False, language)} {hit.item.name}: {variant} is not available.")
    return _subject(hit, english, f"{yes_or_no(is_so, language)} {text}")


def leads(hits: Sequence[Hit]) -> bool:
    """Whether the first hit is clearly the best."""
    return bool(hits) and hits[0].score >= _RELATED and (len(hits) == 1 or hits[0].score >= _CLEARLY * hits[1].score)


def _subject(hit: Hit, english: str, statement: str) -> Subject:
    return Subject(hit, Asked(("articlebody",), about=english), english, statement)


def _ended(text: str) -> str:
    return text if text.endswith((".", "!", "?", "…")) else f"{text}."

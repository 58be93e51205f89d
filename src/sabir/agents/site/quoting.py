"""Answers in the words of a page: one of a site's own questions in other words, or a sentence with what is asked.

A sentence answers if it has the asked kind of value (a date for "when", a price for "how much"), and if it and the name
of its page have every meaningful word of the question.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from datetime import UTC, datetime
from typing import Final

from sabir.search import Condition, Engine, Fields, Hit, OfType, SearchQuery
from sabir.search.answers.speaking_of import asks_the_same
from sabir.search.answers.statements import answered_by
from sabir.search.query.asking import Asked, asks_whether_there, begins_open, is_yes_no
from sabir.search.query.conditions import During
from sabir.search.query.dates import MONTHS, WEEKDAYS
from sabir.search.query.field_names import is_kin
from sabir.search.query.glossary import glossed, language_of, likenesses
from sabir.search.query.predicates import IDLE
from sabir.search.query.relaxing import inner, is_time
from sabir.search.query.stated import in_english, item_language
from sabir.search.query.text import from_text
from sabir.search.query.words import content_words, sentences, tokens

from .subject import MAX_LENGTH, Subject

_LOOKED_AT: Final = 6  # pages that are read
_READ: Final = 6_000  # characters of a page
_ALIKE: Final = 0.4  # from this closeness in meaning, a question of the site may be the one that is asked
_SHARE: Final = 0.6  # of the meaningful words, which one of the site's own questions has
_PLAIN: Final = frozenset(
    "open close closed closing opening back start begin end late early free pay charge fine book return renew".split()  # noqa: SIM905
)
_ASKS: Final = frozenset(
    "much many long time when date day price cost how what where which who exactly roughly please again".split()  # noqa: SIM905
)
_DATE: Final = re.compile(
    rf"\b(?:{'|'.join((*MONTHS, *WEEKDAYS))})s?\b|\b(?:19|20)\d\d\b|\b\d{{1,2}}\.\s?\d{{1,2}}\.", re.IGNORECASE
)
_CLOCK: Final = re.compile(
    r"\b\d{1,2}[:.]\d\d\b|\b\d{1,2}\s?(?:[ap]\.?m\b|o['’]clock|Uhr)|\b(?:noon|midnight|midday)\b", re.IGNORECASE
)
_PRICE: Final = re.compile(
    r"[$€£]\s?\d|\d\s?(?:€|euros?|dollars?|pounds?|cents)|\b[a-z]+(?:-[a-z]+)?\s+(?:dollars?|euros?|pounds?|cents)\b"
    r"|\bfree\b|\bnothing\b",
    re.IGNORECASE,
)
# The kinds of questions, and what a sentence must have that answers one.
_KINDS: Final = (
    (re.compile(r"\bwhat\s+time\b|\bhow\s+late\b", re.IGNORECASE), _CLOCK),
    (re.compile(r"\bwhen\b|\b(?:what|which)\s+(?:day|date|month)\b", re.IGNORECASE), _DATE),
    (re.compile(r"\bhow\s+much\b|\bprices?\b|\bcosts?\b|\bfees?\b", re.IGNORECASE), _PRICE),
)


async def quoted(
    english: str, engine: Engine, where: tuple[Condition, ...], named: str, known: Fields, now: datetime
) -> Subject | None:
    """The sentence that answers a question, by its best page; None if no sentence does. ``named``: the thing that the
    question names, of which the sentence must speak."""
    kind = next((value for pattern, value in _KINDS if pattern.search(english)), None)
    if kind is None or not begins_open(english) or len(english) > MAX_LENGTH:
        return None
    read = from_text(english, known, now)
    timed = [condition for condition in inner(read.conditions) if isinstance(condition, During)]
    rows = zip(read.conditions, read.said, strict=True)
    dated = {word for condition, said in rows if any(map(is_time, inner((condition,)))) for word in tokens(said)}
    words = [word for word in content_words(english) if word not in _ASKS and word not in dated]
    words = [word for word in words if word not in IDLE or word in _PLAIN]
    if not words or (kind is not _DATE and timed):
        return None
    hits = (await engine.search(SearchQuery(" ".join(words), where, 0, _LOOKED_AT))).hits
    best: tuple[int, Hit, str] | None = None
    for hit, sentence, said in _sentences(hits, kind):
        stated = tokens(f"{sentence} {said}") if said != sentence else tokens(sentence)
        own = [word for word in words if _has(stated, word)]
        around = [*stated, *tokens(hit.item.name)]
        is_about = all(_has(around, word) for word in (*words, *content_words(named)))
        if is_about and own and _in_time(said, timed) and (best is None or len(own) > best[0]):
            best = len(own), hit, sentence
    if best is None:
        return None
    _, hit, sentence = best
    return Subject(hit, Asked(("articlebody",), about=english), english, f"{hit.item.name}: {sentence}")


def _sentences(hits: Sequence[Hit], kind: re.Pattern[str]) -> Iterator[tuple[Hit, str, str]]:
    """The sentences with such a value, as written and as the rules read them."""
    for hit in hits[:_LOOKED_AT]:
        language = item_language(hit.item)
        for sentence in sentences(f"{hit.item.description}\n{hit.item.text}"[:_READ]):
            said = in_english(sentence, language)
            if kind.search(said):
                yield hit, sentence, said


def _in_time(sentence: str, timed: Sequence[During]) -> bool:
    """Whether a sentence names a month of the time that is asked about."""
    months = {
        MONTHS[datetime.fromtimestamp(when, UTC).month - 1]
        for condition in timed
        for when in (condition.start, condition.end)
        if when is not None
    }
    return not months or not months.isdisjoint(tokens(sentence))


def _has(there: Collection[str], word: str) -> bool:
    return any(is_kin(form, other) for form in (word, *likenesses().get(word, ())) for other in there)


async def own_question(
    english: str, engine: Engine, where: tuple[Condition, ...], language: str, floor: float
) -> Subject | None:
    """One of the site's own questions that asks the same in other words, with its answer, or None.

    ``floor`` is the score of the best result: an own question must not be beaten by far.
    """
    words = list(dict.fromkeys(word for word in content_words(english) if word not in _ASKS and "'" not in word))
    is_asked = begins_open(english) or is_yes_no(english) or english.rstrip().endswith("?")
    if not words or not is_asked or len(english) > MAX_LENGTH:
        return None
    hits = (await engine.search(SearchQuery(english, (*where, OfType(("Question",))), 0, _LOOKED_AT))).hits
    for hit in hits:
        if (hit.semantic or 0.0) < _ALIKE and hit.score < floor and floor >= _SURE:
            continue
        if _is_same(words, hit) and asks_the_same(english, hit.item):
            answer = answered_by(english, hit.item, language)
            return Subject(hit, Asked(("acceptedanswer",)), english, answer)
    return None


def site_answer(question: str, worded: str, own: Hit, said_in: str) -> Subject | None:
    """The answer of one of the site's own questions, if it asks the same, in the visitor's words or (``worded``) in
    those of the site."""
    language = language_of(question)
    english, in_words = glossed(question, language), glossed(worded, language_of(worded))
    is_same = asks_the_same(english, own.item) or (asks_whether_there(in_words) and asks_the_same(in_words, own.item))
    answer = answered_by(english, own.item, said_in or language)
    return Subject(own, Asked(("acceptedanswer",)), question, answer) if is_same else None


_SURE: Final = 35.0


def _is_same(words: Sequence[str], hit: Hit) -> bool:
    """Whether one of the site's questions asks what these words ask: it has them all, or is close in meaning and shares
    a telling one."""
    telling = [word for word in words if word not in IDLE or word in _PLAIN]
    name = tokens(hit.item.name)
    whole = [*name, *tokens(hit.item.description)]
    in_name = [word for word in telling if _has(name, word)]
    if not in_name:
        return False
    has_all = all(_has(whole, word) for word in telling)
    has_most = len(in_name) >= 3 and len([word for word in telling if _has(whole, word)]) >= _SHARE * len(telling)
    return has_all or has_most or ((hit.semantic or 0.0) >= _ALIKE and 2 * len(in_name) >= len(telling))

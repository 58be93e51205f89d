"""How a statement of a site leans when it is asked whether something is so: towards yes, or towards no. Pure.

``leanings`` are figures of a statement and a question; how much each counts was fitted (``bench/yes_no.py``).
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Final

from sabir.search.query.words import sentences, tokens

from .polarity import clauses, has_other_subject, obliges, opposes, says
from .reading import has, same

_BEGINS_YES: Final = re.compile(r"\W*(?:yes|ja|sí|oui|of\s+course|certainly|はい)\b", re.IGNORECASE)
_BEGINS_NO: Final = re.compile(
    r"\W*(?:no|nein|non|いいえ|not|never|none|only|unfortunately|sorry|leider|nur|lamentablemente|malheureusement)\b",
    re.IGNORECASE,
)
_DENIES: Final = re.compile(
    r"\b(?:not(?!\s+(?:only|just|far))|no(?!\s+(?:longer\s+than|later|matter|more\s+than))|never|without|neither|nor|cannot|nobody|none"
    r"|kein\w*|nicht|ohne|sin|sans|pas|aucun\w*|ning[uú]n\w*)\b|n['’]t\b"
    r"|\b(?:forbidden|prohibited|banned|impossible|excluded|unavailable|unable|refused?|sold\s+out|closed|full)\b",
    re.IGNORECASE,
)
_ONLY: Final = re.compile(r"\b(?:(?<!\bthe\s)(?<!\bour\s)only|except|unless|until|reserved|at\s+most)\b", re.IGNORECASE)
_HEDGED: Final = re.compile(r"\b(?:some|most|usually|sometimes|might|if|when|once|almost|planned|ask)\b", re.IGNORECASE)
_AFFIRMS: Final = re.compile(
    r"\b(?:may|can|welcome|allowed|permitted|available|free|possible|included|provided|offer(?:ed|s)?|accept(?:ed|s)?|borrow|hire|rent(?:al)?|loan|serves?|there\s+(?:is|are)|we\s+(?:have|take|sell|offer|do))\b",
    re.IGNORECASE,
)
_MUST: Final = re.compile(
    r"\b(?:must|need(?:s|ed)?|ha(?:s|ve)\s+to|require[sd]?|compulsory|mandatory|obligatory|necessary|bring|by\s+appointment)\b",
    re.IGNORECASE,
)
_COUNTED: Final = re.compile(r"\b(?:\d+|two|three|four|five|six|seven|eight|nine|ten|several|many)\b", re.IGNORECASE)
_IN_QUESTION: Final = re.compile(
    r"\b(?:not|never|no|without|n['’]t|forbidden|prohibited|banned|closed|full)\b", re.IGNORECASE
)
_LESS: Final = re.compile(
    r"\b(?:too\s+\w+|late|enough|still|already|ever|just|all|every|any\s*(?:one|where|time))\b", re.IGNORECASE
)


def clause_meant(sentence: str, words: Sequence[str]) -> str:
    """The clause of a sentence that a question with these words is about: of "Dogs are welcome in the courtyard, but
    not inside" the second one, if it is asked about dogs inside. What a clause leaves out is said before it, unless it
    denies another thing: "no dinner on Sundays"."""
    parts = clauses(sentence)
    best, highest, before = sentence, -1, frozenset[str]()
    for part in parts:
        said = tokens(part)
        own = frozenset(word for word in words if has(said, word) or opposes(word, said))
        goes_on = _GOES_ON.match(part) and not has_other_subject(part, words, same)
        count = len(own | before) if goes_on else len(own)
        if count > highest:
            best, highest = part, count
        before = own
    return best


_GOES_ON: Final = re.compile(r"\W*(?:but\s+)?(?:not|no|never|only|except|apart|other|without|unless)\b", re.IGNORECASE)


def leanings(question: str, said: str, words: Sequence[str], asked_here: str = "") -> tuple[float, ...]:
    """Figures from 0 to 1 of what a statement says of a question with these words, both in English.

    ``asked_here``: the site's own question that it answers.
    """
    named = tokens(asked_here)
    left = [word for word in words if not has(named, word)]
    sentence = sentence_meant(said, words, asked_here) if asked_here else said
    clause = clause_meant(sentence, left if asked_here else words)
    there = tokens(clause)
    read = sentence if _BEGINS_YES.match(sentence) else clause
    yes, no = _BEGINS_YES.match(sentence) is not None, _BEGINS_NO.match(sentence) is not None
    denied = _DENIES.search(clause) is not None
    duty = obliges(question)
    opposed = any(opposes(word, (*named, *there)) and not has((*named, *there), word) for word in words)
    negative = _IN_QUESTION.search(question) is not None
    is_so = says(sentence, left or words, same, must=duty) if words and not yes else None
    covered = sum(has((*named, *there), word) for word in words) / max(1, len(words))
    found = (
        1.0,
        bool(asked_here),
        bool(asked_here) and yes,
        bool(asked_here) and no,
        no and not asked_here,
        denied and not yes,
        _DENIES.search(sentence) is not None and not yes,
        _ONLY.search(read) is not None,
        _HEDGED.search(read) is not None,
        _AFFIRMS.search(clause) is not None,
        duty,
        duty and _MUST.search(sentence) is not None,
        negative,
        negative and (denied or no),
        opposed,
        is_so is True,
        is_so is False,
        _COUNTED.search(clause) is not None,
        _LESS.search(question) is not None,
        covered,
        bool(asked_here) and covered == 1.0,
        len(clauses(sentence)) > 1,
    )
    return tuple(map(float, found))


def sentence_meant(answer: str, words: Sequence[str], asked_here: str) -> str:
    """The sentence of an answer that a question with these words is about: the first, unless another denies what is
    asked: "Yes, on the mainland. Not to the islands."."""
    named = tokens(asked_here)
    left = [word for word in words if not has(named, word)]
    rows = list(sentences(answer)) or [answer]
    denying = (row for row in rows[1:] if _DENIES.search(row) and any(has(tokens(row), word) for word in left))
    return next(denying, rows[0])[:_LONG]


_LONG: Final = 500  # characters of a sentence that are read


def chance(weights: Sequence[float], figures: Sequence[float]) -> float:
    """How likely it is so, from 0 to 1."""
    return 1.0 / (1.0 + math.exp(-sum(map(float.__mul__, weights, figures))))


def agrees(answer: str, *, is_so: bool) -> bool:
    """Whether an answer begins with yes, if it is so, or with no, if it is not."""
    return (_BEGINS_YES if is_so else _SAYS_NO).match(answer) is not None


_SAYS_NO: Final = re.compile(r"\W*(?:no|nein|non|いいえ)\b", re.IGNORECASE)


def says_yes_or_no(answer: str) -> bool:
    """Whether an answer begins with yes or with no."""
    return agrees(answer, is_so=True) or agrees(answer, is_so=False)


def denies_by_field(statement: str) -> bool:
    """Whether a statement is a field that says no: "accepts reservations – no."."""
    return _FIELD_SAYS_NO.search(statement) is not None


_FIELD_SAYS_NO: Final = re.compile(r" – (?:no|nein|non|いいえ)\.$", re.IGNORECASE)

"""Yes or no by the statement that most likely decides a question, where no rule says so.

The sentences of the best pages, and the site's own questions with their answers, are compared with the question: in
meaning and by their words. Each leans towards yes or no (``answers/leaning.py``). What is stated is the statement that
decides most, if those that agree with it are likely enough together. The weights were fitted to the questions for yes
or no of the question sets, leaving out the sites that were then asked (``bench/yes_no.py``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from sabir.search import Hit, OfType, SearchQuery
from sabir.search.answers.leaning import agrees, chance, denies_by_field, leanings, says_yes_or_no, sentence_meant
from sabir.search.answers.polarity import opposes
from sabir.search.answers.reading import telling
from sabir.search.answers.statements import yes_or_no
from sabir.search.query.asking import Asked, asks_whether, begins_open
from sabir.search.query.field_names import is_kin
from sabir.search.query.glossary import glossed, language_of
from sabir.search.query.relaxing import asks_elsewhere
from sabir.search.query.stated import in_english, item_language
from sabir.search.query.words import content_words, sentences, tokens

from .subject import MAX_LENGTH, Subject

if TYPE_CHECKING:
    from .search import Finding
    from .stating import SiteQuestion

_PAGES: Final = 8  # that are read
_QUESTIONS: Final = 4  # of the site's own that are read besides
_READ: Final = 6_000  # characters of a page
_SENTENCES: Final = 20  # that are compared in meaning
_ANSWERS: Final = 6  # of the site's own questions that are compared in meaning
_LONG: Final = 300  # characters of a sentence
_LONGEST: Final = 500  # characters of a sentence that is read at all
_STATED: Final = 300  # characters of an answer that are stated
_LEAST: Final = 0.6  # how likely yes, or no, must be
_LEANS: Final = 0.8  # how plainly the statement must say so
_SHARE: Final = 0.3  # how likely that statement must be the one that decides
# How much each feature counts; see ``features``, ``doubts`` and ``leanings``.
FITTING: Final = (4.2, 0.0, 3.3, 4.1, -2.7, -0.2, 1.1, 0.9, -2.5, 0.9, 0.4, 0.2, -1.1)
DOUBTING: Final = (4.3, 0.3, 0.9, 0.2, -0.8)
LEANING: Final = (
    -0.8, 0.3, 1.6, -1.4, -0.2, -1.3, -0.8, 0.1, 0.2, 1.2, -0.9, 0.4, 1.1, 0.8, 0.3, 0.6, -1.9, -0.4, -1.0, 1.8, -0.2,
    0.6,
)  # fmt: skip


class Evidence(NamedTuple):
    """A sentence of a page, or the answer to one of the site's own questions (``asked_here``, in English)."""

    hit: Hit
    place: int
    text: str
    english: str
    words: Sequence[str]
    asked_here: str = ""

    @property
    def written(self) -> str:
        return f"{self.hit.item.name}: {self.text}"

    @property
    def all_words(self) -> Sequence[str]:
        return (*tokens(self.hit.item.name), *self.words)


class Ruling(NamedTuple):
    is_so: bool
    likely: float  # that it is so, or that it is not
    evidence: Evidence
    share: float  # how likely this statement decides
    leans: float  # how plainly


async def state_whether(finding: Finding) -> None:
    """Answer by yes or no, if nothing that is stated says so, or says the opposite with less reason."""
    if finding.filters or finding.ask.min_score is not None or asks_elsewhere(finding.question):
        return
    question = finding.asked_of_site(await finding.engine.fields())
    if len(question.english) > MAX_LENGTH or not asks_whether(finding.question, question.english):
        return
    found = await ruling(question, FITTING, DOUBTING, LEANING)
    if found is None or not _is_clear(found, question):
        return
    if question.subject is None or not says_yes_or_no(question.subject.statement) or overruled(found, question):
        finding.is_remote = False
        await finding.state(_stated(found, question))


def _is_clear(found: Ruling, question: SiteQuestion) -> bool:
    """Whether it is likely enough to be said; that a sentence speaks of a thing does not say that the site has it."""
    is_likely = found.likely >= _LEAST and found.leans >= _LEANS and found.share >= _SHARE
    return is_likely and (bool(found.evidence.asked_here) or not question.is_there)


def overruled(found: Ruling, question: SiteQuestion) -> bool:
    """Whether the opposite that a rule says is to be replaced: by another sentence with every word of the question that
    the rule's has, if the rule's is no field that says no."""
    subject = question.subject
    if subject is None or agrees(subject.statement, is_so=found.is_so) or found.evidence.text in subject.statement:
        return False
    stated = tokens(in_english(subject.statement, item_language(subject.hit.item)))
    there = found.evidence.all_words
    asked = [word for word in telling(question.english) if _has(stated, word)]
    return all(_has(there, word) or opposes(word, there) for word in asked) and not denies_by_field(subject.statement)


def _stated(found: Ruling, question: SiteQuestion) -> Subject:
    evidence, english = found.evidence, question.english
    said = yes_or_no(found.is_so, question.language)
    if not evidence.asked_here:
        return Subject(evidence.hit, Asked(("articlebody",), about=english), english, f"{said} {evidence.written}")
    begun = beginning(evidence.text, sentence_meant(evidence.english, telling(english), evidence.asked_here))
    answer = begun if agrees(begun, is_so=found.is_so) else f"{said} {begun}"
    return Subject(evidence.hit, Asked(("acceptedanswer",)), english, f"{answer} ({evidence.hit.item.name})")


def beginning(answer: str, meant: str = "") -> str:
    """The first sentences of an answer that are not too long to be stated, of a long one its first words; and a later
    sentence that is ``meant``."""
    if len(answer) <= _STATED:
        return answer
    kept = ""
    for sentence in sentences(answer):
        longer = f"{kept} {sentence}".strip()
        if len(longer) > _STATED:
            break
        kept = longer
    kept = kept or f"{answer[:_STATED].rpartition(' ')[0] or answer[:_STATED]} …"
    is_later = meant in answer and meant not in kept and not answer.startswith(meant)
    return f"{kept.removesuffix(' …')} … {meant}" if is_later else kept


async def ruling(
    question: SiteQuestion, fitting: Sequence[float], doubting: Sequence[float], leaning: Sequence[float]
) -> Ruling | None:
    """What the statements of the site say together, by the given weights."""
    found = await candidates(question)
    similar = await similarities(question, found)
    if not found or similar is None:
        return None
    english = question.english
    rows = list(features(found, english, similar, is_there=question.is_there))
    worth = [sum(map(float.__mul__, fitting, row)) for row in rows]
    worth.append(sum(map(float.__mul__, doubting, doubts(rows, is_there=question.is_there))))
    highest = max(worth)
    powers = [math.exp(value - highest) for value in worth]
    shares = [power / sum(powers) for power in powers[:-1]]
    words = telling(english)
    leans = [chance(leaning, leanings(english, one.english, words, one.asked_here)) for one in found]
    yes = sum(map(float.__mul__, shares, leans))
    no = sum(shares) - yes
    is_so = yes >= no
    sides = leans if is_so else [1.0 - lean for lean in leans]
    best = max(range(len(found)), key=lambda at: shares[at] * sides[at])
    return Ruling(is_so, max(yes, no), found[best], shares[best], sides[best])


async def candidates(question: SiteQuestion) -> list[Evidence]:
    """What may decide a question: the answers of the site's own questions, and the sentences that have one of its
    words; if it names a thing, only those of that thing."""
    text, words = question.asked or question.english, list(dict.fromkeys(content_words(question.english)))
    pages = (await question.engine.search(SearchQuery(text, question.where, 0, _PAGES))).hits
    kind = (*question.where, OfType(("Question",)))
    own = (await question.engine.search(SearchQuery(text, kind, 0, _QUESTIONS))).hits
    seen = {hit.item.id for hit in pages}
    pages = (*pages, *(hit for hit in own if hit.item.id not in seen))
    named = question.subject.hit.item.id if question.subject is not None else ""
    answers: list[tuple[int, Evidence]] = []
    said: list[tuple[int, Evidence]] = []
    for place, hit in enumerate(pages):
        if "Question" in hit.item.types:
            answers.append(_counted(_answer(hit, place), words))
        elif not named or hit.item.id == named:
            text = f"{hit.item.description}\n{hit.item.text}"[:_READ]
            language = item_language(hit.item)
            for sentence in dict.fromkeys(one for one in sentences(text) if len(one) <= _LONGEST):
                english = in_english(sentence, language)
                row = _counted(Evidence(hit, place, sentence, english, tokens(english)), words)
                said += [row] if any(_has(row[1].words, word) for word in words) else []
    return [
        one for rows, limit in ((answers, _ANSWERS), (said, _SENTENCES)) for _, one in sorted(rows, key=_first)[:limit]
    ]


def _first(row: tuple[int, Evidence]) -> tuple[int, int]:
    return -row[0], row[1].place


def _counted(statement: Evidence, words: Sequence[str]) -> tuple[int, Evidence]:
    there = statement.all_words
    return sum(_has(there, word) for word in words), statement


def _answer(hit: Hit, place: int) -> Evidence:
    item = hit.item
    text = item.description[:_READ]
    english = in_english(text, item_language(item))
    asked_here = glossed(item.name, language_of(item.name))
    return Evidence(hit, place, text, english, (*tokens(item.name), *tokens(english)), asked_here)


async def similarities(question: SiteQuestion, found: Sequence[Evidence]) -> list[float] | None:
    """How similar in meaning each statement is to the question; one of the site's own questions counts with its answer
    or without, whichever is closer."""
    own = [one.hit.item.name for one in found if one.asked_here]
    texts = [*(one.written for one in found), *own]
    similar = await question.engine.similarities(question.asked or question.english, texts) if texts else None
    if similar is None:
        return None
    alone = iter(similar[len(found) :])
    return [
        max(value, next(alone)) if one.asked_here else value
        for one, value in zip(found, similar[: len(found)], strict=True)
    ]


def features(
    found: Sequence[Evidence], english: str, similar: Sequence[float], *, is_there: bool
) -> list[tuple[float, ...]]:
    """What is compared of each statement, as numbers from 0 to 1."""
    words, asked = list(dict.fromkeys(content_words(english))), tokens(english)
    own = [[_has(one.words, word) for word in words] for one in found]
    has = [[_has(one.all_words, word) for word in words] for one in found]
    rarity = [math.log((len(found) + 1) / (sum(row[at] for row in has) + 0.5)) for at in range(len(words))]
    closest = max((value for one, value in zip(found, similar, strict=True) if one.asked_here), default=0.0)
    rows: list[tuple[float, ...]] = []
    for one, mine, row, meaning in zip(found, own, has, similar, strict=True):
        is_own = bool(one.asked_here)
        heard = telling(one.asked_here)
        rows.append((
            meaning,
            meaning * is_own,
            sum(row) / max(1, len(words)),
            _share(row, rarity),
            _share(mine, rarity),
            float(is_own),
            sum(_has(asked, word) for word in heard) / max(1, len(heard)),
            float(is_own and not begins_open(one.asked_here)),
            one.place / (_PAGES + _QUESTIONS),
            float(one.place == 0),
            min(len(one.text), _LONG) / _LONG,
            float(is_own and meaning == closest),
            float(is_there and not is_own),
        ))  # fmt: skip
    return rows


def doubts(rows: Sequence[Sequence[float]], *, is_there: bool) -> tuple[float, ...]:
    """The same of the case that no statement decides."""
    return 1.0, float(is_there), max(row[0] for row in rows), max(row[2] for row in rows), max(row[1] for row in rows)


def _share(has: Sequence[bool], rarity: Sequence[float]) -> float:
    return sum(value for value, is_there in zip(rarity, has, strict=True) if is_there) / (sum(rarity) or 1.0)


def _has(words: Sequence[str], word: str) -> bool:
    return any(is_kin(word, other) for other in words)

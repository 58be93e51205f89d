"""The sentence that most likely answers a question, where no rule finds one.

The sentences and fields of the best pages are compared with the question: in meaning, by its words (rare ones count
more), and by the kind of value that is asked for. The weights were fitted to the facts of the question sets, leaving
out the sites that were then asked (``bench/likely.py``).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from sabir.search import Hit, OfType, SearchQuery, from_text
from sabir.search.answers.leaning import says_yes_or_no
from sabir.search.answers.reading import WHO, kind_asked, statements, telling
from sabir.search.answers.statements import answered_by, stated_fact
from sabir.search.query.asking import Asked, asked, asks_whether, begins_open, is_yes_no
from sabir.search.query.field_names import is_kin
from sabir.search.query.relaxing import asks_elsewhere
from sabir.search.query.stated import in_english, item_language
from sabir.search.query.words import content_words, sentences, tokens

from .subject import MAX_LENGTH, Subject, searches

if TYPE_CHECKING:
    from .search import Finding
    from .stating import SiteQuestion

_PAGES: Final = 8  # that are read
_READ: Final = 6_000  # characters of a page
_COMPARED: Final = 24  # sentences that are compared in meaning
_LEAST: Final = 0.4  # confidence from which a sentence is stated
_ALIKE: Final = 0.3  # how similar in meaning it must be
_LONG: Final = 300  # characters of a sentence


class PageSentence:
    """A sentence of a page, or one of its fields, and how it fits a question."""

    def __init__(self, hit: Hit, place: int, text: str, *, field: str = "") -> None:
        self.hit = hit
        self.place = place
        self.text = text
        self.is_field = bool(field)
        self.value = text.partition(": ")[2] or text if field else text
        self.is_person = field.casefold() in _OF_PEOPLE
        self.english = in_english(text, item_language(hit.item))
        self.words = tokens(self.english)
        self.all_words = (*tokens(hit.item.name), *self.words)

    @property
    def written(self) -> str:
        return f"{self.hit.item.name}: {self.text}"


# "Which works are by her?" asks for things, "which port does it use?" does not.
_WHICH: Final = re.compile(
    r"\W*(?:what\s+\w+s\s+(?:are\s+there|do\s+you\s+have|have\s+you)\b|which\b)(?!\s+\w+\s+(?:do|does|did|should|must|is|was)\b)",
    re.IGNORECASE,
)
# "Phone number of the guy who lets student houses", "date of the relaxed performance", "last day to order".
_NAMED: Final = re.compile(
    r"\W*(?:the\s+)?(?:e-?mail|(?:tele)?phone|date|time|price|cost|fee|deposit|deadline|address|length|weight|duration|age|opening\s+hours|number)"
    r"(?:\s+(?:address|number|limit))?\s+(?:of|for|to)\b|\W*(?:the\s+)?(?:last|first|latest|earliest)\s+(?:day|date|time)\s+(?:to|for|of)\b",
    re.IGNORECASE,
)
_OWN: Final = 3  # the place of the words of the sentence itself among the features
# How much each feature counts; see ``features``.
WEIGHTS: Final = (8.0, 3.3, 2.8, 1.5, 1.9, -1.9, -0.3, 1.1, 1.1, 1.2, 2.1, 1.6)


async def state_likely(finding: Finding) -> None:
    """Answer by the likeliest sentence, if nothing is stated."""
    is_own = not finding.filters and finding.ask.min_score is None
    if not is_own or finding.is_stated or asks_elsewhere(finding.question):
        return
    found = await likely_answer(finding.asked_of_site(await finding.engine.fields()))
    if found is not None:
        finding.is_remote = False
        await finding.state(found)


async def likely_answer(question: SiteQuestion) -> Subject | None:
    """The page and its sentence that answer a question most likely; None if none does so clearly enough."""
    english = question.english
    if len(english) > MAX_LENGTH or not _is_for_fact(question):
        return None
    found = candidates(await _pages(question), english)
    if not found:
        return None
    similar = await question.engine.similarities(question.asked or english, [candidate.written for candidate in found])
    if similar is None:
        return None
    rows = list(features(found, english, similar))
    worth = [sum(map(float.__mul__, WEIGHTS, row)) for row in rows]
    best = max(range(len(worth)), key=worth.__getitem__)
    confidence = 1.0 / sum(math.exp(value - worth[best]) for value in worth)
    if confidence < _LEAST or rows[best][0] < _ALIKE:
        return None
    chosen, kind = found[best], kind_asked(english)
    is_unfit = kind is not None and not kind.search(chosen.english)
    if is_unfit or (chosen.is_field and (not rows[best][_OWN] or (kind is WHO and not chosen.is_person))):
        return None
    if is_yes_no(english) and not _fits_whether(chosen, english):
        return None
    known = {*tokens(english), *tokens(chosen.hit.item.name)}
    if all(_has(tuple(known), word) for word in content_words(chosen.value)):
        return None  # it says nothing new
    wanted = asked(english, english, question.known, question.now)
    leader = question.pool[0] if question.pool else chosen.hit
    if leader.item != chosen.hit.item and wanted.fields and stated_fact(leader.item, wanted, question.language):
        return None  # the best match is shown with the fact
    if "Question" in chosen.hit.item.types:
        if says_yes_or_no(chosen.hit.item.description) and not _asks_for_all(question, chosen):
            return None
        answer = answered_by(english, chosen.hit.item, question.language)
        return Subject(chosen.hit, Asked(("acceptedanswer",)), english, answer)
    fields = wanted.fields or ("articlebody",)
    return Subject(chosen.hit, Asked(fields, about=english), english, chosen.written)


def _asks_for_all(question: SiteQuestion, chosen: PageSentence) -> bool:
    """Whether an answer that begins with yes or no has every telling word of a question for something else than that;
    whether it says yes to what is asked is for ``whether_so`` to decide."""
    if asks_whether(question.asked or question.english, question.english):
        return False
    return all(_has(chosen.all_words, word) for word in telling(question.english))


def _is_for_fact(question: SiteQuestion) -> bool:
    """Whether a question asks for a fact, and not for the things that meet its conditions: "what is on in May?"."""
    english = question.english
    is_open = begins_open(english) or _NAMED.match(english) is not None
    is_search = not is_open or searches(english) or _WHICH.match(english)
    if is_search and not is_yes_no(english):
        return False
    read = from_text(english, question.known, question.now)
    return not read.order and not read.around and all(isinstance(one, OfType) for one in read.conditions)


async def _pages(question: SiteQuestion) -> Sequence[Hit]:
    if question.subject is not None:
        return (question.subject.hit,)
    query = SearchQuery(question.asked or question.english, question.where, 0, _PAGES)
    return (await question.engine.search(query)).hits


def candidates(pages: Sequence[Hit], english: str) -> list[PageSentence]:
    """What the pages say, if it has a word of the question; what has most of them first."""
    words = list(dict.fromkeys(content_words(english)))
    found = [candidate for place, hit in enumerate(pages) for candidate in _said(hit, place)]
    counted = [(sum(_has(candidate.all_words, word) for word in words), candidate) for candidate in found]
    counted.sort(key=lambda row: (-row[0], row[1].place))
    return [candidate for _, candidate in counted[:_COMPARED]]


def _fits_whether(chosen: PageSentence, english: str) -> bool:
    """Whether a statement speaks of all that a question for yes or no is about, besides the page it is on."""
    words = [word for word in content_words(english) if word not in _AROUND]
    return all(_has(chosen.all_words, word) for word in words)


# Words for a place beside another, which say nothing of what is there.
_AROUND: Final = frozenset({"near", "nearby", "around", "close", "beside"})


def _said(hit: Hit, place: int) -> Iterator[PageSentence]:
    text = f"{hit.item.description}\n{hit.item.text}"[:_READ]
    for sentence in dict.fromkeys(sentences(text)):
        yield PageSentence(hit, place, sentence)
    for statement in statements(hit.item):
        if statement.field and statement.field.casefold() not in _OF_PAGE:
            yield PageSentence(hit, place, statement.text, field=statement.field)


# Fields whose value is somebody.
_OF_PEOPLE: Final = frozenset(
    """author actor character contactpoint contributor coach composer conductor creator director editor employee founder
    illustrator instructor manager member musicby organizer owner performer producer provider publisher speaker
    teacher translator""".split()  # noqa: SIM905
)
# What is said of the page, and not of the thing.
_OF_PAGE: Final = frozenset({"datepublished", "datemodified", "datecreated", "inlanguage", "url", "image"})


def features(found: Sequence[PageSentence], english: str, similar: Sequence[float]) -> Iterator[tuple[float, ...]]:
    """What is compared of each candidate, as numbers from 0 to 1."""
    words = list(dict.fromkeys(content_words(english)))
    own = [[_has(candidate.words, word) for word in words] for candidate in found]
    has = [[_has(candidate.all_words, word) for word in words] for candidate in found]
    rarity = [math.log((len(found) + 1) / (sum(row[at] for row in has) + 0.5)) for at in range(len(words))]
    kind = kind_asked(english)
    for candidate, mine, row, meaning in zip(found, own, has, similar, strict=True):
        fits = kind is not None and kind.search(candidate.english) is not None
        yield (
            meaning,
            sum(row) / max(1, len(words)),
            _share(row, rarity),
            _share(mine, rarity),
            float(fits),
            float(kind is not None and not fits),
            candidate.place / _PAGES,
            float(candidate.is_field and fits),
            float(candidate.is_field and not fits),
            float(candidate.place == 0),
            min(len(candidate.text), _LONG) / _LONG,
            float(kind is not None and any(map(str.isdigit, candidate.text))),
        )


def _share(has: Sequence[bool], rarity: Sequence[float]) -> float:
    return sum(value for value, is_there in zip(rarity, has, strict=True) if is_there) / (sum(rarity) or 1.0)


def _has(words: Sequence[str], word: str) -> bool:
    return any(is_kin(word, other) for other in words)

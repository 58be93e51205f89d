"""How much of a question an item accounts for: the share of its words, each weighed by how rare it is on the site.

A word that every item has tells nothing; a rare one tells which item is meant. A word counts in the name of an item
more than in its short values, its types and the path of its page, and there more than in its text. Another form of it,
a word that means the same, a compound that it is part of (or a part of it, if it is one itself) count, too.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Final

import msgspec

from sabir.search.engine.base import Engine
from sabir.search.engine.embed import is_word
from sabir.search.items.attributes import recalled
from sabir.search.items.item import ByItem, Item
from sabir.search.items.schema_org import strings
from sabir.search.items.types import TYPE_WORDS, lineage
from sabir.search.query.conditions import Condition, Has
from sabir.search.query.glossary import glossary, likenesses
from sabir.search.query.spelling import nearest
from sabir.search.query.words import STOPWORDS, fold, singular, spaced, tokens

IN_NAME: Final = 1.0
IN_FIELDS: Final = 0.9
IN_TEXT: Final = 0.75
_JOINED: Final = 0.85  # factor for a word within a compound, or of which only a part is there
_LIGHT: Final = 0.25  # factor for the weight of a word that says what is asked, not of what
_MAX_WORDS: Final = 24
_READ: Final = 8_000  # characters of a text
_PART: Final = 4  # letters of a part of a compound, at least
_SHORTEST: Final = 3  # letters of a word that may have an ending, at least
_COMPOUND: Final = 8  # letters of a word that may be a compound, at least
_LONGEST: Final = 30  # letters of a compound, at most
_WITHIN: Final = 5  # letters of a word that may be part of a compound, at least
_ENDINGS: Final = ("en", "er", "es", "em", "e", "n", "s")
_ENGLISH_ENDINGS: Final = ("ing", "ed")
_UMLAUTS: Final = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "ß": "ss", "Ä": "Ae", "Ö": "Oe", "Ü": "Ue"})
_SPOKEN: Final = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
# Function words that no glossary needs.
_LITTLE: Final = frozenset(
    """zum zur als pro beim vom vor nach uber unter aus sowie mal denn schon nur noch sehr per los las del pour
    avec""".split()  # noqa: SIM905
)
_LINKS: Final = ("s", "n", "en", "es", "er", "e", "")  # between the parts of a compound


class Word(msgspec.Struct, frozen=True):
    """A word of a question: its other forms, the parts of a compound, and how rare it is."""

    said: str
    forms: tuple[str, ...]
    weight: float
    parts: tuple[str, ...] = ()
    is_here: bool = True  # whether any item has it
    is_light: bool = False  # whether it says what is asked, not of what


class Coverage(msgspec.Struct, frozen=True):
    """What an item has of a question. ``share`` is from 0 to 1, ``named`` the share that its name has."""

    share: float
    named: float
    missing: tuple[str, ...] = ()


class Texts(msgspec.Struct, frozen=True):
    """The words of an item, each between spaces."""

    name: str
    fields: str
    text: str


class Measure(msgspec.Struct, frozen=True):
    """The words of one question, by which items are measured."""

    words: tuple[Word, ...]

    def of(self, item: Item, met: Collection[str] = ()) -> Coverage:
        """What an item has of the question; ``met``: words that it meets by its fields."""
        texts = texts_of(item)
        total = sum(word.weight for word in self.words) or 1.0
        found = [(word, found_in(word, texts) if light_free(word.forms, met) else IN_NAME) for word in self.words]
        share = sum(word.weight * factor for word, factor in found) / total
        named = sum(word.weight for word, factor in found if factor >= IN_NAME * _JOINED and _is_in(word, texts.name))
        return Coverage(share, named / total, tuple(word.said for word, factor in found if not factor))

    @property
    def unknown(self) -> float:
        """The share of the question that nothing here has."""
        total = sum(word.weight for word in self.words) or 1.0
        return sum(word.weight for word in self.words if not word.is_here) / total

    @property
    def is_telling(self) -> bool:
        """Whether any word says which thing is meant."""
        return any(not word.is_light for word in self.words)

    def within(self, text: str) -> float:
        """The weight of the words that a text has."""
        there = _joined(tokens(text))
        return sum(word.weight * _how(word, there) for word in self.words)

    def of_word(self, word: Word, text: str) -> bool:
        """Whether a text has one of the words."""
        return _how(word, _joined(tokens(text))) > 0

    def but(self, named: str) -> Measure:
        """The same without the words that a name has."""
        there = _joined(tokens(named))
        return Measure(tuple(word for word in self.words if not _how(word, there)))


async def measured(
    question: str,
    language: str,
    engine: Engine,
    where: tuple[Condition, ...],
    light: Collection[str],
    near: Sequence[Item] = (),
) -> Measure:
    """The words of a question, weighed by how many items have them.

    ``light`` are words that only say what is asked ("cost", "open"). A word that nothing has may be a misspelt one of
    the items in ``near``.
    """
    count = max(1, await engine.count(where))
    there = [texts_of(item) for item in near]
    words = []
    spoken = list(dict.fromkeys(_said(question, language)))[:_MAX_WORDS]
    for at, said in enumerate(spoken):
        pairs = ("".join(spoken[at - 1 : at + 1]) if at else "", "".join(spoken[at : at + 2]))  # "snow shoe"
        forms = (*forms_of(said, language), *(token for pair in pairs if pair != said for token in tokens(pair)))
        is_light = not light_free(forms, light)
        joined = sum(found_in(Word(said, forms, 1.0), one) > 0 for one in there)
        many = max(joined, await engine.count((*where, Has(forms))))
        parts: tuple[str, ...] = ()
        if not many:
            parts = await _parts(forms[0], engine, where)
            meant = "" if parts or len(said) < _WITHIN or is_word(said) else nearest(said, _vocabulary(there))
            forms = (*forms, *tokens(meant)) if meant else forms
            many = 1 if meant or parts else 0
        weight = math.log((count + 1) / (max(many, 0.5) + 0.5)) + 0.1
        words.append(Word(said, forms, max(weight, 0.1) * (_LIGHT if is_light else 1.0), parts, many > 0, is_light))
    return Measure(tuple(words))


def light_free(forms: Iterable[str], light: Collection[str]) -> bool:
    """Whether none of a word's forms only says what is asked."""
    return not any(form in light for form in forms)


def _said(question: str, language: str) -> Iterator[str]:
    """The meaningful words as written."""
    idle = glossary(language).words if language != "en" else frozenset[str]()
    for word in _SPOKEN.findall(question):
        key = fold(word)
        if re.split("['’]", key)[0] in STOPWORDS:  # "what's"
            continue
        if not {key, singular(key)} & STOPWORDS and key not in idle and key not in _LITTLE and len(key) > 1:
            yield word


@lru_cache(maxsize=4_096)
def forms_of(said: str, language: str) -> tuple[str, ...]:
    """The folded forms of a word: without its ending, with umlauts written out, and words that mean the same."""
    own = dict.fromkeys(tokens(said) + tokens(said.translate(_UMLAUTS)))
    stems = [stem for word in own for stem in (*_stems(word, language), *_endings(word, language))]
    english = tokens(glossary(language).terms.get(fold(said), "")) if language != "en" else []
    alike = [form for word in (*own, *stems, *english) for form in likenesses().get(word, ())]
    named = [spaced(TYPE_WORDS[word]) for word in (*own, *stems, *english, *alike) if word in TYPE_WORDS]
    others = [word for form in (*english, *alike, *named) for word in (tokens(form)[-1:])]
    return tuple(dict.fromkeys((*own, *stems, *(word for word in others if word not in STOPWORDS))))


def _stems(word: str, language: str) -> Iterator[str]:
    """ "Knitting" as "knit", "Konzerte" as "konzert"."""
    for end in _ENGLISH_ENDINGS if language == "en" else _ENDINGS:
        stem = word[: -len(end)]
        if word.endswith(end) and len(stem) >= _PART:
            yield stem[:-1] if language == "en" and stem[-1] == stem[-2] else stem
            if language == "en":  # "smoking", "smoke"
                yield f"{stem}e"


def _endings(word: str, language: str) -> Iterator[str]:
    """ "Pull" as "pulling", "bake" as "baking", "knit" as "knitting"."""
    if language != "en" or not word.isalpha() or len(word) < _SHORTEST:
        return
    stem = word[:-1] if word.endswith("e") else word
    yield f"{stem}ing"
    yield f"{stem}ed"
    if len(word) == _SHORTEST + 1 or len(word) == _SHORTEST:
        yield f"{stem}{stem[-1]}ing"


async def _parts(word: str, engine: Engine, where: tuple[Condition, ...]) -> tuple[str, ...]:
    """The parts of a compound that items have: "Klavierunterricht" as "klavier" and "unterricht"."""
    if not _COMPOUND <= len(word) <= _LONGEST or not word.isalpha():
        return ()
    best: tuple[str, ...] = ()
    for at in range(_PART, len(word) - _PART + 1):
        first, last = word[:at], word[at:]
        heads = [first[: len(first) - len(link)] for link in _LINKS if first.endswith(link)]
        front = [head for head in heads if len(head) >= _PART]
        if not await engine.count((*where, Has((last, singular(last))))):
            continue
        fronts = [head for head in front if await engine.count((*where, Has((head,))))]
        if fronts:
            return (fronts[0], last)
        best = best or (last,)
    return best


def texts_of(item: Item) -> Texts:
    """The words of an item: of its name, of its fields and types, and of its text."""
    return _texts_of(item)


def _read(item: Item) -> Texts:
    of = recalled(item)
    labels = [label for key, stated in of.labels.items() if key != "name" for label in stated]
    kinds = [spaced(kind) for kind in (*item.types, *lineage(item.types))]
    path = re.sub(r"[^\w]+|_", " ", re.sub(r"^\w+://[^/]*", "", item.page))
    fields = (*labels, *kinds, path, *(spaced(key) for key in item.fields))
    text = f"{item.description}\n{item.text}"[:_READ]
    answer = " ".join(strings(item.fields.get("acceptedAnswer")))[:_READ]
    words = (tokens(part) for part in (item.name, " . ".join(fields), f"{text} {answer}"))
    return Texts(*map(_joined, words))


_texts_of: Final = ByItem(_read, 1_024)


def _places(texts: Texts) -> tuple[str, str, str]:
    return texts.name, texts.fields, texts.text


def _joined(words: Iterable[str]) -> str:
    return f" {' '.join(words)} "


def found_in(word: Word, texts: Texts) -> float:
    """How much an item has of a word, by the best place that has it."""
    rows = zip(_places(texts), (IN_NAME, IN_FIELDS, IN_TEXT), strict=True)
    return max(factor * _how(word, there) for there, factor in rows)


def _is_in(word: Word, there: str) -> bool:
    return _how(word, there) > 0


def _how(word: Word, there: str) -> float:
    """1 for the word itself, less for a compound with it or a part of it, 0 without it."""
    if any(f" {form} " in there for form in word.forms):
        return 1.0
    own = [form for form in word.forms if len(form) >= _WITHIN]
    if any(f" {form}" in there or f"{form} " in there for form in own):
        return _JOINED
    if word.parts:
        there_of_it = sum(f" {part}" in there or f"{part} " in there for part in word.parts)
        return _JOINED * there_of_it / len(word.parts)
    return 0.0


def _vocabulary(texts: Iterable[Texts]) -> list[str]:
    return [word for text in texts for place in _places(text) for word in place.split() if word not in STOPWORDS]

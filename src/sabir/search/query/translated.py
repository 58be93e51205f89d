"""A question in the words of a site: each word that the site does not have, by a translation that it has. Pure.

The words are data (``glossaries/words.txt`` and ``same.txt``). A site in another language than the question is asked in
its own words: "Elektroautos" finds electric cars, "choir" a Chor. Which words a site has is up to the caller.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Container, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from importlib.resources import files
from typing import Final, TypeAlias

from sabir.search.items.types import TYPE_WORDS

from .words import STOPWORDS, fold

LANGUAGES: Final = ("en", "de", "es", "fr", "ja")
_JAPANESE: Final = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]+")
_WORD: Final = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
_ELIDED: Final = re.compile(r"^(?:l|d|qu|n|s|j)['’]")
_LONGEST: Final = 4  # words of one term
_SHORTEST: Final = 3  # letters of a part of a compound
_COMPOUND: Final = 7  # letters from which a German word may be a compound
_TAKEN_APART: Final = 64  # letters of a word that is taken apart
_FEW: Final = 12  # translations that are tried for one word
MAX_WORDS: Final = 24  # words of a question that are translated

# What ends a word in its inflected forms, and what its plain form has instead.
_ENDINGS: Final[Mapping[str, tuple[tuple[str, str], ...]]] = {
    "en": (("s", ""), ("es", ""), ("ies", "y"), ("ing", "")),
    "de": (("e", ""), ("en", ""), ("n", ""), ("er", ""), ("es", ""), ("em", ""), ("s", ""), ("ern", ""), ("innen", "")),
    "es": (("s", ""), ("es", ""), ("a", "o"), ("as", "o"), ("os", "o"), ("ces", "z"), ("as", "a")),
    "fr": (("s", ""), ("e", ""), ("es", ""), ("x", ""), ("aux", "al"), ("eaux", "eau"), ("ve", "f"), ("euse", "eux")),
    "ja": (),
}
# The same of verbs, whose plain form is the infinitive.
_VERBS: Final[Mapping[str, tuple[tuple[str, str], ...]]] = {
    "de": (("e", "en"), ("t", "en"), ("st", "en"), ("et", "en"), ("te", "en")),
    "es": (
        ("o", "ar"), ("a", "ar"), ("an", "ar"), ("as", "ar"), ("amos", "ar"), ("ado", "ar"), ("ada", "ar"),
        ("o", "er"), ("e", "er"), ("en", "er"), ("o", "ir"), ("e", "ir"), ("en", "ir"), ("rse", "r"),
    ),
    "fr": (("e", "er"), ("es", "er"), ("ent", "er"), ("ez", "er"), ("ons", "er"), ("ee", "er"), ("it", "ir")),
}  # fmt: skip
# Words between those of a term, which the function words of a question are dropped with: "vélo de route".
_BETWEEN: Final = frozenset(
    "contra contre gegen de del du des la le les el los las para en al au aux pour der die das den".split()  # noqa: SIM905
)
_PLURALS: Final[Mapping[str, tuple[str, ...]]] = {
    "de": ("e", "en", "n", "er", "s"),
    "es": ("s", "es"),
    "fr": ("s",),
    "ja": (),
}
_NO_PARTS: Final = frozenset({"bar", "los", "ung", "sam"})  # endings of German words that are no words
# Between the parts of a German compound.
_LINKS: Final = ("", "s", "es", "n", "en", "er", "e")


_IsHere: TypeAlias = Callable[[tuple[str, ...]], Awaitable[bool]]  # whether the site has one of these words
_Terms: TypeAlias = Mapping[str, tuple[str, ...]]


@cache
def _table() -> Mapping[str, Mapping[str, list[int]]]:
    """For each language, its folded terms, each with the rows that it is in."""
    found: dict[str, dict[str, list[int]]] = {language: {} for language in LANGUAGES}
    for number, columns in enumerate(_rows()):
        for language, terms in zip(LANGUAGES, columns, strict=True):
            rows_of = found[language]
            for term in terms:
                for form in _spellings(term) if " " in term else (term,):
                    rows_of.setdefault(form, []).append(number)
    return found


def _meanings(form: str, language: str) -> Iterator[str]:
    """The translations of a term by the table: English first."""
    rows, place = _rows(), LANGUAGES.index(language)
    for number in _table()[language].get(form, ()):
        if place and form in rows[number][0]:  # "Sofa" is a sofa
            yield form
        for other, terms in enumerate(rows[number]):
            if other != place:
                yield from terms


def _spellings(term: str) -> tuple[str, ...]:
    """A term of several words also in the singular, and without the small words in it."""
    bare = " ".join(word for word in term.split() if word not in _BETWEEN and not _ELIDED.match(word))
    elided = " ".join(_ELIDED.sub("", word) for word in term.split() if word not in _BETWEEN)
    kept = (bare, elided) if " " in bare else (elided,) if " " in elided else ()
    return tuple(dict.fromkeys(form for said in (term, *kept) for form in (said, _singular(said))))


@cache
def _untold() -> tuple[_Terms, _Terms]:
    """The words of ``same.txt``, whose languages are not told: English ones, and others, each with its translations."""
    english: dict[str, tuple[str, ...]] = {}
    foreign: dict[str, tuple[str, ...]] = {}
    for first, *others in (line.split() for line in _lines("same.txt")):
        english[first] = (*english.get(first, ()), *others)
        for word in others:
            foreign[word] = (*foreign.get(word, ()), first)
    return english, foreign


@cache
def _rows() -> Sequence[Sequence[Sequence[str]]]:
    """The rows of the table: for each language, its folded terms."""
    lines = (line.split("|") for line in (*_lines("words.txt"), *_lines("everyday.txt")))
    columns = zip(*(line for line in lines if len(line) == len(LANGUAGES)), strict=True)
    folded = [fold("\n".join(column)).split("\n") for column in columns]  # at once: thousands of terms
    return [
        [[term.strip() for term in cell.split(",") if term.strip()] for cell in row]
        for row in zip(*folded, strict=True)
    ]


@cache
def _lines(name: str) -> list[str]:
    text = (files(__package__) / "glossaries" / name).read_text(encoding="utf-8")
    return [line for line in text.splitlines() if line.strip() and not line.startswith("#")]


@cache
def _homographs() -> frozenset[str]:
    """Words of other languages that are also English ones: "pain", "gift", "court"."""
    everything = (*_lines("words.txt"), *_lines("everyday.txt"))
    lines = (line.removeprefix("english:") for line in everything if line.startswith("english:"))
    return frozenset(word for line in lines for word in line.split())


def knows(word: str, language: str) -> bool:
    """Whether a folded word is one of this language, and not of English, too."""
    if language == "fr" and not word.isalnum() and _ELIDED.match(word):
        return True
    return _is_term(word, language) and not is_english(word)


@lru_cache(maxsize=20_000)
def _is_term(word: str, language: str) -> bool:
    """Whether a word is a term of this language, or a compound of two; kept, because every item and question asks."""
    table = _table()[language]
    if word in table and len(word) >= _SHORTEST:
        return True
    plain = (word.removesuffix(end) for end in _PLURALS[language] if word.endswith(end))
    if any(form in table for form in plain if len(form) >= _SHORTEST):
        return True
    both = parts(word, language)
    if both is None or all(is_english(part) for part in both):  # "sandbox"
        return False
    return bool(translations(both[0], language))


def is_homograph(word: str) -> bool:
    """Whether a word of another language is also an English one, by its spelling: "hat"."""
    return not _homographs().isdisjoint((word, word.removesuffix("s")))


def is_english(word: str) -> bool:
    """Whether a word is also an English one."""
    if word in STOPWORDS or is_homograph(word):
        return True
    english, untold = _table()["en"], _untold()[0]
    return any(form in english or form in untold for form in _forms(word, "en"))


def _forms(word: str, language: str) -> Iterator[str]:
    yield word
    if " " in word:
        yield _singular(word)
    for end, plain in _ENDINGS[language]:
        if word.endswith(end) and len(word) - len(end) >= _SHORTEST:
            yield f"{word[: len(word) - len(end)]}{plain}"


def _infinitives(word: str, language: str) -> Iterator[str]:
    for end, plain in _VERBS.get(language, ()):
        if word.endswith(end) and len(word) - len(end) >= _SHORTEST:
            yield f"{word.removesuffix(end)}{plain}"


def _singular(term: str) -> str:
    """A term of several words, each in the singular of Spanish or French."""
    return " ".join(word.rstrip("sx") if len(word) > _SHORTEST else word for word in term.split())


@lru_cache(maxsize=4_096)
def translations(word: str, language: str) -> tuple[str, ...]:
    """The translations of a word into other languages, English first; a plural by a plural, if it names a type."""
    key = _ELIDED.sub("", fold(word))
    untold = _untold()[0 if language == "en" else 1]
    for form in (*_forms(key, language), *_infinitives(key, language)):
        found = tuple(dict.fromkeys((*_meanings(form, language), *untold.get(form, ()))))
        if found:
            plural = f"{found[0]}s"
            is_plural = (
                language != "en" and (form != key or key.endswith(("s", "x"))) and plural.split()[-1] in TYPE_WORDS
            )
            return tuple(dict.fromkeys((plural, *found[1:]) if is_plural else found))
    return ()


def parts(word: str, language: str = "de") -> tuple[str, str] | None:
    """The two parts of a German compound whose last part is a known word: "Klavierkurse"."""
    key = fold(word)
    if language != "de" or not _COMPOUND <= len(key) <= _TAKEN_APART:
        return None
    found = []
    for at in range(_SHORTEST, len(key) - _SHORTEST + 1):
        if key[at:] in _NO_PARTS or not translations(key[at:], language):
            continue
        for link in _LINKS:
            first = key[:at].removesuffix(link) if link else key[:at]
            if len(first) >= _SHORTEST and (link == "" or key[:at].endswith(link)):
                found.append((bool(translations(first, language)), -at, first, key[at:]))
    if not found:
        return None
    _, _, first, last = max(found, key=lambda item: item[:2])
    return first, last


async def in_words_of(
    question: str, language: str, is_here: _IsHere, *, is_foreign: bool, kept: Container[str] = ()
) -> str:
    """The question with each word that is not here by a translation that is, except words that are ``kept``.

    ``is_foreign``: the site is not in the language of the question, so that a word without such a translation is said
    in English, which the rules read.
    """
    if language == "ja":
        return await _from_japanese(question, is_here) if is_foreign else question
    said: list[str] = []
    at = 0
    words = list(_WORD.finditer(question))[:MAX_WORDS]
    place = 0
    while place < len(words):
        if fold(words[place].group()) in kept:
            place += 1
            continue
        count, term = await _replaced(words[place : place + _LONGEST], language, is_here, is_foreign=is_foreign)
        if term:
            said += [question[at : words[place].start()], term]
            at = words[place + count - 1].end()
        place += count
    return "".join((*said, question[at:]))


async def _replaced(
    words: list[re.Match[str]], language: str, is_here: _IsHere, *, is_foreign: bool
) -> tuple[int, str]:
    """How many of the first words are one term, and what to say instead; empty to leave them as they are."""
    for count in range(len(words), 1, -1):
        term = " ".join(
            _ELIDED.sub("", word.group()) if not n else word.group() for n, word in enumerate(words[:count])
        )
        if found := translations(term, language):
            here = await _here(found, is_here)
            if here or not is_foreign:
                return count, here
            if not await _are_here(term, language, is_here):
                return count, found[0]
    word = words[0].group()
    key = _ELIDED.sub("", fold(word))
    if key in STOPWORDS or (language == "en" and len(word) < _SHORTEST):
        return 1, ""
    if not (is_foreign and key in _table()[language]) and await is_here(_inflected(key, language)):
        return 1, ""
    found = translations(word, language)
    if found and (is_foreign or await _here(found, is_here)):
        return 1, await _here(found, is_here) or found[0]
    return 1, await _compound(word, language, is_here, is_foreign=is_foreign)


async def _are_here(term: str, language: str, is_here: _IsHere) -> bool:
    """Whether the site has a translation of each word of a term, so that it is better read word by word."""
    words = [fold(word) for word in term.split()]
    return all([await _here(translations(word, language), is_here) for word in words if word not in _BETWEEN])


def _inflected(key: str, language: str) -> tuple[str, ...]:
    """A word in its other forms, too: "cebolla" is here if "cebollas" is."""
    longer = (f"{key}{end}" for end in _PLURALS.get(language, ("s",)))
    return tuple(dict.fromkeys((*_forms(key, language), *longer)))


async def _compound(word: str, language: str, is_here: _IsHere, *, is_foreign: bool) -> str:
    """The parts of a compound in the words of the site; empty if it has no such words for both, and is in its
    language."""
    pieces: list[str] = []
    for piece in parts(word, language) or ():
        found = translations(piece, language)
        own = piece if not is_foreign and await is_here(_inflected(piece, language)) else await _here(found, is_here)
        if not (own or is_foreign):
            return ""
        pieces.append(own or (found or (piece,))[0])
    return " ".join(pieces)


async def _here(found: tuple[str, ...], is_here: _IsHere) -> str:
    """The first of some translations that the site has; all words of it count."""
    for term in found[:_FEW]:
        if all([await is_here((word, *(f"{word}{end}" for end in _ANY_END))) for word in term.split()]):
            return term
    return ""


_ANY_END: Final = ("s", "e", "en", "n", "er", "es")


@cache
def _longest_japanese() -> int:
    return max(map(len, (*_untold()[1], *_table()["ja"])))


def _is_whole(text: str, place: int, size: int, behind: int) -> bool:
    """Whether a term is a word of its own: there is no tiger (トラ) in Portland (ポートランド).

    Of a longer word in katakana, a term is the first or the last part, or follows the term that ends at ``behind``.
    """
    end = place + size
    before, after = text[place - 1 : place + 1], text[end - 1 : end + 1]
    starts = place == behind or _WITHIN.fullmatch(before) is None
    ends = _WITHIN.fullmatch(after) is None
    if starts and not ends and (rest := _KATAKANA.match(text, end)) is not None:
        ends = rest.group() in _table()["ja"] or rest.group() in _untold()[1]
    return (starts and ends) or (size >= _PART_OF_KANA and (starts or ends))


_WITHIN: Final = re.compile(r"[\u30a1-\u30fa\u30fc]{2}")  # two letters of one word in katakana
_KATAKANA: Final = re.compile(r"[\u30a1-\u30fa\u30fc]+")
_PART_OF_KANA: Final = 3  # letters of a part of such a word


async def _from_japanese(question: str, is_here: _IsHere) -> str:
    """Runs of Japanese, by the longest terms in them; particles between them are dropped."""
    table, untold, longest = _table()["ja"], _untold()[1], _longest_japanese()
    said: list[str] = []
    at = 0
    for run in _JAPANESE.finditer(question):
        said.append(question[at : run.start()])
        at = run.end()
        text, place, behind = run.group(), 0, 0
        while place < len(text):
            size = next(
                (
                    n
                    for n in range(min(longest, len(text) - place), 0, -1)
                    if ((term := text[place : place + n]) in table or term in untold)
                    and _is_whole(text, place, n, behind)
                ),
                0,
            )
            if size:
                term = text[place : place + size]
                found = tuple(_meanings(term, "ja")) or untold[term]
                said.append(f" {await _here(found, is_here) or found[0]} ")
                behind = place + size
            place += size or 1
    return " ".join("".join((*said, question[at:])).split())

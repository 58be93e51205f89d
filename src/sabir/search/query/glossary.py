"""Questions in other languages: common words are translated to English, so that one set of rules reads them all. Pure.

The words of each language are data (``glossaries/*.txt``). Only the constraints of a question are rewritten ("Wie
lange", "sin gluten", "am Dienstag"); its subject stays as written, because the site's items are in that language, too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Final

import msgspec

from .dates import MONTHS
from .vocabulary import ALIKE
from .words import STOPWORDS, fold, fold_length_kept

LANGUAGES: Final = ("de", "es", "fr", "ja")
_JAPANESE: Final = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]")
_NUMBER: Final = "{n}"


class Glossary(msgspec.Struct, frozen=True):
    """The words of one language."""

    words: frozenset[str]  # function words, by which it is recognised
    terms: Mapping[str, str]  # a folded term, to English
    pattern: re.Pattern[str]


@cache
def glossary(language: str) -> Glossary:
    words: frozenset[str] = frozenset()
    terms: dict[str, str] = {}
    for line in _lines(f"{language}.txt"):
        if line.startswith("words:"):
            words = frozenset(fold(word) for word in line.removeprefix("words:").split())
            continue
        said, _, english = line.partition("=")
        terms |= {fold(item.strip()): english.strip() for item in said.split("|")}
    phrases = "|".join(_phrase(term) for term in sorted(terms, key=len, reverse=True))
    bounded = phrases if language == "ja" else rf"(?<!\w)(?:{phrases})(?!\w)"
    return Glossary(words, terms, re.compile(bounded))


@cache
def same_words() -> Mapping[str, tuple[str, ...]]:
    """For each word, its translations in other languages."""
    found: dict[str, tuple[str, ...]] = {}
    for line in _lines("same.txt"):
        group = line.split()
        for word in group:  # a word may have several meanings: "carte" is a card and a map
            others = (*found.get(word, ()), *(other for other in group if other != word))
            found[word] = tuple(dict.fromkeys(others))
    return found


@cache
def _english() -> Mapping[str, str]:
    """For each word of another language, its English translations, each of which comes first in its line."""
    found: dict[str, str] = {}
    for line in _lines("same.txt"):
        group = line.split()
        for word in group[1:]:
            found[word] = f"{found[word]} {group[0]}" if word in found and group[0] not in found[word] else group[0]
    return found


def in_english(question: str, language: str) -> str:
    """The question word by word in English; words without a translation stay, except Japanese ones.

    The second reading of a question for which the site has nothing in the question's own language.
    """
    text = glossed(question, language)
    if language == "ja":
        known = (word for word in _english() if _JAPANESE.match(word))
        nouns = re.compile("|".join(map(re.escape, sorted(known, key=len, reverse=True))))
        text = nouns.sub(lambda match: f" {_english()[match.group()]} ", text)
        return " ".join(re.sub(rf"{_JAPANESE.pattern}+", " ", text).split())
    idle = glossary(language).words
    words = []
    for said in text.split():
        key = fold(said.strip(_MARKS))
        key = re.sub(r"^(?:l|d|qu|n|s)['’]", "", key)
        if key not in idle or key in STOPWORDS:
            words.append(said.replace(said.strip(_MARKS), _translated(key) or said.strip(_MARKS)) if key else said)
    return " ".join(words)


def _translated(word: str) -> str:
    forms = (word, *(word[: -len(end)] for end in ("en", "er", "es", "e", "n", "s", "em") if word.endswith(end)))
    return next((_english()[form] for form in forms if len(form) > 2 and form in _english()), "")


@cache
def likenesses() -> Mapping[str, tuple[str, ...]]:
    """For each word, its synonyms, in its own language or another."""
    words = {*ALIKE, *same_words()}
    return {word: (*ALIKE.get(word, ()), *same_words().get(word, ())) for word in words}


def heads_of(word: str) -> list[str]:
    """The possible last parts of a German compound, longest first: what the thing is."""
    return [word[at:].capitalize() for at in range(4, len(word) - 3)]


def language_of(question: str) -> str:
    """The language of a question, ``"en"`` by default."""
    if _JAPANESE.search(question):
        return "ja"
    said = re.findall(r"[\w'’-]+", fold(question))
    highest, best = 0, "en"
    english = sum(word in STOPWORDS for word in said)
    for language in LANGUAGES[:-1]:
        known = glossary(language)
        count = sum((word in known.words or word in known.terms) and word not in _ENGLISH for word in said)
        if count > highest and count > english:
            highest, best = count, language
    return best


def telling(question: str) -> str:
    """The question without the function words of its language; unchanged, if it has no others."""
    language = language_of(question)
    idle = STOPWORDS if language == "en" else glossary(language).words
    kept = [word for word in question.split() if fold(word).strip(_MARKS) not in idle]
    return " ".join(kept) or question


_MARKS: Final = " ?!.,;:¿¡\"'()"
_ENGLISH: Final = frozenset({"vegan", "restaurant", "restaurants", "free", "minutes", "dessert", "desserts", "open"})


def glossed(question: str, language: str) -> str:
    """The question with its constraints in English."""
    if language == "en":
        return question
    known = glossary(language)

    def english(match: re.Match[str]) -> str:
        said = match.group()
        number = re.search(r"\d+", said)
        key = said.replace(number.group(), _NUMBER, 1) if number and said not in known.terms else said
        meant = known.terms.get(key, said)
        return f" {meant.replace(_NUMBER, number.group()) if number else meant} "

    text = question.replace("¿", " ").replace("¡", " ").replace("？", "?")
    if language == "ja":
        text = _MONTH_DAY.sub(lambda match: f" {match[2]} {MONTHS[int(match[1]) % 12 - 1]} ", text)
    plain = fold_length_kept(text)
    pieces: list[str] = []
    at = 0
    for match in known.pattern.finditer(plain):
        pieces += [text[at : match.start()], english(match)]
        at = match.end()
    pieces.append(text[at:])
    english_words = " ".join("".join(pieces).split())
    return _AFTER.sub(r"\2 \1", english_words) if language == "ja" else english_words


_MONTH_DAY: Final = re.compile(r"(\d{1,2})月(\d{1,2})日")  # 12月5日 is the fifth of December


# Japanese says "eggs without"; English the other way round.
# Only from the start of a run, so that a long run without spaces is read once and not from each of its characters.
_AFTER: Final = re.compile(r"(?<![\u3040-\u30ff\u3400-\u9fff])([\u3040-\u30ff\u3400-\u9fff]+)\s(without|with|except)\b")


def _phrase(term: str) -> str:
    return re.escape(term).replace(re.escape(_NUMBER), r"\d{1,4}")


def _lines(name: str) -> list[str]:
    text = (files(__package__) / "glossaries" / name).read_text(encoding="utf-8")
    return [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]

"""Names: whether and where a question contains the full name of an item. Pure.

Case, accents and punctuation are ignored, ``&`` is "and", a leading article may be missing, and one letter may be
wrong, missing, doubled or swapped with its neighbour.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

import msgspec

from sabir.search.items.types import TYPE_WORDS

from .sounds import sounds_like
from .units import NUMBER_WORDS
from .words import STOPWORDS, fold

_UNSPACED = r"\u3040-\u30ff\u3400-\u9fff"  # "Salt & Sedgeの営業時間は": a name may be adjacent to Japanese words
_WORD: Final = re.compile(rf"[^\W_{_UNSPACED}]+(?:['’][^\W_{_UNSPACED}]+)*|[{_UNSPACED}]+|&")
_ARTICLES: Final = frozenset({"the", "a", "an"})
_ELIDED: Final = frozenset({"l", "d"})  # "l'oignon", typed without the apostrophe
_SPLIT: Final = re.compile(r"\s*[:|–—]\s+|\s+-\s+")
MAX_NAME: Final = 200  # characters of a name that are compared
# An amount at the end of a name: "Gooseneck Kettle 0.9 L", "Night Watch Coffee, 12 oz".
_AMOUNT: Final = re.compile(
    r"[,\s]+\d+(?:[.,]\d+)?\s?(?:oz|lb|ml|cl|l|kg|g|mm|cm|m|w|zoll|inch(?:es)?|pieces|cups|pack)\Z", re.IGNORECASE
)
_ASIDE: Final = re.compile(r"\s*\([^()]{1,60}\)\Z")  # "41 Priory Road (student house)"
_STEM: Final = 4  # letters of a verb that may end in "-ing"
MIN_TYPO: Final = 5  # letters of a word in which one may be wrong


class Named(msgspec.Struct, frozen=True):
    """The position of a name in a question. ``whole``: the full name, and not a part of it before or after a colon."""

    start: int
    end: int
    words: int
    typos: int
    whole: bool

    @property
    def worth(self) -> tuple[bool, int, int]:
        """Higher is better: full names first, then longer ones, then correctly spelt ones."""
        return self.whole, self.words, -self.typos


class _Word(msgspec.Struct, frozen=True):
    text: str
    start: int
    end: int


def find(question: str, name: str) -> Named | None:
    """The position of a name in a question, or None."""
    said = words_of(question)
    unspaced = fold(name.strip())
    if len(unspaced) > 1 and not unspaced.isascii() and not re.search(r"[a-z\s]", unspaced):
        at = fold(question).find(unspaced)
        return Named(at, at + len(unspaced), max(1, len(unspaced) // 2), 0, True) if at >= 0 else None
    found = [
        match
        for alternative, whole in _alternatives(name[:MAX_NAME])
        if (match := _placed(said, alternative, whole)) is not None
    ]
    return max(found, key=lambda match: match.worth, default=None)


@lru_cache(maxsize=64)  # a question is compared with many names
def words_of(question: str) -> tuple[_Word, ...]:
    """The words of a question, each with its place."""
    return tuple(_words(question))


def covers(question: str, name: str) -> bool:
    """Whether all meaningful words of a question are in a name: "the library", "Public Library".

    "Four" matches the 4 of a name, and "building" its "build".
    """
    wanted = {word.text for word in _words(question)} - STOPWORDS
    return bool(wanted) and all(any(_alike(word, other) for other in _keys(name)) for word in wanted)


def _alike(word: str, other: str) -> bool:
    if _like(word, other) is not None or str(NUMBER_WORDS.get(word, "")) == other:
        return True
    if len(word) >= MIN_TYPO and other.startswith(word):  # "the panto" is the pantomime
        return True
    return len(other) >= _STEM and f"{other}ing" == word


@lru_cache(maxsize=4_096)
def _alternatives(name: str) -> tuple[tuple[tuple[str, ...], bool], ...]:
    """The words of a name, those of its parts ("Pantomime: Jack and the Beanstalk"), and those without an amount."""
    whole = _keys(name)
    found = [(whole, True)] if _telling(whole, 1) else []
    pieces = _SPLIT.split(name)
    if len(pieces) > 1:
        found += [(keys, False) for piece in pieces if _telling(keys := _keys(piece), 2)]
    if (short := _ASIDE.sub("", name)) != name and _telling(keys := _keys(short), 2):
        found.append((keys, False))
    if "," in name and _telling(keys := _keys(name.partition(",")[0]), 2):
        found.append((keys, False))
    bare = _AMOUNT.sub("", name)
    if bare != name and _telling(keys := _keys(bare), 2):
        found.append((keys, False))
    return tuple(found)


@lru_cache(maxsize=4_096)
def _keys(name: str) -> tuple[str, ...]:
    keys = tuple(word.text for word in _words(name))
    return keys[1:] if len(keys) > 1 and keys[0] in _ARTICLES else keys


def _telling(words: tuple[str, ...], least: int) -> bool:
    """Whether words can name one thing: not only "events" or "what is on"."""
    return sum(word not in STOPWORDS and word not in TYPE_WORDS for word in words) >= least


def _words(text: str) -> Iterator[_Word]:
    for match in _WORD.finditer(text):
        word = fold(match.group()).replace("’", "'")
        word = "and" if word == "&" else re.sub(r"'s?$", "", word)
        word = re.sub(r"^(?:l|d|qu)'", "", word).replace("'", "")
        if word not in _ELIDED:
            yield _Word(word, match.start(), match.end())


def _placed(said: tuple[_Word, ...], name: tuple[str, ...], whole: bool) -> Named | None:
    best: Named | None = None
    allowed = 2 if len(name) == sum(len(word) >= MIN_TYPO for word in name) > 1 else 1
    for at in range(len(said) - len(name) + 1):
        typos = 0
        for word, wanted in zip(said[at:], name, strict=False):
            distance = _like(word.text, wanted)
            if distance is None or typos + distance > allowed:
                break
            typos += distance
        else:
            first = at - 1 if at and said[at - 1].text in _ARTICLES else at
            match = Named(said[first].start, said[at + len(name) - 1].end, len(name), typos, whole)
            best = match if best is None or match.worth > best.worth else best
    return best


def _like(word: str, wanted: str) -> int | None:
    """0 if two words are the same, 1 if one letter differs, None if they are different words."""
    is_plural = word.endswith("s") or wanted.endswith("s")
    if word == wanted or (is_plural and word.rstrip("s") == wanted.rstrip("s") != ""):
        return 0
    if abs(len(word) - len(wanted)) > 1:
        return None
    if min(len(word), len(wanted)) < 2 or max(len(word), len(wanted)) < 3 or word.isdigit() or wanted.isdigit():
        return None
    if max(len(word), len(wanted)) < MIN_TYPO and sorted(word) != sorted(wanted):
        return 1 if wanted not in STOPWORDS and word not in STOPWORDS and one_apart(word, wanted, 3) else None
    return 1 if one_apart(word, wanted) or sounds_like(word, wanted) else None


def one_apart(one: str, other: str, same_start: int = 0) -> bool:
    """Whether one letter is wrong, missing, added or swapped with the next."""
    difference = len(one) - len(other)
    if not -1 <= difference <= 1:
        return False
    at, end = 0, min(len(one), len(other))
    while at < end and one[at] == other[at]:
        at += 1
    if at < min(same_start, len(one) - 1):
        return False
    if at == end:
        return True
    if difference == 0:
        swapped = one[at : at + 2] == other[at : at + 2][::-1] and one[at + 2 :] == other[at + 2 :]
        return swapped or one[at + 1 :] == other[at + 1 :]
    return one[at:] == other[at + 1 :] if difference < 0 else one[at + 1 :] == other[at:]

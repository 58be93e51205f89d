"""The likeliest meaning of a control message that the grammar does not understand: a linear model. Pure.

The model weighs the words, the letters and the tags of a sentence for each meaning: an act ("erase"), a question on a
topic ("info limits") or "none". It is trained by ``scripts/train_control.py`` from the table of control sentences, and
read only when the first such message comes. It decides nothing: ``guesses`` does.
"""

from __future__ import annotations

import json
import math
import unicodedata
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from operator import add, mul
from pathlib import Path
from typing import Final

from .lexicon import UNKNOWN, Sentence, lexicons, words_of

MODEL: Final = Path(__file__).with_name("meanings.bin")
BUCKETS: Final = 8192
NONE: Final = "none"
QUESTION: Final = "info "  # before the name of a topic
_MAX_READ: Final = 400  # characters
# How much each kind of feature counts: what a phrase means tells more than how it is spelled.
_WORD: Final = 4
_WORDS: Final = 2  # two that stand together
_PIECE: Final = 1  # of a word
_TAG: Final = 8
_TAGS: Final = 6  # that stand together or in one sentence
_VALUE: Final = 2
_LETTERS: Final = (4,)  # of a piece
_MOST_TAGS: Final = 16  # of a sentence
_MOST_LETTERS: Final = 24  # of a word; the rest of a longer one is not looked at


@dataclass(frozen=True, slots=True)
class LikelyReading:
    """A text as the language reads it that knows most of its words."""

    language: str
    words: tuple[str, ...]
    sentences: tuple[Sentence, ...]


def reading_of(text: str) -> LikelyReading:
    words = {elisions: words_of(text[:_MAX_READ], elisions=elisions) for elisions in (False, True)}
    readings = [
        LikelyReading(lexicon.name, tuple(words[lexicon.elisions]), tuple(lexicon.sentences(words[lexicon.elisions])))
        for lexicon in lexicons()
    ]
    return min(readings, key=_unknown)


def _unknown(reading: LikelyReading) -> int:
    return sum(tag.name == UNKNOWN for sentence in reading.sentences for tag in sentence.tags)


def features(text: str, reading: LikelyReading) -> dict[int, int]:
    """The buckets of everything that the model looks at, with its weight."""
    words = [_plain(word) for word in words_of(text[:_MAX_READ])]
    found = {**_of_words(words), **_of_tags(reading.sentences)}
    buckets: dict[int, int] = {}
    for feature, weight in found.items():
        bucket = zlib.crc32(feature.encode("utf-8", "replace")) % BUCKETS
        buckets[bucket] = buckets.get(bucket, 0) + weight
    return buckets


def length_of(buckets: Mapping[int, int]) -> float:
    """By which the weights are divided, so that long and short texts count alike."""
    return math.sqrt(sum(weight * weight for weight in buckets.values())) or 1.0


def _plain(word: str) -> str:
    """The word without accents, which many people leave out; all numbers are alike."""
    if word[0].isdecimal():
        return "0"
    return word if word.isascii() else "".join(c for c in unicodedata.normalize("NFD", word) if not _is_mark(c))


def _is_mark(character: str) -> bool:
    return "\u0300" <= character <= "\u036f"


def _of_words(words: Sequence[str]) -> dict[str, int]:
    found = {f"b{one} {other}": _WORDS for one, other in zip(["^", *words], [*words, "$"], strict=True)}
    for word in words:
        found[f"w{word}"] = _WORD
        letters = f"<{word[:_MOST_LETTERS]}>"
        for length in _LETTERS:
            for start in range(len(letters) - length + 1):
                found[f"c{letters[start : start + length]}"] = _PIECE
    return found


def _of_tags(sentences: Sequence[Sentence]) -> dict[str, int]:
    found: dict[str, int] = {}
    for sentence in sentences:
        names = [tag.name for tag in sentence.tags[:_MOST_TAGS]]
        end = "?" if sentence.asks else "$"
        for one, other in zip(["^", *names], [*names, end], strict=True):
            found[f"T{one} {other}"] = _TAG
        for three in zip(["^", *names[:-1]], names, [*names[1:], end], strict=True):
            found["R" + " ".join(three)] = _TAGS
        for one, other in combinations(sorted(set(names)), 2):
            found[f"Q{one} {other}"] = _TAGS
        for tag in sentence.tags[:_MOST_TAGS]:
            found[f"t{tag.name}"] = _TAG
            found[f"v{tag.name}{tag.value}"] = _VALUE
        found[f"P{sentence.is_polite:d}{sentence.asks:d}"] = _VALUE
    return found


@dataclass(frozen=True, slots=True)
class MeaningModel:
    """Weights of one byte each: for each bucket, one for each meaning."""

    meanings: tuple[str, ...]
    start: tuple[float, ...]  # the weights of every sentence
    scale: float  # of a byte
    trained_on: str  # the digest of the sentences
    weights: memoryview

    def chances(self, buckets: Mapping[int, int]) -> Mapping[str, float]:
        """How likely each meaning is; together they are 1."""
        width = len(self.meanings)
        sums: dict[int, list[int]] = {}  # by the weight of the buckets, so that the rows are only added
        for bucket, weight in buckets.items():
            row = self.weights[bucket * width : (bucket + 1) * width]
            sums[weight] = list(map(add, sums[weight], row)) if weight in sums else list(row)
        scale = self.scale / length_of(buckets)
        totals = [sum(map(mul, sums, column)) for column in zip(*sums.values(), strict=True)] or [0] * width
        scores = [start + scale * value for start, value in zip(self.start, totals, strict=True)]
        highest = max(scores)
        parts = [math.exp(score - highest) for score in scores]
        return {meaning: part / sum(parts) for meaning, part in zip(self.meanings, parts, strict=True)}


@cache
def model() -> MeaningModel:
    """The model of the package: a line of JSON, and the weights."""
    head, _, weights = MODEL.read_bytes().partition(b"\n")
    described = json.loads(head)
    return MeaningModel(
        tuple(described["meanings"]),
        tuple(described["start"]),
        described["scale"],
        described["trained_on"],
        memoryview(weights).cast("b"),
    )

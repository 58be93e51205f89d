"""Recognises a request for a limited vocabulary: "answer only with yes or no". Pure.

The words themselves are arbitrary, so the sentence is matched by its form: an opener, single words with commas or "or"
between them, and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Final

from .languages import LANGUAGES, table_of
from .lexicon import key_of, words_of

MAX_WORDS: Final = 50
_LONGEST: Final = 8  # words of an opener
_REQUESTS: Final = ("request", "request_if_asked", "request_if_polite:formal")
_QUOTES: Final = frozenset("\"'“”„«»‘`")
_BESIDE: Final = (  # words before or after the request that do not change it
    ("from", "now", "on"), ("from", "here", "on"),
    ("ab", "jetzt"), ("von", "jetzt", "an"), ("a", "partir", "de", "ahora"), ("desde", "ahora"),
    ("à", "partir", "de", "maintenant"), ("dorénavant",),
    (",",), ("please",), ("bitte",), ("kindly",), ("thanks",), ("thank", "you"), ("danke",), ("gracias",), ("merci",),
    ("hi",), ("hello",), ("hallo",), ("hola",), ("bonjour",), ("salut",), ("pls",), ("right", "away"),
    ("por", "favor"), ("s'il", "te", "plaît"), ("s'il", "vous", "plaît"),
    ("svp",), ("stp",),
)  # fmt: skip
_JOINERS: Final = frozenset({",", "or", "and", "oder", "und", "o", "y", "ou", "et", "nor"})
# Answers of two words.
_PAIRS: Final = {
    ("peut", "être"): "peut-être", ("tal", "vez"): "tal vez", ("not", "sure"): "not sure", ("no", "sé"): "no sé",
    ("weiss", "nicht"): "weiß nicht", ("don't", "know"): "don't know",
}  # fmt: skip
_REPEATED: Final = frozenset({"par", "con", "mit", "with"})  # "par oui ou par non"


class Openers:
    """How the request starts in one language."""

    def __init__(self, table: Mapping[str, str], *, elisions: bool = False) -> None:
        self.elisions = elisions
        self._only = self._phrases(table["words_only"])
        self._if_only = self._phrases(table["words_if_only"])
        self._requests = self._phrases("|".join(table.get(row, "") for row in _REQUESTS))
        self._last_verbs = frozenset(table.get("words_last", "").split("|"))
        self._only_words = {word for phrase in self._phrases(table["only"]) if len(phrase) == 1 for word in phrase}

        self._firsts = {phrase[0] for phrase in self._only | self._if_only}
        self._first_verb = words_of(table["words_if_only"].split("|")[0])[:1]

    def _phrases(self, phrases: str) -> frozenset[tuple[str, ...]]:
        return frozenset(
            tuple(key_of(phrase.strip(), elisions=self.elisions).split(" "))
            for phrase in phrases.split("|")
            if phrase.strip()
        )

    def read(self, text: str) -> list[str] | None:
        words = words_of(text, elisions=self.elisions)
        while words and words[-1] in (".", "!", "\n"):
            words.pop()
        words = words[1:] if words[:1] == ["¿"] else words
        words = _without_beside(words)
        found = self._after_opener(self.without_request(words))
        if found is None and words and words[-1] in self._last_verbs:  # "du darfst nur mit ja oder nein antworten"
            found = self._after_opener(words[:-1])
        return found

    def _after_opener(self, words: list[str]) -> list[str] | None:
        if not words or words[0] not in self._firsts:
            return None
        for phrases, is_only in ((self._only, True), (self._if_only, False)):
            for length in range(_LONGEST, 0, -1):
                if tuple(words[:length]) in phrases:
                    found = self._listed(words[length:], is_only)
                    if found is not None:
                        return found
        return None

    def without_request(self, words: list[str]) -> list[str]:
        """The words after "could you", with a verb at the end moved to the front; the question mark is dropped."""
        for length in range(min(_LONGEST, len(words)), 0, -1):
            if tuple(word for word in words[:length] if word != ",") in self._requests:
                words = words[length:]
                words = _without_beside(words[:-1] if words[-1:] == ["?"] else words)
                break
        if words and words[-1] in self._last_verbs:
            return [*self._first_verb, *words[:-1]]
        return words

    def _listed(self, words: list[str], is_only: bool) -> list[str] | None:
        if words and words[-1] in self._only_words:
            words, is_only = words[:-1], True
        if not is_only:
            return None
        found: list[str] = []
        expects_word = True
        for word in _with_pairs([word for word in words if word not in _QUOTES]):
            if word in _JOINERS and not expects_word:
                expects_word = True
            elif word in _REPEATED and expects_word and found:
                continue
            elif expects_word and word not in _JOINERS and word[0].isalnum():
                found.append(word)
                expects_word = False
            elif word not in _JOINERS:
                return None  # two words without a comma: a sentence, not a list
        return found if 2 <= len(found) <= MAX_WORDS and not expects_word else None


def _with_pairs(words: list[str]) -> list[str]:
    joined: list[str] = []
    for word in words:
        pair = _PAIRS.get((joined[-1], word)) if joined else None
        if pair is not None:
            joined[-1] = pair
        else:
            joined.append(word)
    return joined


def _without_beside(words: list[str]) -> list[str]:
    for beside in _BESIDE:
        if tuple(words[: len(beside)]) == beside:
            words = words[len(beside) :]
            words = words[1:] if words[:1] == [","] else words
        if tuple(words[-len(beside) :]) == beside:
            words = words[: -len(beside)]
            words = words[:-1] if words[-1:] == [","] else words
    return words


@cache
def all_openers() -> tuple[Openers, ...]:
    return tuple(Openers(table_of(name), elisions=name == "french") for name in LANGUAGES)


def without_openers(text: str) -> Iterator[str]:
    """A text without "could you", in each language in which it begins so."""
    for openers in all_openers():
        words = words_of(text, elisions=openers.elisions)
        kept = openers.without_request(_without_beside(words))
        if kept and len(kept) < len(words):
            yield " ".join(kept).rstrip(" .!")


def read_vocabulary(text: str) -> list[str] | None:
    """The words that are allowed from now on, or None if the text asks for no such thing."""
    for openers in all_openers():
        found = openers.read(text)
        if found is not None:
            return found
    return None

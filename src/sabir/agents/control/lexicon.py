"""Turns a sentence into a list of tags: the meaning of each phrase, by the table of one language. Pure.

Takes linear time: each word is looked up once per length of the phrases that start with it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final

from .languages import ENGLISH, FRENCH, GERMAN, SPANISH
from .numbers import JOINED, digits, is_number_word, spoken

FILLER: Final = "filler"
POLITE: Final = "polite"
DETERMINER: Final = "det"
OF: Final = "of"
_SKIPPED_TAGS: Final = frozenset({FILLER, POLITE, DETERMINER, OF})
# "This deletes everything": a determiner before a verb is the subject of a statement.
_VERBS: Final = frozenset({
    "erase", "erase_last", "end", "end_last", "keep", "keep_last", "limit", "stay", "leave", "send", "use", "look",
    "remember", "stop", "turn_verb", "resume", "make_me",
})  # fmt: skip
_FIRST_PERSON: Final = frozenset({
    "i_accept", "half_accept", "want", "will", "i_keep", "i_read", "i_read_only", "can_only", "i_do", "would_like",
})  # fmt: skip
_ALSO_NOUNS: Final = frozenset({"erase", "end", "keep", "limit", "resume", "stop"})
UNKNOWN: Final = "unknown"
NUMBER: Final = "number"
PREFIX: Final = "prefix"  # the end of a German verb that looks like a determiner: "schalte das Streaming ein"
_ENDS: Final = frozenset(".!?;\n")
_SKIPPED: Final = frozenset(",¡¿")
_WORD: Final = re.compile(
    r"\d{1,3}(?:[ \u00a0\u202f]\d{3}){1,6}(?![\d])|\d+(?:[.,_]\d+){0,6}|[^\W\d_]+(?:'[^\W\d_]+)*'?|\n|[^\s]"
)
_ELIDED: Final = re.compile(r"\b(l|d|n|qu)'(?=\w)")  # French: l'historique is two words
_HYPHEN: Final = re.compile(r"(?<=\w)-(?=\w)")
_UMLAUTS: Final = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "ß": "ss"})


@dataclass(frozen=True, slots=True)
class Tag:
    """The meaning of one phrase. ``value`` is what the tag says beyond its name: a format, a unit, a number."""

    name: str
    value: str = ""
    number: float = 0.0


@dataclass(frozen=True, slots=True)
class Sentence:
    """The meaningful tags of one sentence, whether it ends as a question, and whether it says "please"."""

    tags: tuple[Tag, ...]
    asks: bool = False
    is_polite: bool = False  # it says "please"

    def values(self, name: str) -> list[str]:
        return [tag.value for tag in self.tags if tag.name == name]

    def number(self) -> float:
        return next(tag.number for tag in self.tags if tag.name == NUMBER)

    def has(self, *names: str) -> bool:
        return any(tag.name in names for tag in self.tags)


def words_of(text: str, *, elisions: bool = False) -> list[str]:
    """The words and punctuation of a text, in lower case."""
    text = unicodedata.normalize("NFC", text).replace("’", "'").casefold().replace("ß", "ss")
    text = _HYPHEN.sub(" ", text)
    if elisions:
        text = _ELIDED.sub(r"\1' ", text)
    return [_digit_blanks(word) for word in _WORD.findall(text)]


def _digit_blanks(word: str) -> str:
    return re.sub(r"[\u00a0\u202f]", " ", word) if word[:1].isdecimal() else word


class Lexicon:
    """The phrases of one language. Commas and small words such as "please" and "just" may stand inside a phrase."""

    def __init__(self, name: str, table: Mapping[str, str]) -> None:
        self.name = name
        self._elisions = name == "french"
        self._phrases: dict[tuple[str, ...], Tag] = {}
        self._inner = frozenset(phrase.strip() for phrase in table["inner"].split("|"))
        self._polite = frozenset(phrase.strip() for phrase in table[POLITE].split("|"))
        rows = [
            (tag, phrase.strip())
            for tag, phrases in table.items()
            if tag != "inner" and not tag.startswith("words_")  # those are for sabir.agents.control.vocabulary
            for phrase in phrases.split("|")
        ]
        rows += [(tag, spelled) for tag, phrase in rows if (spelled := _without_umlauts(phrase)) != phrase]
        rows += [(tag, spelled) for tag, phrase in rows if (spelled := _without_accents(phrase)) != phrase]
        tags = {tag: _tag(tag) for tag in table}
        for tag, phrase in rows:  # the first row wins, so a spelling without accents never hides a word
            self._phrases.setdefault(self._words(phrase), tags[tag])
        self._lengths: dict[str, list[int]] = {}
        for phrase_words in sorted(self._phrases, key=len, reverse=True):
            lengths = self._lengths.setdefault(phrase_words[0], [])
            if len(phrase_words) not in lengths:
                lengths.append(len(phrase_words))

    def _words(self, phrase: str) -> tuple[str, ...]:
        words = phrase.split()
        if all(map(str.isalpha, words)) and phrase.islower() and "ß" not in phrase:
            return tuple(words)  # most phrases; much faster than the general case
        return tuple(words_of(phrase, elisions=self._elisions))

    def sentences(self, text: str) -> list[Sentence]:
        """The meaningful sentences of a text; those with only fillers are left out."""
        found: list[Sentence] = []
        tags: list[Tag] = []
        for tag in self._tags(words_of(text, elisions=self._elisions)):
            if tag.name != "end_mark":
                tags.append(tag)
                continue
            said = _meaning(tags)
            if said:
                found.append(Sentence(said, tag.value == "?", any(item.name == POLITE for item in tags)))
            elif tag.value == "?" and found:  # a second mark: "!?"
                found[-1] = Sentence(found[-1].tags, True, found[-1].is_polite)
            tags = []
        return found

    def _tags(self, words: list[str]) -> Iterator[Tag]:
        place = 0
        while place < len(words):
            length, tag = self._at(words, place)
            yield tag
            if length > 1 and not self._polite.isdisjoint(words[place : place + length]):
                yield Tag(POLITE)
            place += length
        yield Tag("end_mark", ".")

    def _at(self, words: list[str], place: int) -> tuple[int, Tag]:
        word = words[place]
        if word in _ENDS:
            return 1, Tag("end_mark", word)
        if word in _SKIPPED:
            return 1, Tag(FILLER, word)
        lengths = self._lengths.get(word, [])
        if lengths:
            ahead = range(place + 1, min(place + 2 * lengths[0], len(words)))
            spoken_at = [place, *(spot for spot in ahead if words[spot] != ",")]
            main_at = [place, *(spot for spot in spoken_at[1:] if words[spot] not in self._inner)]
            for length in lengths:
                for spots in (spoken_at[:length], main_at[:length]):
                    tag = self._phrases.get(tuple(words[spot] for spot in spots))
                    if tag is not None and not (length == 1 and is_number_word(word, self.name)):
                        return spots[-1] + 1 - place, tag
        return self._number_at(words, place)

    def _number_at(self, words: list[str], place: int) -> tuple[int, Tag]:
        run: list[str] = []
        end = place
        while end < len(words) and len(run) < 12:
            word = words[end]
            if is_number_word(word, self.name) or (not run and word[0].isdecimal()):
                run.append(word)
            elif not (
                word == JOINED[self.name] and run and is_number_word(words[min(end + 1, len(words) - 1)], self.name)
            ):
                break
            end += 1
        if not run:
            return 1, Tag(UNKNOWN, words[place])
        value = spoken(run, self.name) if len(run) > 1 or not run[0][0].isdecimal() else digits(run[0])
        return end - place, Tag(NUMBER, number=value)


def _meaning(tags: Iterable[Tag]) -> tuple[Tag, ...]:
    """The meaningful tags; a determiner is one if it stands for somebody.

    An "of" after a verb shows that it was a noun: "end of session", "cierre de sesión".
    """
    said: list[Tag] = []
    subject, may_be_noun = False, False
    for tag in _with_relative_clause(_with_prefix(list(tags))):
        if tag.name == OF and may_be_noun:
            said.append(Tag(UNKNOWN))
        may_be_noun = tag.name in _ALSO_NOUNS
        if tag.name == DETERMINER:
            subject = True
        if tag.name in _SKIPPED_TAGS:
            continue
        if subject and tag.name in _VERBS:
            said.append(Tag(UNKNOWN))
        said.append(tag)
        subject = False
    return tuple(said)


def _with_relative_clause(tags: list[Tag]) -> list[Tag]:
    """The tags, with "that's all I accept" made unknown: without a comma, the second half limits the first."""
    return [
        Tag(UNKNOWN) if tag.name == "done" and tags[place].name in _FIRST_PERSON else tag
        for place, tag in enumerate(tags[:-1], 1)
    ] + tags[-1:]


def _with_prefix(tags: list[Tag]) -> list[Tag]:
    """The tags, with a determiner at the end read as part of the verb if it can be that."""
    place = len(tags) - 1
    while place >= 0 and tags[place].name in (FILLER, POLITE):
        place -= 1
    if place > 0 and tags[place].value == PREFIX:
        return [*tags[:place], Tag(PREFIX), *tags[place + 1 :]]
    return tags


def _tag(row: str) -> Tag:
    title, _, value = row.partition(":")
    return Tag(title, value)


def _without_umlauts(text: str) -> str:
    return text if text.isascii() else text.translate(_UMLAUTS)


def _without_accents(text: str) -> str:
    if text.isascii():
        return text
    return "".join(mark for mark in unicodedata.normalize("NFD", text) if not unicodedata.combining(mark))


@cache
def lexicons() -> tuple[Lexicon, ...]:
    """The lexicons of all languages. Loading takes a fifth of a second, so it waits until they are needed."""
    return (
        Lexicon("english", ENGLISH),
        Lexicon("german", GERMAN),
        Lexicon("spanish", SPANISH),
        Lexicon("french", FRENCH),
    )

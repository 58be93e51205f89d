"""Turns a sentence into a list of tags: the meaning of each phrase, by the table of one language. Pure.

Takes linear time: each word is looked up once per length of the phrases that start with it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Final

from .languages import LANGUAGES, table_of
from .languages.forms import APART
from .numbers import JOINED, digits, is_number_word, spoken

FILLER: Final = "filler"
POLITE: Final = "polite"
DETERMINER: Final = "det"
OF: Final = "of"
THANKS: Final = "thanks"
NOW: Final = "now"
SO: Final = "so"  # between a reason and a request
_SKIPPED_TAGS: Final = frozenset({FILLER, POLITE, DETERMINER, OF, THANKS, NOW, SO})
# "This deletes everything": a determiner before a verb is the subject of a statement.
_VERBS: Final = frozenset({
    "erase", "erase_last", "end", "end_last", "keep", "keep_last", "limit", "stay", "leave", "send", "use", "look",
    "remember", "stop", "turn_verb", "resume", "make_me",
})  # fmt: skip
_FIRST_PERSON: Final = frozenset({
    "i_accept", "half_accept", "want", "will", "i_keep", "i_read", "i_read_only", "can_only", "i_do", "would_like",
})  # fmt: skip
# Verbs in a form that asks only after certain openers, by their base: "if you deleted", "would you mind deleting".
_BASES: Final = {"erased": "erase", "streamed": "stream", "hidden": "hide", "erase_ing": "erase", "end_ing": "end",
                 "kept": "keep", "ended": "end", "stream": "stream",
                 "reply_ing": "reply_verb"}  # fmt: skip
IF_ASKED: Final = "if_asked"  # the value of a verb that asks only in a question: "¿guardarías …?"
IF_POLITE: Final = "if_polite"  # and of one that asks only with "please": "löschst du bitte …?"
_ALSO_NOUNS: Final = frozenset({"erase", "end", "keep", "limit", "resume", "stop"})
UNKNOWN: Final = "unknown"
NOUN: Final = "noun"  # the value of a filler that is a noun
GLADLY: Final = "gladly"  # the value of "gern", which makes "I would" a wish
_WOULD: Final = ("would", "would_like")
NUMBER: Final = "number"
PREFIX: Final = "prefix"  # the end of a German verb that looks like a determiner: "schalte das Streaming ein"
_ENDS: Final = frozenset(".!?;\n")
_SKIPPED: Final = frozenset(",¡¿")
_WORD: Final = re.compile(
    r"\d{1,3}(?:[ \u00a0\u202f]\d{3}){1,6}(?![\d])|\d+(?:[.,_]\d+){0,6}|[^\W\d_]+(?:'[^\W\d_]+)*'?|\n|[^\s]"
)
_ELIDED: Final = re.compile(r"\b(l|d|n|qu)'(?=\w)")  # French: l'historique is two words
_ABBREVIATED: Final = re.compile(r"\b(max|máx|maxi|ca|aprox|approx|env)\.(?= ?\d)")
_HYPHEN: Final = re.compile(r"(?<=\w)-(?=\w)")
_LONGEST_BESIDE: Final = 4  # words that join a reason to a request
_MAX_APART: Final = 14  # words between the halves of a verb
_MARKS: Final = re.compile("[\u0300-\u036f]+")  # accents, once they stand apart from their letters
_UMLAUTS: Final = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "ß": "ss"})


@dataclass(frozen=True, slots=True)
class Tag:
    """The meaning of one phrase. ``value`` is what the tag says beyond its name: a format, a unit, a number."""

    name: str
    value: str = ""
    number: float = 0.0


@dataclass(frozen=True, slots=True)
class Sentence:
    """The meaningful tags of one sentence, whether it ends as a question, and whether it says "please" or "now"."""

    tags: tuple[Tag, ...]
    asks: bool = False
    is_polite: bool = False  # it says "please", or ends with "thanks"
    is_urgent: bool = False  # it says "now"
    raw: tuple[Tag, ...] = ()  # all tags, with those that carry no meaning

    def values(self, name: str) -> list[str]:
        return [tag.value for tag in self.tags if tag.name == name]

    def number(self) -> float:
        return next(tag.number for tag in self.tags if tag.name == NUMBER)

    def has(self, *names: str) -> bool:
        return any(tag.name in names for tag in self.tags)


def words_of(text: str, *, elisions: bool = False) -> list[str]:
    """The words and punctuation of a text, in lower case."""
    text = unicodedata.normalize("NFC", text).replace("’", "'").casefold().replace("ß", "ss")
    text = _ABBREVIATED.sub(r"\1", _HYPHEN.sub(" ", text))
    if elisions:
        text = _ELIDED.sub(r"\1' ", text)
    return [_digit_blanks(word) for word in _WORD.findall(text)]


def key_of(phrase: str, *, elisions: bool) -> str:
    """The words of a phrase of the tables with one blank between them, which is how phrases are looked up."""
    letters = phrase.replace(" ", "").replace("'", "")
    if letters.isalpha() and letters.islower() and "ß" not in letters and " '" not in f" {phrase}":
        # most phrases; much faster than the general case
        return _ELIDED.sub(r"\1' ", phrase) if elisions and "'" in phrase else phrase
    return " ".join(words_of(phrase, elisions=elisions))


def _digit_blanks(word: str) -> str:
    return re.sub(r"[\u00a0\u202f]", " ", word) if word[:1].isdecimal() else word


class Lexicon:
    """The phrases of one language. Commas and small words such as "please" and "just" may stand inside a phrase."""

    def __init__(self, name: str, table: Mapping[str, str]) -> None:
        self.name = name
        self.elisions = name == "french"
        self._inner = frozenset(phrase.strip() for phrase in table["inner"].split("|"))
        self._polite = frozenset(phrase.strip() for phrase in table[POLITE].split("|"))
        self._now = frozenset(phrase.strip() for phrase in table[NOW].split("|"))
        self._beside = {
            row: frozenset(spelled for phrase in table[row].split("|") for spelled in _spellings(phrase.strip()))
            for row in (
                "words_so",
                "words_because",
                "words_reason",
                "words_doubt",
                "words_report",
                "words_lack",
                "words_deny",
                "words_strong",
                "words_cause",
            )
        }
        self._closers = self._inner | {
            phrase.split()[0]
            for tag in _SKIPPED_TAGS - {DETERMINER, SO}
            for phrase in table.get(tag, "please").split("|")
        }  # what may follow a whole clause
        self._apart: dict[str, list[tuple[tuple[str, ...], tuple[str, ...]]]] = {}
        # Tags and phrases by first word: the other words are looked at when the first one is met.
        self._rows: dict[str, tuple[list[Tag], list[str]]] = {}
        self._known: dict[str, tuple[dict[str, Tag], list[int]]] = {}
        self._add_all(table)
        for halves_of_word in self._apart.values():
            halves_of_word.sort(key=lambda halves: -len(halves[0]))

    def _add_all(self, table: Mapping[str, str]) -> None:
        """Add all phrases, then those with other letters than ASCII as people spell them without accents.

        The first of two equal phrases counts, so a spelling without accents never hides a word.
        """
        marked: list[tuple[Tag, str]] = []
        for row, phrases in table.items():
            if row == "inner" or row.startswith("words_"):  # those are for sabir.agents.control.vocabulary
                continue
            tag = _tag(row)
            for phrase in phrases.split("|"):
                self._add(tag, phrase)
            if not phrases.isascii():
                marked += [(tag, phrase) for phrase in phrases.split("|") if not phrase.isascii()]
        for spelled in (_without_umlauts, _without_accents):
            for tag, phrase in marked:
                if (other := spelled(phrase)) != phrase:
                    self._add(tag, other)

    def _add(self, tag: Tag, phrase: str) -> None:
        first = phrase.partition(" ")[0]
        if APART in phrase:
            head, _, rest = phrase.partition(APART)
            halves = (self._words(head), self._words(rest))
            self._apart.setdefault(halves[0][0], []).append(halves)
            phrase = first = _joined(*halves)
        elif not first.isalpha() or "ß" in first:
            phrase = key_of(phrase, elisions=self.elisions)
            first = phrase.partition(" ")[0]
        found = self._rows.get(first)
        if found is None:
            self._rows[first] = ([tag], [phrase])
        else:
            found[0].append(tag)
            found[1].append(phrase)

    def _phrases_from(self, word: str) -> tuple[dict[str, Tag], list[int]] | None:
        """The phrases that start with a word, and their lengths, the longest first."""
        known = self._known.get(word)
        if known is None and (rows := self._rows.get(word)) is not None:
            phrases: dict[str, Tag] = {}
            lengths: set[int] = set()
            for tag, phrase in zip(*rows, strict=True):
                key = phrase if APART in phrase else key_of(phrase, elisions=self.elisions)
                phrases.setdefault(key, tag)
                lengths.add(1 if APART in key else key.count(" ") + 1)
            known = self._known[word] = (phrases, sorted(lengths, reverse=True))
        return known

    def _words(self, phrase: str) -> tuple[str, ...]:
        return tuple(key_of(phrase.strip(), elisions=self.elisions).split(" "))

    def length_at(self, row: str, words: Sequence[str], place: int) -> int:
        """How many words the longest phrase of a row of single words has at this place; 0 if none is there."""
        for length in range(min(_LONGEST_BESIDE, len(words) - place), 0, -1):
            if " ".join(words[place : place + length]) in self._beside[row]:
                return length
        return 0

    def denials(self, words: Sequence[str]) -> set[str]:
        """The words that say no, whatever phrase they are in; the French "ne … que" means "only"."""
        found = {word for word in words if self._is(word, "neg")}
        is_only = self.name == "french" and found <= {"ne", "n'"} and not {"que", "qu'"}.isdisjoint(words)
        return set() if is_only else found

    def asks_or_conditions(self, words: Iterable[str]) -> bool:
        """Whether one of the words begins a question or a condition: "how", "if"."""
        return any(word in self._beside["words_doubt"] and self._is(word, "asking") for word in words)

    def _is(self, word: str, name: str) -> bool:
        """Whether a word by itself has this tag."""
        found = self._phrases_from(word)
        tag = None if found is None else found[0].get(word)
        return tag is not None and tag.name == name

    def has_no_doubt(self, words: Sequence[str], allowed: Sequence[str] = ()) -> bool:
        """Whether none of the words denies, doubts, reports or sets a condition; words of the allowed rows may."""
        permitted = frozenset[str]().union(*(self._beside[row] for row in allowed))
        return not any(word in self._beside["words_doubt"] and word not in permitted for word in words)

    def is_told(self, words: Iterable[str]) -> bool:
        """Whether one of the words tells of somebody else, or of another time: "según el manual", "yesterday"."""
        return any(word in self._beside["words_report"] for word in words)

    def has_no_foreign_doubt(self, words: Iterable[str]) -> bool:
        """Whether none of the words does so in another language: "what if I said: lösche das Gespräch"."""
        unknown = [word for word in words if word not in self._rows]
        others = (lexicon for lexicon in lexicons() if lexicon is not self)
        return all(lexicon.has_no_doubt(unknown) for lexicon in others)

    def sentences(self, words: list[str]) -> list[Sentence]:
        """The meaningful sentences of a text, given as its words; those with only fillers are left out."""
        found: list[Sentence] = []
        tags: list[Tag] = []
        for tag in self._tags(self._with_verbs_joined(words)):
            if tag.name != "end_mark":
                tags.append(tag)
                continue
            said = sentence_of(tags, asks=tag.value == "?")
            if said.tags:
                found.append(said)
            elif tag.value == "?" and found:  # a second mark: "!?"
                found[-1] = replace(found[-1], asks=True)
            elif found and any(item.name == THANKS for item in tags):  # "Close it now. Thanks!"
                found[-1] = replace(found[-1], is_polite=True)
            tags = []
        return found

    def _with_verbs_joined(self, words: list[str]) -> list[str]:
        """The words, with "throw … away" as one word at the place of the first."""
        if self._apart.keys().isdisjoint(words):
            return words
        words = list(words)
        place = 0
        while place < len(words):
            for head, rest in self._apart.get(words[place], ()):
                end = place + len(head)
                if tuple(words[place:end]) == head and (spot := self._rest_at(words, end, rest)) is not None:
                    del words[spot : spot + len(rest)]
                    words[place:end] = [_joined(head, rest)]
                    break
            place += 1
        return words

    def _rest_at(self, words: list[str], start: int, rest: tuple[str, ...]) -> int | None:
        """Where the second half of a verb closes its clause."""
        for spot in range(start, min(start + _MAX_APART, len(words))):
            if words[spot] in _ENDS:
                return None
            end = spot + len(rest)
            after = words[end] if end < len(words) else "."
            if tuple(words[spot:end]) == rest and (after in _ENDS or after == "," or after in self._closers):
                return spot
        return None

    def _tags(self, words: list[str]) -> Iterator[Tag]:
        place = 0
        while place < len(words):
            length, tag = self._at(words, place)
            yield tag
            if length > 1:
                inside = words[place : place + length]
                if not self._polite.isdisjoint(inside):
                    yield Tag(POLITE)
                if not self._now.isdisjoint(inside):
                    yield Tag(NOW)
            place += length
        yield Tag("end_mark", ".")

    def _at(self, words: list[str], place: int) -> tuple[int, Tag]:
        word = words[place]
        if word in _ENDS:
            return 1, Tag("end_mark", word)
        if word in _SKIPPED or (word == ":" and place + 1 < len(words) and words[place + 1][0].isdecimal()):
            return 1, Tag(FILLER, word)
        known = self._phrases_from(word)
        if known is not None and (found := self._phrase_at(words, place, *known)) is not None:
            return found
        return self._number_at(words, place)

    def _phrase_at(
        self, words: list[str], place: int, phrases: Mapping[str, Tag], lengths: list[int]
    ) -> tuple[int, Tag] | None:
        """The longest phrase, with or without the words that may stand inside one."""
        spoken_at = [place]
        main_at = [place]
        for spot in range(place + 1, min(place + 2 * lengths[0], len(words))):
            if words[spot] != ",":
                spoken_at.append(spot)
                if words[spot] not in self._inner:
                    main_at.append(spot)
        readings = [(spoken_at, [words[spot] for spot in spoken_at])]
        if len(main_at) < len(spoken_at):
            readings.append((main_at, [words[spot] for spot in main_at]))
        for length in lengths:
            for spots, said in readings:
                if length > len(said):
                    continue
                tag = phrases.get(" ".join(said[:length]))
                if tag is not None and not (length == 1 and is_number_word(words[place], self.name)):
                    return spots[length - 1] + 1 - place, tag
        return None

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


def sentence_of(tags: Sequence[Tag], *, asks: bool = False) -> Sentence:
    """The sentence of these tags; it has no meaningful ones if all are fillers."""
    is_urgent = any(item.name == NOW for item in tags)
    return Sentence(_meaning(tags), asks, _is_polite(tags), is_urgent, tuple(tags))


def _before_noun(tag: Tag, after: Tag | None) -> Tag:
    """The tag, with the end of a German verb read as a small word before a noun: "zu Englisch", "ein Megabyte"."""
    if tag.name != "accept_rest" or after is None:
        return tag
    if after.name == "unit":
        return Tag(NUMBER, number=1)
    return Tag("to") if after.name == "lang" else tag


def _in_its_place(tag: Tag, before: Tag | None) -> Tag:
    if before is None:
        return tag
    if tag.name == "ing" and before.name in ("stop", "no_longer", "neg", "back_to"):
        return Tag(tag.value)  # "stop sending"
    return Tag(UNKNOWN) if tag.value in (IF_ASKED, IF_POLITE) else tag


def _joined(head: tuple[str, ...], rest: tuple[str, ...]) -> str:
    return f"{' '.join(head)}{APART}{' '.join(rest)}"


def _is_polite(tags: Sequence[Tag]) -> bool:
    """Whether somebody says "please", or "thanks" after the rest."""
    names = [tag.name for tag in tags]
    return POLITE in names or THANKS in names[1:]


def _meaning(tags: Sequence[Tag]) -> tuple[Tag, ...]:
    """The meaningful tags; a determiner is one if it stands for somebody.

    An "of" after a verb shows that it was a noun: "end of session", "cierre de sesión".
    """
    said: list[Tag] = []
    subject, may_be_noun = False, False
    for tag in _with_relative_clause(_with_prefix(list(tags))):
        if tag.name == OF and may_be_noun:
            said.append(Tag(UNKNOWN))
        may_be_noun = tag.name in _ALSO_NOUNS
        if subject and tag.value == NOUN:  # "your apologies"; without "your", it is a filler
            tag = Tag(UNKNOWN)
        if tag.name == DETERMINER:
            subject = True
        if tag.name in _SKIPPED_TAGS:
            continue
        if subject and tag.name == "unit":  # "a megabyte"
            said.append(Tag(NUMBER, number=1))
        if subject and tag.name == "reply_verb":  # "the answer"
            tag = Tag("replies")
        if subject and tag.name in _VERBS:
            said.append(Tag(UNKNOWN))
        said.append(tag)
        subject = False
    if subject and said and said[-1].name in _VERBS and any(tag.value == "all" for tag in tags):
        said.append(Tag("everything"))  # "erase all"
    if said and said[0].name in _WOULD and any(tag.value == GLADLY for tag in tags):
        said[0] = Tag("want")  # "ich würde … lieber …"
    return _with_bases(said)


def _with_bases(tags: list[Tag]) -> tuple[Tag, ...]:
    """The tags, with "if you deleted" and "would you mind deleting" as "delete" after a request.

    A verb that asks only at the beginning of a sentence ("¿guardarías …?") is unknown anywhere else.
    """
    if not tags:
        return ()
    tags = [_before_noun(tag, after) for tag, after in zip(tags, [*tags[1:], None], strict=True)]
    tags = [_in_its_place(tag, tags[place - 1] if place else None) for place, tag in enumerate(tags)]
    if not (tags[0].name == "would_mind" or tags[0].value == "past"):
        return tuple(tags)
    place = 2 if len(tags) > 2 and tags[1].name == "neg" else 1
    if len(tags) <= place:
        return tuple(tags)
    verb = tags[place]
    base = verb.value if verb.name in ("past", "ing") else _BASES.get(verb.name)
    if base is None:
        return tuple(tags)
    opener = Tag("request_if_asked") if tags[0].name == "would_mind" else Tag("request")
    return (opener, *tags[1:place], Tag(base), *tags[place + 1 :])


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
    return _MARKS.sub("", unicodedata.normalize("NFD", text))


def _spellings(phrase: str) -> tuple[str, ...]:
    return phrase, _without_umlauts(phrase), _without_accents(phrase)


@cache
def lexicons() -> tuple[Lexicon, ...]:
    """The lexicons of all languages. Loading takes a moment, so it waits until they are needed."""
    return tuple(Lexicon(name, table_of(name)) for name in LANGUAGES)

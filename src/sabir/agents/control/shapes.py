"""Other shapes of one request, so that the grammar needs only one of them. Pure.

A request may have its verb at its end ("könntest du … begrenzen?"), a "get" that adds nothing ("I want to get answers
in French"), a remark beside it ("I cannot read English, so answer in German") or a reason ("I am on a shared computer,
so please delete this"). None of these shapes adds a meaning: what remains must still be a request as a whole.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from .lexicon import SO, Lexicon, Sentence, Tag, sentence_of

_OPENERS: Final = frozenset({
    "request", "request_if_polite", "request_if_asked", "permit", "want", "will", "let_us", "propose",
})  # fmt: skip
_BEFORE_BASE: Final = {"keep_last": "keep", "end_last": "end", "erase_last": "erase"}
_LAST_VERBS: Final = frozenset({
    "limit", "reply_verb", "use", "send", "share", "look", "remember", "turn_verb", "stay", "make_me", "make", "leave",
    "stop", "keep", "hide", "tell", "receive", "on", "off", "stream", "accept_verb", *_BEFORE_BASE,
})  # fmt: skip
# Without an opener, only these are surely infinitives: "Antworten auf 500 Byte begrenzen".
_LAST_ALONE: Final = frozenset({"limit", "reply_verb", "use", "look", "make_me", "share", "tell", "turn_verb"})
_MAX_CLAUSES: Final = 4
_SENTENCE_ENDS: Final = frozenset(".!?;\n")
_MARKS_OF_QUOTES: Final = frozenset("\"'“”„«»‘’‹›`:()[]{}<>#*/")
_ENDS_OF_REASONS: Final = frozenset(".!;\n")  # "My phone is full. Please keep the history."
_WITH_ZU: Final = re.compile(r"[a-zäöü]{2,8}zu[a-zäöü]{3,12}en")  # "auszuschalten"
_ENDS_OF_WISHES: Final = ("could", "modal_end")
_FIRST_PERSON: Final = re.compile(r"[a-zñ]{3,12}o")  # a Spanish verb
_LEAST_REASON: Final = 2  # words
_LACKS: Final = ("words_lack",)  # rows of words that such a reason may have although they deny
_DENIALS: Final = ("words_lack", "words_deny")
_MOST_PLACES: Final = 6  # where a reason may end: a request has few clauses
_LATEST_SO: Final = 4  # words of the request before its "so"
_NOUNS: Final = frozenset(
    {"talk", "session", "history", "data", "messages", "stream", "partial", "anonymous", "everything"}
)
_VERBS_OF_PRONOUNS: Final = ("erase", "erase_it", "end", "keep", "leave", "turn_verb", "make_me", "hide")
_MOST_WITH_PRONOUN: Final = 2  # tags of a request whose object is a pronoun


def orders(sentence: Sentence) -> Iterator[Sentence]:
    """The sentence as it is, then with its verb after the opener, then without a "get" that adds nothing."""
    yield sentence
    kept = _without_rest(sentence.tags)
    if kept != sentence.tags:
        yield replace(sentence, tags=kept)
    moved = _verb_first(kept, is_polite=sentence.is_polite)
    if moved != kept:
        yield replace(sentence, tags=moved)
    plain = _without_receive(moved)
    if plain != moved:
        yield replace(sentence, tags=plain)


def _without_rest(tags: tuple[Tag, ...]) -> tuple[Tag, ...]:
    """The tags without "for the rest of this chat" and "instead of text" at the end."""
    names = [tag.name for tag in tags]
    if len(tags) > 1 and names[-1] == "for_later":
        return tags[:-1]
    if len(tags) > 2 and names[0] == "request" and names[-1] in _ENDS_OF_WISHES:
        return tags[:-1]  # "ich wäre froh, wenn du … könntest"
    if len(tags) > 2 and names[-2] == "instead" and names[-1] in ("format", "lang"):
        return tags[:-2]
    return tags


def _verb_first(tags: tuple[Tag, ...], *, is_polite: bool) -> tuple[Tag, ...]:
    start = 1 if tags[0].name in _OPENERS else 0
    if len(tags) < start + 2:
        return tags
    last = tags[-1]
    if last.name == "replies" and tags[-2].name in ("lang", "format", "unit", "as_they_come", "at_once_whole"):
        last = Tag("reply_verb")  # "auf Deutsch antworten"
    is_verb = last.name in (_LAST_VERBS if start or is_polite else _LAST_ALONE) or (
        tags[0].name == "request" and last.name in ("end", "erase")
    )
    if not is_verb:
        return tags
    verb = Tag(_BEFORE_BASE.get(last.name, last.name), last.value)
    return (*tags[:start], verb, *tags[start:-1])


def _without_receive(tags: tuple[Tag, ...]) -> tuple[Tag, ...]:
    if tags[0].name != "want":
        return tags
    return tuple(tag for tag in tags if tag.name != "receive")


def clauses(sentence: Sentence) -> Iterator[tuple[Sentence, Sentence]]:
    """The two parts of a sentence at each comma or "so"."""
    places = [place for place, tag in enumerate(sentence.raw) if tag.value == "," or tag.name == SO]
    for place in places[:_MAX_CLAUSES]:
        before, after = sentence.raw[:place], sentence.raw[place + 1 :]
        head, tail = sentence_of(before), sentence_of(after, asks=sentence.asks)
        if head.tags and tail.tags:
            yield head, tail


@dataclass(frozen=True, slots=True)
class Reasoned:
    """The words of a request and of the reason beside it; some reasons need a "please" to show the request."""

    request: list[str]
    reason: list[str]
    needs_please: bool = False
    denies: bool = False  # the reason has a "not", which must not touch an act that binds


def without_reason(words: Sequence[str], lexicon: Lexicon) -> Iterator[Reasoned]:
    """The ways to read a text as a request with a reason beside it.

    The reason may have unknown words, but none of doubt, denial, condition, report or quotation. "So" joins any reason
    to its request. At a mere comma or full stop, a reason in the first person may stand; any other cannot be told from
    other remarks, so only "please" shows that the rest is a request.
    """
    end = len(words) - 1 if words and words[-1] in _SENTENCE_ENDS else len(words)
    if not _MARKS_OF_QUOTES.isdisjoint(words) or _SENTENCE_ENDS.intersection(words[:end]) - _ENDS_OF_REASONS:
        return
    ends = sum(word in _SENTENCE_ENDS for word in words[:end])
    places = [place for place in range(1, end) if _may_join(words, place, lexicon)]
    for place in places[:_MOST_PLACES]:
        if ends == (words[place] in _ENDS_OF_REASONS):
            yield from _request_after(words, place, lexicon)
        length = 0 if ends else lexicon.length_at("words_because", words, place)
        reason = list(words[place + length : end])
        if length and lexicon.length_at("words_reason", _plain(reason), 0) and _is_reason(reason, lexicon):
            yield Reasoned([*words[:place], *words[end:]], reason)


def _may_join(words: Sequence[str], place: int, lexicon: Lexicon) -> bool:
    is_end = words[place] == "," or words[place] in _ENDS_OF_REASONS
    return is_end or any(lexicon.length_at(row, words, place) for row in ("words_so", "words_because"))


def _request_after(words: Sequence[str], place: int, lexicon: Lexicon) -> Iterator[Reasoned]:
    """The request after a reason that ends here with "so", with a comma or with a full stop."""
    reason, rest = list(words[:place]), list(words[place + 1 :])
    length = lexicon.length_at("words_so", words, place)
    is_own = _is_own(reason, lexicon)
    if length and is_own and _is_reason(reason, lexicon, _LACKS):
        yield Reasoned(rest[length - 1 :], reason)
    if length or not (words[place] == "," or words[place] in _ENDS_OF_REASONS):
        return
    for spot in range(1, min(_LATEST_SO, len(rest))):  # "lösche deshalb bitte …"
        length = lexicon.length_at("words_so", rest, spot)
        if length and is_own and _is_reason(reason, lexicon, _LACKS):
            yield Reasoned([*rest[:spot], *rest[spot + length :]], reason)
    is_after = words[place] == "," and lexicon.length_at("words_strong", rest, 0)
    if is_after and _is_reason(rest, lexicon, _LACKS):
        yield Reasoned(reason, rest, needs_please=True)  # "please keep the history, I have no place for it"
    if not is_own or _depends(rest, lexicon):
        return
    is_strong = any(lexicon.length_at(row, _plain(reason), 0) for row in ("words_strong", "words_cause"))
    if _is_reason(reason, lexicon):
        yield Reasoned(rest, reason, needs_please=not is_strong)
    elif _is_reason(reason, lexicon, _LACKS):
        yield Reasoned(rest, reason, needs_please=True)
    elif _is_reason(reason, lexicon, _DENIALS):
        yield Reasoned(rest, reason, needs_please=True, denies=True)


def _depends(words: Sequence[str], lexicon: Lexicon) -> bool:
    """Whether the words depend on those before: "ich habe vor, das Gespräch zu löschen"."""
    return lexicon.name == "german" and any(word == "zu" or _WITH_ZU.fullmatch(word) is not None for word in words)


def _is_own(words: Sequence[str], lexicon: Lexicon) -> bool:
    """Whether the words speak of the speaker: "my phone is full", "dejo la empresa"."""
    plain = _plain(words)
    starts = any(lexicon.length_at(row, plain, 0) for row in ("words_reason", "words_strong", "words_cause"))
    return starts or (lexicon.name == "spanish" and bool(plain) and _FIRST_PERSON.fullmatch(plain[0]) is not None)


def _is_reason(words: Sequence[str], lexicon: Lexicon, allowed: Sequence[str] = ()) -> bool:
    words = _plain(words)
    if len(words) < _LEAST_REASON or not lexicon.has_no_doubt(words, allowed):
        return False
    return lexicon.has_no_foreign_doubt(words)


def _plain(words: Sequence[str]) -> list[str]:
    return [word for word in words if word != ","]


def with_noun(sentence: Sentence, reason: Sequence[Sentence]) -> Sentence | None:
    """The request with the noun that its pronoun stands for: "the partial answers distract me, turn them off"."""
    nouns = [tag for said in reason for tag in said.tags if tag.name in _NOUNS]
    has_only_verb = sentence.has(*_VERBS_OF_PRONOUNS) and not sentence.has("neg", "replies", *_NOUNS)
    if not nouns or not has_only_verb or len(sentence.tags) > _MOST_WITH_PRONOUN:
        return None
    return replace(sentence, tags=(*sentence.tags, nouns[-1]))

"""Other shapes of one request, so that the grammar needs only one of them. Pure.

A request may have its verb at its end ("könntest du … begrenzen?"), a "get" that adds nothing ("I want to get answers
in French"), a remark beside it ("I cannot read English, so answer in German") or a reason ("I am on a shared computer,
so please delete this"). None of these shapes adds a meaning: what remains must still be a request as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
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
_LEAST_REASON: Final = 2  # words


def orders(sentence: Sentence) -> Iterator[Sentence]:
    """The sentence as it is, then with its verb after the opener, then without a "get" that adds nothing."""
    yield sentence
    kept = _without_rest(sentence.tags)
    if kept != sentence.tags:
        yield replace(sentence, tags=kept)
    moved = _verb_first(kept)
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
    if len(tags) > 2 and names[-2] == "instead" and names[-1] in ("format", "lang"):
        return tags[:-2]
    return tags


def _verb_first(tags: tuple[Tag, ...]) -> tuple[Tag, ...]:
    start = 1 if tags[0].name in _OPENERS else 0
    if len(tags) < start + 2:
        return tags
    last = tags[-1]
    if last.name == "replies" and tags[-2].name in ("lang", "format", "unit", "as_they_come", "at_once_whole"):
        last = Tag("reply_verb")  # "auf Deutsch antworten"
    is_verb = last.name in (_LAST_VERBS if start else _LAST_ALONE) or (
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


def without_reason(words: Sequence[str], lexicon: Lexicon) -> Iterator[tuple[list[str], bool]]:
    """The words of a request without a reason in the first person, and whether the request must say "please".

    The reason may have unknown words, but none of doubt, denial, condition, report or quotation. At a mere comma, a
    reason cannot be told from other remarks, so only "please" shows that the rest is a request.
    """
    end = len(words) - 1 if words and words[-1] in _SENTENCE_ENDS else len(words)
    if not _MARKS_OF_QUOTES.isdisjoint(words) or not _SENTENCE_ENDS.isdisjoint(words[:end]):
        return
    for place in range(1, end):
        length = lexicon.length_at("words_so", words, place)
        if (length or words[place] == ",") and _is_reason(words[:place], lexicon):
            yield list(words[place + (length or 1) :]), not length
        length = lexicon.length_at("words_because", words, place)
        if length and _is_reason(words[place + length : end], lexicon):
            yield [*words[:place], *words[end:]], False


def _is_reason(words: Sequence[str], lexicon: Lexicon) -> bool:
    words = [word for word in words if word != ","]
    if len(words) < _LEAST_REASON:
        return False
    return bool(lexicon.length_at("words_reason", words, 0)) and lexicon.has_no_doubt(words)

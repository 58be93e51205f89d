"""A follow-up on one thing, in words that name it: "and is it open on Tuesday?"."""

from __future__ import annotations

import re
from typing import Final

from sabir.search.query.asking import is_asking
from sabir.search.query.glossary import glossed, language_of
from sabir.search.query.words import content_words

from .subject import ASKING, FOR_WHOM, MAX_LENGTH

# Pronouns for the thing that was asked about before, by language.
_PRONOUNS: Final = {
    "en": r"\b(?:it|they|them|he|she|him|(?:that|this)\s+(?:one|place|event))\b|\b(?:that|this)(?=\W*$)"
    r"|(?<!\bis\s)(?<!\bare\s)(?<!\bwas\s)(?<!\bwere\s)\bthere\b",  # "is there …?" is about no place
    "de": r"\b(?:sie|er|(?<!gibt\s)es(?!\s+gibt\b)|ihn|ihm|dort|da)\b"
    r"|(?<=gibts\s)(?:den|die|das)\b|(?<=gibt's\s)(?:den|die|das)\b",
    "es": r"\b(?:él|ella|lo|allí)\b",
    # "Y a-t-il …?", "il y a …" and "gibt es …?" are about nothing before, and "il faut" is about nobody.
    "fr": r"(?<!-)(?<!\by\sa\st\s)\b(?:il(?!\s+(?:faut|y\s+a|reste|est\s+(?:possible|interdit|obligatoire|permis))\b)"
    r"|elle|ils|elles|là|ça)\b|(?<!\by\sa-t)-(?:il|elle|ils|elles)\b|\bc['’](?=est\b)",
    "ja": r"(?:それ|そこ)",
}
# "Is lunch included?", "are dogs allowed?"
_IS_PART: Final = re.compile(
    r"^\W*(?:(?:and|so)\s+)?(?:is|are)\b.*\b(?:included|provided|allowed|permitted|needed|required|necessary)\W*$",
    re.IGNORECASE,
)
_THAT: Final = re.compile(r"\b(?:it|that)\b", re.IGNORECASE)
_VARIANT: Final = re.compile(
    r"\bthe\s+(?:\d[\d.,]*\s?\w+|small|smaller|large|larger|big|bigger|medium|other)"
    r"(?:\s+(?:bag|box|size|one|pack|bottle|version|jar|tin))?\b",
    re.IGNORECASE,
)
_POSSESSIVE: Final = re.compile(r"\b(?:its|their|his|her)\b(?=\s+\w)", re.IGNORECASE)


def with_subject(question: str, name: str, shown: tuple[str, ...] = ()) -> str:
    """A follow-up on one thing, with its name in place of "it", or behind it where nothing else is named.

    The thing is the one of this name, or else the first of those that were shown, where only that can be meant. Empty
    if the question does not go on with it.
    """
    words = " ".join(question.split())
    if not words or len(words) > MAX_LENGTH:
        return ""
    bare = [word for word in content_words(words) if word not in ASKING]
    if not name and shown and (len(shown) == 1 or (is_asking(words) and (_THAT.search(words) or not bare))):
        name = shown[0]
    if not name:
        return ""
    language = language_of(words)
    if _POSSESSIVE.search(words):
        return _POSSESSIVE.sub(lambda _: name, words, count=1)
    pattern = re.compile(_PRONOUNS[language], re.IGNORECASE)
    if pattern.search(words) and len(content_words(glossed(words, language))) <= 6:
        return " ".join(pattern.sub(lambda _: f" {name} ", words, count=1).split())
    english = glossed(words, language)
    left = [
        word
        for word in content_words(_VARIANT.sub("", FOR_WHOM.sub("", english)))
        if word not in ASKING and len(word) > 2
    ]
    if len(left) == 1 and _IS_PART.search(english):
        left = []
    said = content_words(FOR_WHOM.sub("", english))
    is_asked = is_asking(english) or (words.endswith("?") and not ASKING.isdisjoint(said))  # "open on Mondays?"
    return f"{words.rstrip(' ?.!')} {name}?" if not left and is_asked else ""

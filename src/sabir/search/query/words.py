"""Words: folding, tokens, plurals and sentences, shared by all parts of search. Pure."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Final

_TOKEN: Final = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
_CAMEL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")

STOPWORDS: Final = frozenset(
    """a about above after again all also am an and any are as at be because been before being below between both
    but by can could did do does doing during each few for from further get give had has have having he her
    here hers him his how i if in into is it its itself just like looking me more most my no nor not now of off on
    once one ones only or other our ours out over own please same she should show so some something such than that
    the their theirs them then there these they this those through to too under until up us very want was we were
    what when where which while who whom why will with would you your yours find need got anything good best
    tell let s t d ll ve re via""".split()  # noqa: SIM905 - a page of words reads better as text
)

_KEEP: Final = frozenset({"hummus", "asparagus", "couscous", "molasses", "bus", "gas", "lens", "swiss", "christmas",
                          "texas", "kansas", "arkansas", "illinois", "paris", "tennis", "canvas", "chess", "jeans",
                          "species", "series", "news", "this", "plus", "bias", "iris", "atlas", "citrus"})  # fmt: skip
_ODD: Final = {"leaves": "leaf", "loaves": "loaf", "knives": "knife", "halves": "half", "people": "person",
               "children": "child", "women": "woman", "men": "man", "feet": "foot", "geese": "goose", "mice": "mouse",
               "shelves": "shelf", "wives": "wife", "wolves": "wolf", "tomatoes": "tomato", "potatoes": "potato",
               "cookies": "cookie", "pies": "pie", "movies": "movie", "brownies": "brownie", "smoothies": "smoothie",
               "shoes": "shoe", "chilies": "chili", "chillies": "chilli", "avocadoes": "avocado"}  # fmt: skip


def fold(text: str) -> str:
    """Lower case without accents."""
    if text.isascii():
        return text.casefold()
    decomposed = unicodedata.normalize("NFKD", text.casefold().translate(_LIGATURES))
    if _KANA.search(decomposed):  # the dots of が are not an accent
        return unicodedata.normalize("NFKC", text.casefold())
    return _FOREIGN.sub(_without_accents, decomposed)


def _without_accents(run: re.Match[str]) -> str:
    return "".join(char for char in run.group() if not unicodedata.combining(char))


_FOREIGN: Final = re.compile(r"[^\x00-\x7f]+")  # most of a text in Latin letters needs no look at each of them
_KANA: Final = re.compile(r"[\u3040-\u30ff]")


_LIGATURES: Final = str.maketrans({"œ": "oe", "æ": "ae", "ø": "o", "ł": "l"})


def fold_length_kept(text: str) -> str:
    """The same, character by character, so that positions stay valid."""
    return _CAPITAL_OR_FOREIGN.sub(lambda run: "".join(map(_folded_to_one, run.group())), text)


@lru_cache(maxsize=4_096)
def _folded_to_one(char: str) -> str:
    folded = fold(char)
    return folded if len(folded) == 1 else char.lower()[:1] or " "


_CAPITAL_OR_FOREIGN: Final = re.compile(r"(?:[A-Z]|[^\x00-\x7f])+")


# Scripts without spaces between words.
_UNSPACED: Final = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\u0e00-\u0e7f]+")


def segmented(text: str) -> str:
    """Text with separable words: runs of Japanese, Chinese and the like become overlapping pairs of characters."""
    if text.isascii():
        return text
    return _UNSPACED.sub(lambda run: f" {' '.join(pairs(run.group()))} ", text)


def pairs(run: str) -> list[str]:
    """Adjacent characters, two by two; a single one stands alone."""
    return [run[at : at + 2] for at in range(len(run) - 1)] or [run]


def readable(text: str) -> str:
    """The text without control characters and invisible marks."""
    if text.isascii() and text.isprintable():
        return text
    return _UNPLAIN.sub(lambda run: "".join(map(_seen, run.group())), text)


@lru_cache(maxsize=4_096)
def _seen(char: str) -> str:
    return char if unicodedata.category(char) not in _UNSEEN or char.isspace() else " "


_UNPLAIN: Final = re.compile(r"[^\x20-\x7e]+")
_UNSEEN: Final = frozenset({"Cc", "Cf", "Co", "Cs", "Cn"})


@lru_cache(maxsize=20_000)
def singular(word: str) -> str:
    """The singular of a folded English word, by rule; good enough for matching, not for display."""
    if len(word) < 4 or not word.endswith("s") or word in _KEEP or word.endswith(("ss", "us", "is")):
        return _ODD.get(word, word)
    if word in _ODD:
        return _ODD[word]
    if word.endswith("ies"):
        return word[:-3] + "y"
    if word.endswith(("ches", "shes", "sses", "xes", "zes")):
        return word[:-2]
    return word[:-1]


def tokens(text: str) -> list[str]:
    """Folded words in order, plurals made singular."""
    return [singular(word if word.isalnum() else _possessed(word)) for word in _TOKEN.findall(fold(text))]


def _possessed(word: str) -> str:
    return _ELIDED.sub("", re.sub(r"['’]s?$", "", word).replace("’", "'"))


_ELIDED: Final = re.compile(r"^(?:l|d|qu|j|n|s|m|t|c)'(?=[^\W\d_]{3})")  # "d'escalade" is about "escalade"


_STOPPED: Final = STOPWORDS | {singular(word) for word in STOPWORDS}  # "does" as a token


def content_words(text: str) -> list[str]:
    """The meaningful tokens."""
    return [word for word in tokens(text) if word not in _STOPPED]


def alike(text: str, groups: Mapping[str, tuple[str, ...]]) -> dict[str, str]:
    """The synonyms of each word of a text that has any, by the word as written."""
    words = {word: _group(fold(word), groups) for word in _TOKEN.findall(text)}
    return {word: " ".join(others) for word, others in words.items() if others}


def _group(word: str, groups: Mapping[str, tuple[str, ...]]) -> tuple[str, ...] | None:
    """The synonyms of a word; German adjectives have many endings."""
    forms = (word, singular(word), *(word[: -len(end)] for end in _ENDINGS if word.endswith(end) and len(word) > 7))
    return next((groups[form] for form in forms if form in groups), None)


_ENDINGS: Final = ("en", "er", "es", "em", "e", "n")


def squeezed(text: str) -> str:
    """One key for ``InStock``, ``in stock`` and ``In-Stock``."""
    return "".join(tokens(spaced(text)))


def spaced(text: str) -> str:
    """``InStock`` as ``In Stock``; other text is left as it is."""
    return _CAMEL.sub(" ", text) if " " not in text else text


_ABBREVIATIONS: Final = frozenset(
    """mr mrs ms dr prof st jr sr vs etc inc ltd co no vol fig approx e.g i.e u.s u.k a.m p.m min max oz lb
    tbsp tsp""".split()  # noqa: SIM905
)
_END: Final = re.compile(r"(?<![.!?…])[.!?…]+[\"'”’)\]]*(?=\s|$)|\n+")


def sentences(text: str) -> Iterator[str]:
    """The sentences of a text, verbatim except for outer spaces."""
    start = 0
    for end in _END.finditer(text):
        if end.group().startswith(".") and _goes_on(text, start, end):
            continue
        sentence = text[start : end.end()].strip()
        start = end.end()
        if sentence:
            yield sentence
    if rest := text[start:].strip():
        yield rest


def _goes_on(text: str, start: int, end: re.Match[str]) -> bool:
    """Whether the dot belongs to an abbreviation or an initial, or a lower-case word follows."""
    before = text[start : end.start()].rsplit(None, 1)
    last = before[-1].casefold().lstrip("(\"'“") if before else ""
    after = text[end.end() : end.end() + 2].lstrip(" ")
    if "\n" in text[end.end() : end.end() + 1]:
        return False
    if last in _ABBREVIATIONS or (len(last) == 1 and last.isalpha()):
        return True
    if last.isdigit() and len(last) <= _DAY and _MONTH_NEXT.match(text, end.end()):
        return True
    # A command or a name may begin a sentence in lower case: "… opens a console. quill export writes …".
    is_word = (len(last) >= _WORD and last.isalpha()) or (len(last) >= 3 and before[-1].isupper())
    return after[:1].islower() and not is_word


_DAY: Final = 2  # figures of a day: "am 4. Januar"
_MONTH_NEXT: Final = re.compile(r"\s(?:Jan|Feb|Mär|Apr|Mai|Jun|Jul|Aug|Sep|Okt|Nov|Dez|Jän)[a-zä]{0,6}\b")
_WORD: Final = 5  # letters; a shorter word before a dot may be an abbreviation

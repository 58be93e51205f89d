"""The sentence of an item that answers a question: it has its words, and the kind of value asked for. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from sabir.search.answers.coverage import Measure
from sabir.search.answers.reading import AGE, IS_OLD, SINCE
from sabir.search.items.item import Item
from sabir.search.query.dates import MONTHS, WEEKDAYS
from sabir.search.query.stated import in_english, item_language
from sabir.search.query.units import NUMBER_WORDS
from sabir.search.query.words import sentences

MAX_QUOTED: Final = 300  # characters
_LENGTH: Final = 8_000  # characters of a text
_HALF: Final = 0.5  # of the weight of the words besides the name, which a sentence must have
_NUMBER: Final = rf"(?:\d[\d.,]*|{'|'.join(word for word in NUMBER_WORDS if len(word) > 2 and ' ' not in word)})"
_UNIT: Final = r"(?:second|minute|hour|day|night|week|month|year|working\s+day|Minute|Stunde|Tag|Woche|Monat|Jahr)"
_VALUES: Final = tuple(
    (re.compile(asked, re.IGNORECASE), re.compile(value, re.IGNORECASE))
    for asked, value in (
        (r"\bhow\s+long\b|\bhow\s+soon\b|\bhow\s+quick", rf"\b{_NUMBER}[\s-](?:\w+\s)?{_UNIT}"),
        (r"\bhow\s+far\b", rf"\b{_NUMBER}\s?(?:km|miles?|kilomet\w+|m\b|metres|minutes)"),
        (
            r"\bhow\s+much\b|\bcosts?\b|\bprices?\b|\bfees?\b|\bdeposit\b|\bapr\b|\brate\b|\bdiscount\b",
            rf"[$€£]\s?\d|\d\s?(?:€|%|euros?|dollars?|pounds?|cents|percent|prozent)|\b{_NUMBER}\s+(?:percent|euros?"
            r"|dollars?|pounds?|cents)\b|\bfree\b|\bkostenlos\b",
        ),
        (IS_OLD, SINCE),
        (r"\bhow\s+old\b", AGE),
        (r"\bhow\s+(?:many|often)\b", rf"\b{_NUMBER}\b|\b(?:once|twice|every)\b"),
        (
            r"\bwhen\b|\bwhat\s+(?:time|day|date)\b|\bhow\s+late\b|\bwhich\s+days?\b",
            rf"\b(?:{'|'.join((*MONTHS, *WEEKDAYS))})s?\b|\b\d{{1,2}}[:.]\d\d\b|\b\d{{1,2}}\s?(?:[ap]m|Uhr)\b|\bnoon\b"
            r"|\bmidnight\b|\b(?:19|20)\d\d\b",
        ),
    )
)
_PRICE: Final = next(value for asked, value in _VALUES if asked.search("how much"))
_FIGURE: Final = re.compile(rf"\b{_NUMBER}\b", re.IGNORECASE)
_NEGATED: Final = re.compile(r"\b(?:not|no|never|except|cannot|kein\w*|nicht|nie)\b|n['’]t\b", re.IGNORECASE)
# "Which e-bikes have you got?" looks for things.
_LISTS: Final = re.compile(
    r"^\W*(?:which|what|whose)\s+(?!(?:is|does|has|was|days)\b)\w+s\b|\bhave\s+you\s+got\b", re.IGNORECASE
)


def quoted_from(item: Item, english: str, measure: Measure) -> str:
    """The sentence of an item that answers a question; empty if none does."""
    if _LISTS.search(english):
        return ""
    rest = measure.but(item.name)
    telling = sum(word.weight for word in rest.words if not word.is_light)
    value = next((value for asked, value in _VALUES if asked.search(english)), None)
    if value is None and not telling:
        return ""
    is_denied = _NEGATED.search(english) is not None
    best, chosen = 0.0, ""
    rows = list(_read(item))
    if not telling and value is _PRICE:  # the name has every word: the sentence that speaks of it says more
        value = _value_beside(measure, rows, value)
    for sentence, said in rows:
        if value is not None and not value.search(said):
            continue
        has = rest.within(said)
        if telling and has < _HALF * telling:
            continue
        worth = has + 0.1 + (0.5 if is_denied and _NEGATED.search(said) else 0.0)
        worth += 0.0 if telling else measure.within(said)
        if worth > best:
            best, chosen = worth, sentence
    return f"{item.name}: {chosen}" if chosen else ""


def _read(item: Item) -> Iterator[tuple[str, str]]:
    """The sentences of an item that can be quoted, as written and as patterns read them."""
    language = item_language(item)
    for sentence in sentences(f"{item.description}\n{item.text}"[:_LENGTH]):
        if len(sentence) <= MAX_QUOTED:
            said = in_english(sentence, language)
            yield sentence, sentence if said == sentence else f"{sentence} {said}"


def _value_beside(measure: Measure, rows: Sequence[tuple[str, str]], value: re.Pattern[str]) -> re.Pattern[str]:
    """What the answer must have: such a value, or any figure, if only sentences with a figure speak of what is asked:
    "the deposit is five weeks' rent"."""
    spoken = [
        said for _, said in rows if any(measure.of_word(word, said) for word in measure.words if not word.is_light)
    ]
    if any(value.search(said) for said in spoken):
        return value
    return _FIGURE if any(_FIGURE.search(said) for said in spoken) else value

"""Misspelt words of questions that a rule would know: "vegitarian", "resturants". Pure.

Only words that no item has count as misspelt; the caller passes those.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from sabir.search.items.types import TYPE_WORDS

from .dates import MONTHS, WEEKDAYS
from .names import one_apart
from .vocabulary import DIETS, KINDS
from .words import STOPWORDS, fold

MIN_LENGTH: Final = 6
_SHORT: Final = 4  # letters of a word that can only be a misspelt food
_FOODS: Final = frozenset(
    word for kind, kinds in KINDS.items() for item in (kind, *kinds) for word in (item, f"{item}s") if word.isalpha()
)
_MEALS: Final = ("dessert", "desserts", "breakfast", "starter", "starters", "snacks", "drinks", "salads", "soups")
# Short words of questions; in these, only swapped letters count as a typo.
_SHORT_WORDS: Final = frozenset(
    {"open", "close", "closed", "price", "phone", "hours", "cheap", "when", "where", "much", "cost", "free", "with"}
)
_KNOWN: Final = frozenset(
    word
    for word in (
        *TYPE_WORDS,
        *DIETS,
        *MONTHS,
        *WEEKDAYS,
        *_MEALS,
        "minutes",
        "dollars",
        "without",
        "between",
        "cheapest",
        "closed",
        "address",
        "number",
        "opening",
        "tomorrow",
        "weekend",
        "tickets",
    )
    if len(word) >= MIN_LENGTH and word.isalpha()
)


def doubtful(text: str, *, foods: bool = True) -> Iterator[tuple[str, str]]:
    """Words that are one letter away from a known word, each with that word.

    Without ``foods`` only words of questions count: "run" next to a name is not "rum".
    """
    for word in dict.fromkeys(re.findall(r"[^\W\d_]{3,30}", text)):
        folded = fold(word)
        if folded in STOPWORDS or folded in _FOODS or not _KNOWN.isdisjoint((folded, folded.rstrip("s"), f"{folded}s")):
            continue
        known_words = _KNOWN if len(folded) > _SHORT else frozenset[str]()
        known_words = known_words | _FOODS if foods else known_words
        near = [known for known in known_words if one_apart(folded, known, 1)]
        near = near or [known for known in _SHORT_WORDS if _swapped(folded, known)]
        if near:
            yield word, min(near, key=lambda known: (known[:2] != folded[:2], known))


def _swapped(word: str, known: str) -> bool:
    return word != known and sorted(word) == sorted(known) and one_apart(word, known)


def corrected(text: str, right: Mapping[str, str]) -> str:
    """The text with these words replaced."""
    for exc, word in right.items():
        text = re.sub(rf"\b{re.escape(exc)}\b", word, text)
    return text

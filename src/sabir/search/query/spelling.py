"""Misspelt words of questions that a rule would know: "vegitarian", "resturants". Pure.

Only words that no item has count as misspelt; the caller passes those.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from sabir.search.items.types import TYPE_WORDS

from .dates import MONTHS, WEEKDAYS
from .names import one_apart
from .sounds import sounds_like
from .vocabulary import ALIASES, ALIKE, COUNTED, CUISINES, DIETS, FOODS, KINDS, NUTRIENTS
from .words import STOPWORDS, fold, singular

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
_SHORT_BY_LETTERS: Final = {
    "".join(sorted(word)): [other for other in sorted(_SHORT_WORDS) if sorted(other) == sorted(word)]
    for word in _SHORT_WORDS
}
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


# Other words that rules and lists know: they are not misspelt, even if no item has them.
_LISTED: Final = frozenset(
    word
    for entry in (
        *_KNOWN,
        *_FOODS,
        *FOODS,
        *ALIKE,
        *NUTRIENTS,
        *COUNTED,
        *CUISINES,
        *DIETS,
        *ALIASES,
        "calories",
        "kcal",
    )
    for word in re.findall(r"[^\W\d_]+", entry)
)


def _by_start(words: Iterable[str]) -> Mapping[tuple[str, int], list[str]]:
    """Words by their first letter and their length: so few of them have to be compared."""
    found: dict[tuple[str, int], list[str]] = {}
    for word in words:
        found.setdefault((word[0], len(word)), []).append(word)
    return found


_KNOWN_BY_START: Final = _by_start(_KNOWN)
_FOODS_BY_START: Final = _by_start(_FOODS)


def _one_letter_from(folded: str, *tables: Mapping[tuple[str, int], list[str]]) -> list[str]:
    """The words of these tables that have the same first letter, and one letter wrong, missing, added or swapped."""
    lengths = (len(folded) - 1, len(folded), len(folded) + 1)
    same_start = (known for table in tables for length in lengths for known in table.get((folded[:1], length), ()))
    return [known for known in same_start if one_apart(folded, known, 1)]


def doubtful(text: str, *, foods: bool = True) -> Iterator[tuple[str, str]]:
    """Words that are one letter away from a known word, each with that word.

    Without ``foods`` only words of questions count: "run" next to a name is not "rum".
    """
    for word in dict.fromkeys(re.findall(r"[^\W\d_]{3,30}", text)):
        folded = fold(word)
        if folded in STOPWORDS or folded in _FOODS or not _KNOWN.isdisjoint((folded, folded.rstrip("s"), f"{folded}s")):
            continue
        tables = [_KNOWN_BY_START] if len(folded) > _SHORT else []
        tables += [_FOODS_BY_START] if foods else []
        near = _one_letter_from(folded, *tables)
        if not near and len(folded) > _LONG and _LISTED.isdisjoint((folded, folded.rstrip("s"), singular(folded))):
            near = [known for known in _KNOWN if known[0] == folded[0] and _apart(folded, known) <= 2]
        near = near or [
            known for known in _SHORT_BY_LETTERS.get("".join(sorted(folded)), ()) if _swapped(folded, known)
        ]
        if near:
            yield word, min(near, key=lambda known: (known[:2] != folded[:2], known))


def _swapped(word: str, known: str) -> bool:
    """Whether a word of the same letters has two of them swapped."""
    return word != known and one_apart(word, known)


_LONG: Final = 7  # in a word with this many letters, two may be wrong


def nearest(word: str, there: Iterable[str], *, is_sure: bool = False) -> str:
    """The word that a misspelt one most likely is: one letter apart, of the same sound, or two letters apart in a long
    word; empty if there is none. ``is_sure``: only if it is one letter apart or sounds the same."""
    folded, alone = fold(word), singular(fold(word))
    others = (other for other in there if len(other) >= _SHORT and other != folded)
    near = Counter(other for other in others if other[:1] == folded[:1] or sounds_like(folded, other))
    one = {other: count for other, count in near.items() if one_apart(folded, other) or _has_left_out(alone, other)}
    one = one or {other: count for other, count in near.items() if sounds_like(folded, other)}
    if not one and not is_sure:
        one = {other: count for other, count in near.items() if other.startswith(folded)}  # abbreviated: "panto"
    if not one and len(folded) >= _LONG and not is_sure:
        one = {other: count for other, count in near.items() if _apart(folded, other) <= 2}
    meant = max(one, key=lambda other: (_has_left_out(alone, other), one[other], other), default="")
    return f"{meant}s" if meant and folded.endswith("s") and not meant.endswith("s") else meant  # those are singular


def _has_left_out(word: str, other: str) -> bool:
    """Whether a word is another one without a letter, as most slips are: "irland"."""
    return len(other) == len(word) + 1 and one_apart(word, other)


def _apart(one: str, other: str) -> int:
    """How many letters must be changed, added or dropped to turn one word into another."""
    if abs(len(one) - len(other)) > 2:
        return 3
    row = list(range(len(other) + 1))
    for place, letter in enumerate(one, 1):
        before, row[0] = row[0], place
        for at, wanted in enumerate(other, 1):
            before, row[at] = row[at], min(row[at] + 1, row[at - 1] + 1, before + (letter != wanted))
    return row[-1]


def strange(text: str) -> Iterator[str]:
    """Words of a question that no rule knows, and that may be misspelt."""
    for word in dict.fromkeys(re.findall(r"[^\W\d_]{5,30}", text)):
        folded = fold(word)
        if folded not in STOPWORDS and _LISTED.isdisjoint((folded, folded.rstrip("s"), singular(folded))):
            yield word


def corrected(text: str, right: Mapping[str, str]) -> str:
    """The text with these words replaced."""
    for exc, word in right.items():
        text = re.sub(rf"\b{re.escape(exc)}\b", word, text)
    return text

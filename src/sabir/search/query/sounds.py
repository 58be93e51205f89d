"""Words that sound alike, however they are spelt: "jazmin" and "jasmine", "foto" and "photo". Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

_LEAST: Final = 4  # letters of a sound that tells a word
# Letters, and what is written for the same sound; in this order.
_SAME: Final = tuple(
    (re.compile(letters), plain)
    for letters, plain in (
        (r"ph", "f"),
        (r"gh(?=t)", ""),
        (r"sch|sh(?=[aeiou])", "sh"),
        (r"ck|qu(?=[ei])|q|c(?![eiyh])", "k"),
        (r"c(?=[eiy])|z", "s"),
        (r"x", "ks"),
        (r"(?<=\w)y", "i"),
        (r"ea|ee|ei|ie|ae", "e"),
        (r"ou|oo", "u"),
        (r"wh", "w"),
        (r"(.)\1+", r"\1"),
        (r"(?<=\w\w\w)es?$|(?<=\w\w\w)s$", ""),
    )
)


# The same as French and Spanish are read: "barankismo" is "barranquismo", "annivairsère" "anniversaire".
_SAME_ABROAD: Final = tuple(
    (re.compile(letters), plain)
    for letters, plain in (
        (r"ph", "f"),
        (r"ll", "y"),
        (r"eau|aux?$|au", "o"),
        (r"oo", "u"),
        (r"ai|ay|ei|ey", "e"),
        (r"ie", "i"),
        (r"qu|ck", "k"),
        (r"c(?=[eiy])|z|sc(?=[ei])", "s"),
        (r"c", "k"),
        (r"gu(?=[ei])", "g"),
        (r"h", ""),
        (r"y", "i"),
        (r"e+$", ""),
        (r"(.)\1", r"\1"),
    )
)
_LEAST_ABROAD: Final = 5  # letters of a word


@lru_cache(maxsize=20_000)
def _sound(word: str) -> str:
    return _replaced(word, _SAME)


@lru_cache(maxsize=20_000)
def _sound_abroad(word: str) -> str:
    return _replaced(word, _SAME_ABROAD)


def _replaced(word: str, same: Iterable[tuple[re.Pattern[str], str]]) -> str:
    for pattern, plain in same:
        word = pattern.sub(plain, word)
    return word


def sounds_like(one: str, other: str) -> bool:
    """Whether two folded words of some length sound the same, as English, French or Spanish are read."""
    if one == other:
        return False
    if one[:1] in (other[:1], "f", "p", "c", "k", "q", "s", "z", "w"):
        said = _sound(one)
        if len(said) >= _LEAST and said == _sound(other):
            return True
    return len(one) >= _LEAST_ABROAD and _sound_abroad(one) == _sound_abroad(other)

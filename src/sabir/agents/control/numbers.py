"""Numbers as people write them: ``2,000``, ``2.000``, ``2 000``, ``1,5``, ``twenty-five``, ``zweitausend``. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

_EN_ONES: Final = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen"
)
_DE_ONES: Final = (
    "null eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn fünfzehn sechzehn siebzehn "
    "achtzehn neunzehn"
)
_ES_ONES: Final = (
    "cero uno dos tres cuatro cinco seis siete ocho nueve diez once doce trece catorce quince dieciséis diecisiete "
    "dieciocho diecinueve"
)
_FR_ONES: Final = (
    "zéro _ deux trois quatre cinq six sept huit neuf dix onze douze treize quatorze quinze seize dix-sept dix-huit "
    "dix-neuf"
)
_EN_TENS: Final = "twenty thirty forty fifty sixty seventy eighty ninety"
_DE_TENS: Final = "zwanzig dreissig vierzig fünfzig sechzig siebzig achtzig neunzig"
_ES_TENS: Final = "veinte treinta cuarenta cincuenta sesenta setenta ochenta noventa"
_FR_TENS: Final = "vingt trente quarante cinquante soixante"


def _counted(ones: str, tens: str) -> dict[str, int]:
    return {
        **{word: value for value, word in enumerate(ones.split())},
        **{word: 10 * value for value, word in enumerate(tens.split(), 2)},
    }


# Addends and multipliers, by language.
ADDED: Final[Mapping[str, Mapping[str, int]]] = {
    "english": _counted(_EN_ONES, _EN_TENS),
    "german": _counted(_DE_ONES, _DE_TENS),
    "spanish": {**_counted(_ES_ONES, _ES_TENS), "cien": 100, "doscientos": 200, "trescientos": 300, "quinientos": 500},
    "french": _counted(_FR_ONES, _FR_TENS),
}
SCALES: Final[Mapping[str, Mapping[str, int]]] = {
    "english": {"dozen": 12, "hundred": 100, "thousand": 1000, "million": 10**6, "billion": 10**9},
    "german": {"dutzend": 12, "hundert": 100, "tausend": 1000, "million": 10**6, "millionen": 10**6},
    "spanish": {"docena": 12, "ciento": 100, "mil": 1000, "millón": 10**6, "millones": 10**6},
    "french": {"douzaine": 12, "cent": 100, "cents": 100, "mille": 1000, "million": 10**6, "millions": 10**6},
}
JOINED: Final[Mapping[str, str]] = {"english": "and", "german": "und", "spanish": "y", "french": "et"}
_THOUSANDS: Final = re.compile(r"\d{1,3}(?:([,._ ])\d{3})(?:\1\d{3}){0,6}")  # 2,000 and 2.000 and 1,000,000
_GERMAN: Final = re.compile(r"(?:([a-zäöüß]{3,12}?))?(tausend|hundert)")
MAX_NUMBER: Final = 1e15  # no limit is larger, and no number derived from it overflows


def digits(word: str) -> float:
    """A number in digits: a mark before three digits groups thousands, any other mark is the decimal mark."""
    if _THOUSANDS.fullmatch(word):
        return min(float(re.sub(r"[,._ ]", "", word)), MAX_NUMBER)
    whole, mark, rest = re.sub(r"[_ ]", "", word).replace(",", ".").rpartition(".")
    text = f"{whole.replace('.', '')}.{rest}" if mark else rest
    return min(float(text), MAX_NUMBER)


def is_number_word(word: str, language: str) -> bool:
    return word in ADDED[language] or word in SCALES[language] or _compound(word, language) is not None


def _compound(word: str, language: str) -> int | None:
    """German number words: ``zweitausend``, ``fünfhundert``."""
    match = _GERMAN.fullmatch(word) if language == "german" else None
    if match is None:
        return None
    ones = {**ADDED["german"], "ein": 1}
    factor = 1 if match.group(1) is None else ones.get(match.group(1))
    return None if factor is None else factor * SCALES["german"][match.group(2)]


def spoken(words: Sequence[str], language: str) -> float:
    """The number that a run of words says; digits may precede a scale (``2 thousand``)."""
    total, group = 0.0, 0.0
    for word in words:
        if word[:1].isdecimal():
            group += digits(word)
        elif word in ADDED[language]:
            group += ADDED[language][word]
        elif word in SCALES[language]:
            scale = SCALES[language][word]
            group = (group or 1) * scale
            if scale >= 1000:
                total, group = total + group, 0.0
        else:
            group += _compound(word, language) or 0
    return min(total + group, MAX_NUMBER)

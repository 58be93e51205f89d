"""Opening hours as sites write them in German, Spanish, French and Japanese, in schema.org's notation. Pure.

"Di–So 10–17 Uhr" is ``Tu-Su 10:00-17:00``. Two letters can be different days in two languages ("Di", "Do"): a line is
in the language in which all of its days are days.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache, partial
from typing import Final

_CODES: Final = ("Mo", "Tu", "We", "Th", "Fr", "Sa", "Su")
# The days of the week from Monday, short and long, by language.
_DAYS: Final[Mapping[str, tuple[str, ...]]] = {
    "de": ("mo(?:ntags?)?", "di(?:enstags?)?", "mi(?:ttwochs?)?", "do(?:nnerstags?)?", "fr(?:eitags?)?",
           "sa(?:mstags?)?|sonnabends?", "so(?:nntags?)?"),
    "fr": ("lu(?:n(?:di)?)?", "ma(?:r(?:di)?)?", "me(?:r(?:credi)?)?", "je(?:u(?:di)?)?", "ve(?:n(?:dredi)?)?",
           "sa(?:m(?:edi)?)?", "di(?:m(?:anche)?)?"),
    "es": ("lu(?:n(?:es)?)?", "ma(?:r(?:tes)?)?", "mi[eé]?(?:r?(?:coles)?)?", "ju(?:e(?:ves)?)?", "vi(?:e(?:rnes)?)?",
           "s[aá](?:b(?:ados?)?)?", "do(?:m(?:ingos?)?)?"),
    "ja": ("月曜?日?", "火曜?日?", "水曜?日?", "木曜?日?", "金曜?日?", "土曜?日?", "日曜?日?"),
}  # fmt: skip
_PATTERNS: Final = {language: tuple(map(re.compile, days)) for language, days in _DAYS.items()}
_ENGLISH: Final = re.compile(
    r"mo(?:n(?:days?)?)?|tu(?:e(?:s(?:days?)?)?)?|we(?:d(?:nesdays?)?)?|th(?:u(?:r(?:s(?:days?)?)?)?)?|fr(?:i(?:days?)?)?"
    r"|sa(?:t(?:urdays?)?)?|su(?:n(?:days?)?)?"
)
_TO: Final = frozenset({"bis", "a", "al", "au", "à", "から", "〜", "～"})
_BESIDE: Final = frozenset(
    {"und", "y", "et", "von", "de", "du", "le", "les", "los", "el", "uhr", "h", "am", "des", "jeweils", "まで", "と"}
)
_WORD: Final = re.compile(r"[^\W\d_]+|[〜～]")
_UNSPACED: Final = re.compile(r"([月火水木金土日](?:曜日?)?|から|まで|と)(?=[^\x00-\x7f])")
_HOUR: Final = re.compile(
    r"(?<![\dh:.])(\d{1,2})(?=\s?(?:[-–—]|bis|à|a)\s?\d{1,2}(?:[:.]\d\d|\s?(?:uhr|h)\b))", re.IGNORECASE
)
_CLOCK: Final = re.compile(
    r"(?<![\d:.])(\d{1,2})(?:\s?h\s?(\d\d)\b|\s?(?:uhr|h)\b|[:.](\d\d)\b|時(?:(\d\d)分)?)", re.IGNORECASE
)
_SPAN: Final = re.compile(r"(\d\d?:\d\d)\s?(?:bis|à|a|から|〜|～)\s?(?=\d)", re.IGNORECASE)
_LONGEST: Final = 200  # characters of a line


@lru_cache(maxsize=1_024)
def in_codes(line: str, first: str = "") -> str:
    """The line with English day codes and clock times; unchanged if its days are English, or it has other words.
    ``first`` is the language that is tried first."""
    if len(line) > _LONGEST:
        return line
    apart = _UNSPACED.sub(r"\1 ", line)
    words = [word.casefold() for word in _WORD.findall(apart)]
    words = [word for word in words if word not in _TO and word not in _BESIDE]
    if not words or all(map(_ENGLISH.fullmatch, words)):
        return line
    for language in sorted(_DAYS, key=first.__ne__):
        if all(any(_days(word, language)) for word in words):
            return _clocks(_WORD.sub(partial(_code, language), apart))
    return line


def _days(word: str, language: str) -> Iterator[bool]:
    return (pattern.fullmatch(word) is not None for pattern in _PATTERNS[language])


def _code(language: str, word: re.Match[str]) -> str:
    said = word.group().casefold()
    day = next((code for code, is_it in zip(_CODES, _days(said, language), strict=True) if is_it), "")
    return day or ("-" if said in _TO else "," if said in ("und", "y", "et", "と") else word.group())


def _clocks(line: str) -> str:
    timed = _HOUR.sub(r"\1:00", line)
    timed = _CLOCK.sub(lambda match: f"{match[1]}:{next((part for part in match.groups()[1:] if part), '00')}", timed)
    return re.sub(r"\s?まで", "", _SPAN.sub(r"\1-", timed))

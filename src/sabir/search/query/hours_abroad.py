"""Opening hours as sites write them in German, Spanish, French and Japanese, in schema.org's notation. Pure.

"Di–So 10–17 Uhr" is ``Tu-Su 10:00-17:00``. Two letters can be different days in two languages ("Di", "Do"): the lines
of an item are in the language in which all of their days are days. If that is said of several, nothing is known.
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
def in_codes(lines: tuple[str, ...], language: str = "", *, are_names: bool = False) -> tuple[str, ...]:
    """The lines of an item with English day codes and clock times. ``language`` is that of the item, if it is known.

    A line is unchanged if its days are English, or if it has no days. Empty if it is not known which days one of them
    states; a line without a time is left out instead, unless all are names of days."""
    words = {line: _words(line) for line in lines}
    is_known = language in ("", "en") or language in _DAYS
    abroad = [line for line in words if is_known and _is_abroad(words[line])]
    unread = [line for line in words if line not in abroad and _is_unread(words[line], is_known, are_names)]
    if any(are_names or any(map(str.isdigit, line)) for line in unread):
        return ()
    changed = dict.fromkeys(unread, "") | _changed(abroad, words, language)
    return tuple(changed.get(line, line) for line in lines) if changed.keys() >= {*abroad} else ()


def _changed(abroad: list[str], words: Mapping[str, list[str]], language: str) -> dict[str, str]:
    """The lines in other languages, all in one if there is one that has the days of all; without those that may be
    in several."""
    fitting = [item for item in _DAYS if all(_is_in(words[line], item) for line in abroad)]
    coded = [line for line in words if words[line] and _is_english(words[line])]
    best = [item for item in fitting if all(_is_in(words[line], item) for line in coded)] or fitting
    if language in fitting:
        best = [language]
    if not best:
        return {key: value for line in abroad for key, value in _changed([line], {line: words[line]}, language).items()}
    readings = [{line: _clocks(_WORD.sub(partial(_code, item), _apart(line))) for line in abroad} for item in best]
    return readings[0] if all(reading == readings[0] for reading in readings) else {}


def _apart(line: str) -> str:
    return _UNSPACED.sub(r"\1 ", line)


def _words(line: str) -> list[str]:
    """The words of a line that may be days; none of a long one."""
    found = [word.casefold() for word in _WORD.findall(_apart(line))] if len(line) <= _LONGEST else []
    return [word for word in found if word not in _TO and word not in _BESIDE]


def _is_english(words: list[str]) -> bool:
    return all(map(_ENGLISH.fullmatch, words))


def _is_in(words: list[str], language: str) -> bool:
    return all(any(_days(word, language)) for word in words)


def _is_abroad(words: list[str]) -> bool:
    return not _is_english(words) and any(_is_in(words, language) for language in _DAYS)


def _is_unread(words: list[str], is_known: bool, are_names: bool) -> bool:
    """Whether a line has days that are not known: words of an unknown language, or days beside other words."""
    others = [word for word in words if not _ENGLISH.fullmatch(word)]
    if are_names and not is_known:
        return any(word not in _NO_DAYS for word in others)
    if len(others) == len(words) and not is_known:
        return bool(words)
    is_month = is_known and len(others) < len(words)
    return any(any(_days(word, language)) for word in others for language in _DAYS if not (is_month and word == "mar"))


_NO_DAYS: Final = frozenset({"publicholidays"})


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

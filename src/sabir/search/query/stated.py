"""What a sentence of a site says, in the words that the rules for sentences read. Pure.

"Interdit aux moins de 8 ans." says "forbidden … under 8 years". Only words for whether something is so, times and
numbers are replaced (``glossaries/says.txt``); what the sentence is about stays as written.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Final

from sabir.search.items.item import ByItem, Item

from .dates import WEEKDAYS
from .glossary import detected_language
from .languages import written_in
from .translated import LANGUAGES
from .words import fold, fold_length_kept

_READ: Final = 400  # characters of an item by which its language is known
# "12h00", "8 h 30", "9.30 Uhr", "10時30分" are clock times.
_CLOCK: Final = re.compile(
    r"(?<![\d.,])(?P<hour>[01]?\d|2[0-4])(?:\s?h\s?(?P<french>[0-5]\d)?(?![\w/])|[.:](?P<german>[0-5]\d)\s?uhr\b|\s?uhr\b"
    r"|時(?:(?P<minute>[0-5]?\d)分|(?P<half>半))?(?!間))",
    re.IGNORECASE,
)
_SPANISH_YES: Final = re.compile(r"\bsí\b", re.IGNORECASE)  # without its accent, it is "if"
_BETWEEN: Final[Mapping[str, re.Pattern[str]]] = {
    "de": re.compile(r"(?<=\w)\s+bis\s+(?=[\d\w])"),
    "es": re.compile(r"(?<=\w)\s+(?:a|al)\s+(?:las?\s+)?(?=[\d\w])"),
    "fr": re.compile(r"(?<=\w)\s+(?:à|a|au)\s+(?=[\d\w])"),
    "ja": re.compile(r"(?:から|[~〜～])(?=[\d\w])"),
}
_DAY_OR_TIME: Final = re.compile(
    r"(?:monday|tuesday|wednesday|thursday|friday|saturday|sunday|january|february|march|april|may|june|july|august"
    r"|september|october|november|december|\d|noon|midnight)\Z",
)


def in_english(text: str, language: str) -> str:
    """A sentence with its words for whether, when and how much in English; unchanged, if it is in English."""
    if language not in LANGUAGES or language == "en":
        return text
    timed = _CLOCK.sub(_clock, _SPANISH_YES.sub("yes", text) if language == "es" else text)
    terms, pattern = _terms(language)
    plain = fold_length_kept(timed.replace("’", "'"))
    pieces: list[str] = []
    at = 0
    for match in pattern.finditer(plain):
        pieces += [timed[at : match.start()], f" {terms[match.group()]} " if language == "ja" else terms[match.group()]]
        at = match.end()
    pieces.append(timed[at:])
    return _joined("".join(pieces), language)


def _joined(text: str, language: str) -> str:
    """The same with "to" between two days or two times: "monday au friday"."""
    pattern = _BETWEEN[language]

    def to(match: re.Match[str]) -> str:
        is_from = _DAY_OR_TIME.search(text[: match.start()].rstrip().casefold()[-12:])
        return " to " if is_from else match.group()

    return pattern.sub(to, text)


def _clock(match: re.Match[str]) -> str:
    minutes = match["french"] or match["german"] or match["minute"] or ("30" if match["half"] else "00")
    return f"{match['hour']}:{minutes:0>2}"


@cache
def _terms(language: str) -> tuple[Mapping[str, str], re.Pattern[str]]:
    """The folded terms of a language, to English; and their pattern, longer terms first."""
    text = (files(__package__) / "glossaries" / "says.txt").read_text(encoding="utf-8")
    place = LANGUAGES.index(language)
    found: dict[str, str] = {}
    for line in text.splitlines():
        columns = [column.strip() for column in line.split("|")]
        if len(columns) == len(LANGUAGES) and not line.startswith("#"):
            terms = (fold(term.strip()) for term in columns[place].split(","))
            found |= {term: columns[0] for term in terms if term and term not in found}
    phrases = "|".join(re.escape(term) for term in sorted(found, key=len, reverse=True))
    return found, re.compile(phrases if language == "ja" else rf"(?<!\w)(?:{phrases})(?!\w)")


_DAYS_SAID: Final = 60  # characters of a value that may be days


def weekdays_only(value: str) -> tuple[str, ...]:
    """The days of a value that has nothing else: "mercredi", "lunes y jueves", "Mondays"; in English."""
    if len(value) > _DAYS_SAID:
        return ()
    words = _WORD.findall(fold(value))
    days = [_weekdays().get(word, "") for word in words if word not in _AND]
    return tuple(dict.fromkeys(days)) if days and all(days) else ()


_WORD: Final = re.compile(r"[^\W\d_]+")
_AND: Final = frozenset({"and", "und", "y", "et", "on", "el", "le", "los", "les", "am"})


@cache
def _weekdays() -> Mapping[str, str]:
    """The names of the weekdays in all languages, folded, to English."""
    found = {form: day for day in WEEKDAYS for form in (day, f"{day}s")}
    for language in LANGUAGES[1:]:
        found |= {term: english for term, english in _terms(language)[0].items() if english in WEEKDAYS}
    return found


def _language(item: Item) -> str:
    named = [language for language in written_in(item) if language in LANGUAGES]
    if len(named) == 1:
        return named[0]
    return detected_language.__wrapped__(f"{item.name} {item.description} {item.text}"[:_READ])  # it is kept by item


item_language: Final = ByItem(_language, 1_024)

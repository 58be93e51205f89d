"""Languages: which ones a caller reads (``Accept-Language``), and the language of an item. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sabir.search.items.item import JSON, Item

from .words import fold

# Items name their language by its tag, as they should, or by its name.
_NAMES: Final = {
    "english": "en", "german": "de", "deutsch": "de", "french": "fr", "francais": "fr", "spanish": "es",
    "espanol": "es", "italian": "it", "italiano": "it", "portuguese": "pt", "portugues": "pt", "dutch": "nl",
    "nederlands": "nl", "polish": "pl", "polski": "pl", "turkish": "tr", "turkce": "tr", "russian": "ru",
    "ukrainian": "uk", "arabic": "ar", "hebrew": "he", "hindi": "hi", "chinese": "zh", "japanese": "ja",
    "korean": "ko", "swedish": "sv", "svenska": "sv", "danish": "da", "dansk": "da", "norwegian": "no",
    "norsk": "no", "finnish": "fi", "suomi": "fi", "czech": "cs", "greek": "el", "hungarian": "hu",
    "romanian": "ro", "vietnamese": "vi", "thai": "th", "indonesian": "id",
}  # fmt: skip
_MAX_HEADER: Final = 1_000  # characters of a header that are read


def accepted(header: str) -> dict[str, float]:
    """The weight of each language, from 0 to 1, by the header of RFC 9110: ``de-CH, en;q=0.5``.

    A region counts for its whole language: a reader of Swiss German reads German. Malformed entries are skipped.
    """
    wanted: dict[str, float] = {}
    for item in header[:_MAX_HEADER].split(","):
        tag, _, parameter = item.partition(";")
        name, _, value = parameter.strip().partition("=")
        try:
            quality = float(value) if name.strip().lower() == "q" else 1.0
        except ValueError:
            continue
        language = _language(tag)
        if language and 0.0 <= quality <= 1.0:
            wanted[language] = max(quality, wanted.get(language, 0.0))
    return wanted


def written_in(item: Item) -> frozenset[str]:
    """The languages that an item states; none if it does not."""
    return frozenset(language for name in _named(item.fields.get("inLanguage")) if (language := _language(name)))


def welcome(item: Item, wanted: Mapping[str, float]) -> float:
    """The weight of the item's language for a caller with these preferences; 1 if the item states none."""
    languages = written_in(item) if wanted else ()
    if not languages:
        return 1.0
    return max(wanted.get(language, wanted.get("*", 0.0)) for language in languages)


def _language(tag: str) -> str:
    name = fold(tag.strip()).replace("_", "-")
    return _NAMES.get(name, name.partition("-")[0])


def _named(value: JSON) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, list):
        return [name for item in value for name in _named(item)]
    if isinstance(value, dict):
        return next((found for key in ("alternateName", "identifier", "name") if (found := _named(value.get(key)))), [])
    return []

"""Stems of words in languages other than English, for items and questions.

The index stems everything as English. For text in another language the stems of that language are added, both to an
item's index entry and to the query, so that "Kartoffel" finds "Kartoffeln".
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from sabir.errors import MissingExtra
from sabir.search.items.item import Item
from sabir.search.query.glossary import language_of
from sabir.search.query.languages import written_in

try:
    import tantivy
except ImportError as missing:
    raise MissingExtra("the search index", "search") from missing

# The languages with their own stemmer, by tag, and the name of the stemmer and its stop words.
STEMMERS: Final = {
    "de": "german", "es": "spanish", "fr": "french", "it": "italian", "pt": "portuguese", "nl": "dutch",
    "sv": "swedish", "da": "danish", "no": "norwegian", "fi": "finnish",
}  # fmt: skip

READ: Final = ("de", "es", "fr")  # the languages in which questions are understood


def language_of_item(item: Item) -> str:
    """The language of an item: as stated, or as its words show."""
    stated = [entry for entry in sorted(written_in(item)) if entry in STEMMERS]
    return stated[0] if stated else language_of(f"{item.name} {item.description}"[:1_000])


def stems(text: str, language: str) -> list[str]:
    """The stems of a text's words, without stop words; none for a language that the index already stems."""
    if language not in STEMMERS:
        return []
    return list(dict.fromkeys(_analyzer(language).analyze(text)))


@cache
def _analyzer(language: str) -> Any:
    name = STEMMERS[language]
    return (
        tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.simple())
        .filter(tantivy.Filter.remove_long(60))
        .filter(tantivy.Filter.lowercase())
        .filter(tantivy.Filter.stopword(name))
        .filter(tantivy.Filter.stemmer(name))
        .filter(tantivy.Filter.ascii_fold())
        .build()
    )

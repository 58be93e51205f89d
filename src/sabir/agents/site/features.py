"""The features of an item that a question names: "Wheelchair accessible" for "restaurants with wheelchair access"."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from sabir.search import Item, OfType
from sabir.search.items.item import JSON
from sabir.search.items.schema_org import is_absent
from sabir.search.items.types import bare
from sabir.search.query.conditions import Not
from sabir.search.query.field_names import is_kin
from sabir.search.query.structured import Parsed
from sabir.search.query.words import STOPWORDS, content_words, spaced, tokens

_FIELDS: Final = ("amenityFeature", "additionalProperty", "suitableForDiet", "servesCuisine", "specialty", "knowsAbout")
_SCHEMA: Final = ("http://schema.org/", "https://schema.org/")
_WORDS: Final = 4  # words of a feature; a longer value is a sentence
_SHOWN: Final = 3
_PLAIN: Final = STOPWORDS | {"option", "available", "offered", "welcome", "diet"}


def named_features(item: Item, parsed: Parsed) -> str:
    """The features all of whose words a question has; empty if it names none."""
    rows = list(zip(parsed.conditions, parsed.said, strict=False))
    kinds = {word for condition, said in rows if isinstance(condition, OfType) for word in tokens(said)}
    asked = " ".join((parsed.text, *(said for condition, said in rows if not isinstance(condition, OfType | Not))))
    words = [word for word in content_words(asked) if word not in kinds]
    found = dict.fromkeys(label for label in _labels(item) if _is_named(label, words))
    return ", ".join(list(found)[:_SHOWN])


def _labels(item: Item) -> Iterator[str]:
    for field in _FIELDS:
        value = item.fields.get(field)
        for row in value if isinstance(value, list) else [value]:
            yield from _label(row)


def _label(row: JSON) -> Iterator[str]:
    if isinstance(row, str):
        yield spaced(bare(row)).lower() if row.startswith(_SCHEMA) else row
    elif isinstance(row, dict) and isinstance(row.get("name"), str) and not is_absent(row):
        yield row["name"]


def _is_named(label: str, words: Sequence[str]) -> bool:
    own = [word for word in tokens(label) if word not in _PLAIN]
    return 0 < len(own) <= _WORDS and all(any(is_kin(word, other) for other in words) for word in own)

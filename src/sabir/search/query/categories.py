"""Words of a question that are values of a field here: "desserts", "Mexican", "light roast", "part-time". Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final

import msgspec

from sabir.search.engine.base import Fields
from sabir.search.items.attributes import KIND
from sabir.search.items.types import TYPE_WORDS, ancestors

from .conditions import AnyOf, Condition, Is
from .glossary import glossary, same_words
from .vocabulary import ALIKE, DIETS
from .words import STOPWORDS, singular, tokens

_CATEGORIES: Final = ("recipecategory", "category", "genre")
# Function words of other languages, which no site calls a thing.
LINKING_WORDS: Final = frozenset(
    word for language in ("de", "es", "fr") for word in glossary(language).words if len(word) <= 4
)
_CUISINES: Final = ("recipecuisine", "servescuisine")
# Tag fields: a word that is a tag only filters if the best matches have the tag, too.
_TRAITS: Final = (
    "name", *_CATEGORIES, *_CUISINES, "keywords", "educationallevel", "employmenttype", "coursemode", "amenityfeature",
    "material", "brand", "audience", "bookformat", "joblocationtype",
    "artform", "artmaterial", "artmedium", "creator", "author",
)  # fmt: skip
# Fields with a few distinctive values: a word that is one of them always means it.
_LEVELS: Final = ("educationallevel", "employmenttype", "coursemode", "bookformat", "joblocationtype")
# Levels that names say as well: "Spanish for Beginners" may state A1.
_IN_NAMES: Final = frozenset({"beginner", "improver", "intermediate", "advanced"})
_MAKERS: Final = (
    "brand", "manufacturer", "author", "creator", "publisher", "instructor", "performer", "organizer", "director",
)  # fmt: skip
_BY: Final = re.compile(
    r"\b(?:from|by|with)\s+(?P<name>(?:[A-Z][\w'’-]*|&)(?:\s+(?:[A-Z][\w'’-]*|&)){0,4})"
    r"|\b(?:by|from)\s+(?P<low>[\w'’&-]+(?:\s+[\w'’&-]+)?)\W*$"
)
# Words that many things are tagged with and that narrow nothing: "places that serve Mexican food".
_SAY_NOTHING: Final = frozenset(
    {"food", "thing", "place", "item", "product", "meal", "option", "serve", "sell", "offer"}
)
MAX_WORDS: Final = 6  # of a question; a longer one is prose, and its words only rank
_LONGEST: Final = 3  # words of a value


class CategoryCandidate(msgspec.Struct, frozen=True):
    """Words that may be a value, and the conditions to try. ``sure``: they filter wherever something meets them; others
    only if the best matches meet them, too, and at least ``least`` do. ``is_head``: they name the wanted thing, and
    words before them an ingredient ("pumpkin soup"). ``is_foreign``: other languages have words for it, which this site
    may use instead: it is sure if no item has the word itself.
    """

    words: str
    conditions: tuple[Condition, ...]
    sure: bool = False
    least: int = 1
    is_head: bool = False
    is_foreign: bool = False
    names: tuple[str, ...] = ()  # what is called so and does not meet it is meant, too: then it filters nothing


def candidates(text: str, said: Sequence[str], known: Fields) -> list[CategoryCandidate]:
    """The words that may be such values; longer ones first, and of single ones the last, which names the wanted thing.

    ``said`` are words that other rules have already read.
    """
    spoken = tokens(text)
    plain = " ".join(spoken)
    diets = (words for diet, words in _DIETS if diet in plain)
    read = {word for words in (*map(tokens, said), *diets) for word in words}
    words = [word for word in spoken if word not in STOPWORDS and word not in read and word not in LINKING_WORDS]
    if not words or len(words) > MAX_WORDS or re.search(r"\bor\b", text):
        return []
    found = []
    for match in _BY.finditer(text):
        name = match["name"] or match["low"]
        found.append(
            CategoryCandidate(name, _of((*stating(known), *_MAKERS), (name,), known), sure=match["name"] is not None)
        )
    found += _phrases(text, read, known)
    # The wanted thing comes last; "for children" in "something blue for children" does not name it.
    parts = [re.sub(r"\bfor\b.*", "", part) for part in re.split(r"[.,;!?]", text)]
    heads = {clause[-1] for part in parts if (clause := [w for w in tokens(part) if w in words])}
    wanted = [word for word in tokens(re.sub(r"\bfor\b.*", "", text)) if word in words]
    for word in reversed(words):
        if _is_type(word, known) or len(word) < 2 or word in _SAY_NOTHING:
            continue
        fields = (_CATEGORIES, _CUISINES) if word in heads else (_CUISINES,)
        values = _values(word)
        narrow = tuple(item for names in fields for item in _of(names, values, known))
        found.append(CategoryCandidate(word, narrow, sure=True, is_head=word in heads))
        if word in heads:
            found.append(CategoryCandidate(word, _of((KIND,), values, known), sure=True))
        levels = ("name", *_LEVELS) if not _IN_NAMES.isdisjoint(values) else _LEVELS
        found.append(CategoryCandidate(word, _of(levels, values, known), sure=True))
        tagged = _of(_TRAITS, (*values, *ALIKE.get(word, ())), known)
        is_foreign = word in heads and len(values) > 1
        sure = words == [word] or wanted == [word] or word in TYPE_WORDS
        if sure:  # nothing else says what is wanted: "automatic cars"
            stated = _of(stating(known), values, known)
            found.append(CategoryCandidate(word, stated, sure=True, names=values if spoken == [word] else ()))
        found.append(CategoryCandidate(word, tagged, sure=sure, least=1 if is_foreign else 2, is_foreign=is_foreign))
        if not sure:  # "blue hatchbacks", if the best match is one
            found.append(CategoryCandidate(word, _of(stating(known), values, known), least=2))
    return [candidate for candidate in found if candidate.conditions]


_DIETS: Final = tuple((" ".join(words), words) for words in map(tokens, DIETS))


@lru_cache(maxsize=256)
def stating(known: Fields) -> tuple[str, ...]:
    """The fields of a site that no rule knows by name, and whose values may be asked for by their words."""
    listed = {*_TRAITS, *_MAKERS, *_UNASKED}
    return tuple(sorted(field for field in known.words if field not in listed))[:_MAX_FIELDS]


_MAX_FIELDS: Final = 100
# Fields with readers of their own, and those whose words say nothing about what a thing is like.
_UNASKED: Final = frozenset(
    """name alternatename telephone email isbn sku gtin mpn identifier openon openat openinghours pricecurrency
    availability eventstatus eventattendancemode acceptsreservations inlanguage recipeingredient ingredients supply
    suitablefordiet streetaddress addresslocality addressregion addresscountry postalcode address location dayofweek
    opens closes offers aggregaterating pricerange itemcondition unittext unitcode currency color size
    availablelanguage knowsabout productid url title provider seller hiringorganization ispartof availableatorfrom
    locationcreated joblocation containedinplace contentlocation areaserved spatialcoverage homelocation
    foundinglocation servicearea itinerary countryoforigin hasmenuitem hasmenusection""".split()  # noqa: SIM905
)


def _phrases(text: str, read: set[str], known: Fields) -> Iterator[CategoryCandidate]:
    """Adjacent words that are one value: "main course", "part-time"."""
    words = tokens(text)
    for length in range(_LONGEST, 1, -1):
        for at in range(len(words) - length + 1):
            phrase = words[at : at + length]
            if read.isdisjoint(phrase) and not STOPWORDS.intersection((phrase[0], phrase[-1])):
                value = " ".join(phrase)
                yield CategoryCandidate(value, _of(_CATEGORIES, (value,), known), sure=at + length == len(words))
                yield CategoryCandidate(value, _of(_TRAITS, (value,), known), sure=True)


def _is_type(word: str, known: Fields) -> bool:
    """Whether a word names a type that exists here; otherwise it may still be a tag: "concerts"."""
    kind = TYPE_WORDS.get(word)
    return kind is not None and any(kind in ancestors(there) for there in known.types)


def _values(word: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(singular(item) for item in (word, *same_words().get(word, ()))))


def _of(fields: Sequence[str], values: tuple[str, ...], known: Fields) -> tuple[Condition, ...]:
    there = tuple(Is(field, values) for field in fields if field in known.words)
    return (AnyOf(there),) if there and there[-1].field != "name" else ()

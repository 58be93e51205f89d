"""Conditions: what a query requires of an item, as frozen values, with their meaning.

``holds`` is the definition; engines translate conditions into their own query language, and the contract suite compares
them. A condition on something that an item does not state is false: an item without a price is not "under $20".
"""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache
from typing import TypeAlias

import msgspec

from sabir.search.items.attributes import Attributes, recalled
from sabir.search.items.item import Item
from sabir.search.items.types import lineage

from . import places
from .words import squeezed, tokens


class _Base(msgspec.Struct, frozen=True, tag_field="kind"):
    pass


class OfType(_Base, frozen=True, tag="type"):
    """The item has one of these schema.org types, or a subtype."""

    types: tuple[str, ...]


class OnSite(_Base, frozen=True, tag="site"):
    """The item belongs to one of these sites, by exact name."""

    sites: tuple[str, ...]


class Is(_Base, frozen=True, tag="is"):
    """A field's value is one of these, as a whole or by all of its words; case, accents and plurals are ignored."""

    field: str
    values: tuple[str, ...]


class Range(_Base, frozen=True, tag="range"):
    """A number of the field is between the bounds. ``currencies`` restrict a price to those, or to none stated."""

    field: str
    low: float | None = None
    high: float | None = None
    with_low: bool = True
    with_high: bool = True
    currencies: tuple[str, ...] = ()


class During(_Base, frozen=True, tag="during"):
    """The field's date overlaps the span from ``start`` up to ``end`` (seconds since 1970; None is open)."""

    field: str
    start: float | None = None
    end: float | None = None


class Near(_Base, frozen=True, tag="near"):
    """Within this many kilometres of a point; an item without coordinates matches by the place's name."""

    lat: float
    lon: float
    km: float
    name: str = ""


class In(_Base, frozen=True, tag="in"):
    """In a place of this name: a locality, region, country, postal code or venue."""

    name: str


class Has(_Base, frozen=True, tag="has"):
    """The item contains one of these words or pairs of words."""

    words: tuple[str, ...]


class Not(_Base, frozen=True, tag="not"):
    """The condition does not hold."""

    condition: Condition


class AnyOf(_Base, frozen=True, tag="any"):
    """At least one of them is true."""

    conditions: tuple[Condition, ...]


Condition: TypeAlias = OfType | OnSite | Is | Range | During | Near | In | Has | Not | AnyOf


def holds(condition: Condition, of: Attributes) -> bool:
    """Whether the condition is true of an item's attributes."""
    match condition:
        case OfType(types):
            return not of.types.isdisjoint(types)
        case OnSite(sites):
            return of.site in sites
        case Is(field, values):
            keys = of.words.get(field.lower(), frozenset())
            return any(keys.issuperset(alternative) for value in values for alternative in keys_of(value))
        case Range(field):
            numbers = (number for name in number_fields(condition) for number in of.numbers.get(name, ()))
            return any(_within(number, condition) for number in numbers)
        case During(field, start, end):
            when = of.dates.get(field.lower())
            return when is not None and (end is None or when.start < end) and (
                start is None or when.end > start or when.start >= start
            )  # fmt: skip
        case Near(lat, lon, km, name):
            if of.point is None:
                return bool(name) and holds(In(name), of)
            return places.kilometres((lat, lon), of.point) <= km
        case In(name):
            return not of.places.isdisjoint(place_keys(name))
        case Has(words):
            return not of.has.isdisjoint(map(gram, words))
        case Not(inner):
            return not holds(inner, of)
        case AnyOf(inner):
            return any(holds(item, of) for item in inner)


def meets(item: Item, conditions: Collection[Condition]) -> bool:
    """Whether all conditions are true of an item; its attributes are only read for those that need them."""
    left = [condition for condition in conditions if not isinstance(condition, OfType | OnSite)]
    if not all(_meets_plainly(item, condition) for condition in conditions if isinstance(condition, OfType | OnSite)):
        return False
    return not left or all(holds(condition, recalled(item)) for condition in left)


def _meets_plainly(item: Item, condition: OfType | OnSite) -> bool:
    if isinstance(condition, OnSite):
        return item.site in condition.sites
    return not lineage(item.types).isdisjoint(condition.types)


@lru_cache(maxsize=4_096)
def keys_of(value: str) -> tuple[tuple[str, ...], ...]:
    """The sets of keys of which one must be in ``Attributes.words`` for ``Is`` to be true."""
    whole, parts = squeezed(value), tuple(tokens(value))
    if not whole:
        return ()
    return ((whole,),) if parts in ((), (whole,)) else ((whole,), parts)


def number_fields(condition: Range) -> tuple[str, ...]:
    """The names under which a range looks."""
    field = condition.field.lower()
    if not condition.currencies:
        return (field,)
    return (*(f"{field}:{currency.lower()}" for currency in condition.currencies), f"{field}:?")


@lru_cache(maxsize=1_024)
def place_keys(name: str) -> tuple[str, ...]:
    """The possible names of a place; "Boise, Idaho" is found by its first part."""
    return tuple(dict.fromkeys((*places.names(name), *places.names(name.split(",")[0]))))


@lru_cache(maxsize=4_096)
def gram(words: str) -> str:
    """The key of a word or pair of words in ``Attributes.has``."""
    return " ".join(tokens(words)[-2:])


def _within(number: float, bounds: Range) -> bool:
    if bounds.low is not None and (number < bounds.low or (number == bounds.low and not bounds.with_low)):
        return False
    return not (bounds.high is not None and (number > bounds.high or (number == bounds.high and not bounds.with_high)))

"""The prices of the things that an item offers, each by its own name: tickets, the dishes of a menu, variants. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from datetime import datetime
from typing import Final

from sabir.search.items.item import JSON, Item
from sabir.search.items.schema_org import strings
from sabir.search.query.words import spaced, tokens

from .facts import money

_GENERAL: Final = frozenset(
    {"ticket", "admission", "price", "offer", "standard", "entry", "entrance", "general", "fee", "regular", "early"}
)
_DEEP: Final = 6  # levels of a menu


def named_offer(item: Item, said: str) -> tuple[str, float, str] | None:
    """The one offer that some words name best, its price, and the price for people; None if that is not one."""
    words = set(tokens(re.sub(r"\b(\d+)s\b", r"\1", said)))
    rows = [
        (name, price, currency, len(words.intersection(telling))) for name, telling, price, currency in priced(item)
    ]
    best = max((fit for *_, fit in rows), default=0)
    fitting = {(name, price, currency) for name, price, currency, fit in rows if fit == best}
    if not best or len(fitting) != 1:
        return None
    name, price, currency = fitting.pop()
    return name, price, money(price, currency) if price else "free"


def offer_named_in(item: Item, words: Collection[str]) -> tuple[str, float, str] | None:
    """The one offer of an item whose name some words have in full, in at least two words; a further word must be in
    the item's own name."""
    said = set(words)
    rows = [(name, set(telling) - _PER, price, currency) for name, telling, price, currency in priced(item)]
    fitting = [row for row in rows if len(row[1]) > 1 and row[1] <= said]
    if len(fitting) != 1:
        return None
    name, _, price, currency = fitting[0]
    if not said & set(tokens(item.name)):
        return None
    return name, price, money(price, currency) if price else "free"


_PER: Final = frozenset(
    {"per", "a", "each", "hour", "day", "week", "month", "year", "person", "for", "the", "and", "or"}
)


def priced(item: Item) -> Iterator[tuple[str, list[str], float, str]]:
    """The name of each offer and each part with a price, the words that tell it, and the price."""
    offers = item.fields.get("offers")
    if isinstance(offers, list):
        for row in offers:
            if isinstance(row, dict) and (name := str(row.get("name") or "")) and (cost := _cost(row)):
                yield name, _telling(name), *cost
    for key, value in item.fields.items():
        if key != "offers":
            yield from _parts(value, _DEEP)


def _parts(value: JSON, deep: int) -> Iterator[tuple[str, list[str], float, str]]:
    if isinstance(value, list):
        for row in value:
            yield from _parts(row, deep)
    elif isinstance(value, dict) and deep:
        offer = value.get("offers")
        offer = offer[0] if isinstance(offer, list) and len(offer) == 1 else offer
        if isinstance(value.get("name"), str) and isinstance(offer, dict) and (cost := _cost(offer)):
            diets = " ".join(spaced(diet.rsplit("/", 1)[-1]) for diet in strings(value.get("suitableForDiet")))
            yield str(value["name"]), _telling(f"{value['name']} {value.get('description') or ''} {diets}"), *cost
        elif isinstance(value.get("name"), str) and (cost := _cost(value)):  # one of several that are made
            yield str(value["name"]), _telling(str(value["name"])), *cost
        for key, inner in value.items():
            if key != "offers":
                yield from _parts(inner, deep - 1)


def offered_on(item: Item, field: str) -> str:
    """The day that the only offer of an item states in a field, for people: from when it can be had."""
    offers = item.fields.get("offers")
    row = offers[0] if isinstance(offers, list) and len(offers) == 1 else offers
    day = row.get(field) if isinstance(row, dict) else None
    if not isinstance(day, str) or not _DAY.match(day):
        return ""
    when = datetime.fromisoformat(day[:10])
    return f"{when.day} {when:%B %Y}"


_DAY: Final = re.compile(r"(?:19|20)\d\d-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])")


def _cost(row: dict[str, JSON]) -> tuple[float, str] | None:
    price = row.get("price")
    if isinstance(price, str) and re.fullmatch(r"\d+(?:\.\d+)?", price):
        price = float(price)
    return (float(price), str(row.get("priceCurrency") or "?")) if isinstance(price, int | float) else None


def _telling(name: str) -> list[str]:
    return [word for word in tokens(name) if word not in _GENERAL]


def is_sold_out(item: Item, said: str) -> str:
    """The variant that some words name in full, if none of those is to be had: "the jacket in navy, size L"; else
    empty."""
    offers = item.fields.get("offers")
    rows = [row for row in offers if isinstance(row, dict)] if isinstance(offers, list) else []
    words = set(tokens(said))
    named = [(words & set(tokens(str(row.get("name") or ""))), row) for row in rows]
    longest = max((len(shared) for shared, _ in named), default=0)
    best = [row for shared, row in named if longest and len(shared) == longest]
    stated = [str(row.get("availability") or "InStock") for row in best]
    is_all = len(best) == len(rows) or any(
        one.endswith(("InStock", "LimitedAvailability", "PreOrder")) for one in stated
    )
    return "" if is_all or not best else str(best[0].get("name"))

"""Products in Google's merchant format: RSS or Atom with ``g:`` elements, or a table, to schema.org. Pure.

https://support.google.com/merchants/answer/7052112
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, time
from typing import Final, TypeAlias

from sabir.search.items.item import JSON
from sabir.search.items.schema_org import plain

from .anchors import anchored

_First: TypeAlias = Callable[[str], str]

NAMESPACE: Final = "http://base.google.com/ns/1.0"
_PRICE: Final = re.compile(r"([A-Z]{3})? ?([\d.,]+) ?([A-Z]{3})?")
_DATE: Final = re.compile(r"\d{4}-?\d{2}-?\d{2}")
_STOCK: Final = {"in stock": "InStock", "out of stock": "OutOfStock", "preorder": "PreOrder", "backorder": "BackOrder"}
_CONDITION: Final = {"new": "NewCondition", "used": "UsedCondition", "refurbished": "RefurbishedCondition"}
# Their attributes, to schema.org properties; the others have their own rules below.
_PLAIN: Final = {"brand": "brand", "gtin": "gtin", "mpn": "mpn", "color": "color", "size": "size", "pattern": "pattern",
                 "material": "material", "product weight": "weight", "product type": "category",
                 "product highlight": "positiveNotes", "item group id": "inProductGroupWithID"}  # fmt: skip
_REQUIRED: Final = frozenset({"id", "title", "link", "price"})
_TELLING: Final = frozenset({"image link", "availability", "google product category", "gtin", "condition"})


def attribute(name: str) -> str:
    """The normalized name of an attribute: ``image_link``, ``g:image_link`` and ``Image link`` are the same."""
    return name.casefold().removeprefix("g:").replace("_", " ").strip()


def is_merchant_table(header: Iterable[str]) -> bool:
    """Whether these are the columns of such a feed."""
    columns = {attribute(column) for column in header}
    return columns >= _REQUIRED and bool(columns & _TELLING)


def product(values: Mapping[str, list[str]], url: str, now: datetime | None = None) -> dict[str, JSON]:
    """One product; ``values`` are its attributes by name, ``url`` is the address of the feed."""

    def first(name: str) -> str:
        return next((value.strip() for value in values.get(name, ()) if value.strip()), "")

    node: dict[str, JSON] = {
        "@type": "Product",
        "@id": first("link") or first("id"),
        "url": first("link") or anchored(first("id"), url),
        "sku": first("id"),
        "name": plain(first("title")),
        "description": plain(first("description")),
        "image": first("image link"),
        "offers": _offer(first, now or datetime.now(UTC)),
    }
    for name, known in _PLAIN.items():
        found = [value.strip() for value in values.get(name, ()) if value.strip()]
        node[known] = found[0] if len(found) == 1 else found
    node["category"] = node["category"] or first("google product category")
    node["audience"] = " ".join(word for word in (first("gender"), first("age group")) if word)
    return {name: value for name, value in node.items() if value}


def _offer(first: _First, now: datetime) -> JSON:
    reduced = first("sale price") if _is_on_sale(first("sale price effective date"), now) else ""
    price = _price(reduced) or _price(first("price"))
    if not price:
        return None
    stock = _STOCK.get(attribute(first("availability")))
    condition = _CONDITION.get(first("condition").casefold())
    return {
        "@type": "Offer",
        **price,
        **({"availability": f"https://schema.org/{stock}"} if stock else {}),
        **({"itemCondition": f"https://schema.org/{condition}"} if condition else {}),
    }


def _is_on_sale(period: str, now: datetime) -> bool:
    """Whether the reduced price is the one of now: ``2027-02-01T13:00-0800/2027-02-15T15:30-0800``."""
    try:
        start, end = (moment.strip() for moment in period.split("/"))
        first, last = datetime.fromisoformat(start), datetime.fromisoformat(end)
    except ValueError:
        return True  # no period
    if _DATE.fullmatch(end):  # until the end of that day
        last = datetime.combine(last, time.max)
    in_utc = (moment if moment.tzinfo else moment.replace(tzinfo=UTC) for moment in (first, last))
    return next(in_utc) <= now <= next(in_utc)


def _price(text: str) -> dict[str, JSON]:
    """``15.00 USD``, or as people also write it, ``USD 15,00``."""
    found = _PRICE.fullmatch(" ".join(text.split()))
    if not found:
        return {"price": text} if text else {}
    currency = found[1] or found[3]
    return {"price": found[2], **({"priceCurrency": currency} if currency else {})}

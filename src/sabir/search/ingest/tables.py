"""CSV with a mapping, JSON and JSON lines to items. Pure."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from ..item import JSON, Item, Problem
from ..schema_org import items

# Column names as people call them, to schema.org properties.
_COLUMNS: Final[Mapping[str, str]] = {
    "title": "name", "product": "name", "product name": "name", "headline": "name", "link": "url", "page": "url",
    "summary": "description", "body": "text", "content": "text", "price": "offers.price", "cost": "offers.price",
    "currency": "offers.priceCurrency", "type": "@type", "id": "@id", "category": "category", "tags": "keywords",
    "image url": "image", "photo": "image", "rating": "aggregateRating.ratingValue",
    "stars": "aggregateRating.ratingValue",
    "reviews": "aggregateRating.reviewCount", "lat": "geo.latitude", "latitude": "geo.latitude", "lon": "geo.longitude",
    "lng": "geo.longitude", "longitude": "geo.longitude", "city": "address.addressLocality",
    "town": "address.addressLocality",
    "state": "address.addressRegion", "region": "address.addressRegion", "country": "address.addressCountry",
    "street": "address.streetAddress", "zip": "address.postalCode", "date": "datePublished", "start": "startDate",
    "end": "endDate", "stock": "offers.availability", "availability": "offers.availability", "colour": "color",
    "pricecurrency": "offers.priceCurrency", "price currency": "offers.priceCurrency", "start date": "startDate",
    "end date": "endDate", "published": "datePublished",
    **{name.casefold(): name for name in (
        "name", "description", "url", "image", "text", "sku", "gtin", "brand", "color", "material", "size", "weight",
        "keywords", "startDate", "endDate", "datePublished", "dateModified", "location", "author", "genre", "isbn",
        "inLanguage", "telephone", "email", "openingHours", "priceRange", "recipeCuisine", "recipeCategory",
        "recipeIngredient", "recipeYield", "totalTime", "prepTime", "cookTime", "numberOfPages", "duration")},
}  # fmt: skip


def json_items(text: str, *, site: str, url: str, source: str, place: str) -> Iterator[Item | Problem]:
    """One JSON document."""
    try:
        data = msgspec.json.decode(text)
    except msgspec.DecodeError as wrong:
        yield Problem(place, f"not JSON: {wrong}")
        return
    yield from items(data, site=site, base=url, source=source, place=place)


def line_items(text: str, *, site: str, url: str, source: str, place: str) -> Iterator[Item | Problem]:
    """One JSON document a line, or an address, a tab and a JSON document."""
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        base = url
        address = re.match(r"(https?://\S+)\t(?=[\[{])", line)
        if address:
            base, line = address[1], line[address.end() :]
        yield from json_items(line, site=site, url=base, source=source, place=f"{place}:{number}")


def csv_items(
    text: str, *, site: str, url: str, source: str, place: str, mapping: Mapping[str, str] | None = None
) -> Iterator[Item | Problem]:
    """A row an item. ``mapping`` is from properties (dotted for nested ones) to columns, or ``=`` and a constant.

    Without a mapping, columns are taken by their names.
    """
    sample = text[:4096]
    delimiter = max(",;\t|", key=sample.split("\n", 1)[0].count)
    rows = csv.reader(io.StringIO(text.removeprefix("\ufeff"), newline=""), delimiter=delimiter)
    try:
        header = [column.strip() for column in next(rows)]
    except StopIteration:
        return
    places, problem = _places(header, mapping)
    if problem:
        yield Problem(place, problem)
        return
    for row in rows:
        at = f"{place}:{rows.line_num}"
        if not any(cell.strip() for cell in row):
            continue
        if len(row) > len(header):
            yield Problem(at, f"{len(row)} cells in a table of {len(header)} columns")
            continue
        yield from items(_node(row, places), site=site, base=url, source=source, place=at)


def _places(header: list[str], mapping: Mapping[str, str] | None) -> tuple[dict[str, int | str], str]:
    if mapping is None:
        return {_COLUMNS.get(column.casefold(), column): at for at, column in enumerate(header) if column}, ""
    places: dict[str, int | str] = {}
    for name, column in mapping.items():
        if column.startswith("="):
            places[name] = column[1:]
        elif column in header:
            places[name] = header.index(column)
        else:
            return {}, f"the mapping names column {column!r}, and the table has {', '.join(header)}"
    return places, ""


def _node(row: list[str], places: Mapping[str, int | str]) -> dict[str, JSON]:
    node: dict[str, JSON] = {}
    for name, at in places.items():
        value = at if isinstance(at, str) else row[at].strip() if at < len(row) else ""
        if not value:
            continue
        holder = node
        *path, last = name.split(".")
        for step in path:
            holder = holder.setdefault(step, {})
        holder[last] = value
    node.setdefault("@type", "Product" if "offers" in node else "Thing")
    return node

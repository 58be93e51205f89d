"""What the columns of a table mean, by their names. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import msgspec

# Common column names, to schema.org properties.
_KNOWN: Final[Mapping[str, str]] = {
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


# The same in German, Spanish and French, as shops and offices there write them.
_ABROAD: Final[Mapping[str, str]] = {
    "titel": "name", "bezeichnung": "name", "artikel": "name", "produkt": "name", "nombre": "name", "título": "name",
    "producto": "name", "nom": "name", "titre": "name", "produit": "name", "beschreibung": "description",
    "descripción": "description", "preis": "offers.price", "precio": "offers.price", "prix": "offers.price",
    "währung": "offers.priceCurrency", "moneda": "offers.priceCurrency", "devise": "offers.priceCurrency",
    "kategorie": "category", "categoría": "category", "catégorie": "category", "marke": "brand", "marca": "brand",
    "marque": "brand", "farbe": "color", "couleur": "color", "größe": "size", "taille": "size", "bild": "image",
    "imagen": "image", "ort": "address.addressLocality", "stadt": "address.addressLocality", "ciudad":
    "address.addressLocality", "ville": "address.addressLocality", "straße": "address.streetAddress", "calle":
    "address.streetAddress", "rue": "address.streetAddress", "plz": "address.postalCode", "land":
    "address.addressCountry", "país": "address.addressCountry", "pays": "address.addressCountry", "datum":
    "datePublished", "fecha": "datePublished", "beginn": "startDate", "inicio": "startDate", "début": "startDate",
    "ende": "endDate", "fin": "endDate", "telefon": "telephone", "teléfono": "telephone", "téléphone": "telephone",
    "öffnungszeiten": "openingHours", "horario": "openingHours", "horaires": "openingHours", "autor": "author",
    "auteur": "author", "artikelnummer": "sku", "gewicht": "weight", "peso": "weight", "poids": "weight",
}  # fmt: skip
_SQUEEZED: Final = {name.replace(" ", ""): known for name, known in {**_ABROAD, **_KNOWN}.items()}


class TableColumns(msgspec.Struct, frozen=True):
    """Where each property of a row comes from: a column's number, or a constant. ``unknown`` columns are kept under
    their own names; ``problem`` says why the table cannot be read, or is empty."""

    places: dict[str, int | str] = {}
    unknown: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    problem: str = ""


def column_places(header: list[str], mapping: Mapping[str, str] | None, sample: list[str]) -> TableColumns:
    """What the columns mean: by the mapping; the others by their names. ``sample`` is a row of the table."""
    given, problem = _given(header, mapping or {})
    if problem:
        return TableColumns(problem=problem)
    places: dict[str, int | str] = dict(given)
    unknown: list[str] = []
    used = set(given.values())
    for at, column in enumerate(header):
        if not column or at in used:
            continue
        known = _SQUEEZED.get(_squeezed(column))
        if known is None or known in places:
            places.setdefault(column, at)
            if known is None and "." not in column and not column.startswith("@"):
                unknown.append(column)
        else:
            places[known] = at
    notes: list[str] = []
    if "name" not in places and (named := _naming(header, unknown, sample)):
        places["name"] = places.pop(named)
        unknown.remove(named)
        notes.append(f"no column says what things are called: {named!r} is taken for the name")
    return TableColumns(places, tuple(unknown), tuple(notes))


def _given(header: list[str], mapping: Mapping[str, str]) -> tuple[dict[str, int | str], str]:
    folded = [column.casefold() for column in header]
    places: dict[str, int | str] = {}
    for name, column in mapping.items():
        if column.startswith("="):
            places[name] = column[1:]
        elif column in header:
            places[name] = header.index(column)
        elif column.casefold() in folded:
            places[name] = folded.index(column.casefold())
        else:
            return {}, f"the mapping names column {column!r}, and the table has {', '.join(header)}"
    return places, ""


def _naming(header: list[str], unknown: list[str], sample: list[str]) -> str:
    """The first unknown column that contains text."""
    for column, cell in zip(header, sample, strict=False):
        if column in unknown and re.search(r"[^\W\d_]{2}", cell) and not re.match(r"\w+:", cell):
            return column
    return ""


def _squeezed(column: str) -> str:
    return re.sub(r"[\s_*:-]+", "", column).casefold()

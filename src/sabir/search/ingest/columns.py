"""What the columns of a table mean, by their names. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import msgspec

from sabir.search.query.units import CURRENCIES, UNITS

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
    "end date": "endDate", "published": "datePublished", "item": "name", "item name": "name", "product title": "name",
    "event": "name", "event name": "name", "course": "name", "course name": "name", "full name": "name",
    "web address": "url", "website": "url", "web page": "url", "web site": "url", "product url": "url",
    "product link": "url", "permalink": "url", "details": "description", "short description": "description",
    "long description": "text", "full description": "text", "unit price": "offers.price", "fee": "offers.price",
    "admission": "offers.price", "admission fee": "offers.price", "entry fee": "offers.price", "ticket price":
    "offers.price", "in stock": "offers.availability", "available": "offers.availability", "places available":
    "offers.availability", "spaces available": "offers.availability", "picture": "image", "phone":
    "telephone", "phone number": "telephone", "telephone number": "telephone", "tel": "telephone", "email address":
    "email", "venue": "location", "place": "location", "event date": "startDate", "starts": "startDate", "starts at":
    "startDate", "begins": "startDate", "ends": "endDate", "ends at": "endDate", "start time": "startTime", "time":
    "startTime", "manufacturer": "brand", "hours": "openingHours", "postcode": "address.postalCode",
    "teacher": "instructor", "instructor": "instructor", "tutor": "instructor",
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
    "artikelbezeichnung": "name", "produktname": "name", "artikelname": "name", "veranstaltung": "name", "kurs": "name",
    "kursname": "name", "evento": "name", "curso": "name", "événement": "name", "cours": "name", "webseite": "url",
    "internetadresse": "url", "enlace": "url", "página web": "url", "sitio web": "url", "lien": "url", "site web":
    "url",
    "gebühr": "offers.price", "eintritt": "offers.price", "kosten": "offers.price", "teilnahmegebühr": "offers.price",
    "entrada": "offers.price", "tarif": "offers.price", "verfügbar": "offers.availability",
    "freie plätze": "offers.availability", "plazas libres": "offers.availability", "plazas disponibles":
    "offers.availability", "places disponibles": "offers.availability", "places libres": "offers.availability",
    "lieferbar": "offers.availability", "verfügbarkeit": "offers.availability", "disponible": "offers.availability",
    "disponibilidad": "offers.availability", "disponibilité": "offers.availability", "en stock": "offers.availability",
    "veranstaltungsort": "location", "treffpunkt": "location", "lugar": "location", "lieu": "location", "uhrzeit":
    "startTime", "hora": "startTime", "heure": "startTime", "hersteller": "brand", "rufnummer": "telephone",
    "telefonnummer": "telephone", "e-mail-adresse": "email", "correo electrónico": "email", "courriel": "email",
    "foto": "image", "photo": "image", "art.-nr.": "sku", "talla": "size", "schlagwörter": "keywords", "fecha inicio":
    "startDate", "fecha de inicio": "startDate", "fecha fin": "endDate", "startdatum": "startDate", "enddatum":
    "endDate", "date de début": "startDate", "date de fin": "endDate", "código postal": "address.postalCode",
    "code postal": "address.postalCode",
    "kursleitung": "instructor", "kursleiter": "instructor", "kursleiterin": "instructor", "dozent": "instructor",
    "dozentin": "instructor", "lehrkraft": "instructor", "profesor": "instructor", "profesora": "instructor",
    "professeur": "instructor", "encadrant": "instructor", "encadrante": "instructor", "intervenant": "instructor",
    "intervenante": "instructor", "animateur": "instructor", "animatrice": "instructor",
}  # fmt: skip
_DATES: Final = ("date", "datum", "fecha")  # of an event, if the table is about events
# Headings for the names of events.
_EVENTS: Final = ("event", "eventname", "veranstaltung", "evento", "événement", "course", "kurs", "curso", "cours")
_MEASURED: Final = ("offers.price", "weight", "size", "duration", "totalTime", "prepTime", "cookTime")
_GIVEN_NAMES: Final = ("firstname", "givenname", "forename", "vorname", "prénom")
_FAMILY_NAMES: Final = ("lastname", "surname", "familyname", "nachname", "apellido", "apellidos", "nomdefamille")


def _squeezed(column: str) -> str:
    return re.sub(r"[\s_*:.?-]+", "", column).casefold()


_SQUEEZED: Final = {_squeezed(name): known for name, known in {**_ABROAD, **_KNOWN}.items()}


# How tables say whether something is available.
_STOCK: Final[Mapping[str, tuple[str, ...]]] = {
    "InStock": (
        "in stock", "instock", "available", "yes", "y", "true", "open",
        "places available", "spaces available", "places left",
        "spaces left", "verfügbar", "frei", "freie plätze", "plätze frei", "lieferbar", "vorrätig", "auf lager", "ja",
        "disponible", "disponibles", "si", "plazas libres", "plazas disponibles", "hay plazas", "en stock", "sí",
        "places disponibles", "places libres", "ouvert", "oui",
    ),
    "LimitedAvailability": (
        "limited", "limited availability", "few left", "few places left", "wenige plätze", "noch wenige plätze",
        "fast ausgebucht", "pocas plazas", "últimas plazas", "dernières places", "peu de places", "presque complet",
    ),
    "SoldOut": (
        "sold out", "soldout", "full", "fully booked", "booked out", "ausgebucht", "ausverkauft", "voll",
        "belegt", "agotado", "agotada", "completo", "completa", "sin plazas", "complet", "complète", "épuisé",
        "épuisée",
    ),
    "OutOfStock": (
        "out of stock", "outofstock", "unavailable", "no", "n", "false", "nein", "non",
        "nicht verfügbar", "nicht lieferbar", "vergriffen",
        "no disponible", "sin existencias", "indisponible", "rupture de stock", "en rupture",
    ),
}  # fmt: skip
_STATE_OF: Final = {phrase: state for state, phrases in _STOCK.items() for phrase in phrases}


def stock_state(cell: str) -> str:
    """What a cell says about stock, as schema.org does: "complet" is sold out. A number is how many there are; other
    words are left as they are."""
    said = " ".join(cell.casefold().split())
    if said.isdecimal():
        state = "InStock" if any(map(int, said)) else "OutOfStock"
    else:
        state = _STATE_OF.get(said, "")
    return f"https://schema.org/{state}" if state else cell


class TableColumns(msgspec.Struct, frozen=True):
    """Where each property of a row comes from: a column's number, or a constant. ``family`` is the column of the family
    name, if the name column has only the given name; ``units`` are stated in the header. ``unknown`` columns are kept
    under their own names; ``problem`` says why the table cannot be read, or is empty."""

    places: dict[str, int | str] = {}
    family: int | None = None
    units: dict[str, str] = {}
    unknown: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    problem: str = ""


def column_places(header: list[str], mapping: Mapping[str, str] | None, sample: list[str]) -> TableColumns:
    """What the columns mean: by the mapping; the others by their names. ``sample`` is a row of the table."""
    given, problem = _given(header, mapping or {})
    if problem:
        return TableColumns(problem=problem)
    places: dict[str, int | str] = dict(given)
    free = [at for at, column in enumerate(header) if column and at not in given.values()]
    units: dict[str, str] = {}
    for read in (_own, _whole, _measure):  # "Name" comes before "Title", and "Price" before "Price (EUR)"
        for at in list(free):
            name, unit = read(header[at])
            known = _SQUEEZED.get(_squeezed(name))
            if known is None or known in places or (unit and known not in _MEASURED):
                continue
            places[known] = at
            free.remove(at)
            if unit:
                units[known] = unit
    family = _named_in_two(header, places, free)
    _date_of_event(header, places)
    if "startTime" in places and "startDate" not in places:
        free.append(_number(places.pop("startTime")))
    unknown, notes = _with_own_names(header, places, sorted(free), sample)
    ordered = dict(sorted(places.items(), key=lambda place: place[1] if isinstance(place[1], int) else -1))
    return TableColumns(ordered, family, units, unknown, notes)


def _with_own_names(
    header: list[str], places: dict[str, int | str], free: list[int], sample: list[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The columns that are left keep their own names; the first one with text is taken for the name, if none is."""
    unknown: list[str] = []
    for at in free:
        column = header[at]
        places.setdefault(column, at)
        if (
            _SQUEEZED.get(_squeezed(column)) in (None, "startTime")
            and "." not in column.strip(".")
            and not column.startswith("@")
        ):
            unknown.append(column)
    notes: list[str] = []
    if "name" not in places and (named := _naming(header, unknown, sample)):
        places["name"] = places.pop(named)
        unknown.remove(named)
        notes.append(f"no column says what things are called: {named!r} is taken for the name")
    return tuple(unknown), tuple(notes)


def is_known(column: str) -> bool:
    """Whether this is the name of a common column."""
    return _squeezed(_measure(column)[0]) in _SQUEEZED


def _number(place: int | str) -> int:
    return place if isinstance(place, int) else 0


def _own(column: str) -> tuple[str, str]:
    """A heading that is the name of a property itself."""
    return (column, "") if _squeezed(_SQUEEZED.get(_squeezed(column), "")) == _squeezed(column) else ("", "")


def _whole(column: str) -> tuple[str, str]:
    return column, ""


def _measure(column: str) -> tuple[str, str]:
    """The name in a heading, and its unit or currency: "Preis (EUR)", "Price in $", "Weight [kg]"."""
    words = column.strip()
    for opening, closing in ("()", "[]"):
        if words.endswith(closing) and opening in words:
            name, _, said = words[:-1].rpartition(opening)
            unit = said.strip().removeprefix("in ")
            return name.strip(), unit if _is_unit(unit) else ""
    name, _, last = words.rpartition(" ")
    if last.casefold() in CURRENCIES:
        return name.removesuffix(" in").removesuffix(" en").strip(), last
    return words, ""


def _is_unit(text: str) -> bool:
    return text.casefold() in CURRENCIES or text.casefold() in UNITS


def _named_in_two(header: list[str], places: dict[str, int | str], free: list[int]) -> int | None:
    """If the given name has a column of its own, use it as the name, and return the column of the family name."""
    squeezed = {_squeezed(header[at]): at for at in free}
    given = next((squeezed[name] for name in _GIVEN_NAMES if name in squeezed), None)
    if given is None:
        return None
    family = next((squeezed[name] for name in _FAMILY_NAMES if name in squeezed), None)
    if "name" in places:  # "Vorname" and "Name"
        family = _number(places["name"]) if family is None else family
    if family is None:
        return None
    places["name"] = given
    free[:] = [at for at in free if at not in (given, family)]
    return family


def _date_of_event(header: list[str], places: dict[str, int | str]) -> None:
    """In a table of events, "Date" is when they are."""
    at = places.get("datePublished")
    if "startDate" in places or not isinstance(at, int) or _squeezed(header[at]) not in _DATES:
        return
    stated = str(places.get("@type", "")).endswith("Event")
    name = places.get("name")
    named = isinstance(name, int) and _squeezed(header[name]) in _EVENTS
    if stated or named or not {"endDate", "startTime", "location"}.isdisjoint(places):
        places["startDate"] = places.pop("datePublished")


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

"""What an item can be filtered by: its types, words, numbers, dates, places, and ingredients. Pure.

Every leaf of an item's schema.org object counts under its own name and under the property that holds it: ``{"brand":
{"name": "Acme"}}`` is ``brand: acme``; ``{"offers": {"price": 5}}`` is ``price: 5``. Field names are lower case.
Numbers are in the unit of their dimension (minutes, grams, metres …, see ``units``); money is under ``price`` and, by
currency, under ``price:usd`` (``price:?`` if the item names none).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Final
from urllib.parse import urlsplit

import msgspec

from sabir.search.query import dates, places
from sabir.search.query.dates import Span
from sabir.search.query.hours import MAX_DAYS, on_days, open_days, open_slots, start_hours
from sabir.search.query.stated import weekdays_only
from sabir.search.query.units import UNIT_CODES, UNITS, number, quantity
from sabir.search.query.words import STOPWORDS, spaced, squeezed, tokens

from .item import JSON, ByItem, Item, make_room
from .schema_org import is_absent, strings
from .types import bare, lineage

MAX_HAS: Final = 1_500  # words of one item that count for "with" and "without"
PRICE_LEVEL: Final = "pricelevel"  # how many signs a price range has: "$$" is 2
_LEVELS: Final = "$$$$$"
START_HOUR: Final = "starthour"  # the local hour at which something starts
_CLOCK: Final = re.compile(r"\d{4}-\d{2}-\d{2}[T ](\d{2}):(\d{2})")
OPEN_ON: Final = "openon"  # the days on which a place is open
OPEN_AT: Final = "openat"  # the half hours of the week at which it is open
AGES: Final = "ages"  # the ages that something is for, as 7y
KIND: Final = "kind"  # what a site calls things of this kind: "cottage", if its address is /cottages/birch
ON_DAYS: Final = "ondays"  # the days of something that is repeated, as 20261224
_A_NIGHT: Final = 16 * 3600  # seconds
_SHORT: Final = 100  # a longer string is prose, not a value

# Prose, file addresses and quotes of others: not filterable.
_SKIPPED: Final = frozenset(
    {"@type", "@id", "@context", "image", "url", "sameAs", "logo", "thumbnailUrl", "contentUrl", "embedUrl", "photo",
     "potentialAction", "description", "abstract", "articleBody", "text", "recipeInstructions", "step", "review",
     "comment", "reviews", "isRelatedTo", "isSimilarTo", "mainEntityOfPage", "video", "headline", "transcript",
     "breadcrumb", "hasPart", "subEvent", "citation", "reviewBody", "geo", "latitude", "longitude", "telephone"}
)  # fmt: skip
_OF_PARENT: Final = frozenset({"name", "alternateName", "value", "@value", "title"})
_PRICES: Final = ("price", "lowPrice", "highPrice", "minPrice", "maxPrice", "value", "minValue", "maxValue")
_PLACED: Final = (
    "address", "location", "areaServed", "jobLocation", "containedInPlace", "contentLocation", "spatialCoverage",
    "availableAtOrFrom", "homeLocation", "foundingLocation", "locationCreated", "eligibleRegion", "offers", "seller",
    "itinerary", "countryOfOrigin", "serviceArea", "provider",
)  # fmt: skip
_ADDRESS: Final = ("addressLocality", "addressRegion", "addressCountry", "postalCode")
_INGREDIENTS: Final = ("recipeIngredient", "ingredients", "supply", "ingredient", "activeIngredient")
_LISTED: Final = frozenset({"keywords", "recipeCategory", "recipeCuisine", "genre", "category", "servesCuisine"})

# "dairy-free" is one word: it does not mean "dairy".
_FREE: Final = re.compile(r"\b(\w+)[- ]free\b", re.IGNORECASE)
_DENIED: Final = (
    r"no|not contain(?:ing)?|contains no|never|zero|instead of"
    r"|(?:do(?:es)?\s+not|do(?:es)?n['’]t|need\s+not)\s+(?:need|require|have|include|use)|ohne|keine?[nmrs]?|sin|sans)\s+"
    r"(?:(?:any|added|an?|eine?[nmr]?|un[ae]?)\s+)?(?:single\s+)?[\w]+(?:\s*,\s*\w+)*(?:,?\s+(?:or|nor|and|oder|und|o|ni|ou)\s+(?:no\s+)?\w+)?"
)
_NEGATED: Final = re.compile(rf"\b(?:[\w]+|tree nut)[- ]free\b|\b(?:without|free (?:of|from)|{_DENIED}", re.IGNORECASE)
_NEGATED_NOT_FREE: Final = re.compile(rf"\b(?:without|{_DENIED}", re.IGNORECASE)  # the same where nothing is "free"


# Coconut milk is not milk and rice flour has no gluten: only the pair counts, and the plant.
_PLANTS: Final = re.compile(
    r"\b(coconut|almond|oat|soy|rice|cashew|hemp|plant|vegan|peanut|nut|apple|cocoa|corn|chickpea|tapioca|buckwheat"
    r"|potato|sunflower|tahini|pumpkin)[\s-]+(milk|cream|butter|yogurt|cheese|flour|noodles?|tortillas?|pasta|starch)\b",
    re.IGNORECASE,
)


class Attributes:
    """The filterable attributes of an item. ``words`` has whole values squeezed and their single words.

    Each is computed when it is first asked for: most questions ask for one or two of many items.
    """

    def __init__(self, item: Item) -> None:
        self._item = item

    @property
    def site(self) -> str:
        return self._item.site

    @cached_property
    def types(self) -> frozenset[str]:
        return lineage(self._item.types)

    @property
    def words(self) -> dict[str, frozenset[str]]:
        return self._collected.words

    @property
    def labels(self) -> dict[str, tuple[str, ...]]:
        return self._collected.labels

    @property
    def numbers(self) -> dict[str, tuple[float, ...]]:
        return self._collected.numbers

    @property
    def dates(self) -> dict[str, Span]:
        return self._collected.dates

    @cached_property
    def places(self) -> frozenset[str]:
        return frozenset(_place_names(self._placed))

    @cached_property
    def point(self) -> tuple[float, float] | None:
        return _point(self._placed)

    @cached_property
    def has(self) -> frozenset[str]:
        return _has(self._item)

    @cached_property
    def _placed(self) -> list[Mapping[str, JSON] | str]:
        """The item itself, and what it names as its places."""
        return [self._item.fields, *_placed(self._item.fields)]

    @cached_property
    def _collected(self) -> _Collected:
        item, found = self._item, _Collector()
        for key, value in item.fields.items():
            found.walk(key, value, 0)
        found.word("name", item.name)
        for kind in item.types:
            found.labels.setdefault("@type", []).append(kind)
        _derive(item.fields, found)
        if kinds := set(_kinds(item)):
            found.words.setdefault(KIND, set()).update(kinds)
        return found.done()


def attributes(item: Item) -> Attributes:
    """Everything that conditions check."""
    return Attributes(item)


def _kinds(item: Item) -> Iterator[str]:
    """What things of this kind are called: by the sections of the item's address, and by the names of its types."""
    path = urlsplit(item.page).path if "/" in item.page else ""
    sections = [part for part in path.split("/") if part][:-1]
    for section in sections[-_SECTIONS:]:
        yield from _kinds_named(section)
    for kind in item.types:
        yield from _kinds_named(spaced(kind))


@lru_cache(maxsize=4_096)
def _kinds_named(name: str) -> tuple[str, ...]:
    """What a name of many things calls each of them; kept, because the items of a site share a few names."""
    words = [word for word in tokens(name.replace("_", " ")) if word.isalpha() and len(word) > 2]
    if not words:
        return ()
    kinds = [words[-1]] if len(words) <= _SECTION_WORDS and words[-1] not in _NO_KINDS else []
    if len(words) == 2 and words[-1] == "event":  # an ExhibitionEvent is an exhibition
        kinds.append(words[0])
    return tuple(kinds)


_SECTIONS: Final = 3
_SECTION_WORDS: Final = 3
_NO_KINDS: Final = frozenset({"thing", "page", "index", "item", "html", "work", "business", "organization", "location"})


def recalled(item: Item) -> Attributes:
    """Its attributes, cached for a while: the same items are found again, and one answer uses an item several times."""
    return _at_hand(item)


def _remembered(item: Item) -> Attributes:
    key = item.fingerprint  # expensive: it reads the whole item
    found = _recent.get(key)
    if found is None:
        make_room(_recent, _RECALLED)
        found = _recent[key] = attributes(item)
    return found


_RECALLED: Final = 4_096
_recent: dict[str, Attributes] = {}
_at_hand: Final = ByItem(_remembered, _RECALLED)


def grams(words: list[str]) -> Iterator[str]:
    """Single words and neighbouring pairs, the keys of ``Attributes.has``."""
    previous = ""
    for word in words:
        if word not in STOPWORDS:
            yield word
            if previous:
                yield f"{previous} {word}"
        previous = word if word not in STOPWORDS else ""


@lru_cache(maxsize=20_000)
def _keys(value: str) -> frozenset[str]:
    """A value as a whole and by its words, cached: values repeat."""
    return frozenset((squeezed(value), *tokens(_FREE.sub(r"\1free", spaced(value)))))


_measured: Final = lru_cache(maxsize=8_192)(quantity)  # the items of a site state the same short values again and again


class _Collected(msgspec.Struct, frozen=True, gc=False):
    """The leaves of an item by field. Without cycles, and of many items at a time."""

    words: dict[str, frozenset[str]]
    labels: dict[str, tuple[str, ...]]
    numbers: dict[str, tuple[float, ...]]
    dates: dict[str, Span]


class _Collector:
    def __init__(self) -> None:
        self.words: dict[str, set[str]] = {}
        self.labels: dict[str, list[str]] = {}
        self.numbers: dict[str, list[float]] = {}
        self.dates: dict[str, Span] = {}

    def done(self) -> _Collected:
        return _Collected(
            {field: frozenset(values) for field, values in self.words.items()},
            {field: tuple(dict.fromkeys(values)) for field, values in self.labels.items()},
            {field: tuple(dict.fromkeys(values)) for field, values in self.numbers.items()},
            self.dates,
        )

    def walk(self, field: str, value: JSON, depth: int) -> None:
        if field in _SKIPPED or depth > 5 or value is None:
            return
        if isinstance(value, list):
            for item in value[:200]:
                self.walk(field, item, depth + 1)
        elif isinstance(value, dict):
            self.object(field, value, depth)
        else:
            self.leaf(field, value)

    def object(self, field: str, node: Mapping[str, JSON], depth: int) -> None:
        if field in ("additionalProperty", "amenityFeature") and isinstance(node.get("name"), str):
            named = re.sub(r"\W+", "", node["name"].title())
            if not is_absent(node):
                self.word(field, node["name"])
            self.measured(named[:1].lower() + named[1:], node)
            return
        if "value" in node or "minValue" in node or "maxValue" in node:
            self.measured(field, node)
        for key, value in node.items():
            if key in _OF_PARENT:
                if key != "value":
                    self.walk(field, value, depth + 1)
            elif key not in ("minValue", "maxValue", "unitCode", "unitText", "currency"):
                self.walk(key, value, depth + 1)

    def measured(self, field: str, node: Mapping[str, JSON]) -> None:
        unit = str(node.get("unitText") or UNIT_CODES.get(str(node.get("unitCode")), ""))
        for key in ("value", "minValue", "maxValue"):
            value = node.get(key)
            is_pay = field.endswith("Salary")  # its unit is the time that is paid
            if is_pay and isinstance(value, int | float) and not isinstance(value, bool):
                self.number(field, value)
            elif isinstance(value, int | float) and not isinstance(value, bool) and unit.casefold() in UNITS:
                if abs(value) < _LARGEST:
                    self.number(field, value * UNITS[unit.casefold()][1])
            elif value is not None:
                self.walk(field, value, 4)

    def leaf(self, field: str, value: JSON) -> None:
        if isinstance(value, bool):
            self.word(field, "true" if value else "false")
        elif isinstance(value, int | float):
            self.number(field, value)
        elif isinstance(value, str) and value.strip():
            self.string(field, value.strip())

    def string(self, field: str, value: str) -> None:
        when = dates.instant(value) if len(value) >= 4 and value[:4].isdigit() else None
        if when and (
            "-" in value or field.lower().startswith("date") or field.lower().endswith(("date", "year", "time"))
        ):
            self.dates.setdefault(field.lower(), when)
            return
        measured = _measured(value) if len(value) < 40 else None
        if measured and field not in _INGREDIENTS and (value[0].isdigit() or measured.unit in ("min", "money")):
            self.number(field, measured.value)
        if field in _LISTED and "," in value:
            for item in value.split(","):
                self.word(field, item)
        elif len(value) <= _SHORT:
            self.word(field, value)

    def number(self, field: str, value: float) -> None:
        if abs(value) < _LARGEST:
            self.numbers.setdefault(field.lower(), []).append(float(value))

    def word(self, field: str, value: str) -> None:
        value = value.strip()
        if value.startswith(("http://schema.org/", "https://schema.org/", "schema:")):
            value = spaced(bare(value))
        if not value or value.startswith(("http://", "https://")):
            return
        if field.lower() == "suitablefordiet":
            value = re.sub(r"(?<!\s)\s*Diet$", "", spaced(value), flags=re.IGNORECASE)
        self.labels.setdefault(field, []).append(value)
        self.words.setdefault(field.lower(), set()).update(_keys(value))


def _derive(fields: Mapping[str, JSON], found: _Collector) -> None:
    """Combine fields with several names under one."""
    for value, currency in _money(fields):
        found.numbers.setdefault("price", []).append(value)
        found.numbers.setdefault(f"price:{currency.lower() or '?'}", []).append(value)
    _price_range(fields.get("priceRange"), found)
    if fields.get("isAccessibleForFree") in (True, "true", "True") and "price" not in found.numbers:
        found.numbers["price"] = found.numbers["price:?"] = [0.0]
    if "totaltime" not in found.numbers:
        parts = [found.numbers[key][0] for key in ("preptime", "cooktime", "performtime") if key in found.numbers]
        if parts or "duration" in found.numbers or "timerequired" in found.numbers:
            other = found.numbers.get("duration") or found.numbers.get("timerequired") or [0.0]
            found.numbers["totaltime"] = [sum(parts) or other[0]]
    _rating(fields, found)
    if days := open_days(fields):
        found.words[OPEN_ON] = set(days)
    if slots := open_slots(fields):
        found.words[OPEN_AT] = set(slots)
    if ages := _ages(fields):
        found.words[AGES] = {f"{age}y" for age in ages}
    _times(fields, found)


def _times(fields: Mapping[str, JSON], found: _Collector) -> None:
    """When something is: on which days, from which hour, and from which date to which."""
    if repeated := on_days(fields):
        found.words[ON_DAYS] = set(repeated)
    elif not found.dates and (days := _weekly(found)):  # every Monday, without an end
        found.words.setdefault("byday", set()).update(days)
        found.words[ON_DAYS] = days
    if isinstance(given := fields.get("startDate"), str) and (clock := _CLOCK.match(given)):
        found.numbers[START_HOUR] = [int(clock[1]) + int(clock[2]) / 60]
    elif hours := start_hours(fields):
        found.numbers[START_HOUR] = hours
    start = found.dates.get("startdate") or found.dates.get("dateposted") or found.dates.get("datepublished")
    start = start or found.dates.get("datecreated") or _any_date(found.dates)
    if start:
        end = found.dates.get("enddate") if "startdate" in found.dates else None
        # A party until 1 a.m. is on the day on which it starts.
        over = end is not None and (end.start - start.start >= _A_NIGHT or start.end > start.start)
        found.dates["date"] = Span(start.start, max(start.end, end.end if end and over else start.end))
    if 0 < len(repeated) < MAX_DAYS and "startdate" in found.dates:
        found.dates["date"] = found.dates["startdate"]  # on the days between, it is on only where it says so


def _weekly(found: _Collector) -> set[str]:
    """The weekdays of something without a date: from its schedule, or from a value that is only a weekday, such as
    "mercredi" in a column."""
    days = found.words.get("byday", set()) & _WEEKDAYS
    for field, values in found.labels.items():
        if field not in _OF_HOURS:
            days = days.union(*(weekdays_only(value) for value in values))
    return days


_LARGEST: Final = 1e15  # what is as large is no number to compare; an int can be too large for a float
_OF_HOURS: Final = frozenset({"dayOfWeek", "openingHours", "name", "keywords"})


def _ages(fields: Mapping[str, JSON]) -> range:
    """The ages that something says it is for: "5-10", "16+", or a suggested minimum and maximum."""
    audience = fields.get("audience")
    said = audience if isinstance(audience, dict) else {}
    given = fields.get("typicalAgeRange")
    match = _AGE_RANGE.match(given) if isinstance(given, str) else None
    first = _float(match[1]) if match else _float(said.get("suggestedMinAge"))
    last = _float(match[2] or (None if match[3] else match[1])) if match else _float(said.get("suggestedMaxAge"))
    if first is None and last is None:
        return range(0)
    return range(int(min(first or 0, _OLDEST)), int(min(_OLDEST if last is None else last, _OLDEST)) + 1)


_OLDEST: Final = 120
_WEEKDAYS: Final = frozenset(dates.WEEKDAYS)
_AGE_RANGE: Final = re.compile(r"\s*(\d{1,3})\s*(?:[-–]\s*(\d{1,3}))?\s*([-–+])?")


def _any_date(dated: Mapping[str, Span]) -> Span | None:
    """The date of a thing from any field that is not about its page, such as the model date of a car."""
    return next((when for field, when in dated.items() if not _ABOUT_PAGE.search(field)), None)


_ABOUT_PAGE: Final = re.compile(
    r"modified|updated|valid|expires|until|end|availab|upload|deadline|birth|death|founding"
)


def _price_range(given: JSON, found: _Collector) -> None:
    """``$$`` as a level, ``$10-25`` as prices."""
    text = given.strip() if isinstance(given, str) else ""
    if text and not text.strip("$€£¥₹") and len(text) <= len(_LEVELS):
        found.numbers[PRICE_LEVEL] = [float(len(text))]
        return
    pieces = re.split(r"-|–|\bto\b|\bbis\b", text[:_SHORT])[:2]
    amounts = [said for piece in pieces if (said := quantity(piece.strip()))]
    currency = next((item.currencies[0].lower() for item in amounts if len(item.currencies) == 1), "?")
    for amount in amounts:
        if amount.unit in ("", "money"):
            found.numbers.setdefault("price", []).append(amount.value)
            found.numbers.setdefault(f"price:{currency}", []).append(amount.value)


def _rating(fields: Mapping[str, JSON], found: _Collector) -> None:
    rating = fields.get("aggregateRating") or fields.get("starRating") or fields.get("reviewRating")
    if isinstance(rating, list):
        rating = rating[0] if rating else None
    if not isinstance(rating, dict):
        return
    value, best = _float(rating.get("ratingValue")), _float(rating.get("bestRating")) or 5.0
    if value is not None and best > 0:
        found.numbers["ratingvalue"] = [value]
        found.numbers["stars"] = [value * 5 / best]


def _float(value: JSON) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    return number(value.strip(" $€£")) if isinstance(value, str) else float(value)


def _money(fields: Mapping[str, JSON]) -> Iterator[tuple[float, str]]:
    for key in ("offers", "priceSpecification", "estimatedCost", "price"):
        for value in _each(fields.get(key)):
            currency = str(fields.get("priceCurrency") or "")
            if isinstance(value, dict):
                yield from _offer(value, currency, 0)
            elif isinstance(value, str):
                given = quantity(value)
                if given:
                    yield given.value, currency or (given.currencies or ("",))[0]
            elif isinstance(value, int | float) and not isinstance(value, bool):
                yield float(value), currency


_BARE: Final = re.compile(r"[\d.,]+")


def _offer(node: Mapping[str, JSON], currency: str, depth: int) -> Iterator[tuple[float, str]]:
    currency = str(node.get("priceCurrency") or node.get("currency") or currency)
    for key in _PRICES:
        given = node.get(key)
        said = quantity(given) if isinstance(given, str) and not _BARE.fullmatch(given) else None
        value = said.value if said and said.unit == "money" else _float(given)  # "CHF 12.50", "1.250 €"
        if value is None and said and not said.unit:
            value = said.value  # "12 a head"
        if value is not None:
            yield value, currency or (said.currencies[0] if said and len(said.currencies) == 1 else "")
    if depth < 3:
        for key in ("offers", "priceSpecification", "price"):
            for inner in _each(node.get(key)):
                if isinstance(inner, dict):
                    yield from _offer(inner, currency, depth + 1)


def _each(value: JSON) -> list[JSON]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _placed(fields: Mapping[str, JSON], depth: int = 0) -> Iterator[Mapping[str, JSON] | str]:
    if depth > 3:
        return
    for key in _PLACED:
        given = fields.get(key)
        if given is None:
            continue  # most items have one of these fields, or two
        for value in _each(given):
            if isinstance(value, str) and key not in ("seller", "provider", "offers"):
                yield value
            elif isinstance(value, dict):
                yield value
                yield from _placed(value, depth + 1)


def _place_names(placed: Sequence[Mapping[str, JSON] | str]) -> Iterator[str]:
    for value in placed:
        if isinstance(value, str):
            for piece in (value, *value.split(",")):
                yield from places.names(piece)
            continue
        for key in _ADDRESS:
            for words in strings(value.get(key)):
                yield from places.names(words, kind=key)
        if value is not placed[0] and not value.get("price"):
            for words in strings(value.get("name")):
                yield from places.names(words, kind="name")


def _point(placed: Sequence[Mapping[str, JSON] | str]) -> tuple[float, float] | None:
    for value in placed:
        if not isinstance(value, dict):
            continue
        for geo in (*_each(value.get("geo")), value):
            if isinstance(geo, dict):
                lat, lon = _float(geo.get("latitude")), _float(geo.get("longitude"))
                if lat is not None and lon is not None and abs(lat) <= 90 and abs(lon) <= 180:
                    return lat, lon
    return None


def denials(text: str) -> list[str]:
    """What a text says that something is without, each with the word that denies it: "no interval"."""
    return _negated(text).findall(text)


def _negated(text: str) -> re.Pattern[str]:
    """The pattern of denials for this text. The pattern for "nut-free" begins with any word, which is slow, so it is
    used only if needed."""
    return _NEGATED if "free" in text.casefold() else _NEGATED_NOT_FREE


def _has(item: Item) -> frozenset[str]:
    """What the item contains: its ingredients if listed, otherwise all its words; without denials."""
    parts = [line for key in _INGREDIENTS for line in strings(item.fields.get(key))]
    if parts:
        parts = [item.name, *parts, *strings(item.fields.get("keywords"))]
    else:
        parts = [item.name, item.description, item.text]
    found: set[str] = set()
    for part in parts:
        part = _negated(part).sub(" . ", part)
        if plants := _PLANTS.findall(part):
            found.update(" ".join(tokens(" ".join(pair))) for pair in plants)
            part = _PLANTS.sub(r"\1 \1\2", part)
        found.update(grams(tokens(part)[:MAX_HAS]))
        if len(found) > 2 * MAX_HAS:
            break
    return frozenset(found)

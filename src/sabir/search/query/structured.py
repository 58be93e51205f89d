"""Structured filters: the attributes of a query (W-5) to conditions. Pure except for ``resolved``, which looks up
places.

Nothing is rejected and nothing is dropped silently: what cannot be applied is in ``ignored``, with the reason.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Final

import msgspec

from sabir.search.engine.base import Engine, Fields
from sabir.search.items.item import JSON
from sabir.search.items.types import PARENTS, named

from . import dates, places
from .comparisons import Bounds, bounds
from .conditions import AnyOf, Condition, During, Has, In, Is, Near, Not, OfType, OnSite, Range
from .glossary import same_words
from .vocabulary import ALIASES, ALIKE, DIETS, KINDS, MEASURES
from .words import tokens

NEARBY: Final = 50.0  # what "near" means for a city

MAX_VALUE: Final = 200  # characters
# Where items state suitable diets.
DIET_FIELDS: Final = ("suitablefordiet", "keywords", "servescuisine", "category", "amenityfeature")
# Where items state ingredients and accessories.
PART_FIELDS: Final = ("recipeingredient", "ingredients", "supply", "material", "amenityfeature", "hasmenuitem")
# Attributes of a query that tune it and filter nothing.
TUNING: Final = frozenset(
    {"text", "num_results", "max_results", "min_score", "decontextualized_query", "start_num", "limit", "query_id"}
)
_TYPE_KEYS: Final = frozenset({"itemtype", "item_type", "type", "@type", "types"})
_PLACE_KEYS: Final = frozenset(
    {"location", "place", "city", "near", "address", "where", "region", "state", "country", "addresslocality",
     "addressregion", "addresscountry", "locality", "area"}
)  # fmt: skip
_NEGATION: Final = re.compile(
    r"(?:not|no|without|except(?:\s+for)?|excluding|anything\s+but|other\s+than|non)[\s-]+(?:any\s+|in\s+)?", re.I
)
_NEAR: Final = re.compile(
    r"(?:(?:within|less\s+than|under|up\s+to)\s+(?P<number>[\d.,]+)\s*(?P<unit>km|kilomet(?:er|re)s?|mi|miles?|m|met(?:er|re)s?)"
    r"\s+(?:of|from|around)|near(?:by)?|close\s+to|around|next\s+to|not\s+far\s+from)\s+(?P<name>.+)",
    re.IGNORECASE,
)
DATE_OPERATORS: Final = {
    "before": "before", "until": "until", "till": "until", "by": "until", "earlier than": "before", "<": "before",
    "<=": "until", "after": "after", "later than": "after", ">": "after", "since": "since", "from": "since",
    ">=": "since", "starting": "since", "on": "in", "in": "in", "during": "in", "at": "in", "=": "in", "": "in",
    "over": "over", "around": "around", "about": "around", "towards": "towards", "throughout": "in",
}  # fmt: skip
_KILOMETRES: Final = {"k": 1.0, "m": 0.001, "mi": 1.609344}


class Ignored(msgspec.Struct, frozen=True):
    """A filter that was not applied, and why."""

    name: str
    value: JSON
    reason: str


class Around(msgspec.Struct, frozen=True):
    """Near a place known by name; ``resolved`` looks it up."""

    name: str
    km: float = NEARBY


class Constraint(msgspec.Struct, frozen=True):
    """Something that the wanted thing should come with ("with tomatoes"), if the index has it as a part of things."""

    said: str
    things: tuple[str, ...]  # any of them


class Parsed(msgspec.Struct, frozen=True):
    """Parsed filters. ``text`` is what remains to search for; ``order`` is a field and whether it ascends.

    ``said`` has, for each condition in the same order, the words it was read from, and ``ordered`` those of the order.
    """

    text: str = ""
    conditions: tuple[Condition, ...] = ()
    said: tuple[str, ...] = ()
    around: tuple[Around, ...] = ()
    order: tuple[str, bool] | None = None
    ignored: tuple[Ignored, ...] = ()
    wanted: tuple[Constraint, ...] = ()
    ordered: str = ""
    about: tuple[str, ...] = ()  # fields that the question asks for: "how much does it cost?"

    def __or__(self, other: Parsed) -> Parsed:
        """Both combined; text and order of the other take precedence."""
        return Parsed(
            other.text or self.text,
            self.conditions + other.conditions,
            self.said + other.said,
            self.around + other.around,
            other.order or self.order,
            self.ignored + other.ignored,
            self.wanted + other.wanted,
            other.ordered if other.order else self.ordered,
            self.about + other.about,
        )

    def narrowed(self, condition: Condition, words: str) -> Parsed:
        """The same with one more condition, and the words it was read from."""
        return msgspec.structs.replace(self, conditions=(*self.conditions, condition), said=(*self.said, words))

    def without(self, words: str, reason: str) -> Parsed:
        """The same, with words of the text reported as not applied."""
        return msgspec.structs.replace(self, ignored=(*self.ignored, Ignored("text", words, reason)))


async def resolved(parsed: Parsed, engine: Engine) -> Parsed:
    """The same with every ``Around`` as a condition: by distance if the place can be found, otherwise by name; and with
    every ``Constraint`` that something here states."""
    conditions, said = list(parsed.conditions), list(parsed.said)
    for item in parsed.wanted:
        stated = AnyOf(tuple(Is(field, item.things) for field in PART_FIELDS))
        if await engine.count((stated,)):
            conditions.append(Has(tuple(dict.fromkeys(word for thing in item.things for word in kinds(thing)))))
            said.append(item.said)
    for around in parsed.around:
        point = await engine.locate(around.name) or places.point(around.name)
        conditions.append(Near(*point, around.km, around.name) if point else In(around.name))
        said.append(f"near {around.name}")
    return msgspec.structs.replace(parsed, conditions=tuple(conditions), said=tuple(said), around=(), wanted=())


def structured(filters: Mapping[str, JSON], known: Fields, now: datetime) -> Parsed:
    """Conditions for the attributes of a query, all of which must be true."""
    conditions: list[Condition] = []
    said: list[str] = []
    around: list[Around] = []
    ignored: list[Ignored] = []
    for name, value in filters.items():
        if name.casefold() in TUNING or value in (None, "", [], {}):
            continue
        read = _filter(name, value, known, now) if _short(value) else f"longer than {MAX_VALUE} characters"
        if isinstance(read, str):
            ignored.append(Ignored(name, value, read))
        elif isinstance(read, Around):
            around.append(read)
        elif read is not None:
            conditions.append(read)
            said.append(f"{name}: {value}")
    return Parsed("", tuple(conditions), tuple(said), tuple(around), None, tuple(ignored))


def _short(value: JSON) -> bool:
    """Whether a value is small enough to be a filter; patterns are slow on long texts."""
    if isinstance(value, str):
        return len(value) <= MAX_VALUE
    if isinstance(value, list | dict):
        return len(msgspec.json.encode(value)) <= 10 * MAX_VALUE and all(
            _short(item) for item in (value.values() if isinstance(value, dict) else value)
        )
    return True


def kinds(words: str) -> tuple[str, ...]:
    """A thing and its kinds: nuts include almonds."""
    key = " ".join(tokens(words))
    named = (key, *(other for other in same_words().get(key, ()) if other not in KINDS))
    english = next((other for other in same_words().get(key, ()) if other in KINDS), key)
    below = KINDS.get(english, ())
    abroad = (word for kind in below for word in same_words().get(kind, ()))  # "ohne Fleisch" also excludes boeuf
    found = (*named, english, *below, *abroad, *same_words().get(english, ()), *ALIKE.get(key, ()))
    return tuple(dict.fromkeys(found))


def diet(name: str) -> Condition | None:
    """The condition of a diet's name, or None."""
    key = re.sub(r"[\s_-]+", "-", name.strip().casefold()).removesuffix("-diet")
    if key not in DIETS:
        return None
    values, absent = DIETS[key]
    stated: list[Condition] = [Is(field, values) for field in DIET_FIELDS]
    if absent:
        stated.append(Not(Has(tuple(word for thing in absent for word in kinds(thing)))))
    return AnyOf(tuple(stated))


def field_names(name: str, known: Fields) -> tuple[str, ...]:
    """The fields of the index that a filter's name means; none if no item has it."""
    key = name.casefold().replace(" ", "").replace("-", "")
    key = key if key in ALIASES else key.rsplit(".", 1)[-1]
    candidates = (*ALIASES.get(key, ()), *ALIASES.get(name.casefold(), ()), key, key.replace("_", ""))
    return tuple(dict.fromkeys(candidate for candidate in candidates if candidate in known))


def numeric(field: str, given: Bounds) -> Range:
    """A range of a field; a price is restricted to its currency."""
    currencies = given.currencies if field == "price" else ()
    return Range(field, given.low, given.high, given.with_low, given.with_high, currencies)


def dated(field: str, operator: str, when: dates.Span, until: dates.Span | None = None) -> During:
    """A date comparison: before, until, after, since, or in a span."""
    if until is not None:
        return During(field, when.start, until.end)
    match operator:
        case "before":
            return During(field, None, when.start)
        case "until":
            return During(field, None, max(when.end, when.start + 1))
        case "after":
            return During(field, max(when.end, when.start + 1), None)
        case "since":
            return During(field, when.start, None)
        case "over" | "around" | "towards":
            before, behind = _BESIDE[operator]
            return During(field, when.start - before * _DAY, when.end + behind * _DAY)
        case _:
            return During(field, when.start, max(when.end, when.start + 1))


_DAY: Final = 86_400.0  # seconds
# Days before and after that also count: "over Easter", "at Christmas".
_BESIDE: Final = {"over": (2, 1), "around": (4, 4), "towards": (7, 7)}


# Each reader gives a condition, a place to look up, or the reason why not.
_Read = Condition | Around | str | None


def _filter(name: str, value: JSON, known: Fields, now: datetime) -> _Read:
    key = name.casefold()
    if key == "site":
        sites = tuple(str(item) for item in _listed(value) if isinstance(item, str) and item.casefold() != "all")
        return OnSite(sites) if sites else None
    if key in _TYPE_KEYS:
        return _types(value, known)
    if key in _PLACE_KEYS and not (
        isinstance(value, str) and key in known.words and key not in ("location", "address")
    ):
        return _place(value, known)
    if isinstance(value, list):
        return _any([_filter(name, item, known, now) for item in value])
    if isinstance(value, dict):
        return _object(name, value, known, now)
    fields = field_names(name, known)
    if not fields and key in ("diet", "dietary", "suitablefordiet") and isinstance(value, str):
        return diet(value) or f"no item states {name}"
    if not fields:
        return f"no item states {name}"
    if isinstance(value, bool):
        return AnyOf(tuple(Is(field, ("true" if value else "false",)) for field in fields))
    if isinstance(value, int | float):
        return _number(fields, Bounds(float(value), float(value)), known) or f"{name} is not a number"
    if isinstance(value, str):
        return _string(name, fields, value, known, now)
    return f"expected a string, a number, a list or an object, found {type(value).__name__}"


def _types(value: JSON, known: Fields) -> _Read:
    wanted = [named(item) for item in _listed(value) if isinstance(item, str)]
    pieces = [named(piece) for item in wanted for piece in re.split(r"\s*(?:,|\||\bor\b)\s*", item) if piece]
    kept = tuple(item for item in pieces if item in PARENTS or item in known.types)
    return OfType(kept) if kept else "not a schema.org type and no item's type"


def _place(value: JSON, known: Fields) -> _Read:
    if not known.places:
        return "no item states a place"
    if isinstance(value, dict):
        return _point(value)
    if isinstance(value, list):
        return _any([_place(item, known) for item in value])
    if not isinstance(value, str):
        return "expected a place's name, or latitude and longitude"
    if negated := _NEGATION.match(value):
        inner = _place(value[negated.end() :], known)
        return inner if isinstance(inner, str | None | Around) else Not(inner)
    if near := _NEAR.fullmatch(value.strip()):
        return Around(near["name"].strip(" ."), kilometres(near["number"], near["unit"]))
    name = re.sub(r"^(?:in|at|from)\s+(?:the\s+)?", "", value.strip(), flags=re.I)
    return In(name)


def kilometres(number: str | None, unit: str | None) -> float:
    """A distance in kilometres; the default for "near" if none is given."""
    if not number or not unit:
        return NEARBY
    kind = "mi" if unit.casefold().startswith("mi") else unit[0].casefold()
    return float(number.replace(",", "")) * _KILOMETRES[kind]


def _point(value: Mapping[str, JSON]) -> _Read:
    named_place = next(
        (value[key] for key in ("name", "city", "addressLocality") if isinstance(value.get(key), str)), ""
    )
    geo = value.get("geo") if isinstance(value.get("geo"), dict) else value
    assert isinstance(geo, dict | Mapping)
    lat = geo.get("latitude", geo.get("lat"))
    lon = geo.get("longitude", geo.get("lon", geo.get("lng")))
    far = value.get("radius", value.get("km", value.get("distance", NEARBY)))
    if isinstance(far, str):
        match = re.match(r"([\d.]+)\s*(km|mi\w*|m)?", far)
        far = kilometres(match[1], match[2] or "km") if match else NEARBY
    numbers = [item for item in (lat, lon, far) if isinstance(item, int | float) and not isinstance(item, bool)]
    if len(numbers) == 3:
        return Near(numbers[0], numbers[1], numbers[2], named_place)
    return In(named_place) if named_place else "expected a place's name, or latitude and longitude"


_EDGES: Final = {
    "min": "low", "gte": "low", "from": "low", "minvalue": "low", "minprice": "low", "$gte": "low", "ge": "low",
    "gt": "above", "$gt": "above", "max": "high", "lte": "high", "to": "high", "maxvalue": "high", "le": "high",
    "maxprice": "high", "$lte": "high", "lt": "under", "$lt": "under", "after": "above", "before": "under",
}  # fmt: skip


def _object(name: str, value: Mapping[str, JSON], known: Fields, now: datetime) -> _Read:
    """``{"min": 5, "max": 10}``, ``{"lt": 20}``, ``{"value": "x"}`` and the like."""
    edges = {_EDGES[key.casefold()]: item for key, item in value.items() if key.casefold() in _EDGES}
    if not edges:
        inner = next((value[key] for key in ("value", "eq", "name", "$eq", "price") if key in value), None)
        return _filter(name, inner, known, now) if inner is not None else "an object without a value, min or max"
    symbols = {"low": ">=", "above": ">", "high": "<=", "under": "<"}
    read = [_filter(name, f"{symbols[edge]} {item}", known, now) for edge, item in edges.items()]
    ranges = [item for item in read if isinstance(item, Range)]
    if len(ranges) == len(read) == 2 and ranges[0].field == ranges[1].field:
        low = next((item for item in ranges if item.low is not None), ranges[0])
        high = next((item for item in ranges if item.high is not None), ranges[1])
        currency = value.get("currency") or value.get("priceCurrency")
        currencies = (str(currency).upper(),) if currency else low.currencies or high.currencies
        return Range(low.field, low.low, high.high, low.with_low, high.with_high, currencies)
    spans = [item for item in read if isinstance(item, During)]
    if len(spans) == len(read) == 2:
        starts = [span.start for span in spans if span.start is not None]
        ends = [span.end for span in spans if span.end is not None]
        return During(spans[0].field, *starts[:1], *ends[:1]) if starts and ends else spans[0]
    return read[0]


def _string(name: str, fields: tuple[str, ...], value: str, known: Fields, now: datetime) -> _Read:
    text = value.strip()
    given = bounds(text)
    if given is not None and (number := _number(fields, given, known)):
        return number
    if any(field in known.dates for field in fields) and (date := date_condition(fields, text, known, now)):
        return date
    if negated := _NEGATION.match(text):
        inner = _string(name, fields, text[negated.end() :], known, now)
        return inner if isinstance(inner, str | None | Around) else Not(inner)
    if any(field in ("suitablefordiet", "keywords") for field in fields) and (found := diet(text)):
        return found
    if "recipeingredient" in fields:
        return AnyOf(tuple(Has(kinds(piece)) for piece in _alternatives(text)))
    worded = [field for field in fields if field in known.words]
    if not worded:
        return f"not understood as a {'date' if fields[0] in known.dates else 'number'}"
    return _any([Is(field, tuple(_alternatives(text))) for field in worded])


def _number(fields: Iterable[str], given: Bounds, known: Fields) -> Range | None:
    numeric_fields = [field for field in fields if field in known.numbers]
    for field in numeric_fields:
        if given.unit in ("", "star") or field in MEASURES.get(given.unit, (field,)) or given.unit == "g":
            return numeric(field, given)
    return numeric(numeric_fields[0], given) if numeric_fields else None


def date_condition(fields: Iterable[str], text: str, known: Fields, now: datetime) -> During | None:
    """ "before June 2026", "2026-06-01", "between May and July 2026": for the first field that is a date."""
    field = next((item for item in fields if item in known.dates), None)
    if field is None:
        return None
    past = field in ("datepublished", "datemodified", "datecreated", "dateposted")
    clean = " ".join(text.split())
    between = re.fullmatch(
        r"(?:between|from)\s+(.+?)\s+(?:and|to|until)\s+(.+)|(\S+)\s*(?:/|\.\.)\s*(\S+)", clean, re.I
    )
    if between:
        first, last = (group for group in between.groups() if group)
        starts, ends = dates.span(first, now, past=past), dates.span(last, now, past=past)
        return dated(field, "in", starts, ends) if starts and ends else None
    operators = "|".join(re.escape(item) for item in sorted(DATE_OPERATORS, key=len, reverse=True) if item)
    match = re.fullmatch(rf"(?:({operators})\s*)?(?:the\s+)?(.+)", clean, re.IGNORECASE)
    if not match:
        return None
    when = dates.span(match[2], now, past=past)
    return dated(field, DATE_OPERATORS[(match[1] or "").casefold()], when) if when else None


def _alternatives(text: str) -> list[str]:
    pieces = re.split(r"\s*(?:,|\||;|\bor\b)\s*", text)
    return [piece for piece in pieces if piece] or [text]


def _any(read: list[_Read]) -> _Read:
    good = [item for item in read if not isinstance(item, str | None | Around)]
    if not good:
        return next((item for item in read if item is not None), None)
    return good[0] if len(good) == 1 else AnyOf(tuple(good))


def _listed(value: JSON) -> list[JSON]:
    return value if isinstance(value, list) else [value]

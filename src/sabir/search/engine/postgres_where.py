"""Conditions as SQL over the table of items. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from sabir.search.query.conditions import (
    AnyOf,
    Condition,
    During,
    Has,
    In,
    Is,
    Near,
    Not,
    OfType,
    OnSite,
    Range,
    gram,
    keys_of,
    number_fields,
    place_keys,
)

_DISTANCE: Final = (
    "12742.0176 * asin(sqrt(least(1.0, power(sin(radians(i.lat - {lat}) / 2), 2)"
    " + cos(radians({lat})) * cos(radians(i.lat)) * power(sin(radians(i.lon - {lon}) / 2), 2))))"
)


class Where:
    """Collects the arguments of a statement while its conditions are written; ``i`` is the table of items."""

    def __init__(self, *arguments: Any) -> None:
        self.arguments: list[Any] = list(arguments)

    def argument(self, value: Any, kind: str) -> str:
        self.arguments.append(value)
        return f"${len(self.arguments)}::{kind}"

    def all(self, conditions: Sequence[Condition]) -> str:
        """All of them, as one expression."""
        return " AND ".join(self.one(condition) for condition in conditions) or "true"

    def one(self, condition: Condition) -> str:
        match condition:
            case OfType(types):
                return f"i.types && {self.argument(list(types), 'text[]')}"
            case OnSite(sites):
                return f"i.site = ANY({self.argument(list(sites), 'text[]')})"
            case Is(field, values):
                alternatives = [
                    f"i.words @> {self.argument(_json({field.lower(): list(keys)}), 'jsonb')}"
                    for value in values
                    for keys in keys_of(value)
                ]
                return f"({' OR '.join(alternatives) or 'false'})"
            case Range():
                return self._range(condition)
            case During(field, start, end):
                return self._during(field.lower(), start, end)
            case Near():
                return self._near(condition)
            case In(name):
                return f"i.places && {self.argument(list(place_keys(name)), 'text[]')}"
            case Has(words):
                return f"i.has && {self.argument([gram(word) for word in words], 'text[]')}"
            case Not(inner):
                return f"NOT coalesce({self.one(inner)}, false)"
            case AnyOf(inner):
                return f"({' OR '.join(self.one(item) for item in inner) or 'false'})"

    def _range(self, bounds: Range) -> str:
        tests = ["true"]
        if bounds.low is not None:
            tests.append(f"v::float8 {'>=' if bounds.with_low else '>'} {self.argument(bounds.low, 'float8')}")
        if bounds.high is not None:
            tests.append(f"v::float8 {'<=' if bounds.with_high else '<'} {self.argument(bounds.high, 'float8')}")
        inner = " AND ".join(tests)
        lists = [f"i.numbers -> {self.argument(field, 'text')}" for field in number_fields(bounds)]
        fields = [f"EXISTS (SELECT 1 FROM jsonb_array_elements({item}) AS v WHERE {inner})" for item in lists]
        return f"({' OR '.join(fields)})"

    def _during(self, field: str, start: float | None, end: float | None) -> str:
        date = f"(i.dates -> {self.argument(field, 'text')})"
        begins, ends = f"({date} ->> 0)::float8", f"({date} ->> 1)::float8"
        tests = [f"{date} IS NOT NULL"]
        if end is not None:
            tests.append(f"{begins} < {self.argument(end, 'float8')}")
        if start is not None:
            bound = self.argument(start, "float8")
            tests.append(f"({ends} > {bound} OR {begins} >= {bound})")
        return f"({' AND '.join(tests)})"

    def _near(self, near: Near) -> str:
        lat, lon = self.argument(near.lat, "float8"), self.argument(near.lon, "float8")
        within = f"{_DISTANCE.format(lat=lat, lon=lon)} <= {self.argument(near.km, 'float8')}"
        found = f"(i.lat IS NOT NULL AND {within})"
        if not near.name:
            return found
        named = f"i.places && {self.argument(list(place_keys(near.name)), 'text[]')}"
        return f"({found} OR (i.lat IS NULL AND {named}))"


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()

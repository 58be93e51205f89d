"""Any field of an item, read by its own name: what it states, and whether it says yes or no. Pure.

Nothing here knows a type of item. ``covered`` is the rule that every reader keeps: a fact is stated only if each
meaningful word of the question is accounted for.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from datetime import datetime
from typing import Final

from sabir.search.items.attributes import recalled
from sabir.search.items.item import JSON, Item
from sabir.search.items.schema_org import strings
from sabir.search.query.field_names import FieldMatch, all_named, is_kin, match
from sabir.search.query.units import UNIT_CODES, UNITS, quantity
from sabir.search.query.words import spaced, tokens

from .facts import value_of

_MAX_LISTED: Final = 20
_GROUPED: Final = 10_000  # from here, thousands are set apart
# Fields that say nothing about the thing, or have readers of their own.
_UNTOLD: Final = frozenset(
    """@type @id @context name alternateName description abstract disambiguatingDescription image photo logo url sameAs
    text articleBody review reviews offers aggregateRating keywords geo mainEntityOfPage potentialAction acceptedAnswer
    recipeInstructions step hasPart subEvent video headline transcript identifier sku gtin""".split()  # noqa: SIM905
)
# Values that only say yes or no.
_YES: Final = frozenset({"true", "yes", "ja", "sí", "si", "oui", "はい"})
_NO: Final = frozenset({"false", "no", "nein", "non", "いいえ"})
_WHO: Final = re.compile(r"\b(?:who|whom|whose)\b", re.IGNORECASE)
_NUMBERED: Final = re.compile(
    r"\bhow\s+(?:many|much)\b|\b(?:rent|price|cost|fee)s?\b|\bwhen\b|\bwhat\s+time\b", re.IGNORECASE
)
_WHERE: Final = re.compile(r"\bwhere\b", re.IGNORECASE)
_DAY: Final = re.compile(r"\d{4}-\d{2}-\d{2}")


def stated_fields(item: Item) -> Iterator[tuple[str, JSON]]:
    """The fields that an item states, by name; those of an unnamed object and named properties count as its own."""
    for key, value in item.fields.items():
        if key in ("additionalProperty", "amenityFeature"):
            rows = value if isinstance(value, list) else [value]
            named = [row for row in rows if isinstance(row, dict) and row.get("name")]
            is_plain = key == "additionalProperty"  # a feature that is only there is no field
            yield from ((str(row["name"]), row) for row in named if is_plain or _states(row.get("value")))
            if not is_plain:
                yield key, value
        elif key not in _UNTOLD:
            yield key, value
            if isinstance(value, dict) and "name" not in value and "value" not in value:
                yield from ((inner, below) for inner, below in value.items() if not inner.startswith("@"))


def _states(value: JSON) -> bool:
    """Whether the value of a feature says more than yes or no."""
    return value is not None and not isinstance(value, bool) and is_so_by(str(value)) is None


def written(item: Item, field: str) -> str:
    """What an item states in a field, for people; empty if it states nothing in words or numbers."""
    value = next((stated for name, stated in stated_fields(item) if name.casefold() == field.casefold()), None)
    return value_of(field.casefold(), recalled(item)) or _plain(value)


def _plain(value: JSON) -> str:
    if isinstance(value, bool) or value is None:
        return ""
    if isinstance(value, int | float):
        return f"{value:,.0f}" if abs(value) >= _GROUPED else f"{value:g}"
    if isinstance(value, list):
        return ", ".join(text for text in map(_plain, value[:_MAX_LISTED]) if text)
    if isinstance(value, dict) and (measured := _measured(value)):
        return measured
    if isinstance(value, str) and _DAY.fullmatch(value):
        day = datetime.fromisoformat(value)
        return f"{day.day} {day:%B %Y}"
    return ", ".join(dict.fromkeys(_bare(text) for text in strings(value)))


def _bare(text: str) -> str:
    """An enumeration's value by its name: ``https://schema.org/UsedCondition`` as "used condition"."""
    if text.startswith(("http://schema.org/", "https://schema.org/")):
        return spaced(text.rsplit("/", 1)[-1]).lower()
    return text


def _measured(node: dict[str, JSON]) -> str:
    """A quantity with its unit: ``{"value": 38, "unitText": "m²"}``."""
    unit = str(node.get("unitText") or UNIT_CODES.get(str(node.get("unitCode")), "") or "")
    found = [text for key in ("value", "minValue", "maxValue") if (text := _plain(node.get(key)))]
    return f"{' to '.join(dict.fromkeys(found))} {unit}".strip() if found else ""


def asked_field(item: Item, question: str) -> FieldMatch | None:
    """The field of an item that a question asks for by its name; None if it has no such field."""
    names = list(dict.fromkeys(name for name, _ in stated_fields(item)))
    if (in_unit := _in_unit(item, names, question)) is not None:
        return in_unit
    for found in match(question, names):
        value = written(item, found.name)
        if value and _suits(question, value):
            return found
    return None


_UNIT_ASKED: Final = re.compile(r"\bhow\s+many\s+(?P<unit>(?:square\s+)?[^\W\d_]+)", re.IGNORECASE)
_OWN_READERS: Final = frozenset({"min", "person", "serving", "star", "kcal", "%", "year"})  # units of other questions


def _in_unit(item: Item, names: Collection[str], question: str) -> FieldMatch | None:
    """The one field of an item that is stated in the unit that a question asks for: "how many square metres"."""
    asked = _UNIT_ASKED.search(question)
    unit = UNITS.get(" ".join(asked["unit"].casefold().split()), ("", 1.0))[0] if asked else ""
    if asked is None or not unit or unit in _OWN_READERS:
        return None
    stated = ((name, quantity(written(item, name))) for name in names)
    fitting = [name for name, value in stated if value is not None and value.unit == unit]
    return FieldMatch(fitting[0], frozenset(tokens(asked.group()))) if len(fitting) == 1 else None


def _suits(question: str, value: str) -> bool:
    """Whether a value can answer such a question: a person, a number, a place."""
    has_digit = any(char.isdigit() for char in value)
    if _WHO.search(question):
        return not has_digit
    if _NUMBERED.search(question):
        return has_digit
    return not (_WHERE.search(question) and value.replace(",", "").replace(".", "").isdigit())


def flag(item: Item, words: Collection[str]) -> tuple[bool, str] | None:
    """Whether an item says yes or no to something by a field or a feature of that name, and that name.

    Every word must be in the name: "parking" is in "Private parking", "free parking" is not.
    """
    found = [(label, is_so) for label, is_so in feature_flags(item) if all_named(tuple(words), label)]
    if not found or len({is_so for _, is_so in found}) > 1:
        return None
    label, is_so = found[0]
    return is_so, label


def is_so_by(value: str) -> bool | None:
    """Whether a value only says yes or only says no; None if it says anything else."""
    said = value.strip().casefold()
    return said in _YES if said in _YES or said in _NO else None


def feature_flags(item: Item) -> Iterator[tuple[str, bool]]:
    """The names of the fields and features that an item states by yes or no, and which."""
    for key, value in item.fields.items():
        rows = value if isinstance(value, list) else [value]
        for row in rows:
            if isinstance(row, dict) and isinstance(row.get("name"), str) and "value" in row:
                name, stated = row["name"], str(row["value"])
            elif not isinstance(row, dict | list) and key not in _UNTOLD:
                name, stated = spaced(key), str(row)
            else:
                continue
            if (is_so := is_so_by(stated)) is not None:
                yield name, is_so


def labels(item: Item) -> list[str]:
    """The short values that an item states, with the names of its offers."""
    offers = item.fields.get("offers")
    rows = offers if isinstance(offers, list) else [offers]
    named = [str(row["name"]) for row in rows if isinstance(row, dict) and row.get("name")]
    return [*(label for stated in recalled(item).labels.values() for label in stated), *named]


def covered(words: Collection[str], item: Item, known: Collection[str]) -> bool:
    """Whether each meaningful word of a question is accounted for: by what was read (``known``), or by the item."""
    own = set(tokens(f"{item.name} {item.description} {item.text} {' '.join(map(spaced, item.types))}"))
    own |= set(known)
    return all(word in own or _PARTICLES.fullmatch(word) or any(is_kin(word, other) for other in own) for word in words)


_PARTICLES: Final = re.compile(r"[\u3040-\u309f]+")  # of Japanese


__all__ = ["asked_field", "covered", "feature_flags", "flag", "labels", "stated_fields", "written"]

"""The JSON Schema of the configuration file, for editors: types and numeric bounds."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from .settings import Settings
from .validate import EXPECTED

_BOUNDS: Final[Mapping[str, dict[str, Any]]] = {  # what validate.py expects of numbers, in JSON Schema terms
    "a number above 0": {"exclusiveMinimum": 0},
    "a number from 0 up": {"minimum": 0},
    "a number from 1 up": {"minimum": 1},
    "a share from 0 to 1": {"minimum": 0, "maximum": 1},
    "a number from 0 to 65535": {"minimum": 0, "maximum": 65535},
    "a number from 1 to 65535": {"minimum": 1, "maximum": 65535},
    "a cosine, from -1 up and below 1": {"minimum": -1, "exclusiveMaximum": 1},
    "1, 2 or 3": {"enum": [1, 2, 3]},
}


def schema() -> dict[str, Any]:
    """The JSON Schema of the configuration file, including numeric bounds."""
    made = msgspec.json.schema(Settings)
    for where, _, expected in EXPECTED:
        for place in _at(made, made, where) if expected in _BOUNDS else ():
            place.update(_BOUNDS[expected])
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **made}


def _at(root: dict[str, Any], node: dict[str, Any], where: str) -> Iterator[dict[str, Any]]:
    """The subschemas that describe this path of the settings."""
    if "$ref" in node:
        node = root["$defs"][node["$ref"].rpartition("/")[2]]
    for choice in node.get("anyOf", ()):
        yield from _at(root, choice, where)
    if not where:
        if node.get("type") in ("integer", "number"):
            yield node
    elif where.startswith("[]"):
        yield from _at(root, node.get("items") or {}, where[2:])
    else:
        name, rest = re.fullmatch(r"\.?(\w+)(.*)", where).groups()  # type: ignore[union-attr]
        yield from _at(root, node.get("properties", {}).get(name, {}), rest)

"""A function's parameters as JSON Schema, and arguments read by it (MW-32)."""

from __future__ import annotations

from enum import Enum
from typing import Any, Literal

import pytest

from sabir.errors import BadInput, ConfigError
from sabir.tools import Signature


class Unit(Enum):
    CELSIUS = "c"
    FAHRENHEIT = "f"


def forecast(turn: object, town: str, days: int = 1, unit: Unit = Unit.CELSIUS, tags: list[str] | None = None) -> str:
    """The weather of the next days.

    Args:
        town: where,
            with its country
        days (int): how many days

    Returns:
        The words of a forecaster.
    """
    return ""


SIGNATURE = Signature.of(forecast, without=frozenset({"turn"}))


def test_types_defaults_and_descriptions_become_the_schema() -> None:
    schema = SIGNATURE.schema
    assert schema["type"] == "object"
    assert schema["required"] == ["town"]
    assert schema["properties"]["town"] == {"description": "where, with its country", "type": "string"}
    assert schema["properties"]["days"] == {"description": "how many days", "type": "integer", "default": 1}
    assert schema["additionalProperties"] is False
    assert "turn" not in schema["properties"]


def test_the_summary_is_the_docstring_without_parameters() -> None:
    assert SIGNATURE.summary == "The weather of the next days."


def test_arguments_arrive_parsed() -> None:
    assert SIGNATURE.read({"town": "Bergen", "days": "3", "unit": "f"}) == {
        "town": "Bergen",
        "days": 3,
        "unit": Unit.FAHRENHEIT,
        "tags": None,
    }


@pytest.mark.parametrize(
    ("arguments", "where", "expected"),
    [
        ({}, "$.town", "a value, because it is required"),
        ({"town": 5}, "$.town", "a string"),
        ({"town": "Bergen", "days": "many"}, "$.days", "a whole number"),
        ({"town": "Bergen", "unit": "k"}, "$.unit", "one of c, f, not 'k'"),
        ({"town": "Bergen", "wind": True}, "$.wind", "only town, days, unit, tags"),
    ],
)
def test_invalid_arguments_are_rejected_by_place_and_expectation(
    arguments: dict[str, Any], where: str, expected: str
) -> None:
    with pytest.raises(BadInput) as caught:
        SIGNATURE.read(arguments)
    assert caught.value.where == where
    assert expected in caught.value.expected


def test_missing_arguments_are_listed_so_that_they_can_be_asked_for() -> None:
    assert SIGNATURE.missing({"days": 2}) == ["town"]


def test_sphinx_docstrings_are_read_too() -> None:
    def add(a: int, b: int) -> int:
        """Adds.

        :param a: one number
        :param int b: the other
        :returns: the sum
        """
        return a + b

    signature = Signature.of(add)
    assert signature.summary == "Adds."
    assert signature.schema["properties"]["b"]["description"] == "the other"


def test_a_mutable_default_is_made_anew_each_time() -> None:
    def collect(items: list[str] = []) -> None: ...  # noqa: B006

    first = Signature.of(collect).read({})["items"]
    first.append("x")
    assert Signature.of(collect).read({})["items"] == []


@pytest.mark.parametrize("kind", [Literal["a", "b"], dict[str, int], list[dict[str, Any]], int | str])
def test_every_json_type_has_a_schema(kind: Any) -> None:
    def takes(value: Any) -> None: ...

    takes.__annotations__["value"] = kind
    assert "value" in Signature.of(takes).schema["properties"]


def test_what_json_cannot_carry_is_rejected_when_the_tool_is_made() -> None:
    def takes(value: complex) -> None: ...

    def spreads(*values: int) -> None: ...

    with pytest.raises(ConfigError, match="takes"):
        Signature.of(takes)
    with pytest.raises(ConfigError, match="'values' cannot be passed by name"):
        Signature.of(spreads)

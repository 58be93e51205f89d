"""Numbers, flags and kinds of things that a site states under any name (issue 15)."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from sabir.search import Item, from_text
from sabir.search.engine.base import Fields
from sabir.search.items.attributes import KIND, attributes
from sabir.search.query.conditions import holds
from sabir.search.query.followup import decontextualized
from sabir.search.query.measures import measuring, of_unit
from sabir.search.query.negation import is_refused, refused

NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)


def _item(name: str, kind: str = "Product", page: str = "", **fields: Any) -> Item:
    return Item(page or name, "s", name, (kind,), page, "", "", fields)


def _measured(name: str, value: float, unit: str) -> dict[str, Any]:
    return {"@type": "PropertyValue", "name": name, "value": value, "unitText": unit}


GALAXY = _item(
    "Galaxy",
    "Car",
    "https://s.example/cars/galaxy",
    vehicleSeatingCapacity=7,
    mileageFromOdometer={"value": 97_000, "unitCode": "KMT"},
    vehicleModelDate="2017",
    offers={"price": 13_250, "priceCurrency": "GBP"},
)
CORSA = _item(
    "Corsa",
    "Car",
    "https://s.example/cars/corsa",
    vehicleSeatingCapacity=5,
    mileageFromOdometer={"value": 41_000, "unitCode": "KMT"},
    vehicleModelDate="2021",
    offers={"price": 7_995, "priceCurrency": "GBP"},
)
FERN = _item(
    "Fern", page="https://s.example/plants/fern", additionalProperty=[_measured("Height", 120, "cm"),
                                                                      {"name": "Toxic to pets", "value": True}]
)  # fmt: skip
ROSE = _item(
    "Rose", page="https://s.example/plants/rose", additionalProperty=[_measured("Height", 40, "cm"),
                                                                      {"name": "Toxic to pets", "value": False}]
)  # fmt: skip
HUT = _item(
    "Hut", "Accommodation", occupancy={"value": 6}, floorSize={"value": 60, "unitCode": "MTK"}, petsAllowed=True
)
TENT = _item(
    "Tent", "Accommodation", occupancy={"value": 2}, floorSize={"value": 9, "unitCode": "MTK"}, petsAllowed=False
)
JUDO = _item("Judo", "Event", typicalAgeRange="6-12", startDate="2026-12-01T17:00")
CHOIR = _item("Choir", "Event", typicalAgeRange="16+", startDate="2027-01-12T19:00")
ALL = (GALAXY, CORSA, FERN, ROSE, HUT, TENT, JUDO, CHOIR)
KNOWN = Fields.of(attributes(item) for item in ALL)


@pytest.mark.parametrize(
    ("question", "kept", "left_out"),
    [
        ("cars with 7 seats", GALAXY, CORSA),
        ("a seven-seater", GALAXY, CORSA),
        ("cars with less than 50,000 km on the clock", CORSA, GALAXY),
        ("cars from 2020 or newer", CORSA, GALAXY),
        ("cars under 10000 pounds", CORSA, GALAXY),
        ("plants taller than 1 metre", FERN, ROSE),
        ("plants under 50 cm", ROSE, FERN),
        ("that aren't toxic to pets", ROSE, FERN),
        ("huts that sleep six", HUT, TENT),
        ("sleeps six", HUT, TENT),
        ("at least 20 m²", HUT, TENT),
        ("larger than 50 square metres", HUT, TENT),
        ("without pets", TENT, HUT),
        ("for a 7 year old", JUDO, CHOIR),
        ("classes for my daughter (17)", CHOIR, JUDO),
        ("in the new year", CHOIR, JUDO),
        ("in the week of 1 December", JUDO, CHOIR),
        ("the week after next", JUDO, CHOIR),
        ("on the tuesday before 4 december", JUDO, CHOIR),
    ],
)
def test_a_condition_on_any_field_is_met_by_one_and_not_by_the_other(question: str, kept: Item, left_out: Item) -> None:
    conditions = from_text(question, KNOWN, NOW).conditions
    assert conditions
    assert all(holds(condition, attributes(kept)) for condition in conditions)
    assert not all(holds(condition, attributes(left_out)) for condition in conditions)


@pytest.mark.parametrize(
    ("question", "order"),
    [
        ("the smallest plant", ("floorsize", True)),
        ("tallest plant", ("height", False)),
        ("car with the most seats", ("vehicleseatingcapacity", False)),
    ],
)
def test_a_superlative_orders_by_any_number(question: str, order: tuple[str, bool]) -> None:
    assert from_text(question, KNOWN, NOW).order == order


def test_a_number_is_found_by_what_it_is_called_and_by_its_unit() -> None:
    assert measuring("powerful", {"enginepower", "price"}) == ["enginepower"]
    assert of_unit("m", {"mileagefromodometer", "price", "height"})[0] == "height"
    assert of_unit("W", {"enginepower"}) == ["enginepower"]


def test_a_thing_is_of_the_kind_that_its_address_and_type_say() -> None:
    assert attributes(GALAXY).words[KIND] == {"car"}
    assert attributes(_item("Birch", "House", "https://s.example/en/cottages/birch")).words[KIND] == {
        "cottage",
        "house",
    }
    assert KIND not in attributes(_item("Thing", "Thing")).words


def test_what_is_left_out_is_left_out_in_all_its_forms() -> None:
    stems = refused(from_text("not swimming", KNOWN, NOW).conditions)
    assert is_refused(_item("New Year's Swim"), stems) and not is_refused(_item("A Walk"), stems)
    assert not refused(from_text("without nuts", KNOWN, NOW).conditions)


def test_only_a_date_means_what_happens_then() -> None:
    read = from_text("what's on the first weekend of december", KNOWN, NOW)
    assert any("Event" in getattr(condition, "types", ()) for condition in read.conditions)


@pytest.mark.parametrize(
    ("before", "question", "understood"),
    [
        ("red cars", "not the convertible", "red cars not the convertible"),
        ("events in december", "except the market", "events in december except the market"),
        ("courses for beginners", "and for advanced?", "courses for advanced"),
        ("tours", "the shortest", "shortest tours"),
        ("jobs", "any in the kitchen?", "jobs in the kitchen"),
    ],
)
def test_a_follow_up_keeps_the_subject_and_replaces_one_requirement(
    before: str, question: str, understood: str
) -> None:
    assert decontextualized(question, (before,)) == understood


def test_who_speaks_a_language_is_read_by_any_field_of_languages() -> None:
    lind, pike = _item("Lind", "Person", knowsLanguage=["German"]), _item("Pike", "Person", knowsLanguage=["English"])
    known = Fields.of(attributes(item) for item in (lind, pike))
    (condition,) = from_text("who speaks German", known, NOW).conditions
    assert holds(condition, attributes(lind)) and not holds(condition, attributes(pike))

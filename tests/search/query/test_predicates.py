"""What a question says of a thing, whether a thing is so, and what a question does not want."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from sabir.search import Fields, Item, from_text
from sabir.search.items.attributes import Attributes, recalled
from sabir.search.items.schema_org import items
from sabir.search.query import predicates
from sabir.search.query.conditions import Condition, Has, Is, Not, Range, holds
from sabir.search.query.negation import opposite, scope_of

NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)
PLACE = {
    "@type": "Restaurant", "name": "Elm", "openingHours": ["Mo-Fr 10:00-20:00"], "acceptsReservations": True,
    "servesCuisine": "Italian",
}  # fmt: skip
DISH = {
    "@type": "Recipe", "name": "Stew", "recipeIngredient": ["2 carrots", "50 g walnuts"], "totalTime": "PT40M",
    "suitableForDiet": "https://schema.org/VeganDiet",
}  # fmt: skip
COAT = {
    "@type": "Product", "name": "Coat", "color": "navy",
    "offers": {"price": 45, "priceCurrency": "USD", "availability": "https://schema.org/InStock"},
}  # fmt: skip
PARADE = {
    "@type": "Event", "name": "Parade", "startDate": "2026-12-12T17:00", "eventStatus": "https://schema.org/EventScheduled",
    "offers": {"price": 0, "priceCurrency": "USD", "availability": "https://schema.org/SoldOut"},
}  # fmt: skip


def _attributes(data: dict[str, Any]) -> Attributes:
    [item] = items(data, site="s", base=f"https://s.example/{data['name']}")
    assert isinstance(item, Item)
    return recalled(item)


KNOWN = Fields.of(map(_attributes, (PLACE, DISH, COAT, PARADE)))


@pytest.mark.parametrize(
    ("question", "thing", "is_so"),
    [
        ("is open on Fridays?", PLACE, True),
        ("is open on Sundays?", PLACE, False),
        ("is shut on Sundays?", PLACE, True),
        ("can I eat there on a Monday?", PLACE, True),
        ("is open at 9 pm on Fridays?", PLACE, False),
        ("can I book a table?", PLACE, True),
        ("is it Italian?", PLACE, True),
        ("does it serve Thai food?", PLACE, False),
        ("is it suitable for vegans?", DISH, True),
        ("is it gluten-free?", DISH, False),
        ("does it contain nuts?", DISH, True),
        ("does it call for butter?", DISH, False),
        ("is it in stock?", COAT, True),
        ("is it sold out?", COAT, False),
        ("is it available in blue?", COAT, True),
        ("is it available in red?", COAT, False),
        ("is it under $50?", COAT, True),
        ("is it under $40?", COAT, False),
        ("is it free?", PARADE, True),
        ("do I have to pay?", PARADE, False),
        ("are there any tickets left?", PARADE, False),
        ("is there room left?", PARADE, False),
        ("can I buy the?", COAT, True),
        ("is it cancelled?", PARADE, False),
        ("is it in December?", PARADE, True),
        ("is it in March?", PARADE, False),
    ],
)
def test_a_question_is_read_as_what_it_says_of_the_thing(question: str, thing: dict[str, Any], is_so: bool) -> None:
    said = predicates.read(predicates.plain(question), KNOWN, NOW)
    assert said.conditions and not said.unread
    assert all(holds(condition, _attributes(thing)) for condition in said.conditions) is is_so


@pytest.mark.parametrize("question", ["is it romantic and quiet?", "is it haunted?"])
def test_words_that_no_rule_reads_are_reported(question: str) -> None:
    said = predicates.read(predicates.plain(question), KNOWN, NOW)
    assert said.unread and not said.conditions


@pytest.mark.parametrize(
    ("question", "kept", "left_out"),
    [
        ("without nuts", COAT, DISH),
        ("that don't contain walnuts", COAT, DISH),
        ("I am allergic to nuts", COAT, DISH),
        ("neither nuts nor eggs", COAT, DISH),
        ("lacking carrots", COAT, DISH),
        ("that isn't blue", DISH, COAT),
        ("anything but navy", DISH, COAT),
        ("not over $20", PARADE, COAT),
        ("that aren't open on Fridays", DISH, PLACE),
        ("not in January", PARADE, COAT),
    ],
)
def test_what_is_not_wanted_is_left_out(question: str, kept: dict[str, Any], left_out: dict[str, Any]) -> None:
    conditions = from_text(question, KNOWN, NOW).conditions
    assert conditions and all(holds(condition, _attributes(kept)) for condition in conditions)
    assert not all(holds(condition, _attributes(left_out)) for condition in conditions)


@pytest.mark.parametrize("question", ["I don't mind spicy soup", "I don't know what to cook", "not only soups"])
def test_not_every_not_leaves_something_out(question: str) -> None:
    conditions = from_text(question, KNOWN, NOW).conditions
    assert not any(isinstance(condition, Not) for condition in conditions)


@pytest.mark.parametrize(
    ("text", "scope"),
    [("in December and under $20", "in December"), ("nuts, but with cream", "nuts"), ("on Mondays", "on Mondays")],
)
def test_a_negator_reaches_to_the_next_condition(text: str, scope: str) -> None:
    assert scope_of(text) == scope


@pytest.mark.parametrize(
    ("condition", "other"),
    [
        (Range("price", 20, None), Range("price", None, 20, with_high=False)),
        (Range("price", None, 20, with_high=False), Range("price", 20, None)),
        (Not(Has(("nut",))), Has(("nut",))),
        (Is("acceptsreservations", ("true", "yes")), Is("acceptsreservations", ("false", "no"))),
        (Is("openon", ("monday",)), Not(Is("openon", ("monday",)))),
    ],
)
def test_the_opposite_of_a_condition(condition: Condition, other: Condition) -> None:
    assert opposite((condition,)) == (other,)

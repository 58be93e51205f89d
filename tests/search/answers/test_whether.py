"""What a thing says of ages, of who pays and of what it has; sentences of pages; and the site's own questions."""

from __future__ import annotations

import pytest

from sabir.search.answers.offers import named_offer, offer_named_in
from sabir.search.answers.whether import otherwise
from sabir.search.items.item import JSON, Item

from ..asking import Judged, answered, opened, says_no, says_yes


def _item(description: str = "", **fields: JSON) -> Item:
    return Item(site="a.example", id="https://a.example/1", name="Kite Day", description=description, fields=fields)


@pytest.mark.parametrize(
    ("description", "fields", "question", "is_so"),
    [
        ("", {"typicalAgeRange": "3-6"}, "can my 5-year-old come to", True),
        ("", {"typicalAgeRange": "3-6"}, "can my nine year old come to", False),
        ("", {"typicalAgeRange": "8+"}, "is it fine for a 12 year old", True),
        ("Not for children under six.", {}, "can my 5-year-old come to", False),
        ("For ages 4 to 7.", {}, "can my six-year-old come to", True),
        ("You must be at least fifteen.", {}, "can my 14 year old join", False),
        ("Bring at least 2 friends.", {}, "is it open", None),
        ("It lasts at least 20 minutes.", {}, "can my 5-year-old come to", None),
        ("Kites of all kinds.", {}, "can my 5-year-old come to", None),
    ],
)
def test_an_age_is_compared_with_what_the_item_says(
    description: str, fields: dict[str, JSON], question: str, is_so: bool | None
) -> None:
    found = otherwise(_item(description, **fields), question)
    assert (None if found is None else found[0]) is is_so


@pytest.mark.parametrize(
    ("question", "is_so"),
    [
        ("do I need a permit for a small kite of 10 metres?", False),
        ("do I need a permit for a kite of 30 metres?", None),
        ("do I need a permit for a kite of 10 kilograms?", None),
    ],
)
def test_an_amount_within_a_bound_has_what_is_said_of_the_bound(question: str, is_so: bool | None) -> None:
    found = otherwise(_item("Kites under 25 metres need no permit."), question)
    assert (None if found is None else found[0]) is is_so


def test_a_word_of_the_name_may_be_what_is_asked_about() -> None:
    found = otherwise(_item("Tea and a kite are included."), "is a kite included?")
    assert found is not None and found[0]


OFFERS: list[JSON] = [
    {"name": "Adult", "price": 8, "priceCurrency": "EUR"},
    {"name": "Under 16", "price": 0, "priceCurrency": "EUR"},
    {"name": "Season pass, per year", "price": 40, "priceCurrency": "EUR"},
]


@pytest.mark.parametrize(
    ("question", "is_so"),
    [
        ("do under 16s pay for", False),
        ("is free for under 16s", True),
        ("do adults pay", True),
        ("is free for adults", False),
        ("do dogs pay", None),
    ],
)
def test_who_pays_is_told_by_the_offer_of_that_name(question: str, is_so: bool | None) -> None:
    found = otherwise(_item(offers=OFFERS), question)
    assert (None if found is None else found[0]) is is_so


@pytest.mark.parametrize(
    ("question", "is_so"),
    [
        ("could my husband get into, he uses a wheelchair", False),
        ("are dogs welcome", True),
        ("is the wheelchair entrance on the left", None),
    ],
)
def test_a_feature_decides_only_if_nothing_else_is_asked(question: str, is_so: bool | None) -> None:
    features: list[JSON] = [{"name": "Wheelchair accessible", "value": False}, {"name": "Dogs allowed", "value": True}]
    found = otherwise(_item(amenityFeature=features), question)
    assert (None if found is None else found[0]) is is_so


def test_the_dishes_of_a_menu_have_prices_of_their_own() -> None:
    soup: JSON = {"name": "Leek soup", "suitableForDiet": "https://schema.org/VeganDiet", "offers": {"price": 7.5}}
    stew: JSON = {"name": "Lamb stew", "offers": {"price": "14.00", "priceCurrency": "EUR"}}
    item = _item(hasMenu={"hasMenuSection": [{"name": "Lunch", "hasMenuItem": [soup, stew]}]})
    for said, price in (("the vegan soup", 7.5), ("lamb stew", 14.0)):
        found = named_offer(item, said)
        assert found is not None and found[1] == price
    assert named_offer(item, "the pie") is None


def test_an_offer_is_named_by_all_of_its_words() -> None:
    item = _item(offers=OFFERS)
    assert offer_named_in(item, ["season", "pass", "kite"]) == ("Season pass, per year", 40.0, "€40")
    assert offer_named_in(item, ["pass", "kite"]) is None
    assert offer_named_in(item, ["season", "pass"]) is None  # of what?


@pytest.mark.parametrize(
    ("question", "stated"),
    [
        ("when is the bookmobile back?", "January 14"),
        ("when do the branches close over Christmas?", "December 24"),
        ("how much is a replacement card?", "3 CAD"),
        ("where is the knitting evening?", "Port Lorne"),
        ("do you charge fines for late books?", "abolished"),
        ("¿Cobran multas?", "abolished"),
    ],
)
async def test_a_page_answers_in_its_own_words(question: str, stated: str) -> None:
    answer = await answered(await opened("library", vectors=False), Judged("fact", question))
    assert stated in answer.text.splitlines()[0], answer.text[:200]


@pytest.mark.parametrize(
    "question",
    [
        "when is the zebra back?",
        "how much is a replacement engine?",
        "where is the knitting breakfast?",
        "do you charge ghosts?",
    ],
)
async def test_nothing_is_stated_if_a_word_is_not_accounted_for(question: str) -> None:
    answer = await answered(await opened("library", vectors=False), Judged("fact", question))
    assert not any(fact in answer.text.splitlines()[0] for fact in ("January 14", "CAD", "is at", "abolished"))


@pytest.mark.parametrize(
    ("question", "is_so"), [("is there free parking at Eastside?", True), ("is there an elevator at Central?", True)]
)
async def test_a_feature_of_a_thing_that_is_named_in_part(question: str, is_so: bool) -> None:
    answer = await answered(await opened("library", vectors=False), Judged("yes/no", question))
    assert (says_yes(answer.text), says_no(answer.text)) == (is_so, not is_so), answer.text[:200]


@pytest.mark.parametrize(
    ("site", "before", "question", "first"),
    [
        (
            "harbour",
            "chef's knife",
            "anything cheaper?",
            "https://harbour.example/products/little-daughter-paring-knife",
        ),
        ("shop", "how much is the 3 cup moka pot", "and the larger one?", "https://shop.example/products/moka-pot-6"),
        ("shop", "how much is the 6 cup moka pot", "the smaller one?", "https://shop.example/products/moka-pot-3"),
    ],
)
async def test_a_cheaper_or_a_bigger_one_is_another_thing(site: str, before: str, question: str, first: str) -> None:
    answer = await answered(await opened(site, vectors=False), Judged("follow-up", question, before=(before,)))
    assert answer.ids[:1] == (first,), answer.text[:200]


async def test_what_is_not_of_a_category_is_of_the_same_kind() -> None:
    answer = await answered(await opened("library", vectors=False), Judged("negation", "things that aren't tools"), 20)
    assert len(answer.ids) == 8 and all("/things/" in item for item in answer.ids)

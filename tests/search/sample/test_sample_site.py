"""The sample site: whole, consistent with itself, and able to answer the example request of NLWeb 0.54."""

from __future__ import annotations

import json
import re
from collections import Counter
from datetime import date, datetime, timedelta
from typing import Any

import pytest

from sabir.search.items import schema_org
from sabir.search.items.attributes import attributes
from sabir.search.items.item import Item, Problem
from sabir.search.items.types import lineage
from sabir.search.query.conditions import Has, In, Is, Near, Not, OfType, Range, holds
from sabir.search.sample import HERE, SITES

BASE = "https://harbour.example/"
BOISE = (43.615, -116.202)

LINES = {path.name: path.read_text(encoding="utf-8").splitlines() for files in SITES.values() for path in files}
THINGS: dict[str, list[dict[str, Any]]] = {name: [json.loads(line) for line in lines] for name, lines in LINES.items()}
EVERYTHING = [thing for things in THINGS.values() for thing in things]
RECIPES = THINGS["recipes.jsonl"] + THINGS["pumpkins-r-us.jsonl"]

REQUIRED = {
    "Recipe": (
        "author", "datePublished", "recipeCuisine", "recipeCategory", "keywords", "prepTime", "cookTime", "totalTime",
        "recipeYield", "recipeIngredient", "recipeInstructions", "nutrition", "aggregateRating", "estimatedCost",
        "locationCreated",
    ),
    "Product": ("sku", "brand", "category", "keywords", "offers", "aggregateRating"),
    "Event": ("startDate", "endDate", "eventStatus", "location", "organizer", "offers", "keywords"),
    "Place": ("address", "geo", "telephone", "openingHours", "amenityFeature", "aggregateRating"),
}  # fmt: skip

NUTS = re.compile(r"\b(almond|walnut|pecan|hazelnut|peanut|cashew|pistachio|pine nut|macadamia|nut)(s|ted)?\b", re.I)
MEAT = re.compile(
    r"\b(beef|pork|lamb|chicken|turkey|bison|bacon|sausage|sirloin|lard|gelatin|trout|salmon|perch|shrimp|fish"
    r"|oysters?(?! mushrooms)|anchov\w+|Worcestershire)\b", re.I,
)  # fmt: skip
ANIMAL = re.compile(
    r"\b(eggs?|milk|butter|buttermilk|cream|cheese|cheddar|feta|yogurt|honey|ghee|paneer|ricotta|mozzarella"
    r"|Gruyère|mayonnaise)\b", re.I,
)  # fmt: skip
OF_PLANTS = re.compile(
    r"\b(coconut|oat|soy|vegan|egg-free|seed|sunflower|peanut|sunflower seed|pumpkin seed)[ -]?"
    r"(milk|butter|cream|mayonnaise|ramen)?\b", re.I,
)  # fmt: skip
WHEAT = re.compile(
    r"\b(wheat|bread|breadcrumbs|baguettes?|pasta|spaghetti|trofie|bulgur|barley|rye|semolina|soy sauce|puff pastry"
    r"|shortcrust pastry|wrappers|soba|ale|sourdough)\b|(?<!buckwheat )(?<!rice )(?<!oat )\bflour\b", re.I,
)  # fmt: skip


def of_type(thing: dict[str, Any]) -> str:
    return next(kind for kind in REQUIRED if kind in lineage((thing["@type"],)))


def listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


def minutes(duration: str) -> int:
    matched = re.fullmatch(r"PT(?:(\d+)H)?(?:(\d+)M)?", duration)
    assert matched and duration != "PT", duration
    return int(matched[1] or 0) * 60 + int(matched[2] or 0)


def diets(recipe: dict[str, Any]) -> set[str]:
    return {diet.removeprefix("https://schema.org/") for diet in recipe.get("suitableForDiet", ())}


def ids(things: list[dict[str, Any]]) -> set[str]:
    return {thing["@id"] for thing in things}


def ingested(site: str) -> list[Item]:
    found = []
    for path in SITES[site]:
        for number, line in enumerate(LINES[path.name], 1):
            for item in schema_org.items(json.loads(line), site=site, source=path.name, place=f"line {number}"):
                assert not isinstance(item, Problem), item
                found.append(item)
    return found


def test_every_data_file_of_the_directory_belongs_to_one_site() -> None:
    named = [path for files in SITES.values() for path in files]
    assert sorted(named) == sorted(HERE.glob("*.jsonl"))


def test_a_line_is_one_item_and_ingesting_reports_no_problem() -> None:
    assert sum(len(ingested(site)) for site in SITES) == len(EVERYTHING) >= 320


def test_there_is_enough_of_each_kind() -> None:
    counts = Counter(of_type(thing) for thing in EVERYTHING)
    assert counts["Recipe"] >= 105
    assert counts["Product"] >= 90
    assert counts["Event"] >= 60
    assert counts["Place"] >= 59


def test_ids_names_and_descriptions_are_unique() -> None:
    for key in ("@id", "name", "description"):
        twice = [value for value, count in Counter(thing[key] for thing in EVERYTHING).items() if count > 1]
        assert not twice, (key, twice)


@pytest.mark.parametrize("thing", EVERYTHING, ids=lambda thing: thing["@id"].removeprefix(BASE))
def test_an_item_has_what_its_type_requires(thing: dict[str, Any]) -> None:
    assert thing["@context"] == "https://schema.org"
    assert thing["@id"] == thing["url"]
    assert re.fullmatch(re.escape(BASE) + r"[a-z0-9/-]+", thing["url"])
    assert [key for key in REQUIRED[of_type(thing)] if not thing.get(key)] == []
    assert 2 <= len(re.findall(r"[.!?](?=\s|$)", thing["description"])) <= 6
    assert 120 <= len(thing["description"]) <= 700
    rating = thing.get("aggregateRating")
    assert rating is None or (3.5 <= rating["ratingValue"] <= 5 and rating["reviewCount"] > 0)


def test_actions_point_into_the_site() -> None:
    kinds: Counter[str] = Counter()
    for thing in EVERYTHING:
        for action in listed(thing.get("potentialAction")):
            kinds[action["@type"]] += 1
            assert action["name"] and thing["name"] in action["description"]
            assert action["target"]["@type"] == "EntryPoint"
            assert re.fullmatch(re.escape(BASE) + r"[a-z0-9/-]+\{\?[a-z,]+\}", action["target"]["urlTemplate"])
    assert set(kinds) == {"BuyAction", "ReserveAction", "OrderAction"}
    assert min(kinds.values()) >= 50


def test_prices_are_in_dollars_and_reach_from_two_to_nine_hundred() -> None:
    prices = []
    for thing in EVERYTHING:
        for offer in listed(thing.get("offers")):
            assert offer["priceCurrency"] == "USD"
            assert offer["availability"].startswith("https://schema.org/")
            assert isinstance(offer["price"], int | float)
            prices.append(offer["price"])
            if of_type(thing) == "Recipe":
                assert offer["price"] == thing["estimatedCost"]["value"]
    assert min(price for price in prices if price) == 2
    assert max(prices) == 900
    assert prices.count(0) >= 15


def test_nothing_out_of_stock_or_sold_out_can_be_bought() -> None:
    gone = [
        thing
        for thing in EVERYTHING
        if any(offer["availability"].endswith(("OutOfStock", "SoldOut")) for offer in listed(thing.get("offers")))
    ]
    assert gone
    assert [thing["name"] for thing in gone if "potentialAction" in thing] == []


def test_events_lie_between_december_and_june_with_an_offset_from_utc() -> None:
    for event in THINGS["events.jsonl"]:
        start, end = (datetime.fromisoformat(event[key]) for key in ("startDate", "endDate"))
        assert start.utcoffset() in (timedelta(hours=-8), timedelta(hours=-7), timedelta(hours=-6))
        assert date(2026, 12, 1) <= start.date() <= date(2027, 6, 30)
        assert start < end
        free = all(offer["price"] == 0 for offer in listed(event["offers"]))
        assert event["isAccessibleForFree"] is free


def test_events_take_place_and_goods_are_sold_at_places_of_the_site() -> None:
    known = {place["@id"]: place for place in THINGS["places.jsonl"]}
    for thing in EVERYTHING:
        held = [thing.get("location"), thing.get("locationCreated")]
        held += [offer.get("availableAtOrFrom") for offer in listed(thing.get("offers"))]
        for place in filter(None, held):
            assert {key: known[place["@id"]][key] for key in place} == place


def test_places_have_fictional_telephones_and_lie_near_the_city_they_name() -> None:
    centres = {"Portland": (45.52, -122.67), "Seattle": (47.61, -122.33)}
    telephones = [place["telephone"] for place in THINGS["places.jsonl"]]
    assert len(set(telephones)) == len(telephones)
    for place in THINGS["places.jsonl"]:
        assert re.fullmatch(r"\+1-\d{3}-555-01\d\d", place["telephone"])
        for hours in place["openingHours"]:
            assert re.fullmatch(r"(Mo|Tu|We|Th|Fr|Sa|Su)(-(Mo|Tu|We|Th|Fr|Sa|Su))? \d\d:\d\d-\d\d:\d\d", hours)
        lat, lon = centres.get(place["address"]["addressLocality"], BOISE)
        assert abs(place["geo"]["latitude"] - lat) < 0.35
        assert abs(place["geo"]["longitude"] - lon) < 0.55


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe["@id"].rpartition("/")[2])
def test_a_recipe_agrees_with_itself(recipe: dict[str, Any]) -> None:
    assert minutes(recipe["totalTime"]) == minutes(recipe["prepTime"]) + minutes(recipe["cookTime"])
    assert date.fromisoformat(recipe["datePublished"]) <= date(2026, 11, 1)
    assert len(recipe["recipeIngredient"]) >= 3
    assert len(recipe["recipeInstructions"]) >= 2
    assert re.fullmatch(r"\d+ calories", recipe["nutrition"]["calories"])
    assert re.fullmatch(r"\d+ g", recipe["nutrition"]["proteinContent"])
    ingredients = "; ".join(recipe["recipeIngredient"])
    if "VeganDiet" in diets(recipe):
        assert "VegetarianDiet" in diets(recipe)
        assert not ANIMAL.findall(OF_PLANTS.sub("", ingredients))
    if "VegetarianDiet" in diets(recipe):
        assert not MEAT.findall(ingredients)
    if "GlutenFreeDiet" in diets(recipe):
        assert not WHEAT.findall(ingredients.replace("gluten-free ", ""))
        assert not re.search(r"(?<!gluten-free )(?<!pinhead )rolled oats", ingredients)
    assert ("contains nuts" in recipe["keywords"]) == bool(NUTS.findall(ingredients))
    assert not {"contains nuts", "nut-free"}.issubset(recipe["keywords"])


def test_the_example_request_of_nlweb_054_has_answers_and_near_misses() -> None:
    """query: itemType Recipe, location Idaho, price under $20, cinnamon, rich in protein; memory: vegetarian."""
    found = {item.id: attributes(item) for item in ingested("pumpkins-r-us.com")}
    wanted = {
        "itemType": OfType(("Recipe",)),
        "location": In("Idaho"),
        "price": Range("price", high=20, with_high=False),
        "text": Has(("cinnamon",)),
        "protein": Range("proteinContent", low=15),
        "memory": Is("suitableForDiet", ("vegetarian",)),
    }
    answers = [key for key, of in found.items() if all(holds(entry, of) for entry in wanted.values())]
    assert BASE + "pumpkins-r-us/recipes/pumpkin-spice-pudding-with-coconut" in answers
    assert len(answers) >= 4
    for name in ("location", "price", "text", "protein", "memory"):
        assert [key for key, of in found.items() if not holds(wanted[name], of)], f"nothing fails by {name}"


def test_filters_have_something_to_keep_and_something_to_drop() -> None:
    found = [attributes(item) for item in ingested("harbour.example")]
    for condition in (
        Near(*BOISE, 30),
        Near(45.52, -122.68, 30),
        Near(47.61, -122.33, 30),
        Is("suitableForDiet", ("vegan",)),
        Is("suitableForDiet", ("gluten free",)),
        Range("price", high=10),
        Range("price", low=200),
        Range("totalTime", high=30),
        Not(Has(("walnuts",))),
    ):
        kept = sum(holds(condition, entry) for entry in found)
        assert 5 <= kept < len(found), (condition, kept)


def test_the_readme_names_only_items_that_exist() -> None:
    readme = (HERE / "README.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`((?:pumpkins-r-us/)?(?:recipes|products|events|places)/[a-z0-9-]+)`", readme))
    assert len(named) >= 12
    assert named <= {address.removeprefix(BASE) for address in ids(EVERYTHING)}


def test_the_readme_counts_the_items_of_each_file() -> None:
    readme = (HERE / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([\w-]+\.jsonl)` \| `([^`]+)` \| (\d+) ", readme, re.MULTILINE)
    found = {(name, site, int(count)) for name, site, count in rows}
    assert found == {(path.name, site, len(LINES[path.name])) for site, files in SITES.items() for path in files}

"""What a site has found is shown with its name, a line about it, its address, and its price."""

from __future__ import annotations

import json

import pytest

from cli.conftest import Sabir, ServeEverywhere
from sabir import Turn, agent
from sabir.cli.printing import readable
from sabir.message import Message, json_part, text_part

LONG = "Sixteen soft caramels, cooked in a copper pan. " * 5
FOUND = [
    {"@type": "Product", "@id": "https://shop.example/caramels", "url": "https://shop.example/caramels",
     "name": "Smoked Caramels", "description": LONG, "score": 80.0,
     "offers": {"@type": "Offer", "price": 12, "priceCurrency": "USD"}},
    {"@type": "Recipe", "@id": "https://shop.example/soup", "url": "https://shop.example/soup",
     "name": "Soup", "description": "Hot.", "score": 61.5},
    {"@type": "Recipe", "@id": "https://shop.example/bread", "url": "https://shop.example/bread",
     "name": "Bread", "description": "Warm.", "score": 50.0,
     "estimatedCost": {"@type": "MonetaryAmount", "value": 9, "currency": "USD"}},
]  # fmt: skip


@agent(name="shop")
async def shop(turn: Turn) -> Message:
    return Message.of(text_part(""), *(json_part(item, label="result") for item in FOUND))


def test_nlweb_results_are_printed_in_a_line_each(everywhere: ServeEverywhere, sabir: Sabir) -> None:
    url = everywhere(shop).of("nlweb", "shop")
    for more in ([], ["--stream"]):
        said = sabir("ask", url, "sweets", "--new", *more)
        first, second, third = said.out.strip().splitlines()
        assert first.startswith("1. Smoked Caramels: Sixteen soft caramels, cooked in a copper pan. Sixteen soft")
        assert first.endswith(" … (https://shop.example/caramels, $12)")
        assert len(first) < 220
        assert second == "2. Soup: Hot. (https://shop.example/soup)"
        assert third == "3. Bread: Warm. (https://shop.example/bread, $9)"


def test_json_is_printed_unchanged(everywhere: ServeEverywhere, sabir: Sabir) -> None:
    said = sabir("ask", everywhere(shop).of("nlweb", "shop"), "sweets", "--json")
    assert json.loads(said.out)["content"] == "1. Smoked Caramels\n2. Soup\n3. Bread"


def test_what_the_text_already_says_is_not_repeated() -> None:
    words = "1. Soup: Hot. (https://shop.example/soup)"
    assert readable(Message.of(text_part(words), json_part(FOUND[1], label="result"))) == words


def test_a_summary_is_printed_before_the_results() -> None:
    said = readable(Message.of(text_part("Eat soup."), json_part(FOUND[1], label="result")))
    assert said == "Eat soup.\n1. Soup: Hot. (https://shop.example/soup)"


def test_what_is_missing_is_left_out() -> None:
    found = [{"name": "Bare"}, {"url": "https://x.example/"}, {"name": "Many", "offers": [{"lowPrice": "3.50"}]}, {}]
    said = readable(Message.of(text_part(""), *(json_part(item, label="result") for item in found)))
    assert said.splitlines()[:3] == ["1. Bare", "2. https://x.example/", "3. Many (from 3.50)"]


@pytest.mark.parametrize(
    ("offer", "shown"),
    [
        ({"price": 10, "priceCurrency": "USD"}, "$10"),
        ({"price": "9.5", "priceCurrency": "eur"}, "€9.50"),
        ({"price": "1200.00", "priceCurrency": "GBP"}, "£1,200"),
        ({"price": 12, "priceCurrency": "CHF"}, "12 CHF"),
        ({"price": 0, "priceCurrency": "USD"}, "free"),
        ({"lowPrice": 3, "priceCurrency": "USD"}, "from $3"),
        ({"price": "on request"}, "on request"),
        ({"price": "1e999"}, "inf"),
    ],
)
def test_prices_are_written_as_people_write_them(offer: dict[str, object], shown: str) -> None:
    row = {"name": "Tea", "url": "https://x.example/tea", "score": 33.5, "offers": offer}
    said = readable(Message.of(text_part(""), json_part(row, label="result")))
    assert said.splitlines()[0] == f"1. Tea (https://x.example/tea, {shown})"

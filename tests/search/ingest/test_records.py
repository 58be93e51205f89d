"""What single records of a format say, in forms that real sites have."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import pytest

from sabir.search import Item
from sabir.search.ingest.columns import stock_state
from sabir.search.ingest.fetch import Document
from sabir.search.ingest.kinds import read
from sabir.search.ingest.merchant import product

WEB = "https://s.example"
CALENDAR = """BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:x\r\nBEGIN:VEVENT\r\nUID:a 1@s.example\r
DTSTART:20270312T190000Z\r
SUMMARY:Jazz\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n"""
JSON_FEED = json.dumps(
    {"version": "https://jsonfeed.org/version/1.1", "items": [{"id": 3, "title": "Frogs", "content_text": "Back."}]}
)
RSS = """<rss version="2.0"><channel><title>t</title><item><title>Frogs</title><description>Back.</description>
<guid isPermaLink="false">tag:s.example,2026:3</guid></item></channel></rss>"""
MERCHANT = """<rss xmlns:g="http://base.google.com/ns/1.0" version="2.0"><channel><item><g:id>H1</g:id>
<title>Hammer</title><g:price>9.00 EUR</g:price></item></channel></rss>"""
MERCHANT_TABLE = "id\ttitle\tlink\tprice\tavailability\nH1\tHammer\t\t9.00 EUR\tin_stock\n"
NOW = datetime(2026, 11, 19, 12, tzinfo=UTC)


def records(body: str, address: str, content_type: str = "") -> list[Item]:
    document = Document(address, body.encode(), address if address.startswith("http") else "", content_type)
    found: Iterable[Any] = read(document, site="s.example", source=address, mapping=None, listed=None)
    return [item for item in found if isinstance(item, Item)]


@pytest.mark.parametrize(
    ("body", "name", "anchor"),
    [
        (CALENDAR, "events.ics", "a%201%40s.example"),
        (JSON_FEED, "feed.json", "3"),
        (RSS, "rss.xml", "tag%3As.example%2C2026%3A3"),
        (MERCHANT, "products.xml", "H1"),
        (MERCHANT_TABLE, "products.tsv", "H1"),
    ],
)
def test_a_record_with_an_id_and_no_address_is_cited_by_its_document(body: str, name: str, anchor: str) -> None:
    [item] = records(body, f"{WEB}/{name}")
    assert item.page == f"{WEB}/{name}#{anchor}"
    [local] = records(body, name)
    assert "url" not in local.fields


SECRET = "https://user:pw@s.example/folder/{}?token=SECRET#part"
NO_ID = json.dumps([{"@type": "Product", "name": "Hammer"}])
RELATIVE = json.dumps([{"@type": "Product", "name": "Hammer", "url": "/hammer", "@id": "#7"}])


@pytest.mark.parametrize(
    ("body", "name"),
    [
        (CALENDAR, "events.ics"),
        (JSON_FEED, "feed.json"),
        (RSS, "rss.xml"),
        (RSS.replace("<guid", "<link>/3</link><guid"), "linked.xml"),
        (MERCHANT, "products.xml"),
        (MERCHANT_TABLE, "products.tsv"),
        (NO_ID, "things.json"),
        (NO_ID[1:-1], "things.jsonl"),
        (RELATIVE, "related.json"),
    ],
)
def test_no_password_and_no_key_of_a_feed_are_published(body: str, name: str) -> None:
    [item] = records(body, SECRET.format(name))
    published = f"{item.id} {item.url} {item.page} {item.fields}"
    assert "SECRET" not in published and "pw" not in published and "s.example/" in item.page


@pytest.mark.parametrize("name", ["page.html", "page.md"])
def test_no_password_of_a_page_is_published_and_its_query_is_kept(name: str) -> None:
    [item] = records("<p>Rowing boats are by the jetty.</p>", f"https://user:pw@s.example/{name}?page=3")
    assert item.page == f"https://s.example/{name}?page=3"
    assert "pw" not in item.id


def test_records_without_an_id_are_others_in_feeds_that_differ_by_their_query() -> None:
    [one], [other] = (records(NO_ID, f"{WEB}/things.json?page={number}") for number in (1, 2))
    assert one.id != other.id
    assert "page" not in one.id + other.id


@pytest.mark.parametrize("cell", ["²", "٣²", "9" * 5_000])
def test_an_odd_number_in_stock_is_read(cell: str) -> None:
    assert stock_state(cell) == ("https://schema.org/InStock" if cell.isdecimal() else cell)


@pytest.mark.parametrize(
    ("period", "price"),
    [
        ("", "44.10"),
        ("2026-11-01T00:00-0800/2026-12-01T00:00-0800", "44.10"),
        ("2020-01-01T00:00-0800/2020-02-01T00:00-0800", "55"),
        ("2027-01-01T00:00Z/2027-02-01T00:00Z", "55"),
        ("2020-01-01/2020-02-01", "55"),
        ("2026-11-01/2026-11-19", "44.10"),
        ("2026-11-01/2026-11-18", "55"),
        ("2026-11-01/9999-12-31", "44.10"),
        ("next week", "44.10"),
    ],
)
def test_a_reduced_price_holds_during_its_period(period: str, price: str) -> None:
    row = {"id": ["H2"], "title": ["Sledge"], "price": ["55 USD"], "sale price": ["44.10 USD"]}
    made = product({**row, "sale price effective date": [period]}, WEB, NOW)
    assert made["offers"] == {"@type": "Offer", "price": price, "priceCurrency": "USD"}


@pytest.mark.parametrize(
    ("span", "offer"),
    [
        ({"min_amount": "300", "max_amount": "900"}, {"@type": ["AggregateOffer"], "lowPrice": 3.0, "highPrice": 9.0}),
        ({"min_amount": "300", "max_amount": "300"}, {"@type": ["Offer"], "price": 3.0}),
        (None, {"@type": ["Offer"], "price": 3.0}),
    ],
)
def test_a_woocommerce_product_with_variants_has_a_lowest_and_a_highest_price(span: Any, offer: dict[str, Any]) -> None:
    prices = {"price": "300", "price_range": span, "currency_code": "EUR", "currency_minor_unit": 2}
    row = {"name": "Wick", "permalink": f"{WEB}/wick", "prices": prices, "is_in_stock": True}
    [item] = records(json.dumps([row]), f"{WEB}/wp-json/wc/store/products", "application/json")
    stock = {"priceCurrency": "EUR", "availability": "https://schema.org/InStock"}
    assert item.fields["offers"] == {**offer, **stock}


def test_a_woocommerce_price_that_is_no_number_is_none() -> None:
    prices = {"price": "²", "currency_code": "EUR", "currency_minor_unit": 2}
    row = {"name": "Wick", "permalink": f"{WEB}/wick", "prices": prices, "is_in_stock": True}
    [item] = records(json.dumps([row]), f"{WEB}/wp-json/wc/store/products", "application/json")
    assert not item.fields["offers"].get("price")


MARKDOWN = """# Boat hire

Rowing boats are by the [jetty](https://s.example/jetty) and [here](javascript:alert(1)).

| Boat | Price | Seats |
|---|---|---|
| Canoe | £15 | 2 |
| Pedalo | £18 | 4 |

<details><summary>Dogs</summary><p>Dogs are welcome.</p><script>alert(1)</script></details>
"""


def test_a_table_a_block_of_html_and_any_link_in_markdown_are_read_as_on_a_page() -> None:
    [item] = records(MARKDOWN, "boats.md")
    assert item.text.splitlines()[:6] == [
        "Rowing boats are by the jetty and here.",
        "Boat, Price, Seats",
        "Canoe: Price £15, Seats 2",
        "Pedalo: Price £18, Seats 4",
        "Dogs",
        "Dogs are welcome.",
    ]


LD = '<script type="application/ld+json">{"@type": "HotelRoom", "name": "Heron Room", "url": "/heron"}</script>'
MARKUP = {
    "json-ld": f"{LD}<h1>Heron Room</h1>",
    "microdata": '<div itemscope itemtype="https://schema.org/HotelRoom"><h1 itemprop="name">Heron Room</h1></div>',
    "rdfa": '<div vocab="https://schema.org/" typeof="HotelRoom"><h1 property="name">Heron Room</h1></div>',
    "rdfa with an address": '<div vocab="https://schema.org/" typeof="HotelRoom" resource="https://s.example/heron">'
    '<h1 property="name">Heron Room</h1></div>',
}


@pytest.mark.parametrize("markup", MARKUP)
def test_what_only_the_text_beside_any_markup_says_is_kept(markup: str) -> None:
    page = (
        f"<html><body><nav>Home</nav><main>{MARKUP[markup]}<p>Dogs stay for £10.</p>"
        "<table><tr><td>Breakfast</td><td>£14</td></tr></table></main></body></html>"
    )
    [item] = records(page, f"{WEB}/heron", "text/html")
    assert item.types == ("HotelRoom",)
    assert [line for line in item.text.splitlines() if line.strip()] == ["Dogs stay for £10.", "Breakfast: £14"]


@pytest.mark.parametrize(
    "heading", ["Freie Plätze?", "Plazas libres", "Plazas disponibles", "Places disponibles", "Places available"]
)
def test_a_heading_for_places_that_are_left_is_availability(heading: str) -> None:
    [item] = records(f"Name,Price,{heading}\nPottery,85,0\n", "courses.csv")
    assert item.fields["offers"]["availability"] == "https://schema.org/OutOfStock"

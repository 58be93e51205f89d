"""What sites really publish: commas before the cents, other encodings, markup in feeds, names in capitals."""

from __future__ import annotations

from pathlib import Path

import pytest

from sabir.search import Item, LocalIndex, Problem, SearchQuery, ingest
from sabir.search.answers.results import result
from sabir.search.engine.base import Hit
from sabir.search.ingest.feeds import listing
from sabir.search.ingest.tables import csv_items
from sabir.search.items.attributes import attributes
from sabir.search.items.schema_org import items
from sabir.search.query.units import quantity

WHERE = {"site": "s", "source": "here", "place": "file"}


@pytest.mark.parametrize(
    ("written", "value", "currency"),
    [
        ("3,50 €", 3.5, "price:eur"),
        ("€ 4.20", 4.2, "price:eur"),
        ("12,00", 12.0, "price:?"),
        ("1.299,00 €", 1299.0, "price:eur"),
        ("$1,299.00", 1299.0, "price:?"),
        ("1,299", 1299.0, "price:?"),
        ("CHF 12.50", 12.5, "price:chf"),
        ("1,5", 1.5, "price:?"),
        (12.5, 12.5, "price:?"),
    ],
)
def test_a_price_is_read_as_its_country_writes_it(written: object, value: float, currency: str) -> None:
    item = Item("i", "s", "Thing", ("Product",), fields={"offers": {"price": written}})
    assert attributes(item).numbers["price"] == (value,)
    assert attributes(item).numbers[currency] == (value,)


def test_a_comma_before_the_cents_is_one_in_questions_too() -> None:
    found = quantity("1,5 kg")
    assert found is not None and (found.value, found.unit) == (1500.0, "g")


def test_columns_are_known_in_any_case_and_ids_keep_what_accents_stand_on() -> None:
    _, item = csv_items("Name;COST;Opening Hours\nGrün Tee;4,20 €;\n", url="", **WHERE)
    assert isinstance(item, Item)
    assert (item.name, item.id, item.fields["offers"]) == ("Grün Tee", "#grun-tee", {"price": "4,20 €"})


@pytest.mark.parametrize("encoding", ["shift_jis", "gb2312", "utf-7", "no-such-encoding"])
def test_a_feed_in_an_encoding_that_the_parser_lacks_is_read_or_reported(encoding: str) -> None:
    feed = (
        f'<?xml version="1.0" encoding="{encoding}"?><rss><channel><item><title>Tea</title>'
        "<link>https://x.example/1</link></item></channel></rss>"
    )
    [found] = listing(feed.encode("ascii"), url="https://x.example/feed", **WHERE).items
    assert isinstance(found, Problem) or found.name == "Tea"


def test_a_script_in_a_feed_is_not_read_and_inline_markup_does_not_part_words() -> None:
    feed = (
        b"<rss><channel><item><title>T</title><link>https://x.example/1</link><description><![CDATA["
        b"<p>Hello <b>wor</b>ld<!-- no -->. <script>alert(1)</script>More.</p>]]></description></item></channel></rss>"
    )
    [item] = listing(feed, url="https://x.example/feed", **WHERE).items
    assert isinstance(item, Item) and item.description == "Hello world. More."


def test_a_problem_is_reported_in_good_grammar() -> None:
    [problem] = items({"@type": "Event"}, site="s", place="p")
    assert problem == Problem("p", "an Event without a name, a description and text")


@pytest.mark.parametrize(
    "body",
    [
        "<html><title>Café Größe</title><p>Ein Café in Zürich.</p></html>".encode("cp1252"),
        '<html><meta charset="iso-8859-1"><title>Café Größe</title><p>Ein Café.</p></html>'.encode("latin-1"),
        "<html><title>Café Größe</title><p>Ein Café.</p></html>".encode("utf-16"),
        "\ufeff<html><title>Café Größe</title><p>Ein Café.</p></html>".encode(),
    ],
    ids=["windows", "named", "utf-16", "bom"],
)
async def test_a_page_is_read_in_its_own_encoding(tmp_path: Path, body: bytes) -> None:
    (tmp_path / "a.html").write_bytes(body)
    index = LocalIndex(None, None)
    assert (await ingest(index, str(tmp_path), site="s")).problems == ()
    assert (await index.search(SearchQuery(""))).hits[0].item.name == "Café Größe"


async def test_what_is_not_text_is_reported_and_not_read(tmp_path: Path) -> None:
    (tmp_path / "picture.html").write_bytes(b"\x89PNG\x00\x01\x02\xff\xfe")
    (tmp_path / "page.html").write_text("<title>Tulips</title><p>They grow.</p>")
    report = await ingest(LocalIndex(None, None), str(tmp_path), site="s")
    assert report.added == 1 and [str(problem) for problem in report.problems] == ["picture.html: not text: a picture"]


def test_a_type_inside_a_result_is_a_string_as_it_was_published() -> None:
    [item] = items({"@type": "Product", "name": "Lamp", "offers": {"@type": "Offer", "price": 3}}, site="s")
    assert isinstance(item, Item)
    assert result(Hit(item, 50.0))["offers"] == {"@type": "Offer", "price": 3}


@pytest.mark.parametrize(
    ("body", "name", "url", "text"),
    [
        ("<rss version='2.0'><channel><item><title>Salt & pepper</title><link>/1</link></item></channel></rss>",
         "Salt & pepper", "https://site.example/1", ""),
        ("<rss version='2.0'><channel><item><title>Cut short</title><link>/1</link></item><item><title>Half",
         "Cut short", "https://site.example/1", ""),
        ("<feed xmlns='http://www.w3.org/2005/Atom' xml:base='https://other.example/blog/'><entry><title>Based</title>"
         "<link href='1'/></entry></feed>", "Based", "https://other.example/blog/1", ""),
        ("<feed xmlns='http://www.w3.org/2005/Atom'><entry><title>Marked up</title><link href='/1'/>"
         "<content type='xhtml'><div xmlns='http://www.w3.org/1999/xhtml'><p>One</p><p>two</p></div></content></entry></feed>",
         "Marked up", "https://site.example/1", "One\ntwo"),
    ],
    ids=["a bare ampersand", "the end is missing", "xml:base", "paragraphs of XHTML"],
)  # fmt: skip
def test_feeds_are_read_as_feed_readers_read_them(body: str, name: str, url: str, text: str) -> None:
    read = listing(body.encode(), site="site", url="https://site.example/", source="s", place="p")
    first = read.items[0]
    assert isinstance(first, Item)
    assert (first.name, first.url, first.text) == (name, url, text)


def test_a_feed_is_never_taken_for_the_name_of_a_file(tmp_path: Path) -> None:
    secret = tmp_path / "secret.xml"
    secret.write_text(
        "<rss version='2.0'><channel><item><title>Secret</title><link>http://x/1</link></item></channel></rss>"
    )
    read = listing(str(secret).encode(), site="site", url="https://site.example/", source="s", place="p")
    assert [type(found) for found in read.items] == [Problem]

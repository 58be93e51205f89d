"""What sites really publish: commas before the cents, other encodings, markup in feeds, names in capitals."""

from __future__ import annotations

from pathlib import Path

import pytest

from sabir.search import Item, LocalIndex, Problem, SearchQuery, ingest
from sabir.search.answers.results import result
from sabir.search.engine.base import Hit
from sabir.search.ingest.feeds import listing
from sabir.search.ingest.fetch import Document
from sabir.search.ingest.html import markdown_items, page_items
from sabir.search.ingest.kinds import read
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


@pytest.mark.parametrize(
    ("url", "link"),
    [("", "https://town.example/n/2"), ("https://feeds.example/all/feed.xml", "https://feeds.example/n/2")],
)
def test_a_relative_link_of_a_feed_is_that_of_its_site(url: str, link: str) -> None:
    feed = (
        "<rss version='2.0'><channel><title>Town</title><link>https://town.example/</link>"
        "<item><title>Library</title><link>/n/2</link></item></channel></rss>"
    )
    [found] = listing(feed.encode(), url=url, **WHERE).items
    assert isinstance(found, Item) and found.url == link


def test_an_entry_of_a_feed_needs_no_title_and_an_empty_one_is_reported() -> None:
    feed = (
        "<rss version='2.0'><channel><title>Town</title><link>https://town.example/</link>"
        "<item><description>The bridge is closed today.</description><guid isPermaLink='false'>7</guid></item>"
        "<item></item></channel></rss>"
    )
    note, empty = listing(feed.encode(), url="https://town.example/feed", **WHERE).items
    assert isinstance(note, Item) and note.description == "The bridge is closed today."
    assert isinstance(empty, Problem) and empty.reason == "an Article without a name, a description and text"


@pytest.mark.parametrize(
    ("front", "name"),
    [("---\ntitle: Tea\n---\n", "Tea"), ('+++\ntitle = "Tea"\ndate = 2026-01-02\n+++\n', "Tea"), ("", "post")],
)
def test_the_front_matter_of_a_file_is_yaml_or_toml(front: str, name: str) -> None:
    [found] = markdown_items(f"{front}Served at four.\n", url="", **{**WHERE, "place": "post.md"})
    assert isinstance(found, Item) and (found.name, found.text.split("\n")[0]) == (name, "Served at four.")


@pytest.mark.parametrize(
    "front", ["---\ndraft: true\n---\n", "+++\ndraft = true\n+++\n", "---\npublished: false\n---\n"]
)
def test_a_draft_is_not_published(front: str) -> None:
    [found] = markdown_items(f"{front}Secret\n", url="", **WHERE)
    assert isinstance(found, Problem) and found.reason == "a draft, as its front matter says"


@pytest.mark.parametrize("front", ["---\na: b: c\n---\n", "+++\na = = b\n+++\n"])
def test_invalid_front_matter_is_reported_and_the_text_is_read(front: str) -> None:
    problem, found = markdown_items(f"{front}Served at four.\n", url="", **WHERE)
    assert isinstance(problem, Problem) and problem.reason.startswith("front matter is not ")
    assert isinstance(found, Item) and found.text == "Served at four."


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("<h2>Trip</h2><time>Sunday</time><p>Meet at the pier</p>now", "Trip\nSunday\nMeet at the pier\nnow"),
        ("<ul><li>a<ul><li>b</li></ul>c</li></ul>d", "a\nb\nc\nd"),
        ("<p>one <b>bold</b> word</p>", "one bold word"),
        ("<details><summary>Is it free?</summary>Yes.</details>later", "Is it free?\nYes.\nlater"),
        ("<h3><button>Is it free?</button></h3><div>Yes.</div>", "Is it free?\nYes."),
        ("<div><button aria-controls='a'>Is it free?</button></div><div id='a'>Yes.</div>", "Is it free?\nYes."),
        ("<button class='accordion'>Is it free?</button><div>Yes.</div>", "Is it free?\nYes."),
        ("<p>A mug</p><button>Buy now</button>", "A mug"),
    ],
)
def test_what_follows_a_block_of_a_page_is_a_line_of_its_own(body: str, text: str) -> None:
    html = f"<html><head><title>x</title></head><body><main>{body}</main></body></html>"
    [found] = page_items(html, url="https://x.example/", **WHERE)
    assert isinstance(found, Item) and found.fields["text"] == text


def test_a_deep_page_is_read() -> None:
    html = f"<html><head><title>x</title></head><body>{'<div>' * 3_000}deep{'</div>' * 3_000}</body></html>"
    [found] = page_items(html, url="https://x.example/", **WHERE)
    assert isinstance(found, Item) and found.fields["text"] == "deep"


def test_a_page_that_a_script_writes_is_reported_as_empty() -> None:
    html = "<html><head><title>App</title></head><body><div id='root'></div><script>start()</script></body></html>"
    [found] = page_items(html, url="https://x.example/", **WHERE)
    assert isinstance(found, Problem) and found.reason == "a page without text: a script may write it"


@pytest.mark.parametrize("end", ["", ",", ", \n"])
def test_a_comma_too_many_in_json_ld_does_no_harm(end: str) -> None:
    script = f'{{"@type": "Recipe", "name": "Tea, }} hot", "recipeIngredient": ["tea"{end}]{end}}}'
    html = f"<html><head><script type='application/ld+json'>{script}</script></head><body></body></html>"
    [found] = page_items(html, url="https://x.example/", **WHERE)
    assert isinstance(found, Item) and found.types == ("Recipe",)


def test_files_that_use_the_same_fragment_for_their_things_keep_them_all() -> None:
    ids = set()
    for place in ("a.html", "b.html"):
        thing = '{"@type": "Product", "@id": "#product", "name": "Mug"}'
        body = f"<html><head><script type='application/ld+json'>{thing}</script></head><body></body></html>"
        found = read(Document(place, body.encode()), site="s", source="here", mapping=None, listed=None)
        ids.update(item.id for item in found if isinstance(item, Item))
    assert ids == {"a.html#product", "b.html#product"}

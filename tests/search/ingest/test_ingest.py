"""Readers and the run: every shape a site publishes, incremental, with bad items reported and not in the way."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from sabir.errors import ConfigError, NotFound, PeerUnavailable
from sabir.search import Fetched, IngestProgress, IngestReport, Item, LocalIndex, Problem, SearchQuery, ingest
from sabir.search.engine.passages import passages
from sabir.search.ingest.feeds import listing, schema_maps
from sabir.search.ingest.html import markdown_items, page_items
from sabir.search.ingest.tables import csv_items, line_items
from sabir.search.items.item import BREAK
from sabir.search.items.schema_org import items

WHERE = {"site": "s", "source": "here", "place": "file"}


def good(read: object) -> list[Item]:
    made = list(read)  # type: ignore[call-overload]
    assert all(isinstance(item, Item) for item in made), made
    return made


def recipe(name: str, **more: object) -> dict[str, object]:
    return {"@context": "https://schema.org", "@type": "Recipe", "name": name, **more}


# JSON-LD


def test_a_graph_is_read_with_its_references_and_without_what_only_accompanies_it() -> None:
    graph = {
        "@context": "https://schema.org",
        "@graph": [
            {"@type": "WebSite", "@id": "#site", "name": "A site"},
            {"@type": "BreadcrumbList", "itemListElement": [{"@type": "ListItem", "position": 1, "name": "Home"}]},
            {"@type": "Article", "@id": "#a", "headline": "On boots", "author": {"@id": "#jane"}},
            {"@type": "Person", "@id": "#jane", "name": "Jane Smith", "worksFor": {"@id": "#site"}},
        ],
    }
    [item] = good(items(graph, site="s", base="https://s.example/boots"))
    assert (item.name, item.id, item.types) == ("On boots", "https://s.example/boots#a", ("Article",))
    assert item.fields["author"]["name"] == "Jane Smith"


@pytest.mark.parametrize(
    ("address", "types", "job"),
    [
        ("https://s.example/team/jane", ("Person",), "Vet"),
        ("https://s.example/posts/boots", ("WebPage",), None),  # its author
    ],
)
def test_a_page_about_a_person_states_what_is_known_of_them(address: str, types: tuple[str, ...], job: object) -> None:
    person = {"@type": "Person", "@id": "https://s.example/team/jane", "name": "Jane Smith", "jobTitle": "Vet"}
    html = (
        f'<html><script type="application/ld+json">{json.dumps(person)}</script>'
        "<main><h1>Jane</h1><p>Likes rabbits.</p></main></html>"
    )
    [item] = good(page_items(html, site="s", url=address, source="f", place="p"))
    assert (item.types, item.fields.get("jobTitle")) == (types, job)
    assert "Likes rabbits." in item.text


def test_references_in_a_circle_end() -> None:
    graph = {"@graph": [
        {"@type": "Book", "@id": "#1", "name": "One", "isPartOf": {"@id": "#2"}},
        {"@type": "Book", "@id": "#2", "name": "Two", "hasPart": {"@id": "#1"}},
    ]}  # fmt: skip
    assert [item.name for item in good(items(graph, site="s", base="https://s.example/"))] == ["One", "Two"]


def test_lists_feeds_and_main_entities_give_their_items() -> None:
    listed = {"@type": "ItemList", "itemListElement": [
        {"@type": "ListItem", "position": 1, "item": recipe("Soup", url="/soup")},
        {"@type": "ListItem", "position": 2, "item": recipe("Cake", url="/cake")},
    ]}  # fmt: skip
    page = {"@type": "WebPage", "name": "A page", "mainEntity": {"@type": "Restaurant", "name": "Cath's"}}
    made = good(items([listed, page], site="s", base="https://s.example/list"))
    assert [(item.name, item.url) for item in made] == [
        ("Soup", "https://s.example/soup"), ("Cake", "https://s.example/cake"), ("Cath's", "https://s.example/list"),
    ]  # fmt: skip


def test_prefixes_values_and_language_maps_are_unwrapped() -> None:
    node = {
        "@type": ["http://schema.org/NewsArticle"],
        "schema:headline": {"@value": "News", "@language": "en"},
        "http://schema.org/description": [{"@value": "<p>It &amp; that</p>"}],
    }
    [item] = good(items(node, site="s", base="https://s.example/n"))
    assert (item.name, item.types, item.description) == ("News", ("NewsArticle",), "It & that")


def test_a_thing_without_a_name_takes_its_first_words_and_one_without_words_is_a_problem() -> None:
    [item] = good(items({"@type": "Comment", "text": "I liked it very much."}, site="s", base="https://s.example/c"))
    assert item.name == "I liked it very much."
    [problem] = items({"@type": "Offer", "price": 5}, site="s", place="f.json")
    assert problem == Problem("f.json", "an Offer without a name, a description and text")


def test_two_things_of_one_name_have_two_ids() -> None:
    made = good(items([recipe("Soup"), recipe("Soup")], site="s", base="https://s.example/r"))
    assert len({item.id for item in made}) == 2


def test_what_is_no_object_is_a_problem() -> None:
    assert list(items("hello", site="s", place="p")) == [
        Problem("p", "expected a JSON-LD object or array, found a string")
    ]


# Pages


def test_a_page_gives_the_json_ld_inside_it() -> None:
    html = f"""<html><head><link rel="canonical" href="/soup">
        <script type="application/ld+json">{json.dumps(recipe("Soup"))}</script>
        <script type="application/ld+json">{{"@type": "Recipe", "name": </script></head><body>x</body></html>"""
    found = list(page_items(html, url="https://s.example/soup?ref=1", **WHERE))
    assert isinstance(found[0], Item)
    assert (found[0].name, found[0].url) == ("Soup", "https://s.example/soup")
    assert isinstance(found[1], Problem)
    assert found[1].place == "file#ld+json[1]"


def test_a_page_without_json_ld_is_an_item_itself_without_its_navigation() -> None:
    html = """<html lang="en"><head><title>Opening hours - The Shop</title>
        <meta name="description" content="When we are open."></head><body><nav>Home About</nav>
        <main><h1>Opening hours</h1><p>We open at nine.</p><ul><li>Closed on Sundays.</li></ul>
        <script>var x = 1;</script></main><footer>Imprint</footer></body></html>"""
    [item] = good(page_items(html, url="https://s.example/hours", **WHERE))
    assert (item.name, item.description, item.types) == ("Opening hours", "When we are open.", ("WebPage",))
    assert item.text.startswith("We open at nine.\nClosed on Sundays.")
    assert "Imprint" not in item.text and "var x" not in item.text and "Home" not in item.text


def test_markdown_takes_its_front_matter_and_its_first_heading() -> None:
    front = "---\ntags: [boots, hiking]\ndate: 2026-02-14\nauthor: Jane\n---\n"
    text = f"{front}# On *boots*\n\nWear `wool`.\n\n- one\n- two\n"
    [item] = good(markdown_items(text, url="guides/boots.md", **WHERE))
    assert (item.name, item.types, item.id) == ("On boots", ("Article",), "guides/boots.md")
    assert item.fields["keywords"] == ["boots", "hiking"]
    assert item.fields["datePublished"] == "2026-02-14"
    assert item.text.startswith("Wear wool.\none\ntwo")


# Lines and tables


def test_json_lines_report_the_line_of_what_is_wrong_and_go_on() -> None:
    text = "\n".join([json.dumps(recipe("Soup")), '{"@type": "Recipe", "name"', "", json.dumps(recipe("Cake"))])
    found = list(line_items(text, url="", **WHERE))
    assert [item.name for item in found if isinstance(item, Item)] == ["Soup", "Cake"]
    [problem] = [item for item in found if isinstance(item, Problem)]
    assert problem.place == "file:2"


def test_lines_of_an_address_a_tab_and_json_are_read() -> None:
    [item] = good(line_items(f"https://s.example/x\t{json.dumps(recipe('Soup'))}", url="", **WHERE))
    assert item.url == "https://s.example/x"


def test_csv_is_read_by_its_column_names_or_by_a_mapping() -> None:
    table = "Title;Price;Currency;City\nLamp;25;USD;Boise\n;;;\nToo;many;cells;in;here\n"
    _, *found = csv_items(table, url="", **WHERE)
    assert isinstance(found[0], Item)
    assert found[0].fields["offers"] == {"price": "25", "priceCurrency": "USD"}
    assert found[1] == Problem("file:4", "5 cells in a table of 4 columns")
    mapping = {"name": "Title", "@type": "=Event", "location.address.addressLocality": "City"}
    _, *found = csv_items("Title,City\nFair,Boise\n", url="", mapping=mapping, **WHERE)
    [item] = good(found)
    assert (item.types, item.fields["location"]) == (("Event",), {"address": {"addressLocality": "Boise"}})
    [problem] = csv_items("Title\nFair\n", url="", mapping={"name": "Name"}, **WHERE)
    assert "the mapping names column 'Name'" in str(problem)


# Feeds and maps

RSS = b"""<?xml version="1.0"?><rss version="2.0" xmlns:content="http://purl.org/rss/1.0/modules/content/"><channel>
<item><title>First</title><link>https://s.example/1</link><description>&lt;b&gt;Short&lt;/b&gt; words</description>
<content:encoded><![CDATA[<p>The whole text.</p>]]></content:encoded>
<pubDate>Sat, 14 Feb 2026 10:00:00 GMT</pubDate><category>boots</category></item></channel></rss>"""
ATOM = b"""<feed xmlns="http://www.w3.org/2005/Atom"><entry><title>Second</title><id>urn:2</id>
<link href="/2"/><updated>2026-03-01T00:00:00Z</updated><summary>Words</summary>
<author><name>Jane</name></author></entry></feed>"""


def test_feeds_give_articles() -> None:
    [first] = good(listing(RSS, url="https://s.example/feed", **WHERE).items)
    assert (first.name, first.url, first.description) == ("First", "https://s.example/1", "Short words")
    assert first.fields["datePublished"] == "2026-02-14T10:00:00+00:00"
    assert first.text.startswith("The whole text.")
    [second] = good(listing(ATOM, url="https://s.example/feed", **WHERE).items)
    assert (second.name, second.url, second.fields["author"]) == ("Second", "https://s.example/2", "Jane")


def test_a_schema_map_lists_only_its_structured_data() -> None:
    body = b"""<urlset><url contentType="structuredData/schema.org"><loc>/data.jsonl</loc></url>
    <url><loc>/page.html</loc></url></urlset>"""
    assert listing(body, url="https://s.example/schema_map.xml", **WHERE).pages == ("https://s.example/data.jsonl",)
    assert schema_maps("User-agent: *\nschemaMap: /m.xml\n", "https://s.example/") == ("https://s.example/m.xml",)


def test_xml_that_expands_without_end_is_not_read() -> None:
    bomb = b'<?xml version="1.0"?><!DOCTYPE a [<!ENTITY b "c">]><rss>&b;</rss>'
    assert listing(bomb, url="", **WHERE).items == (Problem("file", "XML with a DTD is not read"),)


# The run


class Sites:
    """A web of pages by address; counts what was asked for."""

    def __init__(self, pages: Mapping[str, tuple[str, bytes]]) -> None:
        self.pages = dict(pages)
        self.asked: list[str] = []
        self.down: set[str] = set()

    async def __call__(self, url: str) -> Fetched:
        self.asked.append(url)
        if url.endswith("/dead") or url in self.down:
            raise PeerUnavailable(url, "no connection")
        kind, body = self.pages.get(url, ("", b""))
        return Fetched(url, 200 if url in self.pages else 404, body, kind)


def lines(*names: str) -> str:
    return "\n".join(json.dumps(recipe(name, url=f"https://s.example/{name}")) for name in names)


@pytest.fixture
def index() -> LocalIndex:
    return LocalIndex(None, None)


def counts(report: IngestReport) -> dict[str, int]:
    names = ("added", "updated", "unchanged", "removed", "merged")
    return {name: count for name in names if (count := getattr(report, name))}


async def names(index: LocalIndex) -> list[str]:
    return sorted(hit.item.name for hit in (await index.search(SearchQuery(limit=100))).hits)


async def test_a_folder_is_read_with_all_that_is_in_it(index: LocalIndex, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(lines("Soup", "Cake"))
    (tmp_path / "b.md").write_text("# Guide\n\nWords.")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "c.html").write_text("<html><title>Page</title><body><p>Text here.</p></body></html>")
    (tmp_path / "sub" / "feed.xml").write_bytes(RSS)
    (tmp_path / ".hidden.json").write_text("{}")
    (tmp_path / "picture.png").write_bytes(b"\x89PNG")
    report = await ingest(index, str(tmp_path), site="s", base="https://s.example/docs/")
    assert (report.read, report.added, report.way) == (5, 5, "folder")
    assert report.skipped == {"files of a kind that is not read (.png)": 1}
    assert await names(index) == ["Cake", "First", "Guide", "Page", "Soup"]
    page = next(hit.item for hit in (await index.search(SearchQuery("Page"))).hits)
    assert page.url == "https://s.example/docs/sub/c.html"


async def test_only_what_changed_is_written_and_what_vanished_is_removed_by_sync(
    index: LocalIndex, tmp_path: Path
) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text(lines("Soup", "Cake"))
    assert counts(await ingest(index, str(file), site="s")) == {"added": 2}
    assert counts(await ingest(index, str(file), site="s")) == {"unchanged": 2}
    file.write_text(lines("Soup", "Pie").replace('"Soup", ', '"Soup", "description": "Hot", '))
    assert counts(await ingest(index, str(file), site="s")) == {"added": 1, "updated": 1}
    assert await names(index) == ["Cake", "Pie", "Soup"]
    assert counts(await ingest(index, str(file), site="s", sync=True)) == {"unchanged": 2, "removed": 1}
    assert await names(index) == ["Pie", "Soup"]


async def test_sync_removes_only_what_its_own_source_gave(index: LocalIndex, tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.jsonl").write_text(lines(name))
        await ingest(index, str(tmp_path / f"{name}.jsonl"), site="s", sync=True)
    assert await names(index) == ["a", "b"]


async def test_a_bad_item_is_reported_and_the_rest_is_read(index: LocalIndex, tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text(lines("Soup") + "\nnonsense\n" + lines("Cake"))
    report = await ingest(index, str(file), site="s")
    assert report.added == 2
    assert [problem.place for problem in report.problems] == ["a.jsonl:2"]


async def test_progress_is_reported_with_rate(index: LocalIndex, tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / f"{number}.jsonl").write_text(lines(f"R{number}"))
    received: list[IngestProgress] = []
    await ingest(index, str(tmp_path), site="s", progress=received.append)
    assert [(item.done, item.total, item.items) for item in received] == [(1, 3, 1), (2, 3, 2), (3, 3, 3)]
    assert all(item.rate > 0 for item in received)


def test_what_a_page_describes_is_in_the_language_of_the_page() -> None:
    def page(language: str, data: str) -> str:
        return f'<html lang="{language}"><script type="application/ld+json">{data}</script></html>'

    [item] = good(page_items(page("de", '{"@type":"Product","name":"Brot"}'), url="https://s.example/brot", **WHERE))
    assert item.fields["inLanguage"] == "de"
    [item] = good(page_items(page("de", '{"@type":"Product","name":"Pain","inLanguage":"fr"}'), url="u", **WHERE))
    assert item.fields["inLanguage"] == "fr"


async def test_progress_moves_within_a_long_file(index: LocalIndex, tmp_path: Path) -> None:
    file = tmp_path / "long.jsonl"
    file.write_text("".join(f"{lines(f'R{number}')}\n" for number in range(1_000)))
    received: list[IngestProgress] = []
    await ingest(index, str(file), site="s", progress=received.append)
    assert [round(item.share, 2) for item in received] == [0.25, 0.5, 0.75, 1.0, 1.0]
    assert all(item.remaining is not None for item in received) and received[-1].remaining == 0


async def test_a_folder_is_cited_by_where_it_is_published(index: LocalIndex, tmp_path: Path) -> None:
    (tmp_path / "about").mkdir()
    (tmp_path / "about" / "us.md").write_text("# About us\n\nWe bake.\n")
    await ingest(index, str(tmp_path), site="s", base="https://s.example/docs")
    [hit] = (await index.search(SearchQuery("bake"))).hits
    assert hit.item.page == "https://s.example/docs/about/us.md"


async def test_a_sitemap_is_followed_and_robots_txt_obeyed(index: LocalIndex) -> None:
    sites = Sites(
        {
            "https://s.example/robots.txt": ("text/plain", b"User-agent: *\nDisallow: /private"),
            "https://s.example/sitemap.xml": (
                "application/xml",
                b"<urlset><url><loc>/one</loc></url><url><loc>/private/two</loc></url><url><loc>/dead</loc></url></urlset>",
            ),
            "https://s.example/one": ("text/html", b"<html><title>One</title><body><p>Text.</p></body></html>"),
        }
    )
    report = await ingest(index, "https://s.example/sitemap.xml", site="s", fetch=sites)
    assert await names(index) == ["One"]
    assert [str(problem) for problem in report.problems] == [
        "https://s.example/private/two: not allowed by robots.txt",
        "https://s.example/dead: https://s.example/dead: no connection",
    ]
    assert "https://s.example/private/two" not in sites.asked
    assert sites.asked.count("https://s.example/robots.txt") == 1


async def test_a_site_is_read_by_the_schema_map_that_its_robots_txt_names(index: LocalIndex) -> None:
    sites = Sites(
        {
            "https://s.example/robots.txt": ("text/plain", b"schemaMap: https://s.example/map.xml"),
            "https://s.example/": ("text/html", b"<html><title>Home</title><body><p>Welcome.</p></body></html>"),
            "https://s.example/map.xml": (
                "text/xml",
                b'<urlset><url contentType="structuredData/schema.org"><loc>/d.jsonl</loc></url></urlset>',
            ),
            "https://s.example/d.jsonl": ("application/x-ndjson", lines("Soup", "Cake").encode()),
        }
    )
    report = await ingest(index, "https://s.example/", site="s", fetch=sites)
    assert (report.documents, report.added, report.way) == (3, 3, "schema map")
    assert await names(index) == ["Cake", "Home", "Soup"]


async def test_pages_that_cannot_be_had_for_now_are_not_taken_for_vanished(index: LocalIndex) -> None:
    page = ("text/html", b"<html><title>One</title><body><p>Text.</p></body></html>")
    sites = Sites({
        "https://s.example/map.xml": ("text/xml", b"<urlset><url><loc>/one</loc></url></urlset>"),
        "https://s.example/one": page,
    })  # fmt: skip
    await ingest(index, "https://s.example/map.xml", site="s", fetch=sites, sync=True)
    sites.down.add("https://s.example/one")
    report = await ingest(index, "https://s.example/map.xml", site="s", fetch=sites, sync=True)
    assert (report.removed, report.notes) == (0, ("1 item is kept, because 1 document could not be read",))
    assert await names(index) == ["One"]


async def test_a_page_that_is_gone_does_not_keep_sync_from_removing(index: LocalIndex) -> None:
    sites = Sites({
        "https://s.example/map.xml": ("", b"<urlset><url><loc>/one</loc></url><url><loc>two</loc></url></urlset>"),
        "https://s.example/one": ("text/html", b"<title>One</title><p>Text.</p>"),
        "https://s.example/two": ("text/html", b"<title>Two</title><p>Text.</p>"),
    })  # fmt: skip
    await ingest(index, "https://s.example/map.xml", site="s", fetch=sites, sync=True)
    del sites.pages["https://s.example/one"]
    report = await ingest(index, "https://s.example/map.xml", site="s", fetch=sites, sync=True)
    assert (report.removed, report.skipped) == (1, {"the server answered 404": 1})
    assert await names(index) == ["Two"]
    del sites.pages["https://s.example/map.xml"]  # the source itself: nothing is known, so nothing is removed
    report = await ingest(index, "https://s.example/map.xml", site="s", fetch=sites, sync=True)
    assert (report.removed, report.notes) == (0, ("1 item is kept, because 1 document could not be read",))


async def test_an_address_needs_a_fetcher_and_a_path_must_exist(index: LocalIndex, tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        await ingest(index, "https://s.example/", site="s")
    with pytest.raises(NotFound):
        await ingest(index, str(tmp_path / "nothing"), site="s")


def marked(kind: str, **said: object) -> str:
    return f'<script type="application/ld+json">{json.dumps({"@type": kind, **said})}</script>'


def test_what_only_the_text_of_a_page_says_of_its_thing_is_kept_and_nothing_twice() -> None:
    html = f"""<html><head>{marked("GardenStore", name="Hollyoak", description="Plants and tools.")}
        </head><body><nav>Shop</nav><main><h1>Hollyoak</h1><p>Plants and tools. Four charging points for cars.</p>
        <p>Plants and tools.</p><ul class="related"><li>Daffodils</li></ul>
        <section id="comments"><p>First!</p></section></main><footer>Registered in England</footer></body></html>"""
    [item] = good(page_items(html, url="https://s.example/visit", **WHERE))
    assert item.text.split(BREAK)[1].strip() == "Plants and tools. Four charging points for cars."
    [_, besides] = passages(item)
    assert besides.text == "Plants and tools. Four charging points for cars."


def test_the_text_of_a_page_with_microdata_is_kept_too() -> None:
    html = """<main itemscope itemtype="https://schema.org/HotelRoom"><h1 itemprop="name">Dormitorio</h1>
        <p itemprop="description">Seis camas.</p><p>No es mixto.</p></main>"""
    [item] = good(page_items(html, url="https://s.example/seis", **WHERE))
    assert item.text.split(BREAK)[1].strip() == "No es mixto."


def test_a_page_that_only_names_the_company_behind_the_site_is_an_item_of_its_own() -> None:
    html = f"""<head><title>Delivery</title>{marked("GardenStore", name="Hollyoak", url="https://s.example/")}</head>
        <main><p>Delivery costs £4.95.</p></main>"""
    company, delivery = good(page_items(html, url="https://s.example/delivery", **WHERE))
    assert (company.name, company.text) == ("Hollyoak", "")
    assert (delivery.name, delivery.url, delivery.text) == (
        "Delivery", "https://s.example/delivery", "Delivery costs £4.95."
    )  # fmt: skip


def test_a_page_that_lists_things_of_other_pages_gives_its_text_to_none_of_them() -> None:
    products = [{"@type": "Product", "name": name, "url": f"https://s.example/{name}"} for name in ("rake", "spade")]
    html = f"""{marked("ItemList", itemListElement=products)}<main><p>All our tools.</p></main>"""
    assert [item.text for item in good(page_items(html, url="https://s.example/tools", **WHERE))] == ["", ""]


def test_sentences_of_a_large_page_are_compared_in_linear_time() -> None:
    def seconds(count: int) -> float:
        lines = "".join(f"<p>Line number {number} of many</p>" for number in range(count))
        markup = marked("Product", name="Rake", description=". ".join(f"Another line {n}" for n in range(count)))
        begun = time.process_time()
        good(page_items(f"{markup}<main>{lines}</main>", url="https://s.example/rake", **WHERE))
        return time.process_time() - begun

    assert seconds(8_000) < 40 * max(seconds(800), 0.01)  # ten times the lines; a hundred times if it were quadratic

"""A site without a sitemap, read by its links: politely, within its host, and with a report of what was done."""

from __future__ import annotations

import asyncio
import json
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from guard_site import Site
from sabir.agents.site.settings import FOLDER, SearchSettings, SiteSettings
from sabir.agents.site.sites import Sites
from sabir.cli import main
from sabir.guard.egress.addresses import Outbound, OutboundRules
from sabir.search import Fetched, Item, LocalIndex, Reach, SearchQuery, ingest
from sabir.search.ingest.crawl import Scope, links, normal
from sabir.search.ingest.robots import Robots

HTML = "text/html; charset=utf-8"


@pytest.fixture
def site() -> Iterator[Site]:
    made = Site()
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def config(tmp_path: Path, site: Site) -> str:
    """This machine's address is inside, and fetched only where it is allowed."""
    path = tmp_path / "sabir.yaml"
    path.write_text(f"home: {tmp_path / 'home'}\noutbound: {{allow: ['127.0.0.1:{site.port}']}}\n")
    return str(path)


def page(title: str, *hrefs: str, head: str = "", text: str = "Some text.") -> bytes:
    anchors = "".join(f'<a href="{href}">more</a>' for href in hrefs)
    body = f"<body><main><p>{text}</p>{anchors}</main></body>"
    return f"<!doctype html><html><head><title>{title}</title>{head}</head>{body}</html>".encode()


def report_of(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> dict[str, Any]:
    capsys.readouterr()
    assert main(["ingest", *arguments, "--no-vectors", "--json"]) == code
    read: dict[str, Any] = json.loads(capsys.readouterr().out)
    return read


def items(home: Path) -> list[Item]:
    async def read() -> list[Item]:
        async with LocalIndex(home / FOLDER, None) as index:
            return [hit.item for hit in (await index.search(SearchQuery(limit=100))).hits]

    return asyncio.run(read())


def asked(site: Site) -> list[str]:
    return [path for path, _, _ in site.heard]


def furnish(site: Site) -> None:
    site.says("/robots.txt", b"User-agent: *\nDisallow: /private\nDisallow: /*?sort=\n", content_type="text/plain")
    home = page("Home", "/goods/", "/about?utm_source=x", "https://elsewhere.example/", "/private/list",
                "/img/logo.png", "javascript:alert(1)", "mailto:a@b.example", "/goods/?sort=price", "/gone",
                "#top")  # fmt: skip
    site.says("/", home, content_type=HTML)
    site.says("/about", page("About", "/"), content_type=HTML)
    thin = '<div itemscope itemtype="https://schema.org/Product"><a itemprop="url" href="/goods/pan">'
    listed = thin + '<span itemprop="name">Pan</span></a></div>'
    site.says("/goods/", page("Goods", "pan", "pot", "/about#us", head="", text=listed), content_type=HTML)
    thing = {"@type": "Product", "name": "Pan", "url": "/goods/pan", "description": "Cast iron, for gas and fire."}
    script = f'<script type="application/ld+json">{json.dumps(thing)}</script>'
    site.says("/goods/pan", page("Pan", "/goods/", head=script), content_type=HTML)
    site.says(
        "/goods/pot", page("Pot", "/hidden", head='<meta name="robots" content="noindex, nofollow">'), content_type=HTML
    )
    site.says("/hidden", page("Hidden"), content_type=HTML)


def test_a_site_without_a_sitemap_is_crawled_by_one_command(
    site: Site, config: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    furnish(site)
    report = report_of(capsys, f"{site.url}/", "--config", config, "--delay", "0")
    assert report["way"] == "crawl" and report["documents"] == 5
    assert report["notes"] == ["no sitemap: 5 pages found by their links, at least 0 s apart"]
    assert report["skipped"] == {
        "links to pages outside the crawled folder": 1,
        "not allowed by robots.txt": 2,
        "the server answered 404": 1,
        "the page asks not to be indexed (noindex)": 1,
    }
    assert {item.name for item in items(tmp_path / "home")} == {"Home", "About", "Pan"}
    assert all(item.site == "127.0.0.1" for item in items(tmp_path / "home"))  # --site is the host, if none is given
    [pan] = [item for item in items(tmp_path / "home") if item.name == "Pan"]
    assert (pan.description, report["merged"]) == ("Cast iron, for gas and fire.", 1)  # its own page says more of it
    heard = asked(site)
    assert len(heard) == len(set(heard)), heard
    assert not {"/private/list", "/goods/?sort=price", "/hidden", "/img/logo.png"} & set(heard)
    assert all(headers["user-agent"].startswith("sabir") for _, headers, _ in site.heard)
    site.answers.pop("/about")
    again = report_of(capsys, f"{site.url}/", "--config", config, "--delay", "0", "--sync")
    assert (again["removed"], again["unchanged"]) == (1, 2)  # one 404 more does not keep sync from its work
    assert "Cast iron, for gas and fire." in {item.description for item in items(tmp_path / "home")}


def test_a_folder_of_a_site_is_crawled_and_a_page_of_it_is_one_document(
    site: Site, config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    furnish(site)
    part = report_of(capsys, f"{site.url}/goods/", "--config", config, "--delay", "0")
    assert (part["way"], part["documents"]) == ("crawl", 3)
    assert "/about" not in asked(site) and "/sitemap.xml" not in asked(site)
    one = report_of(capsys, f"{site.url}/goods/pan", "--config", config, "--delay", "0")
    assert (one["way"], one["documents"]) == ("document", 1)
    none = report_of(capsys, f"{site.url}/goods/", "--config", config, "--no-crawl")
    assert (none["way"], none["documents"]) == ("document", 1)


def test_the_sitemap_goes_before_the_links_and_an_empty_one_does_not(
    site: Site, config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    furnish(site)
    site.says("/sitemap.xml", b"<urlset></urlset>", content_type="application/xml")
    assert report_of(capsys, f"{site.url}/", "--config", config, "--delay", "0")["way"] == "crawl"
    site.says("/sitemap.xml", b"<urlset><url><loc>/goods/pan</loc></url></urlset>", content_type="application/xml")
    report = report_of(capsys, f"{site.url}/", "--config", config, "--delay", "0")
    assert (report["way"], report["documents"]) == ("sitemap", 3)
    assert report_of(capsys, f"{site.url}/", "--config", config, "--delay", "0", "--crawl")["way"] == "crawl"


def test_a_limit_holds_is_reported_and_keeps_sync_from_removing(
    site: Site, config: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    furnish(site)
    report_of(capsys, f"{site.url}/", "--config", config, "--delay", "0")
    report = report_of(capsys, f"{site.url}/", "--config", config, "--delay", "0", "--max-pages", "2", "--sync")
    assert (report["documents"], report["removed"]) == (2, 0)
    assert report["skipped"]["only 2 pages are read"] >= 1
    assert report["notes"][-1].endswith("kept, because only 2 pages are read")
    for flag in (["--max-pages", "0"], ["--delay", "-1"]):
        assert main(["ingest", f"{site.url}/", "--config", config, *flag]) == 2


def test_private_addresses_stay_closed_to_a_crawl(
    site: Site, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    furnish(site)
    report = report_of(capsys, f"{site.url}/", "--home", str(tmp_path / "home"), code=1)
    assert "not on the open internet" in report["problems"][0]["reason"] and site.heard == []
    assert main(["ingest", f"{site.url}/", "--site", "s.example", "--home", str(tmp_path / "home")]) == 1
    assert "outbound: {allow: ['127.0.0.1']}" in capsys.readouterr().err


def test_a_redirect_to_another_host_is_not_followed_into_the_site(
    site: Site, config: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    inside = Site()
    try:
        site.says("/", page("Home", "/away"), content_type=HTML)
        site.says("/away", b"", 302, location=f"{inside.url}/secret")
        inside.says("/secret", page("Secret"), content_type=HTML)
        report = report_of(capsys, f"{site.url}/", "--config", config, "--delay", "0")
        assert inside.heard == [] and [item.name for item in items(tmp_path / "home")] == ["Home"]
        assert any("open internet" in reason for reason in report["skipped"])
    finally:
        inside.close()


def test_a_busy_server_is_asked_again_when_it_says(site: Site, config: str, capsys: pytest.CaptureFixture[str]) -> None:
    answers = iter([(503, {"retry-after": "0"}, b""), (200, {"content-type": HTML}, page("Home"))])
    site.answers["/"] = lambda *_: next(answers)
    assert report_of(capsys, f"{site.url}/", "--config", config, "--delay", "0")["added"] == 1


def test_the_next_pages_of_a_shop_and_of_a_feed_are_followed(
    site: Site, config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def product(name: str) -> dict[str, Any]:
        return {"title": name, "handle": name, "variants": [{"id": 1, "price": "5.00", "title": "Default Title"}]}

    kind = {"content_type": "application/json"}
    site.says("/products.json", json.dumps({"products": [product("a"), product("b")]}).encode(), **kind)
    site.says("/products.json?page=2", json.dumps({"products": [product("c")]}).encode(), **kind)
    site.says("/products.json?page=3", b'{"products": []}', **kind)
    report = report_of(capsys, f"{site.url}/products.json", "--config", config, "--delay", "0")
    assert (report["documents"], report["added"], report["skipped"]) == (3, 3, {})
    feed = {"version": "https://jsonfeed.org/version/1.1", "title": "F"}
    first = {**feed, "items": [{"id": "1", "content_text": "One."}], "next_url": f"{site.url}/feed-2.json"}
    site.says("/feed.json", json.dumps(first).encode(), content_type="application/feed+json")
    site.says("/feed-2.json", json.dumps({**feed, "items": [{"id": "2", "content_text": "Two."}]}).encode(), **kind)
    report = report_of(capsys, f"{site.url}/feed.json", "--config", config, "--delay", "0")
    assert (report["documents"], report["added"]) == (2, 2)


# robots.txt, RFC 9309

RULES = """
# a comment
User-agent: other
User-agent: Sabir
Disallow: /a
Allow: /a/b
Disallow: /*.pdf$
Crawl-delay: 2

User-agent: *
Disallow: /
"""


@pytest.mark.parametrize(
    ("path", "allowed"),
    [("/", True), ("/a", False), ("/a/c", False), ("/a/b", True), ("/a/b/c?x=1", True), ("/x.pdf", False),
     ("/x.pdf?y", True), ("/deep/x.pdf", False), ("/x.pdfx", True)],
)  # fmt: skip
def test_the_longest_rule_of_the_own_group_decides(path: str, allowed: bool) -> None:
    rules = Robots.parse(RULES, "sabir")
    assert rules.allows(f"https://s.example{path}") is allowed and rules.delay == 2.0
    assert not Robots.parse(RULES, "someone").allows("https://s.example/x")
    assert Robots.parse("", "sabir").allows("https://s.example/x")


def test_a_pattern_of_many_stars_takes_no_time() -> None:
    rules = Robots.parse(f"User-agent: *\nDisallow: /{'*a' * 2_000}b\n", "sabir")
    began = time.process_time()
    assert rules.allows(f"https://s.example/{'a' * 20_000}")
    assert time.process_time() - began < 0.5


# Links


def test_links_are_brought_to_one_spelling_and_kept_within_the_folder() -> None:
    scope = Scope.of("https://www.s.example/shop/index.html")
    html = page("x", "a", "./a#b", "../out", "HTTPS://S.example/shop/b?utm_source=z&c=1", "//s.example/shop/c",
                "d.zip", "https://other.example/shop/", "http://[bad", "tel:1",
                "https://u:p@s.example/shop/").decode()  # fmt: skip
    found = links(html, "https://www.s.example/shop/", scope)
    assert found.inside == (
        "https://www.s.example/shop/a", "https://s.example/shop/b?c=1", "https://s.example/shop/c",
    )  # fmt: skip
    assert found.elsewhere == 2
    assert normal("https://s.example/", f"/{'x/' * 40}") == ""  # a calendar without end


def test_a_page_that_says_nofollow_leads_nowhere() -> None:
    html = page("x", "/a", head='<meta name="ROBOTS" content="NOFOLLOW">').decode()
    assert links(html, "https://s.example/", Scope.of("https://s.example/")).inside == ()
    html = page("x").decode().replace("</main>", '<a rel="nofollow ugc" href="/b">b</a></main>')
    assert links(html, "https://s.example/", Scope.of("https://s.example/")).inside == ()


# Large sites


class Endless:
    """A site of so many pages, ten links each; every hundredth is not there."""

    def __init__(self, pages: int) -> None:
        self.pages = pages
        self.asked = 0

    async def __call__(self, url: str) -> Fetched:
        path = url.removeprefix("https://big.example/")
        if path == "robots.txt" or path.endswith(".xml"):
            return Fetched(url, 404, b"")
        self.asked += 1
        number = int(path.removeprefix("p") or 0)
        if number % 100 == 99:
            return Fetched(url, 404, b"")
        following = (f"/p{item}" for item in range(number * 10 + 1, number * 10 + 11) if item < self.pages)
        return Fetched(url, 200, page(f"Page {number}", *following, text=f"Words of page {number}. " * 20), HTML)


async def crawled(pages: int, folder: Path) -> tuple[int, int]:
    """How many items a site of so many pages gave, and how much memory of Python's own it took at most."""
    tracemalloc.start()
    async with LocalIndex(folder, None) as index:
        report = await ingest(index, "https://big.example/", site="big", fetch=Endless(pages), reach=Reach(delay=0))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert report.way == "crawl"
    return report.added, peak


async def test_memory_hardly_grows_with_the_pages_of_a_site(tmp_path: Path) -> None:
    await crawled(1_200, tmp_path / "first")  # fills the caches of words, which are bounded
    few, small = await crawled(300, tmp_path / "few")
    many, large = await crawled(1_200, tmp_path / "many")
    print(f"crawl: {few} pages in {small // 1024} KiB, {many} in {large // 1024} KiB at most")
    assert many > 3.5 * few
    assert large - small < 900 * 1_024  # one KiB a page: its address and its id, not its text


async def test_the_start_reads_one_page_of_a_site_without_a_sitemap_and_says_how_to_crawl_it(
    tmp_path: Path, site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    furnish(site)
    url = f"http://127.0.0.1:{site.port}/"
    outbound = Outbound(OutboundRules(allow=(f"127.0.0.1:{site.port}",)))
    words_alone = SearchSettings(embeddings=False)

    async def found(settings: SiteSettings) -> set[str]:
        async with Sites(tmp_path, (settings,), outbound, search=words_alone) as sites:
            return {hit.item.name for hit in (await sites.index.search(SearchQuery(limit=100))).hits}

    with caplog.at_level("WARNING", "sabir"):
        assert await found(SiteSettings("s", url)) == {"Home"}
    [line] = [text for text in caplog.messages if "no sitemap" in text]
    assert f"sabir ingest {url} --site s" in line and "crawl: true" in line
    assert "/goods/" not in asked(site)

    caplog.clear()
    assert await found(SiteSettings("s", url, crawl=True)) == {"Home", "About", "Pan"}
    assert not [text for text in caplog.messages if "no sitemap" in text]
    # A later start that does not follow links keeps what the crawl found.
    assert await found(SiteSettings("s", url)) == {"Home", "About", "Pan"}

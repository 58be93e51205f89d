"""Feeds and pages that mean harm: entities that expand without end, and links that run code (issue 11, D15, D16)."""

from __future__ import annotations

import codecs
import tracemalloc
from pathlib import Path

import pytest

from sabir.search import Item, LocalIndex, Problem, ingest
from sabir.search.answers.results import result
from sabir.search.engine.base import Hit
from sabir.search.ingest.feeds import listing
from sabir.search.items.links import is_unsafe_link
from sabir.search.items.schema_org import items

WHERE = {"site": "s", "source": "here", "place": "file"}
BOMB = (
    '<!DOCTYPE rss [<!ENTITY a "xxxxxxxxxxxxxxxxxxxx">'
    + "".join(f'<!ENTITY {b} "{f"&{a};" * 20}">' for a, b in zip("abcde", "bcdef", strict=True))
    + "]><rss><channel><item><title>&f;</title></item></channel></rss>"
)
DISGUISES = {
    "plain": BOMB.encode(),
    "a long comment in front": f"<!--{'x' * 5000}-->{BOMB}".encode(),
    "processing instructions in front": ("<?x y?>" * 900 + BOMB).encode(),
    "UTF-16 little-endian": codecs.BOM_UTF16_LE + BOMB.encode("utf-16-le"),
    "UTF-16 big-endian": codecs.BOM_UTF16_BE + BOMB.encode("utf-16-be"),
    "a byte order mark": codecs.BOM_UTF8 + BOMB.encode(),
    "blanks in front": (" " * 0 + "\n" * 5000 + BOMB).encode(),
    "a parameter entity": b'<!DOCTYPE rss [<!ENTITY % x "y"> %x;]><rss><channel/></rss>',
    "an external DTD": b'<!DOCTYPE rss SYSTEM "file:///etc/passwd"><rss><channel/></rss>',
}


@pytest.mark.parametrize("disguise", DISGUISES)
def test_xml_with_a_dtd_is_not_read_however_it_is_disguised(disguise: str) -> None:
    tracemalloc.start()
    found = listing(DISGUISES[disguise], url="https://x.example/feed", **WHERE)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found.items == (Problem("file", "XML with a DTD is not read"),)
    assert peak < 5_000_000


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_xml_without_a_dtd_is_read_in_any_encoding(encoding: str) -> None:
    feed = "<rss><channel><item><title>T &amp; <![CDATA[<!DOCTYPE]]></title><link>https://x.example/1</link>"
    [item] = listing(f"{feed}</item></channel></rss>".encode(encoding), url="https://x.example/feed", **WHERE).items
    assert isinstance(item, Item) and item.name.startswith("T &")


UNSAFE = [
    "javascript:alert(1)", " JavaScript:alert(1)", "java\nscript:alert(1)", "\x01javascript:alert(1)", "vbscript:x",
    "data:text/html,<script>alert(1)</script>", "data:image/png;base64,AAAA", "DATA:text/html;base64,PGI+",
]  # fmt: skip


@pytest.mark.parametrize("address", UNSAFE)
def test_a_link_that_runs_code_is_neither_ingested_nor_handed_on(address: str) -> None:
    page = {
        "@type": "Product", "name": "Lamp", "url": address, "@id": address, "image": [address, "https://x.example/a.png"],
        "sameAs": address, "offers": {"url": address, "price": 3},
        "potentialAction": {"@type": "BuyAction", "target": {"urlTemplate": address}},
    }  # fmt: skip
    [item] = items(page, base="https://x.example/lamp", **WHERE)
    assert isinstance(item, Item)
    assert address not in repr(item) and item.url == "https://x.example/lamp"
    assert item.fields["image"] == ["https://x.example/a.png"] and item.fields["offers"] == {"price": 3}
    old = Item(address, "s", "Lamp", ("Product",), url=address, fields=page)  # of an index from before the rule
    shown = result(Hit(old, 1.0))
    assert address not in repr(shown) and (shown["url"], shown["name"]) == ("", "Lamp")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.jsonl", '{"@type": "Product", "name": "A", "url": "LINK", "image": ["LINK", "data:image/png;base64,AA"]}\n'
                    '{"@type": "Product", "name": "B", "offers": {"url": "LINK"}}\n'),
        ("a.csv", "name,url,image\nA,LINK,data:image/png;base64\nB,LINK,https://x.example/b.png\n"),
        ("a.xml", "<rss><channel><item><title>A</title><link>LINK</link><guid>1</guid></item><item><title>B</title>"
                  "<link>LINK</link><guid>2</guid></item><item><title>C</title><link>data:text/html,x</link></item>"
                  "</channel></rss>"),
    ],
)  # fmt: skip
async def test_the_report_counts_the_links_that_were_dropped(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text.replace("LINK", "javascript:alert(1)"), encoding="utf-8")
    report = await ingest(LocalIndex(None, None), str(tmp_path / name), site="s")
    why = "dropped, because following one could run code or show forged content"
    assert report.items and f"2 javascript: links were {why}" in report.notes
    assert f"1 data: link was {why}" in report.notes


async def test_a_report_without_such_links_says_nothing_of_them(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"@type": "Product", "name": "A", "url": "https://x.example/a"}\n')
    assert (await ingest(LocalIndex(None, None), str(tmp_path / "a.jsonl"), site="s")).notes == ()


@pytest.mark.parametrize(
    "text",
    ["https://x.example/?q=javascript:1", "JavaScript for beginners", "Data: the new oil", "mailto:a@b.example",
     "urn:isbn:1", "_:b0", "database:x", "/relative", "tel:+49"],
)  # fmt: skip
def test_other_addresses_and_sentences_stay(text: str) -> None:
    [item] = items({"@type": "Thing", "name": "N", "description": text, "image": text}, **WHERE)
    assert isinstance(item, Item) and item.description == text and item.fields["image"] == text
    assert not is_unsafe_link(text) or text.startswith("Data")

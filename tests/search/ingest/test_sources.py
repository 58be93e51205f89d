"""Every format that a site may be in, as it is found in the wild, read by one command; and the report of it."""

from __future__ import annotations

import asyncio
import io
import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from sabir.agents.site.settings import FOLDER
from sabir.cli import main
from sabir.search import Item, LocalIndex, SearchQuery

SOURCES = Path(__file__).parent / "sources"
USD, EUR, GBP = ({"@type": ["Offer"], "priceCurrency": item} for item in ("USD", "EUR", "GBP"))
IN_STOCK = {"availability": "https://schema.org/InStock"}
OUT_OF_STOCK = {"availability": "https://schema.org/OutOfStock"}
UNNAMED = "a Product without a name, a description and text"
# Of each file: what the report says, and of some items their type, their address and fields.
CASES: dict[str, tuple[dict[str, Any], dict[str, tuple[str, str, dict[str, Any]]]]] = {
    "merchant.xml": (
        {"read": 4, "added": 3, "skipped": {UNNAMED: 1}},
        {
            "Enamel kettle, 2 litres": ("Product", "https://kessel.example/p/enamel-kettle", {
                "sku": "KK-1001", "brand": "Kessel", "category": "Kitchen > Kettles", "color": "cream",
                "offers": EUR | IN_STOCK | {"price": "39.90", "itemCondition": "https://schema.org/NewCondition"},
            }),
            "Linen apron, small": ("Product", "https://kessel.example/p/linen-apron", {
                "offers": EUR | OUT_OF_STOCK | {"price": "35"}, "size": "S", "material": "linen",
            }),
            "Linen apron, large": ("Product", "https://kessel.example/p/linen-apron", {
                "offers": EUR | IN_STOCK | {"price": "38,00"},
            }),
        },
    ),
    "merchant-atom.xml": (
        {"read": 1, "added": 1, "skipped": {}},
        {"Bread tin": ("Product", "https://kessel.example/p/bread-tin", {
            "offers": USD | {"price": "24.50", "availability": "https://schema.org/PreOrder"},
            "description": "Keeps a loaf for a week.",
        })},
    ),
    "merchant.tsv": (
        {"read": 2, "added": 2, "skipped": {}, "unknown_columns": []},
        {"Tea caddy": ("Product", "https://kessel.example/p/caddy", {"brand": "Korn", "sku": "T2"})},
    ),
    "feed.json": (
        {"read": 2, "added": 2, "skipped": {}},
        {
            "The lighthouse is lit again": ("Article", "https://notes.example/2026/lighthouse", {
                "author": ["Ines Roth"], "keywords": ["harbour", "lighthouse"], "inLanguage": "en",
                "articleBody": "After two years of repairs the lamp turns again.",
            }),
            "Low tide at seven. Bring boots.": ("Article", "https://notes.example/micro/7", {}),
        },
    ),
    "microdata.html": (
        {"read": 1, "added": 1, "skipped": {}},
        {"Alder stool": ("Product", "", {
            "material": "alder", "releaseDate": "2026-03-01", "brand": {"@type": ["Brand"], "name": "Bench & Beam"},
            "offers": {"@type": ["Offer"], "price": "85.00", "priceCurrency": "GBP"} | IN_STOCK,
            "aggregateRating": {"@type": ["AggregateRating"], "ratingValue": "4.6", "reviewCount": "31"},
        })},
    ),
    "rdfa.html": (
        {"read": 1, "added": 1, "skipped": {}},
        {"Brass by the Quay": ("MusicEvent", "", {
            "startDate": "2026-12-05T19:30:00+01:00",
            "offers": {"@type": ["Offer"], "price": "18", "priceCurrency": "GBP"},
            "location": {"@type": ["MusicVenue"], "name": "Tide Hall", "address": {
                "@type": ["PostalAddress"], "streetAddress": "4 Quay Road", "addressLocality": "Whitby"}},
        })},
    ),
    "open-graph.html": (
        {"read": 1, "added": 1, "skipped": {}},
        {"Copper pan, 24 cm": ("Product", "https://pans.example/copper-pan", {
            "offers": EUR | IN_STOCK | {"price": "129.00"}, "brand": "Pans", "image": "https://pans.example/copper.jpg",
        })},
    ),
    "publisher.html": (
        {"read": 2, "added": 2, "skipped": {}},
        {"Opening hours": ("WebPage", "", {"text": "We open at ten from Tuesday to Sunday."})},
    ),
    "post.md": (
        {"read": 1, "added": 1, "skipped": {}},
        {"Sharpening a kitchen knife": ("Article", "", {
            "keywords": ["knives", "care"], "datePublished": "2026-05-04", "author": "Mara Lind",
        })},
    ),
    "shopify-products.json": (
        {"read": 2, "added": 2, "skipped": {}},
        {"Wool throw": ("Product", "https://site.example/products/wool-throw", {
            "brand": "Loom", "color": ["Grey", "Rust"], "keywords": ["wool", "winter", "on sale"],
        })},
    ),
    "woocommerce.json": (
        {"read": 1, "added": 1, "skipped": {}},
        {"Long Sleeve Tee": ("Product", "https://woo.example/product/long-sleeve-tee/", {
            "offers": USD | IN_STOCK | {"price": 25.0}, "category": "Tees", "color": ["Grey", "Rust"], "brand": "Loom",
            "Sleeve length": "62 cm",
        })},
    ),
    "events.ics": (
        {"read": 3, "added": 2, "skipped": {"an event without a start": 1}},
        {"Whitby Regatta": ("Event", "https://whitby.example/regatta", {"keywords": ["sport", "family"]})},
    ),
    "stock.csv": (
        {"read": 5, "added": 3, "merged": 1, "skipped": {"7 cells in a table of 6 columns": 1},
         "unknown_columns": ["Lagerplatz"]},
        {"Tasse": ("Product", "", {"offers": {"price": "9,50 €"}, "color": "blau", "Lagerplatz": "R3"})},
    ),
    "rss.xml": (
        {"read": 2, "added": 2, "skipped": {}},
        {
            "Glaze & ash… a first try": ("Article", "https://kiln.example/glaze", {
                "author": "Ada", "articleBody": "Café cups came out green, not grey.",
            }),
            "Unsafe": ("Article", "", {}),
        },
    ),
    "programme.pdf": (
        {"read": 1, "added": 1, "skipped": {}},
        {"Autumn programme": ("DigitalDocument", "", {
            "author": "Tide Hall", "datePublished": "2026-09-01",
            "text": "Autumn programme\nThe brass band plays in Whitby.",
        })},
    ),
    "prices.xlsx": (
        {"read": 5, "added": 4, "merged": 0, "skipped": {"4 cells in a table of 3 columns": 1},
         "unknown_columns": ["Shelf"]},
        {
            "Oak board": ("Product", "", {"offers": {"price": "19.5"}}),
            "Knife class": ("Event", "", {"startDate": "2027-02-03T18:00:00"}),
        },
    ),
}  # fmt: skip


def pdf(*lines: str) -> bytes:
    """A PDF file of one page, as small ones are written."""
    text = " T* ".join(f"({line}) Tj" for line in lines)
    stream = f"BT /F1 12 Tf 14 TL 72 700 Td {text} ET".encode()
    parts = [
        b"<< /Type /Catalog /Pages 2 0 R >>", b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R"
        b" /Resources << /Font << /F1 5 0 R >> >> >>",
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(stream), stream),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
        b"<< /Title (Microsoft Word - x.doc) /Author (Tide Hall) /CreationDate (D:20260901120000Z) >>",
    ]  # fmt: skip
    body, places = b"%PDF-1.4\n", []
    for number, part in enumerate(parts, 1):
        places.append(len(body))
        body += b"%d 0 obj\n%s\nendobj\n" % (number, part)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    count, start = len(parts) + 1, len(body)
    return (
        body
        + b"xref\n0 %d\n0000000000 65535 f \n%s" % (count, table)
        + (b"trailer\n<< /Size %d /Root 1 0 R /Info 6 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (count, start))
    )


def workbook() -> bytes:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.active.title = "Goods"
    for row in (["Product name", "Price", "Shelf"], ["Oak board", 19.5, "A1"], [None, None, None], ["Ash board", 17, 3],
                ["Elm board", 18, "A", "too much"]):  # fmt: skip
        book.active.append(row)
    events = book.create_sheet("Classes")
    for row in (
        ["Title", "Start date"],
        ["Knife class", datetime(2027, 2, 3, 18)],
        ["Bread class", datetime(2027, 3, 1)],
    ):
        events.append(row)
    book.create_sheet("Empty")
    packed = io.BytesIO()
    book.save(packed)
    return packed.getvalue()


def source(name: str, folder: Path) -> Path:
    made = {
        "programme.pdf": lambda: pdf("Autumn programme", "The brass band plays in Whitby."),
        "prices.xlsx": workbook,
    }
    if name not in made:
        return SOURCES / name
    (folder / name).write_bytes(made[name]())
    return folder / name


def report_of(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> dict[str, Any]:
    capsys.readouterr()
    assert main(["ingest", *arguments, "--no-vectors", "--json"]) == code
    read: dict[str, Any] = json.loads(capsys.readouterr().out)
    return read


def found(home: Path) -> list[Item]:
    async def items() -> list[Item]:
        async with LocalIndex(home / FOLDER, None) as index:
            return [hit.item for hit in (await index.search(SearchQuery(limit=100))).hits]

    return asyncio.run(items())


@pytest.mark.parametrize("name", CASES)
def test_a_format_is_read_by_one_command_and_the_report_says_what_became_of_it(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said, wanted = CASES[name]
    path, home = str(source(name, tmp_path)), tmp_path / "home"
    report = report_of(capsys, path, "--site", "site.example", "--home", str(home))
    assert {key: report[key] for key in said} == said
    assert report["read"] == report["added"] + report["merged"] + sum(report["skipped"].values())
    items = {item.name: item for item in found(home)}
    assert len(items) == len(found(home)) - (name == "stock.csv")  # two kinds of teapot
    assert "javascript:" not in repr(items)
    for title, (kind, url, fields) in wanted.items():
        item = items[title]
        assert (item.types[0], item.url) == (kind, url)
        assert {key: item.fields[key] for key in fields} == fields
    again = report_of(capsys, path, "--site", "site.example", "--home", str(home), "--sync")
    assert (again["added"], again["updated"], again["removed"]) == (0, 0, 0)
    assert again["unchanged"] == report["added"]


def test_the_report_for_people_says_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    home = ["--home", str(tmp_path / "home"), "--no-vectors"]
    assert main(["ingest", str(SOURCES / "stock.csv"), "--site", "site.example", *home]) == 0
    printed = capsys.readouterr()
    assert "stock.csv: 5 read, 3 new, 0 changed, 0 unchanged, 1 merged, 1 skipped" in printed.out
    assert "  stock.csv:7: 7 cells in a table of 6 columns" in printed.err
    assert "unknown columns, kept under their own names: Lagerplatz (--map PROPERTY=COLUMN" in printed.err


def test_a_mapping_adds_to_what_the_columns_are_by_their_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table, home = tmp_path / "t.csv", tmp_path / "home"
    table.write_text("Title,Price,Colr\nLamp,20,red\nLamp,25,blue\nVase,9,red\n")
    report = report_of(capsys, str(table), "--site", "s.example", "--home", str(home), "--map", "color=colr")
    assert (report["read"], report["added"], report["merged"], report["unknown_columns"]) == (3, 3, 0, [])
    assert sorted((item.name, item.fields["color"], item.fields["offers"]["price"]) for item in found(home)) == [
        ("Lamp", "blue", "25"), ("Lamp", "red", "20"), ("Vase", "red", "9"),
    ]  # fmt: skip


def test_a_table_without_a_known_column_for_names_takes_one_that_holds_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / "t.csv"
    table.write_text("Nr,Vessel,Built\n1,Endeavour,1764\n2,Resolution,1770\n")
    report = report_of(capsys, str(table), "--site", "s.example", "--home", str(tmp_path / "home"))
    assert report["notes"] == ["no column says what things are called: 'Vessel' is taken for the name"]
    assert (report["added"], report["unknown_columns"]) == (2, ["Nr", "Built"])


def test_numbers_of_two_tables_are_not_the_same_thing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.csv").write_text(f"id,name\n1,Thing of {name}\n")
    report = report_of(capsys, str(tmp_path), "--site", "s.example", "--home", str(tmp_path / ".home"))
    assert (report["read"], report["added"], report["merged"]) == (2, 2, 0)


BAD = {
    "empty.csv": (b"", "an empty file"),
    "blank.md": (b" \n\n", "an empty file"),
    "empty.html": (b"", "an empty file"),
    "header.csv": (b"name,price\n", "a table without rows"),
    "open-quote.csv": (b'name,price\n"Lamp,20\nVase,9\nPot,3\n', "a quote is not closed, and the rest of the table"),
    "photo.jpg": (b"\xff\xd8\xff\xe0" + bytes(range(256)), "not text: a picture"),
    "logo.html": (b"\x89PNG\r\n\x1a\n" + bytes(64), "not text: a picture"),
    "tool.txt": (bytes(range(1, 256)) * 9, "not text"),
    "archive.json": (b"PK\x03\x04rest", "not text: a ZIP file"),
    "broken.pdf": (b"%PDF-1.7\nnothing of the kind", "not a PDF that can be read"),
    "scan.pdf": (pdf(), "a PDF without text: its pages are pictures"),
    "broken.xlsx": (b"PK\x03\x04rest", "not a workbook that can be read"),
    "broken.ics": (b"BEGIN:VCALENDAR\nnonsense", "not a calendar"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_file_that_holds_nothing_to_read_is_an_error(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    body, reason = BAD[name]
    (tmp_path / name).write_bytes(body)
    report = report_of(capsys, str(tmp_path / name), "--site", "s.example", "--home", str(tmp_path / "home"), code=1)
    assert report["added"] == 0 and len(report["problems"]) == 1
    assert report["problems"][0]["reason"].startswith(reason), report["problems"]


def test_a_folder_without_anything_to_read_is_an_error_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "logo.png").write_bytes(b"\x89PNG")
    report = report_of(capsys, str(tmp_path / "docs"), "--site", "s.example", "--home", str(tmp_path / "h"), code=1)
    assert report["skipped"] == {"files of a kind that is not read (.png)": 1}


def test_xml_in_a_workbook_may_not_expand(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import zipfile

    packed = io.BytesIO(workbook())
    made = io.BytesIO()
    with zipfile.ZipFile(packed) as old, zipfile.ZipFile(made, "w") as new:
        for part in old.infolist():
            body = old.read(part)
            if part.filename.endswith("sheet1.xml"):
                body = b'<!DOCTYPE x [<!ENTITY a "b">]>' + body
            new.writestr(part, body)
    (tmp_path / "bomb.xlsx").write_bytes(made.getvalue())
    report = report_of(capsys, str(tmp_path / "bomb.xlsx"), "--site", "s", "--home", str(tmp_path / "home"), code=1)
    assert report["problems"][0]["reason"] == "xl/worksheets/sheet1.xml is not XML, or has a DTD, which is not read"

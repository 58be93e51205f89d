"""Tables as offices and shops export them: headings with units, titles above the table, dates as people write them."""

from __future__ import annotations

import io

import pytest

from sabir.search import Item, Problem
from sabir.search.ingest.dates import at_clock, day_first, iso_date
from sabir.search.ingest.report import Columns
from sabir.search.ingest.tables import csv_items, sheet_items
from sabir.search.items.attributes import attributes
from sabir.search.items.item import JSON

WHERE = {"site": "s", "url": "", "source": "here", "place": "t.csv"}


def table(text: str, mapping: dict[str, str] | None = None) -> tuple[Columns, list[Item], list[Problem]]:
    found = list(csv_items(text, mapping=mapping, **WHERE))
    [columns] = [item for item in found if isinstance(item, Columns)]
    read = [item for item in found if isinstance(item, Item)]
    return columns, read, [item for item in found if isinstance(item, Problem)]


@pytest.mark.parametrize(
    ("heading", "cell", "field", "value"),
    [
        ("Preis (EUR)", "1.249,00", "offers", {"price": "1.249,00 EUR"}),
        ("Preis in €", "8,90", "offers", {"price": "8,90 €"}),
        ("Price [USD]", "$12", "offers", {"price": "$12"}),
        ("PRICE USD", "12.50", "offers", {"price": "12.50 USD"}),
        ("Unit Price", "$12", "offers", {"price": "$12"}),
        ("Admission", "free", "offers", {"price": "0"}),
        ("Eintritt", "kostenlos", "offers", {"price": "0"}),
        ("In Stock?", "Yes", "offers", {"availability": "https://schema.org/InStock"}),
        ("Verfügbar", "nein", "offers", {"availability": "https://schema.org/OutOfStock"}),
        ("Weight (kg)", "1.5", "weight", "1.5 kg"),
        ("Größe", "40 cm", "size", "40 cm"),
        ("Straße", "Am Markt 1", "address", {"streetAddress": "Am Markt 1"}),
        ("Art.-Nr.", "A7", "sku", "A7"),
        ("Web Address", "https://x.example/1", "url", "https://x.example/1"),
        ("enlace", "https://x.example/1", "url", "https://x.example/1"),
        ("Phone", "+49 421 1", "telephone", "+49 421 1"),
        ("Venue", "Blue Barn", "location", "Blue Barn"),
        ("Rating (out of 5)", "4.6", "aggregateRating", {"ratingValue": "4.6"}),
        ("Price (incl. VAT)", "15", "offers", {"price": "15"}),
    ],
)
def test_a_heading_is_understood_with_its_unit_and_its_punctuation(
    heading: str, cell: str, field: str, value: JSON
) -> None:
    columns, [item], _ = table(f"Name\t{heading}\nThing\t{cell}\n")
    assert item.fields[field] == value
    assert columns.unknown == ()


def test_a_price_with_its_currency_in_the_heading_is_filtered_by() -> None:
    _, [item], _ = table("Artikel;Preis (EUR)\nStuhl;89,90\n")
    assert attributes(item).numbers["price:eur"] == (89.9,)


@pytest.mark.parametrize("text", ["Name,Course\nSoup,Starter\n", "Course,Name\nStarter,Soup\n"])
def test_a_column_that_is_called_name_has_the_name_wherever_it_is(text: str) -> None:
    _, [item], _ = table(text)
    assert (item.name, item.fields["Course"]) == ("Soup", "Starter")


@pytest.mark.parametrize("header", ["First Name,Last Name", "Vorname,Nachname", "Vorname,Name"])
def test_people_have_their_whole_names(header: str) -> None:
    columns, [item], _ = table(f"{header},Room\nAnna,Schmidt,2.14\n")
    assert (item.name, columns.unknown, columns.notes) == ("Anna Schmidt", ("Room",), ())


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("Title;Start\nFair;13.12.2026\n", "2026-12-13"),
        ("Title;Start\nFair;1.2.27\n", "2027-02-01"),
        ("Title;Start\nFair;13.12.2026 19:30 Uhr\n", "2026-12-13T19:30"),
        ("Title;Start\nFair;12/04/2026 20:00\nLater;25/04/2026\n", "2026-04-12T20:00"),
        ("Title;Start\nFair;12/04/2026\nLater;12/25/2026\n", "2026-12-04"),
        ("Title;Start\nFair;12/04/2026\n", "12/04/2026"),
        ("Title;Start\nFair;45/45/2026\n", "45/45/2026"),
        ("Event;Date;Time\nFair;2026-12-13;6.30 pm\n", "2026-12-13T18:30"),
        ("Veranstaltung;Datum;Uhrzeit\nFair;13.12.2026;19 Uhr\n", "2026-12-13T19:00"),
        ("Titel;Datum;Ort;Veranstaltungsort\nFair;13.12.2026;Bremen;Halle\n", "2026-12-13"),
    ],
)
def test_dates_are_read_as_the_table_writes_them(text: str, start: str) -> None:
    _, [item, *_], _ = table(text)
    assert (item.types, item.fields["startDate"]) == (("Event",), start)


def test_the_date_of_an_article_is_when_it_was_published() -> None:
    _, [item], _ = table("Title;Date\nNews;13.12.2026\n")
    assert item.fields["datePublished"] == "2026-12-13"


def test_dates_that_can_be_read_either_way_are_reported() -> None:
    columns, _, _ = table("Title;Start\nFair;12/04/2026\n")
    [note] = columns.notes
    assert note == "'12/04/2026' in 'Start' may begin with the day or the month; write dates as 2026-12-31"


def test_a_time_without_a_date_keeps_its_column() -> None:
    columns, [item], _ = table("Recipe;Time\nSoup;40 min\n")
    assert (item.fields["Time"], "Time" in columns.unknown) == ("40 min", True)


@pytest.mark.parametrize(
    "text",
    [
        "Course catalogue 2027\n\nName;Price\nYoga;85\n",
        "Course catalogue 2027;\n;\nName;Price\nYoga;85\n",
        'sep=;\n"Name";"Price"\nYoga;85\n',
        '"Name, full";Price;\nYoga;85;\nSwim, with us;85;\n',
        "Name;Price\nYoga;85;;;\n",
    ],
)
def test_titles_above_a_table_and_empty_cells_after_it_do_no_harm(text: str) -> None:
    _, [item, *_], problems = table(text)
    assert (item.name, item.fields["offers"], problems) == ("Yoga", {"price": "85"}, [])


def test_titles_above_a_table_are_reported() -> None:
    columns, _, _ = table("Course catalogue 2027\nName;Price\nYoga;85\n")
    assert columns.notes == ("a line above the table is left out: 'Course catalogue 2027'",)


def test_a_list_of_one_column_has_no_title() -> None:
    _, read, _ = table("name\nYoga\nSwimming\n")
    assert [item.name for item in read] == ["Yoga", "Swimming"]


def test_a_workbook_may_have_a_title_above_its_table() -> None:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for row in (["Courses 2027"], [], ["Kurs", "Beginn", "Gebühr (EUR)"], ["Yoga", "12.1.2027", 85]):
        book.active.append(row)
    packed = io.BytesIO()
    book.save(packed)
    found = list(sheet_items(packed.getvalue(), mapping=None, **WHERE))
    [item] = [item for item in found if isinstance(item, Item)]
    assert (item.fields["startDate"], item.fields["offers"]) == ("2027-01-12", {"price": "85 EUR"})


def test_the_order_of_day_and_month_is_that_of_the_whole_column() -> None:
    assert day_first(["1/2/2026", "13/2/2026"]) is True
    assert day_first(["1/2/2026", "2/13/2026"]) is False
    assert day_first(["1/2/2026"]) is None
    assert day_first(["", "2026-01-01"]) is True  # nothing is doubtful
    assert iso_date("31/2/2026", True) == "31/2/2026"
    assert at_clock("2027-01-12", "7") == "2027-01-12"

"""Tables, terms and features of a page: each row is one line, so that a price per person or an hour per day is a fact
(issue 15)."""

from __future__ import annotations

from pathlib import Path

import pytest

from sabir.search import LocalIndex, ingest
from sabir.search.answers.polarity import says
from sabir.search.answers.reading import same
from sabir.search.ingest.html import page_items
from sabir.search.items.item import Item

from ..asking import Judged, answered

PAGE = "https://pool.example/prices"


def _page(body: str, language: str = "en", title: str = "Prices") -> str:
    head = f'<html lang="{language}"><head><title>{title}</title></head>'
    return f"{head}<body><main><h1>{title}</h1>{body}</main></body></html>"


def _table(*rows: str) -> str:
    cells = ("".join(f"<td>{cell}</td>" for cell in row.split("|")) for row in rows)
    return f"<table>{''.join(f'<tr>{row}</tr>' for row in cells)}</table>"


def _text(body: str) -> str:
    found = list(page_items(_page(body), site="pool.example", url=PAGE, source=PAGE, place=PAGE))
    assert isinstance(found[0], Item)
    return found[0].text


@pytest.mark.parametrize(
    ("body", "lines"),
    [
        (_table("Adult|£5.20", "Under 4|free"), ["Adult: £5.20", "Under 4: free"]),
        (
            "<table><tr><th>Day</th><th>Opens</th><th>Closes</th></tr><tr><th>Monday</th><td>9</td><td>17</td></tr></table>",
            ["Day, Opens, Closes", "Monday: Opens 9, Closes 17"],
        ),
        ("<dl><dt>Depth:</dt><dd>2 m</dd><dt>Lanes</dt><dd>6</dd></dl>", ["Depth: 2 m", "Lanes: 6"]),
        ("<dl><dt>Can I swim?</dt><dd>Yes.</dd></dl>", ["Can I swim?", "Yes."]),
        (_table("<p>Left column.</p>|<p>Right column.</p>"), ["Left column.", "Right column."]),  # a layout
        ("<table><tr><td>One cell</td></tr></table><p>After it.</p>", ["One cell", "After it."]),
    ],
)
def test_a_row_is_one_line(body: str, lines: list[str]) -> None:
    assert _text(body).splitlines() == lines


def test_a_feature_stands_with_its_value() -> None:
    feature = 'itemprop="amenityFeature" itemscope itemtype="https://schema.org/LocationFeatureSpecification"'
    body = (
        f'<div itemscope itemtype="https://schema.org/Place"><h2 itemprop="name">Big Pool</h2><ul><li {feature}>'
        '<span itemprop="name">Depth</span> <span itemprop="value">2 m</span></li></ul></div>'
    )
    found = list(page_items(_page(body), site="pool.example", url=PAGE, source=PAGE, place=PAGE))
    assert isinstance(found[0], Item) and "Depth: 2 m" in found[0].text.splitlines()


PRICES = {
    "en": ("Admission", ("Adult|£5.20", "Student|£3.90", "Child from 4 to 15|£3.40", "Family|£14.50")),
    "de": ("Preise", ("Erwachsene|5,20 €", "Studierende|3,90 €", "Kind von 4 bis 15|3,40 €", "Familie|14,50 €")),
    "es": ("Precios de entrada", ("Adulto|5,20 €", "Estudiante|3,90 €", "Niño de 4 a 15|3,40 €", "Familia|14,50 €")),
    "fr": ("Tarifs", ("Adulte|5,20 €", "Étudiant|3,90 €", "Enfant de 4 à 15 ans|3,40 €", "Famille|14,50 €")),
}  # fmt: skip


@pytest.mark.parametrize(
    ("language", "question", "fact"),
    [
        ("en", "how much is it for a student?", "3.90"),
        ("en", "how much does a family pay?", "14.50"),
        ("de", "was kostet es für Studierende?", "3,90"),
        ("de", "wie viel kostet es für eine Familie?", "14,50"),
        ("es", "¿cuánto cuesta para un estudiante?", "3,90"),
        ("es", "¿cuánto es para una familia?", "14,50"),
        ("fr", "c'est combien l'entrée pour un étudiant ?", "3,90"),
        ("fr", "prix pour une famille", "14,50"),
    ],
)
async def test_a_price_for_somebody_is_that_of_a_row(tmp_path: Path, language: str, question: str, fact: str) -> None:
    title, rows = PRICES[language]
    (tmp_path / "prices.html").write_text(_page(_table(*rows), language, title), encoding="utf-8")
    (tmp_path / "course.html").write_text(
        _page("<p>Swimming, 90 €.</p>", language, "Aqua Familie Famille"), encoding="utf-8"
    )
    index = LocalIndex(None, None)
    await ingest(index, str(tmp_path), site="pool.example")
    answer = await answered(index, Judged("fact", question))
    await index.close()
    assert fact in answer.text.splitlines()[0], answer.text


@pytest.mark.parametrize(
    ("sentence", "words", "must", "is_so"),
    [
        ("Shorts are forbidden.", ["shorts", "allowed"], False, False),
        ("Dogs are not allowed.", ["dog", "allowed"], False, False),
        ("Dogs are allowed.", ["dog", "allowed"], False, True),
        ("Closed on Sunday.", ["open", "sunday"], False, False),
        ("The policy covers the building only.", ["cover", "sofa"], False, None),
        ("We close at 15:00 on Christmas Eve, and all day on Easter Sunday.", ["open", "easter"], False, False),
        ("Four voices, no audition.", ["audition"], True, False),
        ("An absence is not refunded except with a certificate.", ["certificate"], True, None),
        ("Passports are issued in Cork.", ["passport"], True, None),
        ("Mats are provided.", ["mat"], True, False),
    ],
)
def test_what_rules_out_a_word_is_no_second_denial(
    sentence: str, words: list[str], must: bool, is_so: bool | None
) -> None:
    assert says(sentence, words, same, must=must) is is_so

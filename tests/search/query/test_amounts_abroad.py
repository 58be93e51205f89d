"""Prices, months and years as they are written in German, Spanish, French and Japanese, in questions and on sites."""

from __future__ import annotations

import pytest

from sabir.search import Item, from_text
from sabir.search.items.attributes import recalled
from sabir.search.query.conditions import During, Range
from sabir.search.query.glossary import glossed, language_of
from search.generated import EVERYTHING, NOW


@pytest.mark.parametrize(
    ("question", "limit"),
    [
        ("unter 1.200 Euro", 1200.0),
        ("unter 1.200,50 €", 1200.5),
        ("menos de 1.200 euros", 1200.0),
        ("moins de 20 euros", 20.0),
        ("moins de 1 100 €", 1100.0),
        ("moins de 1\u202f100 €", 1100.0),
        ("à moins de 1 200 euros", 1200.0),
        ("under 1'250 CHF", 1250.0),
        ("1000円以下", 1000.0),
        ("under €1,250", 1250.0),
        ("under $1.50", 1.5),
    ],
)
def test_a_price_in_a_question(question: str, limit: float) -> None:
    parsed = from_text(glossed(question, language_of(question)), EVERYTHING, NOW)
    [price] = [item for item in parsed.conditions if isinstance(item, Range)]
    assert (price.field, price.high) == ("price", limit)


@pytest.mark.parametrize(
    ("written", "price", "currency"),
    [
        ("1 100,00 €", 1100.0, "eur"),
        ("1\u00a0100 €", 1100.0, "eur"),
        ("1\u202f100,50 €", 1100.5, "eur"),
        ("1.250 €", 1250.0, "eur"),
        ("€1.250", 1250.0, "eur"),
        ("1.250,00 €", 1250.0, "eur"),
        ("CHF 1'250.50", 1250.5, "chf"),
        ("CHF 1’250", 1250.0, "chf"),
        ("12,50 €", 12.5, "eur"),
        ("$1,299.50", 1299.5, "?"),
    ],
)
def test_a_price_on_a_site(written: str, price: float, currency: str) -> None:
    item = Item("a", "s", "Pot", ("Product",), fields={"offers": {"price": written}})
    numbers = recalled(item).numbers
    assert tuple(numbers["price"]) == (price,)
    assert [name for name in numbers if name.startswith("price:")] == [f"price:{currency}"]


@pytest.mark.parametrize(
    ("question", "same"),
    [
        ("2027年3月のイベント", "events in march 2027"),
        ("2028年3月のイベント", "events in march 2028"),
        ("2028年5月6日のイベント", "events on 6 may 2028"),
        ("12月5日のイベント", "events on 5 december"),
        ("2028年のイベント", "events in 2028"),
    ],
)
def test_a_year_in_a_japanese_question(question: str, same: str) -> None:
    def dates(text: str) -> list[During]:
        return [item for item in from_text(text, EVERYTHING, NOW).conditions if isinstance(item, During)]

    parsed = from_text(glossed(question, "ja"), EVERYTHING, NOW)
    assert dates(glossed(question, "ja")) == dates(same) != []
    assert "年" not in parsed.text


@pytest.mark.parametrize("question", ["3月のイベント", "2027年3月のイベント", "来月のコンサート"])
def test_a_particle_between_two_japanese_words_is_no_word_to_search_for(question: str) -> None:
    parsed = from_text(glossed(question, "ja"), EVERYTHING, NOW)
    assert not {"の", "は", "を"}.intersection(parsed.text.split())

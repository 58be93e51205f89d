"""Which languages an asker reads, in which an item is written, and what that does to the order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx2
import pytest

from conftest import Served, serving
from sabir import Gateway
from sabir.agents.site.agent import Site
from sabir.search import Item, LocalIndex
from sabir.search.query.languages import accepted, welcome, written_in


@pytest.mark.parametrize(
    ("header", "wanted"),
    [
        ("de", {"de": 1.0}),
        ("de-CH, de;q=0.9, en;q=0.5", {"de": 1.0, "en": 0.5}),
        ("*", {"*": 1.0}),
        ("en-US;q=0.8,*;q=0.1", {"en": 0.8, "*": 0.1}),
        ("", {}),
        ("de;q=high, fr;q=7, ;q=1, es", {"es": 1.0}),
    ],
)
def test_the_header_is_read(header: str, wanted: dict[str, float]) -> None:
    assert accepted(header) == wanted


@pytest.mark.parametrize(
    ("stated", "languages"),
    [
        ("en-GB", {"en"}),
        ("de_CH", {"de"}),
        (["en", "fr"], {"en", "fr"}),
        ({"@type": "Language", "name": "Spanish", "alternateName": "es"}, {"es"}),
        ({"@type": "Language", "name": "Deutsch"}, {"de"}),
        ("Français", {"fr"}),
        (None, set()),
        (7, set()),
    ],
)
def test_an_item_says_its_language_in_many_ways(stated: Any, languages: set[str]) -> None:
    assert written_in(Item("1", "s", "x", fields={"inLanguage": stated})) == languages


def test_how_welcome_a_language_is() -> None:
    german = Item("1", "s", "x", fields={"inLanguage": "de-DE"})
    assert welcome(german, {"de": 1.0}) == 1.0
    assert welcome(german, {"en": 1.0, "de": 0.3}) == 0.3
    assert welcome(german, {"en": 1.0}) == 0.0
    assert welcome(german, {"en": 1.0, "*": 0.2}) == 0.2
    assert welcome(german, {}) == 1.0
    assert welcome(Item("2", "s", "y"), {"en": 1.0}) == 1.0  # it does not say


@pytest.fixture
def inn(tmp_path: Path) -> Any:
    index = LocalIndex(None, None)
    pages = [
        Item(f"p{tag}", "inn.example", "Hotel Sonne", description="Hotel Sonne, Zermatt.", fields={"inLanguage": tag})
        for tag in ("de", "en", "fr")
    ]

    class Inn(Site):
        async def __aenter__(self) -> None:
            await index.put(pages)

        async def __aexit__(self, *exc: object) -> None:
            await index.close()

    site = Inn(index, "inn.example", questions=False)
    with serving(Gateway(site, home=tmp_path, beside=(site,))) as served:
        yield served


def first(served: Served, prefer: dict[str, Any], headers: dict[str, str]) -> tuple[str, int]:
    body = {"query": {"text": "Hotel Sonne"}, "prefer": {"streaming": False, **prefer}}
    found = httpx2.post(f"{served.url}/ask", json=body, headers=headers, timeout=20).json()["structuredData"]
    return found[0]["inLanguage"], len(found)


@pytest.mark.parametrize("tag", ["de", "en", "fr"])
def test_what_the_asker_reads_comes_first_and_nothing_is_left_out(inn: Served, tag: str) -> None:
    assert first(inn, {"accept-language": f"{tag}-CH"}, {}) == (tag, 3)
    assert first(inn, {}, {"accept-language": f"{tag}, *;q=0.1"}) == (tag, 3)  # as browsers say it
    assert first(inn, {"accept-language": tag}, {"accept-language": "it"}) == (tag, 3)  # the request goes before

"""What is quoted of pages that are no prose: lists and lines, word for word (W-12)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sabir.agents.site.agent import Site, SiteAsk
from sabir.events import Reply
from sabir.message import Message, text_part
from sabir.search import Hit, Item, LocalIndex, ingest
from sabir.search.answers.extract import generated
from sabir.search.sample import SITES
from sabir.turn import Turn
from search.shelf import NOW

RETURNS = """# Returns and refunds

You can send back anything within 30 days
of the day it arrived. We pay the postage if it was *broken*.

- refunds take **five working days**
- gift cards are not refunded
"""
HOURS = """---
title: Opening hours
---
- Monday to Friday: 9 to 17
- Saturday: 10 to 14
- closed on holidays
"""


@pytest.fixture
async def shop(tmp_path: Path) -> LocalIndex:
    (tmp_path / "returns.md").write_text(RETURNS)
    (tmp_path / "hours.md").write_text(HOURS)
    index = LocalIndex(None, None)
    await ingest(index, str(tmp_path), site="shop.example")
    await index.put([Item("urn:rope", "shop.example", "Hemp rope", ("Product",))])
    return index


async def said(index: LocalIndex, text: str, mode: str) -> Message:
    ask = SiteAsk(modes=(mode,), questions=False)
    events = [event async for event in Site(index)(Turn(Message.of(text_part(text), ask.part())))]
    assert isinstance(events[-1], Reply)
    return events[-1].message


@pytest.mark.parametrize("mode", ["summarize", "generate"])
@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ("who pays the postage", "We pay the postage if it was broken."),
        ("gift cards", "gift cards are not refunded"),
        ("refunds", "refunds take five working days"),
        ("open on Saturday", "Saturday: 10 to 14"),
        ("opening hours", "Monday to Friday: 9 to 17"),
    ],
)
async def test_a_markdown_page_is_quoted_and_cited(shop: LocalIndex, text: str, quoted: str, mode: str) -> None:
    message = await said(shop, text, mode)
    assert f"{quoted} [1]" in message.text
    part = message.labelled("summary" if mode == "summarize" else "answer")
    assert part is not None and part.value["citations"][0]["url"].endswith(".md")


@pytest.mark.parametrize("mode", ["summarize", "generate"])
async def test_things_without_words_are_listed(shop: LocalIndex, mode: str) -> None:
    message = await said(shop, "hemp rope", mode)
    assert message.text == "1. Hemp rope (urn:rope)"
    assert message.labelled("summary") is None and message.labelled("answer") is None


async def test_an_item_that_fits_less_is_summed_up_only_if_it_says_something_of_the_question() -> None:
    index = LocalIndex(None, None)
    texts = {
        "Robots": "Our robots obey robots.txt on every site. They are polite.",
        "Commands": "Exit codes are four in number. The word robots stands in this list: robots, codes, flags",
        "Kitchen": "We cook with steam. Our robots stay outside.",
    }
    await index.put([Item(name, "s", name, ("Article",), text=text) for name, text in texts.items()])
    message = await said(index, "do robots obey robots.txt", "summarize")
    assert "Our robots obey robots.txt on every site. [1]" in message.text
    assert "Exit codes" not in message.text and "steam" not in message.text


async def test_a_quote_is_cited_by_the_place_of_its_result() -> None:
    index = LocalIndex(None, None)
    for site, files in SITES.items():
        for file in files:
            await ingest(index, str(file), site=site)
    turn = Turn(
        Message.of(
            text_part("events in January 2027 near Boise"), SiteAsk(modes=("list", "summarize"), questions=False).part()
        )
    )
    *_, reply = [event async for event in Site(index, now=lambda: NOW)(turn)]
    assert isinstance(reply, Reply)
    pages = [part.value["url"] for part in reply.message.parts if part.label == "result"]
    summary = reply.message.labelled("summary")
    assert summary is not None
    for cited in summary.value["citations"]:
        assert f"{cited['text']} [{pages.index(cited['url']) + 1}]" in summary.value["text"]
    numbers = [int(number) for number in re.findall(r"\[(\d+)\]", summary.value["text"])]
    assert numbers == sorted(numbers) and len(numbers) < len(pages)
    # What was asked for by its fields is stated by its fields, and by no teaser.
    assert all("January 2027" in cited["text"] for cited in summary.value["citations"])


def test_what_a_thing_is_called_counts_for_its_sentences() -> None:
    ramen = Item("r", "s", "Mushroom ramen", ("Recipe",), text="Simmer the mushrooms for an hour. Strain the broth.")
    pesto = Item("p", "s", "Pesto", ("Recipe",), text="You can make this one without any nuts at all.")
    quotes = generated("how do I make ramen?", [Hit(ramen, 50.0), Hit(pesto, 40.0)])
    assert {quote.item for quote in quotes} == {"r"}

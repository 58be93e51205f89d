"""Misspelt words: found, and corrected by the site's own words."""

from __future__ import annotations

import pytest

from sabir.agents.site.agent import Site
from sabir.events import Reply
from sabir.message import Message
from sabir.search import Item, LocalIndex
from sabir.search.query.spelling import corrected, doubtful, nearest, strange
from sabir.turn import Turn


@pytest.mark.parametrize(
    ("word", "near", "meant"),
    [
        ("chowdr", ["chowder", "powder"], "chowder"),
        ("turntabel", ["turntable", "table"], "turntable"),
        ("kettel", ["settle", "kettle", "kettle"], "kettle"),  # the commoner one
        ("Ukeleles", ["ukulele"], "ukuleles"),
        ("zebra", ["cobra", "bread"], ""),
    ],
)
def test_the_nearest_word_of_a_site(word: str, near: list[str], meant: str) -> None:
    assert nearest(word, near) == meant


def test_words_that_a_rule_knows_are_not_strange() -> None:
    assert list(strange("vegetarian restaurants without walnuts on Saturday, chowdr")) == ["chowdr"]


def test_misspelt_words_of_the_rules() -> None:
    assert dict(doubtful("vegitarian resturants")) == {"vegitarian": "vegetarian", "resturants": "restaurants"}


def test_only_whole_words_are_corrected() -> None:
    assert corrected("a chowdr for Chowdry", {"chowdr": "chowder"}) == "a chowder for Chowdry"


@pytest.mark.parametrize(
    ("question", "found"), [("gimbaled lantren", "Gimballed Lantern"), ("price of the ukelele", "Tenor Ukulele")]
)
async def test_a_site_finds_what_was_misspelt(question: str, found: str) -> None:
    index = LocalIndex(None, None)
    names = ("Gimballed Lantern", "Tenor Ukulele", "Wool Blanket", "Rope Belt")
    await index.put([Item(f"https://s.example/{name}", "s", name, ("Product",)) for name in names])
    [*_, reply] = [event async for event in Site(index, "s", questions=False)(Turn(Message.text(question)))]
    assert isinstance(reply, Reply)
    assert [part.value["name"] for part in reply.message.parts if part.label == "result"][:1] == [found]

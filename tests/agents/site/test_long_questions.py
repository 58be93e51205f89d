"""Of a long text, only the beginning is read: one caller's 900 KB must not hold up the others (issue 11, item 15)."""

from __future__ import annotations

import time

import pytest

from sabir.agents.site.agent import Site
from sabir.agents.site.request import MAX_QUESTION, SiteAsk
from sabir.events import Reply
from sabir.message import Message, text_part
from sabir.search import Item, LocalIndex
from sabir.search.query.translated import parts
from sabir.turn import Conversation, Turn

SHAPES = ("a", "ä", "soup ", "großerkuchen ", "日本語の本", "1 ", "not a ", "between 1 and ", "x\n", "<b>", "a, ")
ITEM = Item("https://a.example/soup", "a.example", "Soup", ("Recipe",), "https://a.example/soup", "Warm.")


@pytest.fixture
async def site() -> Site:
    index = LocalIndex(None, None)
    await index.put([ITEM])
    return Site(index, questions=False)


async def cost(site: Site, message: Message) -> tuple[str, float]:
    """What is answered, and the seconds of processor time that it took."""
    began = time.process_time()
    events = [event async for event in site(Turn(message, Conversation("c")))]
    assert isinstance(events[-1], Reply), events[-1]
    return events[-1].message.text, time.process_time() - began


@pytest.mark.parametrize("shape", SHAPES)
async def test_a_long_text_is_answered_as_its_beginning_is(site: Site, shape: str) -> None:
    text = (shape * 900_000)[:900_000]
    short, usual = await cost(site, Message.text(text[:MAX_QUESTION]))
    long, seconds = await cost(site, Message.text(text))
    assert long == short
    assert seconds < 20 * usual + 0.5


@pytest.mark.parametrize("field", ["prev", "memory", "about", "rewritten"])
async def test_what_is_sent_beside_a_question_is_bounded_too(site: Site, field: str) -> None:
    many = tuple(f"what about {number} soups and breads in the harbour" for number in range(20_000))
    value: object = many if field in ("prev", "memory") else " ".join(many)
    few = many[-10:] if field in ("prev", "memory") else " ".join(many)[:MAX_QUESTION]
    _, usual = await cost(site, Message.of(text_part("and tomorrow?"), SiteAsk(**{field: few}).part()))  # type: ignore[arg-type]
    _, seconds = await cost(site, Message.of(text_part("and tomorrow?"), SiteAsk(**{field: value}).part()))  # type: ignore[arg-type]
    assert seconds < 20 * usual + 0.5


def test_a_word_of_any_length_is_no_compound() -> None:
    assert parts("klavierkurse") == ("klavier", "kurse")
    assert parts("a" * 32_000) is None

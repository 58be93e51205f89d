"""A sentence that has few of the question's words, or none, is found by what it means (issue 15)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest

from sabir.agents.site.agent import Site
from sabir.events import Reply
from sabir.message import Message
from sabir.search import Item, LocalIndex
from sabir.search.engine.embed import MiniLM
from sabir.turn import Conversation, Turn

NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)


def page(path: str, name: str, text: str, kind: str = "WebPage", **fields: object) -> Item:
    url = f"https://lodge.example/{path}"
    return Item(url, "lodge.example", name, (kind,), url, text, "", {"@type": kind, "name": name, **fields})


ITEMS = (
    page("rabbits", "Rabbits", "House rabbits need the jab, too. Bring them in a box with hay."),
    page("leaks", "Something is broken", "For leaks, ring the plumber on 01632 960 499. He comes within two hours."),
    page("keys", "Locked out", "A new key for a lost one is £25, cash only. We are at the desk until eight."),
    page("video", "Viewings", "Who lives more than fifty miles away is shown around on a screen. Others come here."),
    page("market", "Winter market", "Cheese and candles.", "Event", startDate="2026-12-05T10:00"),
    page("fair", "Book fair", "Old books.", "Event", startDate="2026-12-12T10:00"),
    page("bring", "May I bring a guest?", "Yes, for one night. Tell the desk before.", "Question"),
)


@pytest.fixture
async def index(request: pytest.FixtureRequest) -> AsyncIterator[LocalIndex]:
    async with LocalIndex(None, None if getattr(request, "param", "") == "words" else MiniLM()) as index:
        await index.put(ITEMS)
        await index.settled()
        yield index


async def first_line(index: LocalIndex, question: str) -> str:
    agent = Site(index, "lodge.example", now=lambda: NOW, questions=False)
    events = [event async for event in agent(Turn(Message.text(question), Conversation("c")))]
    assert isinstance(events[-1], Reply), events[-1]
    return events[-1].message.text.splitlines()[0]


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("who do I call when water drips through the ceiling?", "ring the plumber on 01632 960 499"),
        ("what do I pay if I lose my key?", "A new key for a lost one is £25"),
        ("how do people who live far away view the rooms?", "shown around on a screen"),
        ("Was muss ich zahlen, wenn ich meinen Schlüssel verloren habe?", "£25"),
        ("can my mate sleep over as a guest?", "Yes, for one night."),
    ],
)
async def test_the_likeliest_sentence_answers(index: LocalIndex, question: str, answer: str) -> None:
    assert answer in await first_line(index, question)


@pytest.mark.parametrize(
    "question",
    [
        "what is on in December?",  # asks for things, not for a fact
        "how tall is the Eiffel Tower?",
        "how do vaccines work in a submarine?",
        "candles",
    ],
)
async def test_no_sentence_is_stated_for_a_search_or_for_what_the_site_does_not_say(
    index: LocalIndex, question: str
) -> None:
    line = await first_line(index, question)
    assert line.startswith(("1.", "Nothing here", "I found nothing")), line


@pytest.mark.parametrize("index", ["words"], indirect=True)
async def test_without_vectors_no_sentence_is_likelier_than_another(index: LocalIndex) -> None:
    line = await first_line(index, "who do I call when water drips through the ceiling?")
    assert line.startswith(("1.", "Nothing here", "I found nothing", "Something is broken")), line

"""The fallbacks of the rules, on tiny sites: what is found, ranked, quoted and left out by the words of the items."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from sabir.agents.site.agent import Site, SiteAsk
from sabir.events import Reply
from sabir.message import Message, text_part
from sabir.search import Item, LocalIndex, SearchQuery
from sabir.search.answers.coverage import forms_of, measured
from sabir.turn import Turn

NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)  # a Monday
HOURS = [{"dayOfWeek": ["Monday", "Tuesday"], "opens": "09:00", "closes": "18:00"}]


def thing(path: str, name: str, description: str = "", kind: str = "Product", **fields: object) -> Item:
    url = f"https://corner.example/{path}"
    return Item(url, "corner.example", name, (kind,), url, description, "", {"@type": kind, "name": name, **fields})


ITEMS = (
    thing(
        "about", "Corner", "A shop for lamps and clocks.", "Store", openingHoursSpecification=HOURS, telephone="5550"
    ),
    thing("lamps/desk", "Brass Desk Lamp", "A lamp for reading. The bulb lasts six years."),
    thing("lamps/floor", "Tall Floor Lamp", "A lamp for corners, with a linen shade."),
    thing("clocks/wall", "Station Clock", "A clock with two hands and a loud tick."),
    thing(
        "pages/guarantee",
        "Guarantee",
        "Every clock has a guarantee of twelve months. It does not cover glass.",
        "Article",
    ),
    thing("kurse/klavier", "Klavier Einzelunterricht", "Unterricht am Klavier.", "Course"),
    thing("kurse/chor", "Chor", "Singen in der Gruppe, Unterricht am Abend.", "Course"),
)


@pytest.fixture
async def index() -> LocalIndex:
    index = LocalIndex(None, None)
    await index.put(ITEMS)
    return index


async def said(index: LocalIndex, question: str, limit: int | None = None) -> tuple[str, list[str]]:
    """The text of an answer, and the paths of its results."""
    agent = Site(index, "corner.example", now=lambda: NOW, questions=False)
    events = [event async for event in agent(Turn(Message.of(text_part(question), SiteAsk(limit=limit).part())))]
    assert isinstance(events[-1], Reply), events[-1]
    reply = events[-1].message
    ids = [part.value["@id"] for part in reply.parts if part.label == "result"]
    return reply.text, [name.removeprefix("https://corner.example/") for name in ids]


@pytest.mark.parametrize(
    ("question", "name"),
    [
        ("lamp for reading", "Brass Desk Lamp"),
        ("a station clok", "Station Clock"),  # a slip
        ("Klavierunterricht", "Klavier Einzelunterricht"),  # a compound by its parts
    ],
)
async def test_the_item_with_the_rare_words_covers_most(index: LocalIndex, question: str, name: str) -> None:
    measure = await measured(question, "de" if question[0].isupper() else "en", index, (), (), ITEMS)
    rows = sorted(ITEMS, key=lambda item: -measure.of(item).share)
    assert rows[0].name == name
    assert measure.of(rows[0]).share > measure.of(rows[1]).share


async def test_a_rare_word_weighs_more_than_one_that_many_items_have(index: LocalIndex) -> None:
    measure = await measured("linen lamp", "en", index, (), (), ITEMS)
    linen, lamp = measure.words
    assert linen.weight > lamp.weight


async def test_words_that_nothing_has_are_unknown(index: LocalIndex) -> None:
    measure = await measured("helicopter lamp", "en", index, (), (), ITEMS)
    assert [word.said for word in measure.words if not word.is_here] == ["helicopter"]
    assert 0.5 < measure.unknown < 1


def test_a_word_has_its_stems_and_written_out_umlauts() -> None:
    assert "knit" in forms_of("knitting", "en")
    assert {"raum", "raeume"} <= set(forms_of("Räume", "de"))


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ("What are your opening hours?", "09:00"),
        ("what is your phone number?", "5550"),
        ("Are you open on Monday?", "Yes"),
        ("are you open on Sundays?", "No"),
        ("how long is the guarantee on a clock?", "twelve months"),
        ("what is not covered by the guarantee?", "does not cover glass"),
        ("how long does the bulb of the desk lamp last?", "six years"),
    ],
)
async def test_a_question_is_answered_in_the_words_of_the_site(index: LocalIndex, question: str, words: str) -> None:
    text, _ = await said(index, question)
    assert words in text.splitlines()[0]


async def test_what_covers_much_less_is_left_out(index: LocalIndex) -> None:
    _, found = await said(index, "tall lamp with a shade made of linen")
    assert found[0] == "lamps/floor"
    assert "clocks/wall" not in found


async def test_nothing_is_stated_of_what_is_not_here(index: LocalIndex) -> None:
    text, found = await said(index, "helicopter insurance")
    assert not found or "nothing" in text.casefold()[:80]


PAPERS = (
    ("wakes", "Transition in wakes", "The transition of a wake is detected by a hot wire in the tunnel."),
    ("layers", "Boundary layers", "A layer on a plate becomes turbulent behind the transition."),
    ("tunnel", "Wind tunnels", "How a tunnel is built, and what disturbs the flow in it."),
    ("wire", "Hot wires", "A wire that is heated shows how fast the air is."),
)


@pytest.mark.parametrize(
    "question",
    [
        "how is transition detected in wakes?",  # a sentence answers it
        "transition of heated wakes",  # what covers most comes first
    ],
)
async def test_more_than_a_page_has_everything_that_was_found(question: str) -> None:
    index = LocalIndex(None, None)
    await index.put([thing(path, name, text, "ScholarlyArticle") for path, name, text in PAPERS])
    found = {hit.item.id for hit in (await index.search(SearchQuery(question, limit=100))).hits}
    _, page = await said(index, question)
    _, everything = await said(index, question, 100)
    assert {f"https://corner.example/{path}" for path in everything} == found
    assert everything[0] == page[0] == "wakes"
    assert len(page) < len(found)

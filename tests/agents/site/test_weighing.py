"""A list whose first result leaves words of the question unexplained, and a follow-up that names nothing (issue 15)."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from sabir.agents.site.agent import Site
from sabir.events import Reply
from sabir.message import Message
from sabir.search import Item, LocalIndex
from sabir.turn import Conversation, PastTurn, Turn

NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)


def thing(path: str, name: str, description: str, kind: str, **fields: object) -> Item:
    url = f"https://quay.example/{path}"
    return Item(url, "quay.example", name, (kind,), url, description, "", {"@type": kind, "name": name, **fields})


ITEMS = (
    thing("lantern", "Lantern House", "Soup and dumplings until late.", "Restaurant", servesCuisine="Noodles"),
    thing("pulling", "Noodle Pulling for Beginners", "An evening class.", "EducationEvent", typicalAgeRange="16-"),
    thing("bees", "Beekeeping in a Year", "Twelve Sundays at the hives.", "Course", typicalAgeRange="12-"),
    thing("welding", "Welding", "Keep your hands: a course for careful people.", "Course", typicalAgeRange="18-"),
    thing("drums", "Drum Lessons", "Loud, in the cellar.", "Course", typicalAgeRange="8-"),
    thing("fish", "Perch Supper", "Fried perch with dill.", "Recipe", recipeCategory="Dinner"),
)


@pytest.fixture
async def index() -> LocalIndex:
    index = LocalIndex(None, None)
    await index.put(ITEMS)
    return index


async def said(index: LocalIndex, *questions: str) -> tuple[str, list[str]]:
    """The text of the last answer, and the paths of its results."""
    agent = Site(index, "quay.example", now=lambda: NOW, questions=False)
    past: tuple[PastTurn, ...] = ()
    for question in questions:
        message = Message.text(question)
        events = [event async for event in agent(Turn(message, Conversation("c", past)))]
        assert isinstance(events[-1], Reply), events[-1]
        past = (*past, PastTurn("t", 0.0, "site", message, events[-1].message))
    reply = past[-1].answered
    ids = [part.value["@id"] for part in reply.parts if part.label == "result"]
    return reply.text, [name.removeprefix("https://quay.example/") for name in ids]


@pytest.mark.parametrize(
    ("question", "expected", "unplaced"),
    [
        ("learn to pull noodles", ["pulling"], ""),  # "noodles" is also a cuisine
        ("evening class with hands", ["pulling", "welding"], '"hands"'),
        ("course with hives and dill", ["bees", "fish"], '"dill"'),
        ("dinner with dill", ["fish"], ""),  # all is explained
        ("noodles for beginners", ["pulling"], ""),
    ],
)
async def test_what_explains_more_of_a_question_is_shown(
    index: LocalIndex, question: str, expected: list[str], unplaced: str
) -> None:
    text, paths = await said(index, question)
    assert paths == expected, text
    assert ("could not place" in text) == bool(unplaced)
    assert f"(I could not place {unplaced}; these come nearest.)" in text or not unplaced


async def test_yes_is_not_said_of_a_list_that_leaves_words_unexplained(index: LocalIndex) -> None:
    text, _ = await said(index, "do you have a velvet perch supper?")
    assert not text.startswith("Yes")


@pytest.mark.parametrize(
    ("before", "question"),
    [
        ("drum lessons", "from which age?"),
        ("drum lessons", "how old must one be?"),
        ("drum lessons", "Ab welchem Alter?"),
    ],
)
async def test_a_follow_up_that_names_nothing_is_about_the_thing_before(
    index: LocalIndex, before: str, question: str
) -> None:
    text, paths = await said(index, before, question)
    assert paths[:1] == ["drums"], text


SHOP = (
    thing("leaf", "Nissan Leaf", "Electric, one owner.", "Product", category="Cars", offers={"price": 9}),
    thing("zoe", "Renault Zoe", "Electric, with a cable.", "Product", category="Cars", offers={"price": 8}),
    thing("yard", "Scrap Yard", "We take lead. We do not take tyres.", "LocalBusiness", telephone="01 23"),
    thing("faq#1", "Do you service electric cars?", "Yes, on Mondays.", "Question"),
    thing("faq#2", "May I light a bonfire in the yard?", "No, burning is forbidden.", "Question"),
    thing("talk", "Talk on Engines", "Bring questions.", "Event", startDate="2026-12-01", offers={"price": 0}),
    thing("rally", "Winter Rally", "Snow tyres on.", "Event", startDate="2026-12-03", offers={"price": 5}),
)


@pytest.mark.parametrize(
    ("question", "expected", "opening"),
    [
        ("electric cars", ["leaf", "zoe"], "1."),  # not the question about servicing them
        ("am I allowed to light a bonfire in the yard", ["faq#2"], "No, burning"),
        ("which events are free?", ["talk"], "1."),
        ("events that cost something, not the free ones", ["rally"], "1."),
        ("what does the scrap yard not take?", ["yard"], "Scrap Yard: We do not take tyres."),
        ("how do I ring the scrap yard", ["yard"], "The phone number of Scrap Yard is 01 23."),
    ],
)
async def test_a_question_finds_what_is_meant_on_a_site_with_its_own_questions(
    question: str, expected: list[str], opening: str
) -> None:
    index = LocalIndex(None, None)
    await index.put(SHOP)
    text, paths = await said(index, question)
    assert (sorted(paths[: len(expected)]), text.startswith(opening)) == (expected, True), (text, paths)


BESIDE = (
    thing("oats", "Overnight Oats", "Chia and milk.", "Recipe"),
    thing("inn", "The Anchor", "Nineteen rooms.", "Hotel", address="1 Quay"),
)


async def test_a_word_of_a_name_does_not_make_a_thing_the_one_that_is_asked_about() -> None:
    index = LocalIndex(None, None)
    await index.put(BESIDE)
    text, paths = await said(index, "where can we stay overnight?")
    assert paths == ["inn"], text

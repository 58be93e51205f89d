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

"""A negated phrase leaves out what it names, and the rest of the question ranks; a relative clause asks for neither yes
nor no (issue 15)."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from sabir.search import Fields, LocalIndex, MiniLM, from_text, ingest
from sabir.search.query.asking import asked
from sabir.search.query.conditions import Has, In, Is, Not
from sabir.search.query.glossary import glossed, language_of
from sabir.search.query.relaxing import inner

from .asking import NOW, Judged, answered, says_no, says_yes

KNOWN = Fields(
    types=frozenset({"Event", "Episode"}),
    words=frozenset({"name", "keywords"}),
    numbers=frozenset(),
    dates=frozenset({"date"}),
    places=frozenset({"riverside", "leeds"}),
)


def _refused(question: str) -> set[str]:
    english = glossed(question, language_of(question))
    out = [one for one in from_text(english, KNOWN, NOW).conditions if isinstance(one, Not)]
    named = [one.words for one in inner(out) if isinstance(one, Has)]
    named += [one.values for one in inner(out) if isinstance(one, Is) and one.field == "name"]
    return {word for words in named for word in words} | {
        one.name.casefold() for one in inner(out) if isinstance(one, In)
    }


@pytest.mark.parametrize(
    ("question", "refused"),
    [
        ("a christmas tree that has not been cut", "cut"),
        ("compost that hasn't got peat in it", "peat"),
        ("a bike that was not made for children", "children"),
        ("a game not suitable for toddlers", "toddler"),
        ("which nurse is not called Ben", "ben"),
        ("a play that is not written by shakespeare", "shakespeare"),
        ("an episode that doesn't talk about money", "money"),
        ("something which has nothing to do with music", "music"),
        ("a flat, anywhere but Riverside", "riverside"),
        ("somewhere to stay, any place except in Leeds", "leeds"),
        ("un épisode qui ne parle pas de football", "football"),
        ("una sesión que no es sobre marketing", "marketing"),
    ],
)
def test_the_scope_of_a_negator_is_what_is_not_wanted(question: str, refused: str) -> None:
    assert refused in _refused(question)


@pytest.mark.parametrize("question", ["flats free from 1 December", "a room free from next month"])
def test_what_is_free_from_a_day_lacks_nothing(question: str) -> None:
    assert not [one for one in from_text(question, KNOWN, NOW).conditions if isinstance(one, Not)]


@pytest.mark.parametrize(
    "question",
    [
        "an episode since May that is not about burnout",
        "your surgery that is not in Leeds",
        "the tent which is waterproof",
        "someone who does house calls",
        "eine Folge, die nicht über Tee ist",
        "una sesión que no es sobre café",
        "un épisode qui n'est pas sur le thé",
    ],
)
def test_a_relative_clause_asks_for_neither_yes_nor_no(question: str) -> None:
    english = glossed(question, language_of(question))
    assert not asked(english, english, KNOWN, datetime(2026, 11, 16, tzinfo=UTC)).is_yes_no


HOUSE = "https://house.example"
ROOMS = [
    ("main", "Main Hall", "Our largest space, for 200 people. Hire is £40 an hour.", {}),
    ("garden", "Garden Room", "A small space for meetings. Hire is £10 an hour.", {}),
    ("talk-36", "Talk 36: Burnout", "On saying no.", {"datePublished": "2026-10-15"}),
    ("talk-35", "Talk 35: Writing Guides", "On empty states.", {"datePublished": "2026-09-17"}),
    ("talk-31", "Talk 31: Money", "On money.", {"datePublished": "2026-04-17"}),
]


@pytest.mark.parametrize(
    ("question", "first", "without"),
    [
        ("hire a space, anything but the main hall", "garden", "main"),
        ("a talk since september that is not about burnout", "talk-35", "talk-36 talk-31"),
    ],
)
async def test_what_is_refused_is_not_shown(tmp_path: Path, question: str, first: str, without: str) -> None:
    things = [
        {"@type": "Article" if "talk" in path else "Place", "@id": f"{HOUSE}/{path}", "url": f"{HOUSE}/{path}",
         "name": name, "description": text, **fields}
        for path, name, text, fields in ROOMS
    ]  # fmt: skip
    feed = tmp_path / "feed.jsonl"
    feed.write_text("\n".join(json.dumps(thing) for thing in things), encoding="utf-8")
    index = LocalIndex(None, MiniLM())
    await ingest(index, str(feed), site="house.example")
    await index.settled()
    answer = await answered(index, Judged(kind="negation", question=question))
    assert answer.ids[:1] == (f"{HOUSE}/{first}",), answer
    assert not {f"{HOUSE}/{path}" for path in without.split()}.intersection(answer.ids)
    assert not says_yes(answer.text) and not says_no(answer.text)
    await index.close()

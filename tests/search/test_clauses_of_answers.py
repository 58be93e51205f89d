"""What a site answers where a clause, a date or an answer is about another thing than what was asked (issue 15)."""

from __future__ import annotations

from time import process_time

import pytest

from sabir.agents.site.whether_so import Evidence, beginning, candidates
from sabir.search import Fields, Hit, Item, LocalIndex, from_text
from sabir.search.answers.leaning import sentence_meant
from sabir.search.query.conditions import During
from sabir.search.query.relaxing import inner

from .asking import NOW, Judged, answered, says_no, says_yes


def _thing(path: str, kind: str, name: str, description: str, **fields: str | bool) -> Item:
    page = f"https://mill.example/{path}"
    return Item(page, "mill.example", name, (kind,), page, description, "", {"@type": kind, "name": name, **fields})


MILL = (
    _thing(
        "inn", "Hotel", "Mill Inn",
        "Breakfast is served daily; no dinner on Sundays. Dogs are welcome in the garden, no cats inside.",
    ),
    _thing("flat", "Apartment", "Flat at the Mill", "Two rooms.", availabilityStarts="2026-12-01"),
    _thing("lake", "Apartment", "Flat by the Lake", "Three rooms.", availabilityStarts="2027-02-01"),
    _thing("jazz", "MusicEvent", "Jazz Night", "A concert.", startDate="2026-12-12T20:00", isAccessibleForFree=True),
    _thing("folk", "MusicEvent", "Folk Night", "A concert.", startDate="2027-01-12T20:00", isAccessibleForFree=True),
    _thing("choir", "MusicEvent", "Choir Evening", "A concert.", startDate="2026-11-20T20:00"),
)  # fmt: skip


@pytest.fixture
async def mill() -> LocalIndex:
    index = LocalIndex(None, None)
    await index.put(MILL)
    return index


@pytest.mark.parametrize(
    ("question", "found"),
    [
        ("concerts that are free in December", ["jazz"]),
        ("which concerts are available in December?", ["jazz"]),
        ("concerts free on 12 December", ["jazz"]),
        ("flats available before January", ["flat"]),
        ("flats free from January", ["flat"]),
        ("which flat could I move into in December?", ["flat"]),
    ],
)
async def test_what_is_on_a_day_keeps_its_date_beside_what_is_to_be_had_from_one(
    mill: LocalIndex, question: str, found: list[str]
) -> None:
    answer = await answered(mill, Judged("date", question))
    await mill.close()
    assert [address.rpartition("/")[2] for address in answer.ids] == found, answer.text


@pytest.mark.parametrize(
    ("kind", "question", "field"),
    [
        ("Course", "courses available in December", "date"),
        ("JobPosting", "jobs available from January", "date"),
        ("Apartment", "apartments available from January", "availabilitystarts"),
        ("Product", "products available from January", "availabilitystarts"),
    ],
)
def test_only_what_one_can_have_is_asked_for_by_the_day_from_which_it_is_to_be_had(
    kind: str, question: str, field: str
) -> None:
    known = Fields(dates=frozenset({"date", "availabilitystarts"}), types=frozenset({kind}))
    dated = [one.field for one in inner(from_text(question, known, NOW).conditions) if isinstance(one, During)]
    assert dated == [field]


@pytest.mark.parametrize(
    ("question", "is_so"),
    [
        ("Is breakfast served on Sundays at the Mill Inn?", True),
        ("Does the Mill Inn serve breakfast on Sundays?", True),
        ("Is dinner served on Sundays at the Mill Inn?", False),
        ("Are dogs allowed in the garden of the Mill Inn?", True),
        ("Are dogs allowed inside the Mill Inn?", None),
        ("can dogs come inside the Mill Inn?", None),
    ],
)
async def test_a_clause_about_another_thing_does_not_deny_what_is_asked(
    mill: LocalIndex, question: str, is_so: bool | None
) -> None:
    answer = await answered(mill, Judged("yes/no", question))
    await mill.close()
    assert (says_yes(answer.text), says_no(answer.text)) == (is_so is True, is_so is False), answer.text


LONG = "Yes, dogs may come into the garden, but not into the house. " * 8_000


class Asked:
    """A question whose search finds given things."""

    asked = english = "are dogs allowed in the house?"
    where = ()
    subject = None
    is_there = False

    def __init__(self, *items: Item) -> None:
        self.hits = tuple(Hit(item, 50.0) for item in items)
        self.engine = self

    async def search(self, query: object) -> Asked:
        return self


async def read(*items: Item) -> list[Evidence]:
    return await candidates(Asked(*items))  # type: ignore[arg-type]


async def test_a_long_answer_of_a_site_is_read_only_at_its_start() -> None:
    answer = _thing("dogs", "Question", "May dogs come in?", LONG)
    await read(answer)  # what is made once
    start = process_time()
    [found] = await read(answer)
    assert process_time() - start < 0.1
    assert len(found.text) <= 6_000


async def test_a_very_long_sentence_is_not_read() -> None:
    [found] = await read(_thing("a", "WebPage", "House", f"Dogs{' and cats' * 100} may come in. Dogs may not come in."))
    assert found.text == "Dogs may not come in."


@pytest.mark.parametrize(
    ("answer", "stated"),
    [
        ("Yes, on the mainland. Not to the islands.", "Yes, on the mainland. Not to the islands."),
        (LONG, " ".join(["Yes, dogs may come into the garden, but not into the house."] * 5)),
        (f"Yes. {'Dog ' * 400}.", "Yes."),
        ("dog " * 400, f"{' '.join(['dog'] * 75)} …"),
        ("x" * 400, f"{'x' * 300} …"),
    ],
)
def test_the_first_sentences_of_an_answer_are_stated(answer: str, stated: str) -> None:
    assert beginning(answer) == stated


def test_the_later_sentence_that_decides_is_stated_too() -> None:
    answer = f"Yes, on the mainland. {'We bring it to your door. ' * 20}Not to the islands. Ask us."
    meant = sentence_meant(answer, ["deliver", "island"], "Do you deliver?")
    said = beginning(answer, meant)
    assert said.startswith("Yes, on the mainland. We bring it to your door.")
    assert said.endswith("door. … Not to the islands.") and len(said) < 330

"""Facts of a thing that stand in its offer, in a unit or in its page, and whose office is asked (issue 15)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sabir.search import LocalIndex, ingest

from .asking import Judged, answered, says_no, says_yes

SITE = "https://lets.example"


def _home(path: str, name: str, says: str, **fields: object) -> dict[str, object]:
    page = f"{SITE}/{path}"
    return {"@type": "Apartment", "@id": page, "url": page, "name": name, "description": says, **fields}


def _rent(price: int, day: str) -> dict[str, object]:
    return {"offers": {"@type": "Offer", "price": price, "priceCurrency": "GBP", "availabilityStarts": day}}


HOMES = [
    _home(
        "flat-3", "Flat 3, 14 Castle Street", "A quiet flat on the second floor.",
        numberOfBedrooms=1, floorSize={"@type": "QuantitativeValue", "value": 44, "unitCode": "MTK"},
        petsAllowed=False, **_rent(875, "2026-12-01"),
    ),
    _home(
        "mews-3", "3 Cooper's Mews", "A house on a cobbled lane. Available from 8 January 2027.",
        numberOfBedrooms=2, **_rent(1200, "2027-01-08"),
    ),
    _home(
        "priory-41", "41 Priory Road (student house)", "Five bedrooms near the campus.", numberOfBedrooms=5,
        amenityFeature=[{"@type": "LocationFeatureSpecification", "name": "Bills included", "value": True}],
        **_rent(2600, "2027-07-01"),
    ),
    _home(
        "yard-5", "5 Bishop's Yard (short let)", "One bedroom by the week.", numberOfBedrooms=1,
        **_rent(1400, "2026-12-01"),
    ),
    _home(
        "linnet-15", "15 Linnet Way (bungalow)", "A bungalow without a single step.", petsAllowed=True,
        numberOfBedrooms=2,
    ),
    _home("orchard-2", "Apple Cottage, 2 Orchard Lane", "A stone cottage.", **_rent(1100, "2026-12-19")),
    {"@type": "ParkingFacility", "@id": f"{SITE}/parking", "url": f"{SITE}/parking",
     "name": "Parking Space 31, Castle Court", "address": "Castle Court, Aldersea",
     "description": "A space in a car park. Height limit two metres."},
    {"@type": "Article", "@id": f"{SITE}/fees", "url": f"{SITE}/fees", "name": "Deposits and Fees",
     "description": "What you pay.", "articleBody": "A lost key costs £18. The deposit is five weeks' rent."},
    {"@type": "Question", "@id": f"{SITE}/smoke", "url": f"{SITE}/smoke", "name": "May I smoke?",
     "acceptedAnswer": {"@type": "Answer", "text": "Not indoors, in any of our homes."}},
    {"@type": "Question", "@id": f"{SITE}/buy", "url": f"{SITE}/buy", "name": "Where can I buy a lamp?",
     "acceptedAnswer": {"@type": "Answer", "text": "At the shop next door."}},
    {"@type": "Article", "@id": f"{SITE}/rules", "url": f"{SITE}/rules", "name": "House Rules",
     "description": "A lamp is required on every bicycle."},
    {"@type": "Person", "@id": f"{SITE}/joe", "url": f"{SITE}/joe", "name": "Joe Finch", "telephone": "01632 960781"},
    {"@type": "RealEstateAgent", "@id": f"{SITE}/office", "url": f"{SITE}/office", "name": "Lets of Aldersea",
     "address": "2 Corn Hill, Aldersea", "openingHours": "Mo-Fr 09:00-17:30",
     "description": "Open on weekdays; closed from 24 December to 3 January."},
]  # fmt: skip


@pytest.fixture
async def homes(tmp_path: Path) -> LocalIndex:
    feed = tmp_path / "feed.jsonl"
    feed.write_text("\n".join(map(json.dumps, HOMES)), encoding="utf-8")
    index = LocalIndex(None, None)
    await ingest(index, str(feed), site="lets.example")
    return index


@pytest.mark.parametrize(
    ("before", "question", "first", "fact"),
    [
        ("", "how many square metres is Flat 3, 14 Castle Street?", "flat-3", "44 m²"),
        ("", "wie viele Quadratmeter hat Flat 3, 14 Castle Street?", "flat-3", "44 m²"),
        ("", "combien de mètres carrés fait Flat 3, 14 Castle Street ?", "flat-3", "44 m²"),
        ("", "when is flat 3 castle street available", "flat-3", "1 December 2026"),
        ("", "from when could we have apple cottage", "orchard-2", "19 December 2026"),
        ("15 Linnet Way (bungalow)", "what's that a month", "linnet-15", ""),
        ("Apple Cottage, 2 Orchard Lane", "what's that a month", "orchard-2", "1,100"),
        ("", "what's the rent of Apple Cottage", "orchard-2", "1,100"),
        ("Apple Cottage, 2 Orchard Lane", "when could we move in", "orchard-2", "19 December 2026"),
        ("Joe Finch", "his direct number?", "joe", "960781"),
        ("", "max height for the castle court parking space", "parking", "two metres"),
        ("", "how much is the deposit", "fees", "five weeks"),
        ("", "what time do you close tonight?", "office", "17:30"),
        ("", "when do you close for christmas", "office", "24 December"),
        ("", "what is the address of your agency?", "office", "2 Corn Hill"),
        ("", "quelle est l'adresse de votre agence ?", "office", "2 Corn Hill"),
        ("", "wie ist die Adresse eurer Agentur?", "office", "2 Corn Hill"),
    ],
)
async def test_a_fact_of_an_offer_or_a_page_is_stated(
    homes: LocalIndex, before: str, question: str, first: str, fact: str
) -> None:
    answer = await answered(homes, Judged("fact", question, before=(before,) if before else ()))
    await homes.close()
    assert answer.ids[:1] == (f"{SITE}/{first}",), answer.text
    assert fact in answer.text.splitlines()[0], answer.text


@pytest.mark.parametrize(
    ("question", "first", "is_so"),
    [
        ("41 priory road, are the bills included", "priory-41", True),
        ("¿se admiten mascotas en 15 Linnet Way?", "linnet-15", True),
        ("are pets allowed at Flat 3, 14 Castle Street?", "flat-3", False),
        ("is smoking allowed indoors?", "smoke", False),
        ("is a lamp required on a bicycle?", "rules", True),
    ],
)
async def test_yes_or_no_is_said_of_what_was_asked(homes: LocalIndex, question: str, first: str, is_so: bool) -> None:
    answer = await answered(homes, Judged("yes/no", question))
    await homes.close()
    assert answer.ids[:1] == (f"{SITE}/{first}",), answer.text
    assert (says_yes(answer.text), says_no(answer.text)) == (is_so, not is_so), answer.text


@pytest.mark.parametrize(
    ("question", "never"),
    [
        ("do I need to bring a lamp to the viewing?", "shop next door"),  # the site only says where to buy one
        ("how old do you have to be to rent", "£18"),
        ("what do the bills cost to rent", "2,600"),  # a home with the bills included is no bill
        ("how many people work for you", "five"),
        ("when was the agency opened", "open "),
        ("are you open on easter monday?", "Yes"),  # the hours of a week do not say
        ("who leads the upholstery home", "Joe"),
        ("what is the fax number of 41 Priory Road?", "Priory Road (student house): "),
    ],
)
async def test_nothing_is_claimed_of_what_is_not_said(homes: LocalIndex, question: str, never: str) -> None:
    answer = await answered(homes, Judged("fact", question))
    await homes.close()
    assert never not in answer.text.splitlines()[0] or answer.text.startswith("1. "), answer.text


@pytest.mark.parametrize(
    ("question", "only", "without"),
    [
        ("one bedroom flat, not a short let", "flat-3", "yard-5"),
        ("bungalow no steps", "linnet-15", "flat-3"),
        ("a home with two bedrooms, not the student house", "", "priory-41"),
    ],
)
async def test_what_is_refused_by_a_part_of_its_name_is_left_out(
    homes: LocalIndex, question: str, only: str, without: str
) -> None:
    answer = await answered(homes, Judged("negation", question))
    await homes.close()
    assert f"{SITE}/{without}" not in answer.ids, answer.text
    assert not only or answer.ids[:1] == (f"{SITE}/{only}",), answer.text

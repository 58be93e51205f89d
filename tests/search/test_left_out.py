"""What a question leaves out is left out, what a page denies answers a question for it, and a follow-up keeps to the
thing before (issue 15)."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from sabir.search import Item, LocalIndex, ingest
from sabir.search.answers.reading import kind_asked, readings, telling
from sabir.search.engine.embed import MiniLM
from sabir.search.items.attributes import _NEGATED, denials
from sabir.search.query.glossary import glossed, language_of
from sabir.search.query.negation import before_refused, denies, is_refused
from sabir.search.query.things import named_things, things_in

from .asking import NOW, Judged, answered, says_no

HALL = "https://hall.example"


def _thing(path: str, kind: str, name: str, description: str, **fields: object) -> dict[str, object]:
    page = f"{HALL}/{path}"
    return {"@type": kind, "@id": page, "url": page, "name": name, "description": description, **fields}


def _hours(*days: str) -> dict[str, object]:
    return {"openingHoursSpecification": [{"dayOfWeek": list(days), "opens": "08:00", "closes": "16:00"}]}


PAID = {"@type": "MonetaryAmount", "currency": "GBP", "value": {"value": 12.6, "unitText": "HOUR"}}
THINGS = [
    _thing("tango", "Event", "Tango Evening", "A dance show with one interval.", startDate="2026-12-05T19:30"),
    _thing("sand", "Event", "Sand", "A dance show, sixty minutes without an interval.", startDate="2026-12-12T20:00"),
    _thing("robin", "Event", "Robin Hood", "A family show for ages 4 and up.", startDate="2026-12-06T15:00"),
    _thing("queen", "Event", "The Snow Queen", "A family show with puppets. Sold out.", startDate="2026-12-20T15:00"),
    _thing("dog-jab", "Service", "Dog Vaccination", "A yearly vaccination of dogs."),
    _thing("cat-jab", "Service", "Cat Vaccination", "A yearly vaccination of cats."),
    _thing(
        "rabbit-jab", "Service", "Rabbit Vaccination", "A yearly vaccination of rabbits. The waiting time is a week."
    ),
    _thing("first-plan", "Service", "First Plan", "A monthly plan for puppies and kittens."),
    _thing("pet-plan", "Service", "Whole Plan", "A monthly plan for every pet. Dental work is not included."),
    _thing("cycle", "Product", "Town Bicycle", "A steel bicycle.", category="Bicycle"),
    _thing("hire", "Store", "Cycle Hire", "We rent bicycles by the hour."),
    _thing("returns", "Article", "Returns", "Bring things back within a week. Gift cards cannot be returned."),
    _thing("amy", "Physician", "Dr Amy Stone", "General practitioner.", **_hours("Monday", "Tuesday")),
    _thing("desk", "JobPosting", "Receptionist", "Twenty hours a week.", baseSalary=PAID),
    _thing("van", "Product", "Blue Van", "A van.", offers={"price": 6500, "priceCurrency": "GBP"}),
    _thing("bus", "Product", "Red Van", "A van.", offers={"price": 9500, "priceCurrency": "GBP"}),
]


@pytest.fixture
async def hall(tmp_path: Path) -> LocalIndex:
    feed = tmp_path / "feed.jsonl"
    feed.write_text("\n".join(json.dumps(thing) for thing in THINGS), encoding="utf-8")
    index = LocalIndex(None, None)
    await ingest(index, str(feed), site="hall.example")
    return index


@pytest.mark.parametrize(
    ("question", "before", "first", "without"),
    [
        ("a dance show without an interval", "", "sand", "tango"),
        ("a family show that isn't Robin Hood", "", "queen", "robin"),
        ("family shows except Robin Hood", "", "queen", "robin"),
        ("vaccination of neither a dog nor a cat", "", "rabbit-jab", "dog-jab cat-jab"),
        ("monthly plan, not the one for puppies and kittens", "", "pet-plan", "first-plan"),
        ("a van under 7 grand", "", "van", "bus"),
        ("where can I rent a bicycle?", "", "hire", "cycle"),
        ("how long is the waiting time?", "Rabbit Vaccination", "rabbit-jab", ""),
        ("open on Mondays?", "Dr Amy Stone", "amy", ""),
    ],
)
async def test_things_that_are_not_wanted_are_left_out(
    hall: LocalIndex, question: str, before: str, first: str, without: str
) -> None:
    answer = await answered(hall, Judged("negation", question, before=(before,) if before else ()))
    await hall.close()
    assert answer.ids[:1] == (f"{HALL}/{first}",), answer.text
    assert not {f"{HALL}/{name}" for name in without.split()}.intersection(answer.ids)


@pytest.mark.parametrize(
    ("question", "said"),
    [
        ("what is not included in the Whole Plan?", "Dental work is not included"),
        ("which things can't be returned?", "Gift cards cannot be returned"),
        ("when is Tango Evening?", "5 December 2026, 19:30"),
        ("what does the receptionist job pay?", "£12.60 an hour"),
        ("what does the Blue Van go for?", "£6,500"),
    ],
)
async def test_a_page_that_denies_or_states_it_answers(hall: LocalIndex, question: str, said: str) -> None:
    answer = await answered(hall, Judged("fact", question))
    await hall.close()
    assert said in answer.text.splitlines()[0]


@pytest.mark.parametrize("question", ["are there tickets left for The Snow Queen?", "is Dr Amy Stone in on Fridays?"])
async def test_no_is_said_of_what_is_gone_or_away(hall: LocalIndex, question: str) -> None:
    answer = await answered(hall, Judged("yes/no", question))
    await hall.close()
    assert says_no(answer.text), answer.text


@pytest.mark.parametrize(
    ("text", "denied"),
    [
        ("Sixty minutes without an interval.", ["without an interval"]),
        ("You do not need a ticket.", ["do not need a ticket"]),
        ("Vier Stimmen, kein Vorsingen.", ["kein Vorsingen"]),
        ("Sin gluten. Sans sucre.", ["Sin gluten", "Sans sucre"]),
        ("With one interval.", []),
    ],
)
def test_denials_are_read_in_every_language(text: str, denied: list[str]) -> None:
    assert denials(text) == denied
    for text_or_free in (text, f"Dairy-Free. {text}", f"{text} Free from nuts."):
        assert denials(text_or_free) == _NEGATED.findall(text_or_free)  # the faster pattern finds the same


def test_an_item_denies_what_it_says_that_it_is_without() -> None:
    show = Item(id="s", site="s", name="Sand", description="Sixty minutes without an interval.")
    assert denies(show, frozenset({"interval"}))
    assert not denies(show, frozenset({"minute"}))


@pytest.mark.parametrize(
    ("before", "wanted"),
    [("a show that isn't", "a show"), ("shows other than the", "shows"), ("shows like", ""), ("not far from", "")],
)
def test_what_precedes_a_negator_is_wanted(before: str, wanted: str) -> None:
    assert before_refused(before) == wanted


@pytest.mark.parametrize(
    ("text", "things"),
    [
        ("dog nor a cat", ["dog", "cat"]),
        ("paring knife or the bread knife", ["paring knife", "bread knife"]),
        ("dog near the lake", ["dog"]),
        ("", []),
    ],
)
def test_named_things_are_listed_with_their_articles(text: str, things: list[str]) -> None:
    assert named_things(text)[0] == things


def test_things_end_where_a_word_ends_the_list() -> None:
    assert things_in("nuts, dairy or red meat under 20 minutes")[0] == ["nuts", "dairy", "red meat"]


@pytest.mark.parametrize(
    ("question", "language"),
    [
        ("ensembles without an audition", "en"),
        ("location and terrain", "en"),
        ("cours de chant", "fr"),
        ("Ensembles ohne Vorspiel", "de"),
    ],
)
def test_english_words_that_other_languages_share_do_not_make_a_question_foreign(question: str, language: str) -> None:
    assert language_of(question) == language


def test_a_question_in_japanese_whether_there_is_something_begins_as_in_english() -> None:
    assert glossed("駐車場はありますか", "ja") == "is there parking ?"
    assert glossed("電気自動車はありますか", "ja") == "is there 電気自動車?"


async def test_things_from_a_month_that_is_over_are_of_that_month(tmp_path: Path) -> None:
    assert datetime(2026, 11, 1, tzinfo=UTC) < NOW
    episodes = [
        _thing(f"e{month}", "PodcastEpisode", f"Episode {month}", "Talk.", datePublished=f"2026-{month:02}-10")
        for month in (8, 9, 10)
    ]
    feed = tmp_path / "feed.jsonl"
    feed.write_text("\n".join(json.dumps(episode) for episode in episodes), encoding="utf-8")
    index = LocalIndex(None, None)
    await ingest(index, str(feed), site="hall.example")
    answer = await answered(index, Judged("date", "episodes from September 2026"))
    await index.close()
    assert answer.ids == (f"{HALL}/e9",)


GARDEN = [
    _thing("pink", "Product", "Climbing Rose Alba", "Very thorny, wear gloves.", category="Roses"),
    _thing("red", "Product", "Climbing Rose Rubra", "For a sunny wall.", category="Roses"),
    _thing("door", "Product", "Climbing Rose Nina", "For a north wall.", category="Roses", keywords=["thornless"]),
    _thing("sour", "Product", "Ericaceous Compost", "For acers.", category="Compost"),
    _thing("plain", "Product", "Peat-Free Compost", "Coir and green waste.", category="Compost"),
    _thing("ribbons", "Recipe", "Ribbon Noodles", "Cut by hand.", recipeIngredient=["4 cups bread flour", "water"]),
    _thing("glass", "Recipe", "Glass Noodles", "Ready in minutes.", recipeIngredient=["rice noodles", "rice flour"]),
    _thing("familiar", "HotelRoom", "Habitación familiar", "Con baño privado y nevera."),
    _thing("rio", "HotelRoom", "Habitación doble con vistas al río", "Con baño privado y balcón."),
    _thing("patio", "HotelRoom", "Habitación doble interior", "Con baño privado, muy silenciosa."),
    _thing("tinto", "Product", "Ruta del vino", "Excursión por las bodegas."),
    _thing("cares", "Product", "Ruta del Cares", "Excursión de montaña por el desfiladero."),
    _thing("fitu", "Product", "Ruta del Fitu", "Excursión de montaña con merienda."),
    {
        "@type": "Question",
        "@id": f"{HALL}/faq#towels",
        "url": f"{HALL}/faq",
        "name": "¿Alquilan toallas?",
        "acceptedAnswer": {"@type": "Answer", "text": "Sí. En cada habitación con baño privado van incluidas."},
    },
]


@pytest.mark.parametrize(
    ("question", "first", "without"),
    [
        ("climbing rose without thorns", "door", "pink"),
        ("compost, but not the ericaceous kind", "plain", "sour"),
        ("noodle recipes without wheat", "glass", "ribbons"),
        ("habitación doble que no dé al río", "patio", "rio"),
        ("habitación con baño privado, pero no la familiar", "rio patio", "familiar faq"),
        ("excursión de montaña que no sea la del cares", "fitu", "cares"),
    ],
)
async def test_a_kind_and_a_named_thing_are_left_out(tmp_path: Path, question: str, first: str, without: str) -> None:
    file = tmp_path / "garden.jsonl"
    file.write_text("\n".join(json.dumps(thing) for thing in GARDEN), encoding="utf-8")
    index = LocalIndex(None, MiniLM())
    await ingest(index, str(file), site="garden.example")
    await index.settled()
    answer = await answered(index, Judged("negation", question))
    assert answer.ids and answer.ids[0] in {f"{HALL}/{name}" for name in first.split()}
    assert not {f"{HALL}/{name}" for name in without.split()}.intersection(answer.ids)


def test_an_item_is_not_what_it_is_free_of() -> None:
    rose = Item(id="r", site="s", name="Climbing Rose", fields={"name": "Climbing Rose", "keywords": ["thornless"]})
    stems = frozenset({"thorn"})
    assert denies(rose, stems)
    assert not is_refused(rose, stems)


async def test_a_price_by_the_month_is_that_of_what_is_paid_by_the_month(tmp_path: Path) -> None:
    day = _thing("day", "Event", "Instrumententag", "Instrumente ausprobieren.", startDate="2027-01-23", offers=FREE)
    small = _thing("small", "Product", "Kleine Geige", "Mit Bogen und Koffer.", offers=AT_12, Miete="pro Monat")
    large = _thing("large", "Product", "Ganze Geige", "Mit Bogen und Koffer.", offers=AT_16, Miete="pro Monat")
    file = tmp_path / "rent.jsonl"
    file.write_text("\n".join(json.dumps(thing) for thing in (day, small, large)), encoding="utf-8")
    index = LocalIndex(None, MiniLM())
    await ingest(index, str(file), site="rent.example")
    await index.settled()
    answer = await answered(index, Judged("filter", "Instrumente unter 15 Euro im Monat"))
    assert answer.ids == (f"{HALL}/small",)


FREE = {"@type": "Offer", "price": 0, "priceCurrency": "EUR"}
AT_12 = {"@type": "Offer", "price": 12, "priceCurrency": "EUR"}
AT_16 = {"@type": "Offer", "price": 16, "priceCurrency": "EUR"}


def test_a_free_feature_is_no_price_of_another() -> None:
    features = [{"@type": "LocationFeatureSpecification", "name": name} for name in ("Free Wi-Fi", "Dog shower")]
    site = Item(id="c", site="s", types=("Campground",), name="Larch", fields={"amenityFeature": features})
    question = "what does a dog cost"
    assert not [one for one in readings(site, telling(question), kind_asked(question)) if one.statement.field]

"""A site never affirms or states what it does not say, in any language (issue 15)."""

from __future__ import annotations

import pytest

from sabir.search import Item, LocalIndex

from .asking import Judged, answered, opened, says_no, says_yes

HOUSE = "https://house.example"


def _item(path: str, name: str, kind: str, description: str = "", **fields: object) -> Item:
    return Item(f"{HOUSE}/{path}", "house.example", name, (kind,), description=description, fields=fields)


async def _said(question: str, things: list[Item], *before: str) -> tuple[str, tuple[str, ...]]:
    """What a site of these things says, and the paths of what it shows."""
    index = LocalIndex(None, None)
    await index.put(things)
    try:
        answer = await answered(index, Judged("fact", question, before=before))
    finally:
        await index.close()
    return answer.text, tuple(item.removeprefix(f"{HOUSE}/") for item in answer.ids)


@pytest.mark.parametrize(
    ("question", "own", "answer"),
    [
        ("is there a pool?", "Is there a pool?", "No, but the river is near."),
        ("gibt es einen Pool?", "Gibt es einen Pool?", "Nein, aber der Fluss ist nah."),
        ("¿hay piscina?", "¿Hay piscina?", "No, pero el río está cerca."),
        ("¿tienen piscina?", "¿Hay piscina?", "No, pero el río está cerca."),
        ("y a-t-il une piscine ?", "Y a-t-il une piscine ?", "Non, mais la rivière est proche."),
        ("プールはありますか", "プールはありますか？", "いいえ、川が近くにあります。"),
    ],
)
async def test_a_question_of_the_site_is_no_proof_that_something_is_there(question: str, own: str, answer: str) -> None:
    text, _ = await _said(question, [_item("faq", own, "Question", answer)])
    assert text.startswith(answer) and not says_yes(text), text


@pytest.mark.parametrize("value", ["No", "nein", "no", "non", "いいえ", "false"])
async def test_a_field_that_says_no_is_a_no(value: str) -> None:
    stated = {"@type": "PropertyValue", "name": "Pet safe", "value": value}
    plant = _item("plant", "Snake Plant", "Product", "Hardly needs water.", additionalProperty=[stated])
    text, _ = await _said("is the snake plant pet safe?", [plant])
    assert says_no(text), text
    text, _ = await _said("can I come with my pet?", [plant])
    assert not says_yes(text) and not says_no(text), text


def _offer(price: float) -> dict[str, object]:
    return {"@type": "Offer", "price": price, "priceCurrency": "EUR"}


TOWER = _item("tower", "Signal Tower", "Place", "A tower of forty-one feet by the sea.", telephone="+34 1")
TALK = _item("talk", "Tower Stories", "Event", "The keeper of the tower talks.", startDate="2026-12-05T19:00")
HOUSE_ITSELF = _item("house", "House Hostel", "Hostel", "Closed on Sunday.", openingHours="Mo-Sa 08:00-20:00")
OPEN_EVENING = _item("open", "Open Evening", "Event", "Come in and look.", startDate="2026-11-25T17:00")
ROOM = _item("room", "Familienzimmer", "Product", "Mit Bad; das Frühstück ist dabei.", offers=_offer(95))
POTTERY = _item("clay", "Ceramics by Hand", "Product", "A ceramics course without a wheel.", offers=_offer(160))


@pytest.mark.parametrize(
    ("question", "things", "never"),
    [
        ("how old is the tower?", [TOWER, TALK], "December"),
        ("how old is the tower?", [TOWER], "forty-one"),
        ("when is the open evening?", [HOUSE_ITSELF], "Sunday"),
        ("when is the open day?", [HOUSE_ITSELF], "open Mon"),
        ("Wann ist der Tag der offenen Tür?", [HOUSE_ITSELF], "Mo"),
        ("Quand a lieu la soirée portes ouvertes ?", [HOUSE_ITSELF], "Sunday"),
        ("¿Cuándo es la tarde de puertas abiertas?", [HOUSE_ITSELF], "Sunday"),
        ("Was kostet das Frühstück?", [ROOM, TOWER], "95"),
        ("¿Cuánto cuesta el curso de cerámica con glurbo?", [POTTERY, TOWER], "160"),
        ("Combien coûte le cours de céramique au glurbo ?", [POTTERY, TOWER], "160"),
    ],
)
async def test_nothing_is_stated_of_something_else(question: str, things: list[Item], never: str) -> None:
    text, _ = await _said(question, things)
    assert never not in text.partition("1. ")[0], text


@pytest.mark.parametrize(
    "question",
    [
        "when is the open evening?",
        "Wann ist der Abend der offenen Tür?",
        "¿Cuándo es la tarde de puertas abiertas?",
        "Quand a lieu la soirée portes ouvertes ?",
    ],
)
async def test_an_open_evening_is_an_event(question: str) -> None:
    text, shown = await _said(question, [HOUSE_ITSELF, OPEN_EVENING])
    assert shown[:1] == ("open",) and text.startswith("Open Evening") and "25" in text, text


CAFE = _item("cafe", "Blue Bowl", "Restaurant", "Vegan options and a terrace.", openingHours="Mo-Su 10:00-20:00")
SOUP = _item("soup", "Pea Soup", "Recipe", "A vegan soup.", suitableForDiet="https://schema.org/VeganDiet")
JAZZ = _item("jazz", "Winter Jazz", "MusicEvent", "A jazz concert.", startDate="2026-12-20T20:00")
FAIR = _item("fair", "Toy Fair", "Event", "A fair for kids.", startDate="2026-12-05T10:00")


@pytest.mark.parametrize(
    ("question", "first", "said"),
    [
        ("are there any vegan recipes?", ("soup",), ""),
        ("is there a jazz concert soon", ("jazz",), ""),
        ("is there anything for kids this weekend", (), "Toy Fair (5 December 2026)"),
        ("is there a terrace there?", ("cafe",), ""),
    ],
)
async def test_there_is_only_a_place_where_it_is_one(question: str, first: tuple[str, ...], said: str) -> None:
    text, shown = await _said(question, [CAFE, SOUP, JAZZ, FAIR], "When does Blue Bowl open?")
    assert shown[:1] == first and said in text, text


KEEPER = _item(
    "keeper", "A Night with the Keeper", "Event", "The keeper of the lighthouse talks.", startDate="2026-12-05"
)
NOVEL = _item("novel", "Ninety Steps", "Product", "A novel about a lighthouse and a keeper of the lighthouse.")
LIGHT = _item(
    "light", "Lantern Point", "TouristAttraction", "A lighthouse.", telephone="+1-208-555-0118", address="2 Quay"
)


@pytest.mark.parametrize(
    ("question", "fact"),
    [
        ("phone number of the lighthouse", "555-0118"),
        ("how do I get to the lighthouse", "2 Quay"),
        ("Wie ist die Telefonnummer vom Leuchtturm?", "555-0118"),
        ("Wie komme ich zum Leuchtturm?", "2 Quay"),
        ("¿Cuál es el teléfono del faro?", "555-0118"),
        ("¿Cómo llego al faro?", "2 Quay"),
        ("Quel est le numéro de téléphone du phare ?", "555-0118"),
        ("Comment aller au phare ?", "2 Quay"),
        ("灯台の電話番号は？", "555-0118"),
        ("灯台への行き方は？", "2 Quay"),
    ],
)
async def test_what_has_the_field_that_is_asked_for_comes_first(question: str, fact: str) -> None:
    text, shown = await _said(question, [KEEPER, NOVEL, LIGHT])
    assert shown[:1] == ("light",) and fact in text.partition("1. ")[0], text


async def test_of_two_places_none_is_taken_for_the_one_that_is_meant() -> None:
    other = _item("north", "North Point", "TouristAttraction", "A lighthouse.", telephone="+1-208-555-0200")
    text, _ = await _said("phone number of the lighthouse", [LIGHT, other])
    assert "555" not in text.partition("1. ")[0], text


SEWING = _item("sewing", "Sewing for Beginners", "Course", "Make a bag.")
JAPANESE = _item("japanese", "Japanese for Beginners", "Course", "Hiragana in five weeks.")
ROCKER = _item("rocker", "Porch Rocking Chair", "Product", "It rocks.", offers=_offer(640))
CAROLS = _item("carols", "Carols on the Ferry", "MusicEvent", "A lap with a band.", startDate="2026-12-19T16:00")
OATS = _item("oats", "Oats with Matcha", "Recipe", "A green start.", recipeCategory="Breakfast")
BY_WHEEL = _item("wheel", "Pottery on the Wheel", "Product", "Ten weeks of ceramics.", offers=_offer(215))


@pytest.mark.parametrize(
    ("question", "first"),
    [
        ("Nähkurs", "sewing"),
        ("日本語コース", "japanese"),
        ("¿Cuánto cuesta la mecedora?", "rocker"),
        ("Was kostet der Schaukelstuhl?", "rocker"),
        ("chants de Noël sur le bateau", "carols"),
        ("抹茶の朝食レシピ", "oats"),
    ],
)
async def test_words_of_other_languages_are_read_whole(question: str, first: str) -> None:
    _, shown = await _said(question, [SEWING, JAPANESE, ROCKER, CAROLS, OATS])
    assert shown[:1] == (first,)


@pytest.mark.parametrize(
    "question", ["how much is the ceramics course with a wheel?", "¿Cuánto cuesta el curso de cerámica con torno?"]
)
async def test_of_two_alike_the_one_that_is_called_so_may_be_meant(question: str) -> None:
    text, _ = await _said(question, [POTTERY, BY_WHEEL])
    assert "160" not in text.partition("1. ")[0], text


@pytest.mark.parametrize(
    "question", ["free concerts this month", "are there free concerts this month?", "¿Hay conciertos gratis este mes?"]
)
async def test_where_none_is_free_the_next_of_the_kind_are_named(question: str) -> None:
    paid = _item("jazz", "Winter Jazz", "MusicEvent", "Jazz.", startDate="2026-12-20T20:00", offers=_offer(20))
    free = _item("talk", "A Talk this Month", "Event", "Free.", startDate="2026-12-03T20:00", isAccessibleForFree=True)
    text, shown = await _said(question, [paid, free])
    assert not shown and "Winter Jazz (20 December 2026)" in text, text


@pytest.mark.slow
async def test_a_question_whose_filters_nothing_meets_is_not_about_the_thing_before() -> None:
    index = await opened("harbour")
    asked = Judged("follow-up", "¿Hay conciertos gratis este mes?", before=("how do I get to the lighthouse",))
    text = (await answered(index, asked)).text
    assert "Lantern Point" not in text and "Carols on the Marguerite" in text

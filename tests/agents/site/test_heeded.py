"""Requests are applied and shown; what cannot be applied is reported (W-5, W-11)."""

from __future__ import annotations

import asyncio

import pytest

from sabir.agents.site.agent import Site, SiteAsk
from sabir.search import Item, LocalIndex
from search.shelf import NOW, shelf

from .test_site_agent import Asker, ids, meta, results


def thing(item_id: str, name: str, kind: str = "Product", **fields: object) -> Item:
    return Item(item_id, "shop.example", name, (kind,), description=f"{name}, as it is.", fields=fields)


def offer(price: float) -> dict[str, object]:
    return {"@type": "Offer", "price": price, "priceCurrency": "USD"}


WARES = [
    thing("j1", "Rain jacket", color="signal yellow", offers=offer(90)),
    thing("j2", "Wool jacket", color="navy and cream", offers=offer(120)),
    thing("j3", "Work jacket", color="brown", offers=offer(60)),
    thing("k1", "Kite", color="blue", offers=offer(20)),
    thing("n1", "Knife for the kitchen knife block", offers=offer(80)),
    thing("n2", "Paring knife", offers=offer(40)),
    thing("n3", "Course on the knife", "EducationEvent", offers=offer(10), startDate="2026-06-05T09:00:00-06:00"),
    thing("l1", "Red lentil stew", "Recipe", recipeIngredient=["red lentils", "2 tomatoes"]),
    thing("l2", "Pasta bake", "Recipe", recipeIngredient=["pasta", "cheese"]),
    thing("l3", "Pasta sauce", "Recipe", recipeIngredient=["pasta", "tomatoes"]),
    thing("s1", "Onion soup", "Recipe", recipeIngredient=["onions"]),
    thing("s2", "Pumpkin pie", "Recipe", recipeIngredient=["pumpkin"]),
    thing("h1", "Harbour hotel", "Hotel", priceRange="$$"),
]


@pytest.fixture(scope="module")
def wares() -> LocalIndex:
    index = LocalIndex(None, None)
    asyncio.run(index.put(WARES))
    return index


@pytest.fixture(scope="module")
def shop() -> LocalIndex:
    index = LocalIndex(None, None)
    asyncio.run(index.put(shelf()))
    return index


def asker(index: LocalIndex) -> Asker:
    return Asker(Site(index, now=lambda: NOW, questions=False))


async def test_a_colour_filters_what_states_one_by_any_of_its_shades(wares: LocalIndex) -> None:
    person = asker(wares)
    assert {"j1", "j2", "j3"} <= set(ids(await person.reply("jackets")))
    blue = await person.reply("only blue ones")
    assert ids(blue) == ["j2"] and meta(blue)["question"] == "blue jackets"
    assert results(blue)[0]["matched"] == {"color": "navy and cream"}
    assert "1. Wool jacket, navy and cream: " in blue.text


async def test_a_colour_that_nothing_has_is_reported_and_the_rest_is_shown(wares: LocalIndex) -> None:
    message = await asker(wares).reply("purple jackets")
    assert set(ids(message)) == {"j1", "j2", "j3"}
    assert '(I did not go by "purple": nothing that was found is said to be purple.)' in message.text


async def test_a_colour_in_the_name_of_a_food_filters_nothing(wares: LocalIndex) -> None:
    message = await asker(wares).reply("red lentils")
    assert ids(message)[0] == "l1" and meta(message)["ignored"] == []


async def test_what_is_to_be_had_with_it_filters_where_things_state_it(wares: LocalIndex) -> None:
    person = asker(wares)
    assert {"l2", "l3"} <= set(ids(await person.reply("pasta recipes")))
    assert ids(await person.reply("and with tomatoes?"))[0] == "l3"
    assert "l2" not in ids(await asker(wares).reply("pasta with tomatoes"))
    with_friends = await asker(wares).reply("pasta with friends")
    assert {"l2", "l3"} <= set(ids(with_friends)) and meta(with_friends)["ignored"] == []


async def test_something_that_nothing_comes_with_is_reported(wares: LocalIndex) -> None:
    message = await asker(wares).reply("kite with tomatoes")
    assert ids(message)[0] == "k1"
    assert meta(message)["ignored"] == [
        {"name": "text", "value": "with tomatoes", "reason": "nothing that was found has it"}
    ]


async def test_only_things_of_a_kind_are_put_in_order_and_show_what_by(wares: LocalIndex) -> None:
    person = asker(wares)
    await person.reply("knives")
    cheaper = await person.reply("cheaper ones")
    assert ids(cheaper)[:2] == ["n2", "n1"]  # and not the course, which is cheaper than both
    assert [result["matched"].get("price") for result in results(cheaper)[:2]] == ["$40", "$80"]
    assert cheaper.text.startswith("1. Paring knife, $40: ")


async def test_an_order_by_what_nothing_states_is_reported(wares: LocalIndex) -> None:
    message = await asker(wares).reply("cheapest hotels")
    assert ids(message) == ["h1"]
    assert '(I did not go by "cheapest": what was found does not state a price.)' in message.text


async def test_the_cheapest_of_all_is_found_also_behind_the_newest(wares: LocalIndex) -> None:
    index = LocalIndex(None, None)
    await index.put([thing(f"p{n}", f"Thing {n}", offers=offer(100 + n), releaseDate="2026-01-01") for n in range(70)])
    await index.put([thing("old", "Old thing", offers=offer(1))])
    assert ids(await asker(index).reply("cheapest products"))[0] == "old"


async def test_words_that_are_met_apart_and_never_together_are_reported(wares: LocalIndex) -> None:
    message = await asker(wares).reply("pumpkin soup")
    assert set(ids(message)) == {"s1", "s2"}
    assert meta(message)["note"] == "Nothing here is about pumpkin and soup together; these come nearest."
    assert meta(await asker(wares).reply("onion soup"))["note"] == ""


async def test_events_without_words_come_soonest_first_and_say_when(shop: LocalIndex) -> None:
    message = await asker(shop).reply("events")
    assert ids(message) == ["e1", "e3", "e2", "e4"]  # and what is over comes last
    assert [result["matched"]["date"] for result in results(message)] == [
        "Saturday, 23 May 2026",
        "Friday, 5 June 2026",
        "Saturday, 12 September 2026 to 14 September 2026",
        "Friday, 10 April 2026",
    ]


async def test_a_list_shows_what_it_was_filtered_by(shop: LocalIndex) -> None:
    [soup, *_] = results(await asker(shop).reply("soup under $10 in less than 40 minutes rated over 4 stars"))
    assert soup["matched"] == {"price": "$8", "totaltime": "30 min", "stars": "4.6 stars"}
    near = results(await asker(shop).reply("restaurants near Boise"))
    assert [item["matched"] for item in near if item["@id"] == "l2"] == [{"distance": "30 km from Boise"}]


async def test_an_irrelevant_day_is_reported_and_what_happens_on_another_is_left_out(
    wares: LocalIndex,
) -> None:
    message = await asker(wares).reply("knife on Saturday")
    assert set(ids(message)) == {"n1", "n2"}  # the course is on a Friday
    assert '(I did not go by "on Saturday": what was found is not tied to a day.)' in message.text


async def test_where_a_filter_empties_the_result_it_is_named_and_what_comes_closest_is_shown(shop: LocalIndex) -> None:
    message = await asker(shop).reply("restaurants in Portland")
    assert ids(message) == ["l2"]
    assert message.text.startswith('Nothing here meets "in Portland". What comes closest:\n1. ')


async def test_what_meets_the_conditions_is_shown_though_it_is_not_about_the_words(shop: LocalIndex) -> None:
    message = await asker(shop).reply("restaurants near Boise open late")
    assert ids(message) == ["l2"]
    assert '(I did not go by "open late": nothing that meets the rest is about it.)' in message.text


async def test_what_fits_best_need_not_say_for_how_many_it_is() -> None:
    index = LocalIndex(None, None)
    supper = thing("e", "Supper for two lovers by candle", "FoodEvent", startDate="2026-06-05T19:00:00")
    stew = thing("r", "Stew", "Recipe", recipeYield="10 servings", recipeIngredient=["a candle of lard"])
    await index.put([supper, stew])
    message = await asker(index).reply("a supper by candle for two people")
    assert ids(message)[0] == "e" and "(I did not go by" in message.text
    assert ids(await asker(index).reply("a stew for two people")) == ["r"]


@pytest.mark.parametrize(
    ("asked", "shown"),
    [
        ("how much does the rain jacket cost?", {"price": "$90"}),
        ("when is the course on the knife?", {"date": "Friday, 5 June 2026"}),
    ],
)
async def test_facts_that_a_question_asks_for_are_shown(wares: LocalIndex, asked: str, shown: dict[str, str]) -> None:
    [first, *_] = results(await asker(wares).reply(asked))
    assert first["matched"] == shown


async def test_open_on_a_day_is_about_hours_and_not_about_events() -> None:
    index = LocalIndex(None, None)
    await index.put(
        [
            thing("m1", "Museum of boats", "Museum", openingHours=["We-Su 10:00-17:00"]),
            thing("m2", "Museum of mills", "Museum", openingHours="Mo-Fr 09:00-17:00"),
            thing("m3", "Museum of moss", "Museum", openingHoursSpecification=[
                {"dayOfWeek": ["https://schema.org/Sunday"], "opens": "12:00", "closes": "16:00"},
                {"dayOfWeek": "Monday", "opens": "00:00", "closes": "00:00"}]),
            thing("m4", "Museum night", "ExhibitionEvent", startDate="2026-05-24T20:00:00"),
        ]
    )  # fmt: skip
    sunday = results(await asker(index).reply("is the museum open on Sunday?"))
    assert {item["@id"]: item["matched"] for item in sunday} == {
        "m1": {"openinghours": "open Sun 10:00–17:00"},
        "m3": {"openinghours": "open Sun 12:00–16:00"},
    }
    assert set(ids(await asker(index).reply("museums open on Monday"))) == {"m2"}
    assert set(ids(await asker(index).reply("museums open today"))) == {"m1", "m2"}  # a Wednesday


async def test_a_party_that_goes_on_until_one_is_on_the_day_on_which_it_begins() -> None:
    index = LocalIndex(None, None)
    fields = {"startDate": "2026-12-31T20:00:00-07:00", "endDate": "2027-01-01T01:00:00-07:00"}
    market = {"startDate": "2026-12-30T10:00:00-07:00", "endDate": "2027-01-02T16:00:00-07:00"}
    await index.put([thing("p", "Party", "Event", **fields), thing("m", "Market", "Event", **market)])
    assert ids(await asker(index).reply("events in January 2027")) == ["m"]
    assert set(ids(await asker(index).reply("events in December 2026"))) == {"p", "m"}


@pytest.mark.parametrize(
    "said", ["between 20 and 25 May", "from May 20 to 25", "May 20-25, 2026", "from 20th to 25th of May"]
)
async def test_days_of_one_month_are_a_span(shop: LocalIndex, said: str) -> None:
    assert ids(await asker(shop).reply(f"events {said}")) == ["e1"]


async def test_a_question_in_words_is_not_taken_for_a_name_that_nothing_has(wares: LocalIndex) -> None:
    assert meta(await asker(wares).reply("pumpkin in a soup"))["note"] == ""


async def test_an_unknown_site_among_several_is_reported(shop: LocalIndex) -> None:
    message = await asker(shop).reply("soup", SiteAsk(filters={"site": ["shop.example", "nope.example"]}))
    assert ids(message)[0] == "r1"
    assert [(item["name"], item["reason"]) for item in meta(message)["ignored"]] == [
        ("site", "there is no site 'nope.example' here")
    ]


async def test_one_of_two_colours_will_do(wares: LocalIndex) -> None:
    assert set(ids(await asker(wares).reply("yellow or brown jackets"))) == {"j1", "j3"}


async def test_the_order_is_of_those_that_state_what_it_is_by() -> None:
    index = LocalIndex(None, None)
    diner = thing("d", "Vegan dinner diner", "Restaurant")
    slow = thing("s", "Vegan dinner stew", "Recipe", totalTime="PT90M")
    quick = thing("q", "Vegan dinner bowl", "Recipe", totalTime="PT10M")
    await index.put([diner, slow, quick])
    message = await asker(index).reply("quickest vegan dinner")
    assert ids(message)[:2] == ["q", "s"] and meta(message)["ignored"] == []


@pytest.mark.parametrize(
    ("said", "met"),
    [("before Christmas", {"e1", "e2", "e3"}), ("after Halloween", set()), ("before Independence Day", {"e1", "e3"})],
)
async def test_a_day_may_be_called_by_its_name(shop: LocalIndex, said: str, met: set[str]) -> None:
    assert set(ids(await asker(shop).reply(f"events {said}"))) - {"e4"} == met


async def test_a_feast_in_the_name_of_a_thing_is_no_date(wares: LocalIndex) -> None:
    assert meta(await asker(wares).reply("Christmas jackets"))["applied"] == []


async def test_when_a_recipe_was_published_is_not_when_it_is(shop: LocalIndex) -> None:
    [soup, *_] = results(await asker(shop).reply("when should I eat pumpkin soup?"))
    assert soup["@id"] == "r1" and "matched" not in soup


async def test_opening_hours_are_shown_if_asked_for() -> None:
    index = LocalIndex(None, None)
    await index.put([thing("m", "Market hall", "GroceryStore", openingHours=["Mo-Sa 08:00-18:00"])])
    [hall] = results(await asker(index).reply("what time does the market hall open?"))
    assert hall["matched"] == {"openinghours": "open Mon–Sat 08:00–18:00, closed Sun"}


@pytest.mark.parametrize("said", ["hello", "Hi there!", "thanks", "help", "what can you do?"])
async def test_a_greeting_is_answered_with_what_can_be_asked(wares: LocalIndex, said: str) -> None:
    site = Site(wares, description="Sells wares", examples=["jackets", "cheapest knife"])
    message = await Asker(site).reply(said)
    assert message.text == 'Sells wares. Ask, for example: "jackets", "cheapest knife".'
    assert results(message) == [] and message.labelled("meta") is None


async def test_thanks_in_between_is_no_topic(wares: LocalIndex) -> None:
    person = asker(wares)
    await person.reply("jackets")
    await person.reply("thanks")
    assert ids(await person.reply("only blue ones")) == ["j2"]

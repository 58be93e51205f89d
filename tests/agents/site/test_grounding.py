"""Which sentences of a model the fields and the text of an item support, in whatever words they are said."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from sabir.agents.site.described import fields_of
from sabir.agents.site.grounding import grounded
from sabir.search import Hit, Item
from sabir.search.items.schema_org import items


def item(**fields: Any) -> Item:
    node = {f"@{name}" if name == "type" else name: value for name, value in fields.items()}
    [found] = items(node, site="s", base="https://s.example/", source="s", place="p")
    assert isinstance(found, Item)
    return found


def hours(days: list[str], opens: str, closes: str) -> dict[str, Any]:
    return {"@type": "OpeningHoursSpecification", "dayOfWeek": days, "opens": opens, "closes": closes}


ITEMS: Mapping[str, Item] = {
    "bistro": item(
        type="Restaurant", name="Fig & Fennel", description="A small bistro.", telephone="+44 20 7946 0123",
        priceRange="££", servesCuisine="Greek", acceptsReservations=True,
        openingHoursSpecification=[
            hours(["Tuesday", "Wednesday", "Thursday", "Friday"], "09:00", "17:30"),
            hours(["Saturday"], "10:30", "23:00"),
        ],
    ),
    "walk": item(
        type="Event", name="Lantern Walk", description="A walk.", startDate="2027-03-12T19:00:00+01:00",
        endDate="2027-03-12T21:30:00+01:00", location={"@type": "Place", "name": "Mill Lane"},
        offers={"@type": "Offer", "price": "1250.00", "priceCurrency": "EUR"},
    ),
    "pie": item(
        type="Recipe", name="Leek Pie", description="A pie.", totalTime="PT1H30M", recipeYield="6",
        nutrition={"@type": "NutritionInformation", "calories": "450 kcal"},
        suitableForDiet="https://schema.org/VegetarianDiet", recipeIngredient=["2 leeks", "200 g flour"],
    ),
    "shed": item(
        type="LocalBusiness", name="Bike Shed", acceptsReservations=False, openingHours=["Mo-Sa 09:00-18:00"],
        description="Repairs and hire. We do not repair e-bikes. Dogs are not allowed in the workshop, but they are "
        "welcome in the yard. Hire costs £14 a day. A deposit of £50 is required. There is no parking.",
    ),
    "mug": item(
        type="Product", name="Mug", description="Stoneware, dishwasher safe.", weight="350 g", color=["blue", "red"],
        offers={"@type": "Offer", "price": "12.50", "priceCurrency": "GBP"},
        aggregateRating={"ratingValue": 4.6, "reviewCount": 31},
    ),
    "museum": item(
        type="Museum", name="Uhrenmuseum", inLanguage="de", openingHours=["Tu-Su 10:00-17:00"],
        description="Das Museum zeigt 300 Uhren. Hunde sind nicht erlaubt. Der Eintritt kostet 8,50 €.",
    ),
    "beach": item(
        type="Restaurant", name="海の家", inLanguage="ja", openingHours=["Tu-Su 11:00-20:00"],
        description="新鮮な魚料理の店です。駐車場があります。ペットは入れません。",
    ),
    "harbour": item(
        type="Museum", name="Harbour Museum", startDate="2027-03-02",
        openingHoursSpecification=[hours(["Tuesday", "Wednesday", "Thursday", "Friday"], "09:00", "17:30")],
        description="A museum of ships in the harbour, with a sun terrace. The cafe closes at 17:00.",
        offers={"@type": "Offer", "price": "12", "priceCurrency": "EUR"}, odd=10**400,
        width={"@type": "QuantitativeValue", "value": 10**400, "unitText": "m"},
    ),
}  # fmt: skip
TRUE = {
    "harbour": (
        "The museum is closed at the weekend.", "Tickets cost 12 euros.", "Tickets cost €12.", "Tickets cost EUR 12.",
        "It takes place on March 2.", "It takes place on 2 March 2027.", "The cafe closes at 5 pm.",
        "The cafe closes at 5:00.", "The museum has a sun terrace.", "€12",
    ),
    "bistro": (
        "Fig & Fennel opens at 9am on Tuesday.", "It is open Tuesday to Friday from 9:00 am to 5:30 pm.",
        "It opens at 9 am and closes at 5.30pm.", "On Saturdays it is open from 10:30 to 23:00.",
        "On Saturday it is open until 11 pm.", "It is open Tue–Fri 9–17:30.", "It is closed on Mondays.",
        "It is closed on Sunday and Monday.", "You can call 020 7946 0123.", "It serves Greek cuisine.",
        "Reservations are accepted.", "Geöffnet Dienstag bis Freitag von 9 bis 17:30 Uhr.",
        "Ouvert du mardi au vendredi de 9h à 17h30.", "Abierto de martes a viernes de 9:00 a 17:30.",
    ),
    "walk": (
        "The Lantern Walk is on 12 March 2027 at 7 pm.", "Lantern Walk takes place on March 12th, 2027.",
        "It starts at 19:00 and ends at 21:30.", "It costs €1,250.", "It costs 1250 euros.", "It costs 1.250 €.",
        "Lantern Walk: 12/03/2027, 19:00.", "It lasts 2.5 hours.",
    ),
    "pie": (
        "Leek Pie takes 90 minutes.", "Leek Pie takes 1 hour 30 minutes.", "It serves 6 people.",
        "It is suitable for vegetarians.", "You need 2 leeks and 200g flour.",
    ),
    "shed": (
        "They do not repair e-bikes.", "Dogs are welcome in the yard.", "Dogs are not allowed in the workshop.",
        "There is no parking.", "A £50 deposit is required.", "It is open every day except Sundays.",
        "It is not open on Sunday.", "The shop is open from 9 to 6.",
    ),
    "mug": ("It is rated 4.6 out of 5 from 31 reviews.", "The mug weighs 350 g.", "It is dishwasher safe."),
    "museum": (
        "Der Eintritt kostet 8,50 Euro.", "Das Museum ist von Dienstag bis Sonntag von 10 bis 17 Uhr geöffnet.",
        "Montags ist es geschlossen.", "Hunde sind nicht erlaubt.",
    ),
    "beach": ("駐車場があります。", "ペットは入れません。", "11時から20時まで営業しています。", "月曜日は定休日です。"),
}  # fmt: skip
FALSE = {
    "harbour": (
        "...", "Yes.", "No.", "The museum is open at the weekend.", "The museum is open on weekends.",
        "The museum is open on weekdays.", "Tickets cost 12 pounds.", "Tickets cost £12.", "Tickets cost 12 dollars.",
        "Tickets cost USD 12.", "It takes place on March 12.", "It takes place on 12 March.",
        "The cafe closes at 5 am.", "It opens at 5:30 am on Tuesday.", "The sun terrace is closed.",
    ),
    "bistro": (
        "It opens at 8 am.", "It opens at 9 pm.", "It is open on Monday.", "It closes at 6 pm.",
        "It opens at 9 am on Saturday.", "It is closed on Tuesday.", "Its number is 020 7946 0124.",
    ),
    "walk": ("It costs €1,300.", "It is on 13 March 2027.", "It is on 12 April 2027.", "It lasts 3 hours."),
    "pie": ("It takes 45 minutes.", "Leek Pie is vegan.", "Leek Pie is not vegetarian.", "It has 450 g of sugar."),
    "shed": (
        "They repair e-bikes.", "Dogs are allowed in the workshop.", "There is parking.", "It is open daily.",
        "A deposit of £60 is required.", "It is open on Sundays.", "Reservations are accepted.",
    ),
    "mug": (
        "It is not dishwasher safe.", "The mug costs £13.", "It is rated 4.9.", "It is made of porcelain and gold.",
    ),
    "museum": ("Hunde sind erlaubt.", "Das Museum ist montags geöffnet.", "Der Eintritt kostet 9 Euro."),
    "beach": ("月曜日は営業しています。", "22時まで営業しています。", "ペットは入れます。"),
}  # fmt: skip


def pairs(table: Mapping[str, tuple[str, ...]]) -> list[tuple[str, str]]:
    return [(name, sentence) for name, said in table.items() for sentence in said]


@pytest.mark.parametrize(("name", "sentence"), pairs(TRUE))
def test_a_true_sentence_is_kept(name: str, sentence: str) -> None:
    quote = grounded((sentence, 0), [Hit(ITEMS[name], 50.0)])
    assert quote is not None and quote.text == sentence


@pytest.mark.parametrize(("name", "sentence"), pairs(FALSE))
def test_a_false_sentence_is_removed(name: str, sentence: str) -> None:
    assert grounded((sentence, 0), [Hit(ITEMS[name], 50.0)]) is None


@pytest.mark.parametrize("place", [-1, 1, 99])
def test_a_sentence_about_no_item_is_removed(place: int) -> None:
    assert grounded(("It is dishwasher safe.", place), [Hit(ITEMS["mug"], 50.0)]) is None


def test_the_model_reads_when_things_end_and_what_is_only_yes_or_no() -> None:
    assert "21:30" in fields_of(ITEMS["walk"])
    assert "not accepts reservations" in fields_of(ITEMS["shed"])
    assert "not stated" not in fields_of(ITEMS["walk"])  # what an item does not say is no field

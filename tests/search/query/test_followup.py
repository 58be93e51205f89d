"""Forty follow-ups and the questions they are on their own (W-11)."""

from __future__ import annotations

import pytest

from sabir.search.query.followup import decontextualized, is_more

# Earlier questions, oldest first; the follow-up; what it is on its own.
FOLLOW_UPS: list[tuple[list[str], str, str]] = [
    (["pumpkin recipes"], "cheaper ones", "cheapest pumpkin recipes"),
    (["pumpkin recipes"], "something cheaper?", "cheapest pumpkin recipes"),
    (["cookies"], "quicker", "quickest cookies"),
    (["tents"], "better rated ones please", "top rated tents"),
    (["articles on boots"], "newer ones", "newest articles on boots"),
    (["pumpkin recipes", "cheaper ones"], "newer ones", "newest pumpkin recipes"),
    (["pumpkin recipes"], "without nuts", "pumpkin recipes without nuts"),
    (["pumpkin recipes"], "but without nuts or dairy", "pumpkin recipes without nuts or dairy"),
    (["cookies"], "any without eggs?", "cookies without eggs"),
    (["soup"], "no onions please", "soup no onions"),
    (["pasta recipes under $20"], "under $10", "pasta recipes under $10"),
    (["tents under $300"], "anything under $200?", "tents under $200"),
    (["pumpkin recipes", "without nuts"], "under 30 minutes", "pumpkin recipes without nuts under 30 minutes"),
    (["tents"], "rated at least 4 stars", "tents rated at least 4 stars"),
    (["dinner for 4 people"], "for 8 people", "dinner for 8 people"),
    (["restaurants in Boise"], "what about in Ketchum?", "restaurants in Ketchum"),
    (["museums"], "near Portland", "museums near Portland"),
    (["restaurants in Boise"], "and in Nampa?", "restaurants in Nampa"),
    (["events this weekend"], "next weekend", "events next weekend"),
    (["events this weekend"], "how about next week?", "events next week"),
    (["concerts in Boise"], "tomorrow", "concerts in Boise tomorrow"),
    (["live music near Boise in January 2027"], "and in March?", "live music near Boise in March"),
    (["events this weekend in Boise"], "for kids", "events this weekend in Boise for kids"),
    (["restaurants in Boise"], "vegan ones", "vegan restaurants in Boise"),
    (["restaurants in Boise"], "only vegan", "vegan restaurants in Boise"),
    (["soup"], "and gluten free", "gluten free soup"),
    (["vegetarian dinner recipes"], "vegan instead", "vegan dinner recipes"),
    (["italian restaurants"], "mexican instead", "mexican restaurants"),
    (["chocolate cake"], "make it gluten-free", "gluten-free chocolate cake"),
    (["hiking boots"], "in red", "red hiking boots"),
    (["hiking boots"], "waterproof ones under $150", "waterproof hiking boots under $150"),
    (["red jackets"], "the same but in blue", "blue jackets"),
    (["pizza"], "with mushrooms", "pizza with mushrooms"),
    (["backpacks"], "by Acme", "backpacks by Acme"),
    (["pasta recipes under $20 without nuts"], "what about soup?", "soup recipes under $20 without nuts"),
    (["vegan pasta recipes"], "how about curry?", "vegan curry recipes"),
    (["lasagna"], "how long does it take?", "how long does lasagna take"),
    (["coffee shops near Boise"], "do they have parking?", "do coffee shops have parking near Boise"),
    (["thai curry"], "is it spicy?", "is thai curry spicy"),
    (["jackets"], "only blue ones", "blue jackets"),
    (["gifts for children"], "only wooden ones", "wooden gifts for children"),
    (["dessert recipes"], "only chocolate", "chocolate dessert recipes"),
    (["vegan recipes"], "I only want Thai ones", "Thai vegan recipes"),
    (["pumpkin"], "only recipes", "pumpkin recipes"),
    (["restaurants in Boise"], "hotels only", "hotels in Boise"),
    (["coffee"], "the decaf one", "decaf coffee"),
    (["jackets"], "not the red one", "jackets not red"),
    (["lamps"], "the most expensive one", "most expensive lamps"),
    (["concerts in Boise"], "which one is cheapest?", "cheapest concerts in Boise"),
    (["concerts in Boise"], "the soonest", "soonest concerts in Boise"),
    (["events in January"], "which of them are free?", "free events in January"),
    (["events in January"], "are any of them free?", "free events in January"),
    (["hotels near Boise"], "do any of them have a pool?", "hotels near Boise with a pool"),
    (["events in January"], "which are suitable for children?", "events in January suitable for children"),
    (["events for kids"], "when is it?", "when is events for kids"),
    (["toys"], "for a 3 year old", "toys for a 3 year old"),
    (["concerts"], "on a Saturday", "concerts on a Saturday"),
    (["restaurants in Portland"], "open late", "restaurants in Portland open late"),
    (["pasta"], "and with tomatoes?", "pasta with tomatoes"),
    (["cake"], "and the calories?", "cake calories"),
    (["vegan recipes under $10"], "and soup?", "vegan soup recipes under $10"),
    (["how long does pea soup take"], "what about desserts?", "desserts"),
    (["vegan soup recipes under $10"], "what about desserts?", "vegan desserts recipes under $10"),
    (["vegan recipes"], "what about breakfast?", "breakfast vegan recipes"),
    (["museums"], "how do I get there?", "how do I get to museums"),
    (["muffins"], "more", "muffins"),
    (["muffins"], "show me more results", "muffins"),
    (["muffins under $5", "without nuts"], "anything else?", "muffins under $5 without nuts"),
]

# Questions that stand alone whatever came before.
ALONE = [
    "how do I roast a chicken?",
    "something protein rich that has cinnamon in it",
    "hotels in Ketchum under $200",
    "who wrote the article about boots?",
    "chocolate cake",
]


def test_there_are_forty() -> None:
    assert len(FOLLOW_UPS) >= 40


@pytest.mark.parametrize(("previous", "text", "expected"), FOLLOW_UPS, ids=lambda case: str(case)[:50])
def test_a_follow_up_is_rewritten_with_its_topic_and_its_filters(previous: list[str], text: str, expected: str) -> None:
    assert decontextualized(text, previous) == expected


@pytest.mark.parametrize("text", ALONE)
def test_a_question_that_stands_alone_is_left_as_it_is(text: str) -> None:
    assert decontextualized(text, ["breakfast muffins", "high fiber snacks"]) == text


def test_without_earlier_questions_nothing_is_rewritten() -> None:
    assert decontextualized("cheaper ones", []) == "cheaper ones"


def test_a_result_can_be_named_by_its_place() -> None:
    assert decontextualized("tell me more about the second one", ["cake"], ["Sponge", "Torte"]) == (
        "tell me more about Torte"
    )


def test_only_a_wish_for_more_is_one() -> None:
    assert is_more("More, please?") or is_more("more please")
    assert not is_more("more chocolate")

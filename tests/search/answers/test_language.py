"""Questions back (W-10) and quoted answers (W-12)."""

from __future__ import annotations

import pytest

from sabir.search import Hit, Item
from sabir.search.answers.clarify import answered, chosen, question
from sabir.search.answers.extract import generated, rendered, sources, summarized
from sabir.search.engine.passages import passages

COURSES = ["Dessert", "Soup", "Main course"]


def recipe(number: int, score: float = 80.0, **fields: object) -> Hit:
    course = COURSES[number % 3]
    item = Item(f"r{number}", "s", f"Recipe {number}", ("Recipe",), fields={"recipeCategory": course, **fields})
    return Hit(item, score)


def test_the_question_with_the_highest_gain_is_asked_with_counts() -> None:
    hits = [recipe(number, recipeCuisine="French") for number in range(12)]
    asked = question("recipes", hits)
    assert asked is not None
    assert asked.id == "recipeCategory"
    assert asked.text == "Which course should it be?"
    assert sorted(asked.options) == ["Dessert (4)", "Main course (4)", "Soup (4)"]


def test_a_field_is_never_asked_for_twice() -> None:
    hits = [recipe(number) for number in range(12)]
    assert question("recipes", hits, asked=["recipeCategory"]) is None
    assert question("recipes", hits, asked=["recipecategory"]) is None


def test_nothing_is_asked_where_one_value_fits_all() -> None:
    assert question("soup", [recipe(number * 3) for number in range(12)]) is None


def test_nothing_is_asked_about_few_items() -> None:
    assert question("recipes", [recipe(number) for number in range(6)]) is None


def test_nothing_is_asked_where_few_are_much_better_than_the_rest() -> None:
    assert question("recipes", [recipe(number, 90.0 if number < 3 else 30.0) for number in range(12)]) is None


def test_nothing_is_asked_about_a_question_that_is_exact() -> None:
    hits = [recipe(number) for number in range(12)]
    assert question("grandmother's slow roasted tomato basil cream recipe", hits) is None


def test_what_the_question_already_says_is_not_asked() -> None:
    assert question("dessert", [recipe(number) for number in range(12)]) is None


@pytest.mark.parametrize("text", ["pumpkin soup", "chocolate cake", "what goes with roast lamb?", "birthday cake"])
def test_nothing_is_asked_about_a_question_that_names_what_it_wants(text: str) -> None:
    """W-10"""
    assert question(text, [recipe(number) for number in range(30)]) is None


@pytest.mark.parametrize("text", ["recipes", "something to eat", "soup", "what can I cook?", "any ideas?"])
def test_a_vague_question_may_be_asked_about(text: str) -> None:
    """W-10"""
    hits = [recipe(number) for number in range(30)]
    asked = question(text, hits)
    assert (asked is None) == (text == "soup")  # which is one of the options
    assert question(text, hits, conditions=2) is None


def test_a_place_is_asked_for_only_of_things_that_are_somewhere() -> None:
    """W-10: a recipe is nowhere, whatever address stands in it."""
    at = [{"address": {"addressLocality": town}} for town in ("Boise", "Eagle")]
    recipes = [
        Hit(Item(f"r{n}", "s", "x", ("Recipe",), fields={"author": at[n % 2], **at[n % 2]}), 80.0) for n in range(20)
    ]
    assert question("recipes", recipes) is None
    events = [Hit(Item(f"e{n}", "s", "x", ("Event",), fields={"location": at[n % 2]}), 80.0) for n in range(20)]
    asked = question("events", events)
    assert asked is not None
    assert asked.id == "addressLocality"
    assert question("anything", [*events, recipes[0]]) is None


def test_a_field_that_few_items_state_is_not_asked_for() -> None:
    """W-10: its answer would lose all others."""
    hits = [recipe(number) for number in range(10)]
    plain = [Hit(Item(f"p{n}", "s", "x", ("Recipe",), fields={}), 80.0) for n in range(10)]
    assert question("recipes", [*hits, *plain]) is None


@pytest.mark.parametrize(
    ("said", "understood"),
    [
        ("Boise", (["Boise"], "")),
        ("In Boise, please", (["Boise"], "")),
        ("boise or eagle?", (["Boise", "Eagle"], "")),
        ("the second one", (["Eagle"], "")),
        ("2", (["Eagle"], "")),
        ("any", ([], "")),
        ("I don't care", ([], "")),
        ("Boise, but something cheap", (["Boise"], "but something cheap")),
        ("What is on in Boise in January?", None),
        ("show me hotels in Eagle", None),
        ("a chocolate cake", None),
        ("without nuts", None),
    ],
)
def test_an_answer_is_distinguished_from_another_question(said: str, understood: tuple[list[str], str] | None) -> None:
    assert chosen(said, ("Boise (13)", "Eagle (7)")) == understood


def test_an_option_needs_more_than_one_item() -> None:
    hits = [
        Hit(Item(str(number), "s", "x", ("Product",), fields={"brand": f"Brand {number}"}), 80.0)
        for number in range(12)
    ]
    assert question("things", hits) is None


def test_answers_become_filters_without_counts_and_without_indifference() -> None:
    assert answered({"recipeCategory": ["Dessert (4)", "Soup"], "brand": "any", "@type": "Recipe (9)"}) == {
        "recipeCategory": ["Dessert", "Soup"],
        "itemType": "Recipe",
    }


HITS = [
    Hit(
        Item("1", "s", "Boots", url="https://s.example/boots", description="Boots need a thumb of room. Break them in.",
             text="Leather boots last ten years. They cost more than cloth ones. Dr. Ruiz wears size 9.5 boots."),
        70.0, "Leather boots last ten years."),
    Hit(
        Item("2", "s", "Socks", url="https://s.example/socks", description="Wool socks keep feet dry.",
             text="wool, cotton, silk\nChange socks at noon. Boots and socks should be bought together."),
        50.0),
]  # fmt: skip


def held_by(quote_item: str, text: str) -> bool:
    item = next(hit.item for hit in HITS if hit.item.id == quote_item)
    return text in item.description or text in item.text


def test_every_sentence_stands_in_its_source_word_for_word() -> None:
    for quotes in (summarized("boots", HITS), generated("how long do leather boots last?", HITS)):
        assert quotes
        assert all(held_by(quote.item, quote.text) for quote in quotes)


def test_the_sentence_that_answers_is_chosen() -> None:
    assert generated("how long do leather boots last?", HITS)[0].text == "Leather boots last ten years."


def test_a_summary_takes_one_sentence_of_each_item() -> None:
    assert [quote.item for quote in summarized("boots and socks", HITS)] == ["1", "2"]


def test_each_sentence_is_followed_by_the_number_of_its_source() -> None:
    quotes = summarized("boots", HITS)
    assert sources(quotes) == ("https://s.example/boots", "https://s.example/socks")
    text = rendered(quotes)
    assert text.count("[1]") == text.count("[2]") == 1


def test_a_list_of_words_is_no_sentence() -> None:
    assert all("cotton" not in quote.text for quote in generated("wool cotton silk", HITS))


def test_an_abbreviation_does_not_end_a_sentence() -> None:
    texts = [quote.text for quote in generated("which size does Ruiz wear", HITS)]
    assert "Dr. Ruiz wears size 9.5 boots." in texts


def test_nothing_is_said_of_nothing() -> None:
    assert summarized("boots", []) == generated("boots", []) == ()


def test_lines_of_a_long_text_are_not_run_together_into_a_sentence_that_it_does_not_hold() -> None:
    lines = [f"Item {number} of the list\nThe sea is calm on day {number}." for number in range(120)]
    item = Item("long", "s", "Sea", ("Article",), url="https://s.example/sea", text="\n".join(lines))
    parts = list(passages(item))
    assert len(parts) > 2
    for part in parts:
        quotes = generated("calm sea day list", [Hit(item, 80.0, part.text)])
        assert quotes
        assert all(quote.text in item.text for quote in quotes)

"""Yes and no by what a sentence says, clause by clause, of what was asked."""

from __future__ import annotations

from time import process_time

import pytest

from sabir.search.answers.leaning import clause_meant, leanings
from sabir.search.answers.polarity import clauses, obliges, refuses, says
from sabir.search.answers.reading import same


@pytest.mark.parametrize(
    ("sentence", "words", "is_so"),
    [
        ("Hens are allowed, cockerels are not.", ["hen"], True),
        ("Hens are allowed, cockerels are not.", ["cockerel"], False),
        ("Dogs must be on a lead; no cycling.", ["dog", "lead"], True),
        ("Dogs must be on a lead; no cycling.", ["cycle"], False),
        ("The toilets are closed until spring.", ["toilet", "open"], False),
        ("An unheated outdoor pool.", ["heated"], False),
        ("A cholera jab costs £165, typhoid is free.", ["typhoid", "free"], True),
        ("A cholera jab costs £165, typhoid is free.", ["cholera", "free"], False),
        ("Do not eat before a fasting test; water is fine.", ["water", "fasting"], True),
        ("All cars are covered, except diesels.", ["diesel", "covered"], False),
        ("Only assistance dogs.", ["dog"], False),
        ("Online only.", ["online"], True),
        ("Vegan and gluten free.", ["gluten"], False),
        ("Not only pianos, but organs too.", ["piano"], True),
        ("New patients are welcome if they live nearby.", ["new", "patient"], None),
        ("The pool is 33 metres long.", ["sauna"], None),
    ],
)
def test_a_sentence_affirms_or_denies_what_was_asked_or_says_neither(
    sentence: str, words: list[str], is_so: bool | None
) -> None:
    assert says(sentence, words, same) is is_so


@pytest.mark.parametrize(
    ("question", "sentence", "is_so"),
    [
        ("do I need a helmet?", "Helmets are included.", False),
        ("do I need a helmet?", "Helmets must be worn.", True),
        ("do I need a helmet?", "Helmets come in red.", None),
    ],
)
def test_that_something_is_there_does_not_say_that_it_has_to_be_brought(
    question: str, sentence: str, is_so: bool | None
) -> None:
    assert obliges(question)
    assert says(sentence, ["helmet"], same, must=True) is is_so


def test_an_answer_may_refuse_without_the_word_no() -> None:
    assert refuses("Only assistance dogs.")
    assert refuses("Not yet. It is planned for 2027.")
    assert not refuses("In the yard behind the post office.")


@pytest.mark.parametrize(
    ("sentence", "words", "is_so"),
    [
        ("Breakfast is served daily; no dinner on Sundays.", ["breakfast", "sunday"], None),
        ("Breakfast is served daily; no dinner on Sundays.", ["breakfast", "serve", "sunday"], None),
        ("Breakfast is served daily; no dinner on Sundays.", ["breakfast"], True),
        ("Dogs are welcome in the garden, no cats inside.", ["dog", "inside"], None),
        ("Dogs are welcome in the garden, but no cats upstairs.", ["dog", "upstairs"], None),
        ("Dogs are welcome in the garden, no dogs inside.", ["dog", "inside"], False),
        ("Dogs are welcome in the garden, but not inside.", ["dog", "inside"], False),
        ("We are open daily, except on Sundays.", ["open", "sunday"], False),
        ("You can pay by card, no cash.", ["pay", "cash"], False),
        ("We sell rolls, no fresh bread.", ["sell", "bread"], False),
        ("Dogs are welcome, no charge.", ["dog", "free"], True),
    ],
)
def test_a_clause_that_denies_another_thing_says_nothing_of_the_one_before(
    sentence: str, words: list[str], is_so: bool | None
) -> None:
    assert says(sentence, words, same) is is_so
    denies = clause_meant(sentence, words).startswith(("no ", "not ", "except "))
    assert denies is (is_so is False or "free" in words)


LONG_RUNS = ["dogs{}allowed", "Dogs are welcome,{}not inside", "no{}dinner", "a{}but{}not", "yes,{}no,{}x", "if{}- {}x"]


@pytest.mark.parametrize("text", LONG_RUNS)
@pytest.mark.parametrize("blank", [" ", "\t", " \N{NO-BREAK SPACE}"], ids=["blanks", "tabs", "no-break"])
def test_a_run_of_blanks_takes_linear_time(text: str, blank: str) -> None:
    sentence = text.replace("{}", blank * 6_000)
    start = process_time()
    clauses(sentence)
    clause_meant(sentence, ["dog", "allowed"])
    says(sentence, ["dog", "allowed"], same)
    leanings("are dogs allowed inside?", sentence, ["dog", "allowed"], "are dogs allowed?")
    assert process_time() - start < 0.2


def test_clauses_have_single_blanks() -> None:
    assert clauses("Dogs  are\twelcome,\n but not\u00a0inside.") == ["Dogs are welcome", "not inside."]

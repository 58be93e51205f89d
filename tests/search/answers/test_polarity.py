"""Yes and no by what a sentence says, clause by clause, of what was asked."""

from __future__ import annotations

import pytest

from sabir.search.answers.polarity import obliges, refuses, says
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

"""Which answers let a tool run that wants the caller's consent."""

from __future__ import annotations

import pytest

from sabir.message import Message, json_part
from sabir.tools.toolbox import says_yes


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (True, True),
        ("yes", True),
        ("Yes.", True),
        (False, False),
        ("no", False),
        (1, False),
        ("maybe", False),
        (None, False),
    ],
)
def test_a_form_confirms_by_true_or_by_the_word_that_nlweb_sends(given: object, expected: bool) -> None:
    answer = Message.text("whatever", parts=(json_part({"confirm": given}, label="answer"),))
    assert says_yes(answer) is expected


@pytest.mark.parametrize(
    ("words", "expected"), [("yes", True), ("Yes!", True), ("no", False), ("yes, but later", False)]
)
def test_words_confirm_only_by_a_plain_yes(words: str, expected: bool) -> None:
    assert says_yes(Message.text(words)) is expected

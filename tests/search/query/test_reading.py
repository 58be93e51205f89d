"""Any text can be asked: no question raises, and none takes long to read. More: scripts/fuzz_questions.py."""

from __future__ import annotations

from time import thread_time

import pytest

from sabir.agents.site.agent import Site
from sabir.events import Reply
from sabir.message import Message
from sabir.search import LocalIndex, decontextualized
from sabir.search.query import words
from sabir.search.query.budget import READ_BUDGET
from sabir.search.query.text import MAX_READ
from sabir.turn import Turn
from search.generated import ADVERSE, JOINS, NUMBERS, OPENERS, WORDS, is_slow, limit_of, questions, read
from search.shelf import shelf


def test_generated_questions_are_read_without_an_error_and_quickly() -> None:
    usual = limit_of("")
    slow = [question[:80] for question in questions(3_000, seed=15) if read(question) > usual and is_slow(question)]
    assert slow == []


@pytest.mark.parametrize(
    ("text", "folded", "of_one_length", "seen"),
    [
        ("Café GRÜN", "cafe grun", "cafe grun", "Café GRÜN"),
        ("cafe\u0301 ﬁn Œuvre", "cafe fin oeuvre", "cafe\u0301 ﬁn œuvre", "cafe\u0301 ﬁn Œuvre"),
        ("がREI\u200b\x00\t!", "がrei\u200b\x00\t!", "がrei\u200b\x00\t!", "がREI  \t!"),
    ],
)
def test_letters_are_folded_and_marks_removed(text: str, folded: str, of_one_length: str, seen: str) -> None:
    assert (words.fold(text), words.fold_length_kept(text), words.readable(text)) == (folded, of_one_length, seen)


def test_plain_letters_of_a_long_text_are_not_looked_at_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[str] = []

    def combining(char: str) -> int:
        looked_at.append(char)
        return 1

    monkeypatch.setattr("unicodedata.combining", combining)
    assert words.fold("é" + "in " * 5_000) == "e" + "in " * 5_000
    assert looked_at == ["\u0301"]


@pytest.mark.parametrize("piece", ADVERSE)
def test_a_run_of_one_piece_is_read_in_linear_time(piece: str) -> None:
    """ "ー" many times once took 103 ms: each character began a search to the end of the run."""
    for length in (299, 399, 8_000):
        question = (piece * length)[:length]
        assert not is_slow(question), (piece, length)


@pytest.mark.slow
def test_a_repetition_of_any_word_that_a_rule_knows_is_read_quickly() -> None:
    """ "In 1 in 1 …" behind itself took 100 ms: filters were looked for from the start again, and earlier questions
    had no limit."""
    slow = []
    usual = limit_of("")
    for number, word in enumerate(dict.fromkeys((*OPENERS, *JOINS, *NUMBERS, *WORDS))):
        form = (f"{word} ", f"{word} 1 ")[number % 2]
        question = (form * MAX_READ)[: MAX_READ - 1]
        if read(question, question) > usual and is_slow(question, question):
            slow.append(form)
    assert slow == []


@pytest.mark.parametrize("piece", ["in 1 1 1 1 ", "for 4 people in 1 ", "what about 1 under $1 and "])
def test_a_conversation_of_adverse_questions_ends_within_the_budget(piece: str) -> None:
    question = (piece * MAX_READ)[: MAX_READ - 1]
    alone = min(_seconds_of(question, 1) for _ in range(3))
    whole = min(_seconds_of(question, 12) for _ in range(3))
    assert whole < READ_BUDGET + 3 * alone


def _seconds_of(question: str, count: int) -> float:
    started = thread_time()
    decontextualized(question, [question] * count)
    return thread_time() - started


def test_a_follow_up_beyond_the_budget_is_asked_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    assert decontextualized("vegan ones", ["soups"]) == "vegan soups"
    monkeypatch.setattr("sabir.search.query.followup.READ_BUDGET", 0.0)
    assert decontextualized("vegan ones", ["soups"]) == "vegan ones"


@pytest.mark.slow
def test_every_word_that_a_rule_knows_is_read_behind_every_opener() -> None:
    """ "How to cook trout" once was a 500: a word that one table has and another lacks."""
    for number, word in enumerate(WORDS):
        opener = OPENERS[number % len(OPENERS)]
        read(f"{opener} {word}")
        read(f"{word} {JOINS[number % len(JOINS)]}")
        read(word)


async def test_generated_questions_are_answered() -> None:
    index = LocalIndex(None, None)
    await index.put(shelf())
    agent = Site(index, questions=False)
    for question in questions(150, seed=4):
        events = [event async for event in agent(Turn(Message.text(question)))]
        assert isinstance(events[-1], Reply), question

"""Sentences that ask for an act, sentences that do not, and plain questions, in four languages (CORE-6.3).

Defects of issue 11, A 1.
``control_sentences.jsonl`` was written before the rules. What is marked ``held_back`` was not looked at while the rules
were made, but for sentences that acted and must not; both are measured alike. No act may be read that nobody asked for.
Rows of a ``batch`` are for the statistical model: "model" trains it, and the "fresh" ones measure it in
``test_guesses``. Here they only show that the rules read no act in them that nobody asked for.
"""

from __future__ import annotations

import json
from collections import Counter
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from sabir.agents.control.intents import TOPICS, read_words

ALL_ROWS: list[dict[str, Any]] = [
    json.loads(line)
    for line in (Path(__file__).parent / "control_sentences.jsonl").read_text(encoding="utf-8").splitlines()
]
ROWS = [row for row in ALL_ROWS if "batch" not in row]
LANGUAGES = ("en", "de", "es", "fr")
LEAST_UNDERSTOOD = 0.9


def act_of(sentence: str) -> str | None:
    wish = read_words(sentence)
    return wish.act or None if wish is not None else None


def is_understood(row: dict[str, Any]) -> bool:
    wish = read_words(row["sentence"])
    return wish is not None and (wish.topic, wish.act or None) == (row["topic"], row["act"])


def test_the_table_is_large_enough_and_reaches_every_topic() -> None:
    assert len(ROWS) >= 400
    assert len({row["sentence"] for row in ALL_ROWS}) == len(ALL_ROWS)
    assert {row["topic"] for row in ROWS if row["topic"]} == set(TOPICS)
    assert sum(row["topic"] is None for row in ROWS) >= 150
    for language in LANGUAGES:
        assert sum(row["language"] == language and row["act"] is not None for row in ROWS) >= 40


@pytest.mark.parametrize("held_back", [False, True], ids=["open", "held-back"])
def test_no_act_is_read_that_nobody_asked_for_and_plain_requests_are_understood(held_back: bool) -> None:
    rows = [row for row in ROWS if row["held_back"] is held_back]
    raised = [row["sentence"] for row in rows if act_of(row["sentence"]) not in (None, row["act"])]
    asked = Counter(row["language"] for row in rows if row["topic"] is not None)
    understood = Counter(row["language"] for row in rows if row["topic"] is not None and is_understood(row))
    print(f"\n{'held-back' if held_back else 'open'} sentences: {len(rows)}, false acts: {len(raised)}")
    for language in LANGUAGES:
        share = understood[language] / asked[language]
        print(f"  {language}: {understood[language]} of {asked[language]} understood ({share:.0%})")
    assert raised == []
    for language in LANGUAGES:
        assert understood[language] >= LEAST_UNDERSTOOD * asked[language], language


def test_no_act_is_read_in_the_sentences_of_the_model_that_nobody_asked_for() -> None:
    rows = [row for row in ALL_ROWS if "batch" in row]
    assert [row["sentence"] for row in rows if act_of(row["sentence"]) not in (None, row["act"])] == []


@pytest.mark.parametrize(
    "said",
    ["Send me the answer as soon as it is ready.", "Schick die Antwort, sobald sie fertig ist.",
     "Manda la respuesta en cuanto esté lista.", "Manda la respuesta en cuanto esté completa.",
     "Envoie la réponse dès qu'elle est prête."],
)  # fmt: skip
def test_an_answer_that_is_sent_once_it_is_ready_is_not_streamed(said: str) -> None:
    assert act_of(said) != "stream on"


# What stands around a clear request and makes it none, in whatever language the request is.
AROUND = [
    'He said: "{}"', "{} That is what the sign says.", "Translate: {}", "`{}`", "> {}", "({})", "If you can: {}",
    "Never say: {}", "{} Or rather not.", "{} Just kidding.", "What if I said {}", "Unless told otherwise, {}",
    "Not: {}", "1. {} 2. Something else.", "I might say {}", "{} #2", "Er sagte: {}", "Angenommen: {}", "{} Nicht!",
    "Dijo: {}",
    "Si acaso: {}", "{} ¡Mentira!", "Il a dit : {}", "Supposons : {}", "{} Non !", "{}\nBut not yet.", "Subject: {}",
]  # fmt: skip


@pytest.mark.parametrize("around", AROUND)
def test_a_quoted_request_is_not_a_request(around: str) -> None:
    acts = [row["sentence"] for row in ROWS if row["act"] is not None]
    assert [said for said in acts if act_of(around.format(said)) is not None] == []


DENIALS = {"en": ("not", "never"), "de": ("nicht", "niemals"), "es": ("nunca", "jamás"), "fr": ("pas", "jamais")}
BINDING = ("erase", "accept", "anonymous on", "keeper client", "keeper server", "keeper both", "limits", "end")


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_request_with_a_denial_anywhere_in_it_is_not_a_request(language: str) -> None:
    for row in ROWS:
        if row["language"] != language or row["act"] not in BINDING:
            continue
        words = row["sentence"].split(" ")
        for denial, place in product(DENIALS[language], range(len(words) + 1)):
            said = " ".join([*words[:place], denial, *words[place:]])
            # "not more than", "no longer than" and the like bound a size: they say the same limit once more.
            assert act_of(said) is None or row["act"] == "limits", said


CONDITIONS = {"en": ("If", "Should"), "de": ("Falls", "Wenn"), "es": ("Si", "Quizá"), "fr": ("Si", "Peut-être")}


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_request_after_a_condition_is_not_a_request(language: str) -> None:
    """ "Si acepto sus condiciones" counted as consent, because "sí" may be typed without its accent."""
    for row in ROWS:
        if row["language"] != language or row["act"] not in BINDING:
            continue
        request = row["sentence"].lstrip("¿¡")
        for condition in CONDITIONS[language]:
            said = f"{condition} {request[0].lower()}{request[1:]}"
            assert act_of(said) is None, said

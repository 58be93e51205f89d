"""A yes, a no and a "cancel" are whole answers; anything more is something else."""

from __future__ import annotations

import pytest

from sabir.guard.assent import assent, assents, is_cancel
from sabir.message import Message, json_part

YES = ["yes", "Yes.", "Yes, exactly!", "yes please", "OK", "I confirm", "ja", "Ja, bitte.", "Sí", "si", "¡Sí!",
       "sí, por favor", "oui", "Oui, je confirme.", "d’accord", "sim", "sì", "はい", "Yes, go ahead"]  # fmt: skip
NO = ["no", "No, thanks.", "nein", "Nein, danke", "no, gracias", "non", "Non, merci.", "never", "não"]
NEITHER = ["", "yes, but not today", "yes if it is free", "yes?", "no yes", "yes, no", "not yes", "I said yes", "maybe",
           "yesterday", "ja, aber", "oui mais non", "What does yes mean?", "yes " * 100,
           "no problem, tell me more"]  # fmt: skip
CANCEL = ["cancel", "Please stop.", "Never mind!", "I want to cancel", "Could you stop?", "Hör bitte auf.", "Cancélalo",
          "laisse tomber", "Actually, cancel it."]  # fmt: skip
NO_CANCEL = ["Cancel my subscription", "Don't stop", "Stop?", "stop sign", "never mind the gap", "He said stop",
             "Do not cancel", "cancel culture", "stop when you are done", "nicht abbrechen", "no canceles"]  # fmt: skip


@pytest.mark.parametrize("said", YES)
def test_a_yes(said: str) -> None:
    assert assents(said) is True


@pytest.mark.parametrize("said", NO)
def test_a_no(said: str) -> None:
    assert assents(said) is False


@pytest.mark.parametrize("said", NEITHER, ids=lambda said: said[:30])
def test_neither(said: str) -> None:
    assert assents(said) is None


@pytest.mark.parametrize("said", CANCEL)
def test_what_takes_back(said: str) -> None:
    assert is_cancel(said)


@pytest.mark.parametrize("said", NO_CANCEL)
def test_what_takes_nothing_back(said: str) -> None:
    assert not is_cancel(said)


@pytest.mark.parametrize(
    ("value", "label", "meant"),
    [(True, "confirm", True), (False, "confirm", False), ({"confirm": True}, None, True),
     ({"confirm": False}, "x", False),
     ({"confirm": "yes"}, None, None), ("true", "confirm", True)],
)  # fmt: skip
def test_a_part_says_it_for_machines(value: object, label: str | None, meant: bool | None) -> None:
    assert assent(Message.text("", parts=[json_part(value, label=label)])) is meant


@pytest.mark.parametrize("answer", ["Yes, wait.", "Yes, hold on!", "Ja, warte mal.", "Sí, espera.", "Oui, attends."])
def test_a_yes_that_asks_to_wait_is_no_yes(answer: str) -> None:
    assert assents(answer) is None

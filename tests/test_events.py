"""What an agent yields is what its signature says, or the turn fails and says which field was wrong."""

from __future__ import annotations

import inspect
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import sabir
from sabir import Delta, Event, Fault, Field, Message, Part, Progress, Question, Reply, Turn
from sabir.errors import Forbidden, TurnFailed
from sabir.events import FAULTS, WrongEvent, check, check_question
from sabir.guard.filters.base import Filters
from sabir.guard.filters.secrets import Secrets
from sabir.message import binary_part, json_part
from sabir.protocols.nlip.wire.json import CODES
from sabir.turn import ANONYMOUS

REFERENCE = Path(__file__).resolve().parents[1] / "docs" / "reference.md"
RIGHT: tuple[object, ...] = (
    Reply(Message.text("hi")),
    Reply(Message.json([1, {"a": None}])),
    Reply(Message.text("hi", messagetype="control", parts=[json_part({}), binary_part(b"\x00", "image/png")])),
    Reply(Message("text", "english", "hi", label="x", control=True, extra={"more": 1})),
    Delta.text("hi"),
    Delta(Part("structured", "json", 5, "five")),
    Progress(),
    Progress(0.5, "half"),
    Progress(1),
    Question("Which?"),
    Question("Which?", (Field("a", "A?", "single_select", ("x", "y"), False),), {"type": "object"}, "7"),
    Fault("no"),
    Fault("no", "refused"),
)
WRONG: dict[str, tuple[Any, str]] = {
    "words": ("step 1", "expected a Delta, Progress, Question, Reply or Fault, not str"),
    "a class": (Progress, "expected a Delta, Progress, Question, Reply or Fault, not StructMeta"),
    "a note first": (Progress("step 1"), "Progress.fraction: expected a number from 0 to 1, or None, not str"),
    "yes": (Progress(True), "Progress.fraction: expected a number from 0 to 1, or None, not bool"),
    "no number": (Progress(float("nan")), "Progress.fraction: expected a number from 0 to 1, or None, not nan"),
    "no end": (Progress(float("inf")), "Progress.fraction: expected a number from 0 to 1, or None, not inf"),
    "a number as note": (Progress(0.5, 5), "Progress.note: expected a string, not int"),
    "a reason": (Fault(5), "Fault.reason: expected a string, not int"),
    "a code": (Fault("no", 7), "Fault.code: expected a string, not int"),
    "a question": (Question(5), "Question.text: expected a string, not int"),
    "fields": (Question("?", "ab"), "Question.fields: expected a tuple of Fields, not str"),
    "a field": (Question("?", ("a",)), r"Question.fields\[0\]: expected a Field, not str"),
    "a field's text": (Question("?", (Field("a", None),)), r"fields\[0\].text: expected a string, not NoneType"),
    "options": (Question("?", (Field("a", "A?", "text", "xy"),)), r"options: expected a tuple of strings, not str"),
    "an option": (Question("?", (Field("a", "A?", "text", (1,)),)), r"options: expected a string, not int"),
    "required": (Question("?", (Field("a", "A?", required="yes"),)), r"required: expected True or False, not str"),
    "a schema": (Question("?", schema="{}"), "Question.schema: expected a dict or None, not str"),
    "an id": (Question("?", id=5), "Question.id: expected a string, not int"),
    "a piece": (Delta("x"), r"Delta.part: expected a Part \(Delta.text makes one of a string\), not str"),
    "an invalid text": (Delta.text(5), "Delta.part.content: expected a string, not int"),
    "a reply in words": (Reply("x"), "Reply.message: expected a Message, not str"),
    "a format": (Reply(Message(5, "a", "b")), "Reply.message.format: expected a string, not int"),
    "a subformat": (Reply(Message("text", None, "b")), "subformat: expected a string, not NoneType"),
    "a message's text": (Reply(Message.text(None)), "Reply.message.content: expected a string, not NoneType"),
    "a label": (Reply(Message.json(1, label=5)), "Reply.message.label: expected a string, not int"),
    "extra": (Reply(Message("text", "english", "x", extra=[])), "extra: expected a dict or None, not list"),
    "a type": (Reply(Message.text("x", messagetype=5)), "messagetype: expected a string, not int"),
    "control": (Reply(Message("text", "english", "x", control=5)), "control: expected True, False or None, not int"),
    "parts": (Reply(Message("text", "english", "x", submessages="ab")), "expected a tuple of Parts, not str"),
    "a part": (Reply(Message.text("x", parts=["y"])), r"submessages\[0\]: expected a Part, not str"),
    "a part's text": (Reply(Message.text("x", parts=[Part("text", "a", 5)])), r"\[0\].content: expected a string"),
}  # fmt: skip


@pytest.mark.parametrize("event", RIGHT, ids=lambda event: type(event).__name__)
def test_what_is_right_passes(event: object) -> None:
    check(event)


@pytest.mark.parametrize(("event", "why"), WRONG.values(), ids=WRONG)
def test_an_invalid_event_is_reported_by_field_and_type_and_without_its_content(event: object, why: str) -> None:
    with pytest.raises(WrongEvent, match=why) as raised:
        check(event)
    assert "step 1" not in str(raised.value)


def test_one_of_a_kind_of_its_own_is_looked_at_all_the_same() -> None:
    class Step(Progress, frozen=True):
        number: int = 0

    check(Step(0.5, number=2))
    with pytest.raises(WrongEvent, match=r"Progress\.note"):
        check(Step(0.5, note=b"half"))


@pytest.mark.parametrize("asked", [5, None, Progress(0.5), Question(5)])
async def test_an_invalid_question_is_not_asked(asked: Any) -> None:
    async def nobody(question: Question) -> Message:
        raise AssertionError("asked")

    with pytest.raises(WrongEvent, match="expected a"):
        await Turn(Message.text("hi"), ask_back=nobody).ask(asked)
    with pytest.raises(WrongEvent):
        check_question(asked)


def test_a_reason_that_is_not_text_can_be_reported() -> None:
    assert str(TurnFailed(ValueError("no"))) == "no"
    assert str(Forbidden(5)) == "5"
    assert str(TurnFailed("half a pair: \ud83d")).encode() == b"half a pair: ?"


async def test_a_filter_does_not_take_the_blame() -> None:
    async def invalid_events() -> AsyncIterator[Event]:
        yield Progress(0.5, 5)

    with pytest.raises(WrongEvent, match=r"Progress\.note"):
        await anext(Filters([Secrets()]).passing(invalid_events(), ANONYMOUS))


def _signature(name: str) -> str:
    text = str(inspect.signature(getattr(sabir, name), eval_str=True))
    return name + re.sub(r"sabir\.\w+\.|typing\.| -> None$", "", text).replace("<factory>", "{}")


def test_the_reference_gives_the_signatures_as_they_are() -> None:
    block = REFERENCE.read_text(encoding="utf-8").partition("```python\n")[2].partition("```")[0].splitlines()
    names = [line.partition("(")[0] for line in block]
    assert {"Delta", "Progress", "Question", "Field", "Reply", "Fault", "Part", "Message"} <= set(names)
    assert [_signature(name) for name in names] == block


def test_the_reference_gives_the_codes_of_a_fault_and_what_nlip_makes_of_them() -> None:
    _, _, below = REFERENCE.read_text(encoding="utf-8").partition("the `code` of a `Fault` in its own way")
    table = below.partition("\nTo ask a question")[0]
    written = dict(re.findall(r"\| `(\w+)`[^|]*\| (\d+)", table))
    assert written == {code: str(CODES[type(Fault("x", code).error())]) for code in FAULTS}

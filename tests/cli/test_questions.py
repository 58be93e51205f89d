"""Questions of an agent are asked at the terminal field by field, and again until the answer can be read."""

from __future__ import annotations

import io
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from cli.conftest import Sabir
from cli.terminal import Terminal
from conftest import Serve
from deadline import DEADLINE
from sabir import Field, Gateway, Question, agent
from sabir.cli.main import INTERRUPTED, OK
from sabir.cli.printing import readable
from sabir.cli.questions import answer_of, value_of
from sabir.events import Progress
from sabir.message import Message
from sabir.protocols.nlip.wire import json as nlip
from sabir.turn import Turn

SIZE = Field("size", "Which size?", "single_select", ("small", "large"))
MILK = Field("milk", "With milk?", "boolean")
SHOTS = Field("shots", "How many shots?", "number", required=False)
EXTRAS = Field("extras", "Any extras?", "multi_select", ("sugar", "cinnamon"), required=False)
FORM = Question("Your coffee?", (SIZE, MILK, SHOTS, EXTRAS))


@agent(description="Makes coffee")
async def barista(turn: Turn) -> AsyncIterator[Any]:
    yield Progress(0.5, "grinding")
    answer = await turn.ask(FORM)
    values = [part.value for part in answer.parts if isinstance(part.value, dict)][-1]
    yield f"size {values.get('size')}, milk {values.get('milk')}, extras {values.get('extras')}"


@agent(description="Asks in words")
async def clerk(turn: Turn) -> str:
    return f"Dear {(await turn.ask('Your name?')).text}"


async def answered(question: Question, *lines: str | None) -> tuple[Message, list[str], list[str | None]]:
    """The answer to a question by somebody who types these lines; what was said to them; the lines not read."""
    texts: list[str] = []
    left = list(lines)

    async def read(_: str) -> str | None:
        return left.pop(0)

    return await answer_of(question, read, texts.append), texts, left


def values_of(message: Message) -> Any:
    part = message.labelled("answer")
    return part.value if part is not None else None


async def test_a_form_is_asked_field_by_field() -> None:
    answer, reply, left = await answered(FORM, "2", "y", "1.5", "sug, 2")
    assert values_of(answer) == {"size": "large", "milk": True, "shots": 1.5, "extras": ["sugar", "cinnamon"]}
    assert answer.text == "large, yes, 1.5, sugar and cinnamon"
    assert reply == [
        "Your coffee?",
        "Which size? [1-2]",
        "  1. small",
        "  2. large",
        "With milk? [y/n]",
        "How many shots? [a number, Enter skips it]",
        "Any extras? [1-2, several with commas, Enter skips it]",
        "  1. sugar",
        "  2. cinnamon",
    ]
    assert not left


async def test_what_cannot_be_read_is_asked_again_with_the_reason() -> None:
    answer, reply, _ = await answered(FORM, "", "huge", "LARGE", "maybe", "no", "many", "3", "milk", "")
    assert values_of(answer) == {"size": "large", "milk": False, "shots": 3}
    complaints = [line for line in reply if (line.startswith("  ") and line[2].isalpha()) or line.startswith("  '")]
    assert complaints == [
        "  This one is required. Ctrl-D declines the whole question.",
        "  'huge' is not one of the choices: type a number from 1 to 2, or the words",
        "  'maybe' is neither yes nor no: type y or n",
        "  'many' is not a number: type one such as 2 or 1.5",
        "  'milk' is not one of the choices: type a number from 1 to 2, or the words",
    ]


async def test_a_single_field_is_not_asked_twice() -> None:
    _, answer, _ = await answered(Question("Shall I book it?", (Field("ok", "Shall I book it?", "boolean"),)), "n")
    assert answer == ["Shall I book it? [y/n]"]


async def test_the_field_of_a_plain_question_over_mcp_is_not_shown() -> None:
    answer, reply, _ = await answered(Question("Shall I order it?", (Field("answer", "answer"),)), "yes")
    assert reply == ["Shall I order it?"] and values_of(answer) == {"answer": "yes"}


async def test_ctrl_d_declines() -> None:
    answer, _, _ = await answered(FORM, "1", None)
    assert (answer.text, values_of(answer)) == ("", None)
    answer, _, _ = await answered(Question("Your name?"), None)
    assert answer.text == ""


@pytest.mark.parametrize(
    ("words", "field", "value"),
    [
        ("YES", MILK, True),
        ("0", MILK, False),
        ("-3", SHOTS, -3),
        ("s", SIZE, "small"),
        ("1, cinn", EXTRAS, ["sugar", "cinnamon"]),
        ("free words", Field("x", "x"), "free words"),
        ("a, b", Field("x", "x", "multi_select"), ["a", "b"]),
    ],
)
def test_words_become_values(words: str, field: Field, value: object) -> None:
    assert value_of(words, field) == value


@pytest.mark.parametrize(
    ("words", "field"),
    [("nan", SHOTS), ("inf", SHOTS), ("3", SIZE), ("0", SIZE), ("yep", MILK), ("sugar, salt", EXTRAS)],
)
def test_words_that_are_not_a_value_are_rejected(words: str, field: Field) -> None:
    with pytest.raises(ValueError, match=r": type "):
        value_of(words, field)


def test_a_question_that_cannot_be_asked_in_place_says_what_it_wants() -> None:
    assert readable(nlip.question_message(FORM)) == (
        "Your coffee?\n"
        "  Which size? (small or large)\n"
        "  With milk? (yes or no)\n"
        "  How many shots? (a number; optional)\n"
        "  Any extras? (any of sugar, cinnamon; optional)"
    )


def test_whether_a_field_is_required_travels_over_nlip() -> None:
    assert nlip.question_of(nlip.question_message(FORM)) == FORM


class Keyboard(io.StringIO):
    def isatty(self) -> bool:
        return True


Typing = Callable[..., None]


@pytest.fixture
def typing(monkeypatch: pytest.MonkeyPatch) -> Typing:
    return lambda *lines: monkeypatch.setattr(sys, "stdin", Keyboard("".join(f"{line}\n" for line in lines)))


@pytest.fixture
def url(serve: Serve, home: Path) -> str:
    return serve(Gateway(barista, clerk, home=home)).url


@pytest.mark.parametrize("protocol", ["nlip", "a2a", "nlweb", "mcp", "acl"])
def test_a_question_is_answered_in_place_by_every_protocol(
    protocol: str, url: str, sabir: Sabir, typing: Typing
) -> None:
    typing("2", "y", "1", "sugar")
    said = sabir("ask", url, "latte", "--agent", "barista", "--protocol", protocol, "--new")
    assert said.code == OK, said.err
    milk = "yes" if protocol == "nlweb" else "True"  # which knows choices, and no booleans
    assert said.out == f"size large, milk {milk}, extras ['sugar']\n"
    assert "Which size? [1-2]\n  1. small\n  2. large\n> " in said.err
    typing("Ann")
    assert sabir("ask", url, "hi", "--agent", "clerk", "--protocol", protocol, "--new").out == "Dear Ann\n"


@pytest.mark.parametrize("protocol", ["nlip", "a2a", "nlweb", "mcp", "acl"])
def test_an_optional_field_is_skipped_by_every_protocol(protocol: str, url: str, sabir: Sabir, typing: Typing) -> None:
    typing("small", "n", "", "")
    said = sabir("ask", url, "latte", "--agent", "barista", "--protocol", protocol, "--new")
    milk = "no" if protocol == "nlweb" else "False"
    assert (said.code, said.out) == (OK, f"size small, milk {milk}, extras None\n"), said.err
    assert said.err.count("Enter skips it") == 2


@pytest.mark.parametrize("protocol", ["nlip", "a2a", "nlweb", "acl"])
def test_a_question_that_is_declined_stays_open(protocol: str, url: str, sabir: Sabir, typing: Typing) -> None:
    typing()
    said = sabir("ask", url, "hi", "--agent", "clerk", "--protocol", protocol, "--new")
    assert (said.code, said.out) == (OK, "Your name?\n")


def test_with_json_nothing_is_asked(url: str, sabir: Sabir, typing: Typing) -> None:
    typing("Ann")
    said = sabir("ask", url, "hi", "--agent", "clerk", "--new", "--json")
    assert said.code == OK and '"content":"Your name?"' in said.out and "> " not in said.err


@pytest.mark.parametrize("protocol", ["nlip", "mcp"])  # asked after the answer, and while the server waits
def test_ctrl_c_ends_the_command_at_once(protocol: str, url: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "sabir", "ask", url, "hi", "--agent", "clerk", "--protocol", protocol, "--new"]
    terminal = Terminal(command, tmp_path)
    try:
        terminal.until("Your name?")
        terminal.until("> ")
        terminal.type("\x03")
        assert terminal.process.wait(DEADLINE) == INTERRUPTED
    finally:
        terminal.close()


def test_lines_that_were_typed_ahead_are_read_one_by_one(url: str, tmp_path: Path) -> None:
    terminal = Terminal([sys.executable, "-m", "sabir", "ask", url, "latte", "--agent", "barista", "--new"], tmp_path)
    try:
        terminal.type("2\ny\n1\nsugar\n")
        terminal.until("size large, milk True, extras ['sugar']")
        assert terminal.process.wait(DEADLINE) == OK
    finally:
        terminal.close()

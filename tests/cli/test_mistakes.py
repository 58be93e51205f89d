"""Mistakes of developers are reported when they are made, in one line that says what to do."""

from __future__ import annotations

import logging
from pathlib import Path
from uuid import uuid4

import pytest

from sabir import Gateway, agent
from sabir.cli import main
from sabir.config.app_file import load_app
from sabir.config.importing import imported
from sabir.config.load import load
from sabir.errors import ConfigError
from sabir.events import Field
from sabir.testing import ask_sync
from sabir.turn import Turn


@agent
async def echo(turn: Turn) -> str:
    return turn.text


@agent
async def forgetful(turn: Turn) -> None:
    turn.text.upper()


@agent
def forgetful_too(turn: Turn) -> None:
    turn.text.upper()


@pytest.mark.parametrize("forgets", [forgetful, forgetful_too], ids=["async", "sync"])
def test_a_forgotten_return_is_a_warning_that_names_the_agent(
    forgets: object, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "sabir"):
        for _ in range(3):
            ask_sync(forgets, "hi")
    warnings = [record.getMessage() for record in caplog.records]
    assert len(warnings) == 1 and forgets.card.name.replace("-", "_") in warnings[0]
    assert "is a return missing?" in warnings[0]


def test_a_function_without_a_turn_is_not_an_agent() -> None:
    class Helper:
        pass

    def nothing() -> str:
        return "x"

    with pytest.raises(ConfigError, match="Helper is a class; decorate a function"):
        agent(Helper)
    with pytest.raises(ConfigError, match=r"nothing takes no turn; write it as nothing\(turn\)"):
        agent(nothing)
    with pytest.raises(ConfigError, match="expected a function that takes a turn, not int"):
        agent(3)


def test_an_unknown_kind_of_field_is_rejected_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match="kind is 'colour'; expected one of text, single_select"):
        Field("shade", "Which shade?", kind="colour")


def test_agents_in_beside_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"beside: expected async context managers.*Gateway\(echo, …\)"):
        Gateway(echo, home=tmp_path, beside=[echo])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("def x(:\n", ".py:1: invalid syntax"),
        ("import nothing_of_this_name\n", "No module named 'nothing_of_this_name'"),
        ("\n\n1 / 0\n", ".py:3: ZeroDivisionError: division by zero"),
        ("y = 1\n", "has no attribute 'x'"),
    ],
)
def test_a_module_that_cannot_be_used_is_one_line_with_file_and_line(
    tmp_path: Path, text: str, expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    module = f"shop_{uuid4().hex}"  # a name that no other test has imported
    (tmp_path / f"{module}.py").write_text(text)
    (tmp_path / "sabir.yaml").write_text(f'agents: [{{id: clerk, use: "{module}:x"}}]\n')
    assert main(["config", "check", str(tmp_path / "sabir.yaml")]) == 2
    said = capsys.readouterr().err.strip()
    assert expected in said and len(said.splitlines()) == 1


IN_A_FILE = [
    ("from sabir import agent\n\n@agent\nclass Foo:\n    pass\n", ":3: @agent: Foo is a class"),
    ("from sabir import agent\n\n@agent\ndef x():\n    return 1\n", ":3: @agent: x takes no turn"),
    ("from sabir import Field\n\nField('a', 'A', 'colour')\n", ":3: ValueError: Field 'a': kind is 'colour'"),
    (
        "from sabir import Gateway, agent\n@agent\ndef x(turn): ...\nGateway(x, home='h', beside=[x])\n",
        ":4: beside: expected async context managers",
    ),
    ("import json\n\njson.loads('{')\n", ":3: JSONDecodeError: "),
    ("def x(:\n", ":1: invalid syntax"),
]


@pytest.mark.parametrize(("text", "expected"), IN_A_FILE)
def test_a_mistake_is_reported_with_the_line_of_the_file_and_not_of_what_it_called(
    tmp_path: Path, text: str, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = f"shop_{uuid4().hex}"
    (tmp_path / f"{module}.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError) as used:
        imported(f"{module}:x", tmp_path, "agents: 'clerk'")
    with pytest.raises(ConfigError) as served:
        load_app(f"{module}.py")
    assert f"cannot import {module}:x: {tmp_path / module}.py{expected}" in str(used.value)
    assert str(served.value).startswith(f"{module}.py{expected}")


def test_a_configuration_without_agents_does_not_serve_the_demo(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "sabir.yaml"
    file.write_text(f"home: {tmp_path / 'home'}\n")
    assert main(["config", "check", str(file)]) == 0
    assert "harbour.example" not in capsys.readouterr().out
    file.write_text(f"home: {tmp_path / 'home'}\nsample: true\n")
    assert main(["config", "check", str(file)]) == 0
    assert "harbour.example" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "warns"),
    [
        ("", True),
        ("agents: []", True),
        ("agents: [{id: echo, use: echo}]", False),
        ("sample: true", False),
        ("sites: []", False),
        ("search: {index: postgresql://127.0.0.1/none}", False),
    ],
)
def test_a_configuration_that_says_nothing_to_serve_gets_a_warning(
    text: str, warns: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "sabir.yaml"
    file.write_text(f"home: {tmp_path / 'home'}\n{text}\n")
    assert main(["config", "check", str(file)]) == 0
    assert ("no agents and no sites" in caplog.text) is warns


def test_config_check_prints_what_differs_and_hides_secrets(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "sabir.yaml"
    file.write_text(
        f"home: '{tmp_path / 'home'}'\nport: 9000\nquotas: {{burst: 7}}\nbus: nats://me:hunter2@127.0.0.1:4222\n"
        "secrets: [abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGH]\n"
    )
    assert main(["config", "check", str(file)]) == 0
    said = capsys.readouterr().out
    assert "valid." in said and "port: 9000" in said and "burst: 7" in said and "(hidden)" in said
    assert "hunter2" not in said and "abcdefghij" not in said and "rate_per_address" not in said
    assert load(file).port == 9000

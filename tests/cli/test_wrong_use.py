"""Wrong use is reported in one line with exit code 2, never in a traceback."""

from __future__ import annotations

import argparse
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import Serve
from sabir import Gateway
from sabir.agents.echo import echo
from sabir.cli.main import BAD_USAGE, COMMANDS, leaves, main
from sabir.config.load import load
from sabir.errors import ConfigError


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"SABIR_LOG__LEVEL": "loud"}, r"log\.level"),
        ({"SABIR_LOG": "x", "SABIR_LOG__LEVEL": "info"}, "SABIR_LOG__LEVEL"),
        ({"SABIR_WORKERS": "0"}, "workers"),
        ({"SABIR_GRACEFUL_SECONDS": "-1"}, "graceful_seconds"),
        ({"SABIR_QUOTAS__RATE_PER_ADDRESS": "0"}, r"quotas\.rate_per_address"),
        ({"SABIR_QUOTAS__BURST": "0"}, r"quotas\.burst"),
    ],
)
def test_a_value_that_cannot_be_is_refused_by_name(
    variables: dict[str, str], said: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError, match=said):
        load()


def test_a_level_is_read_in_any_case(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SABIR_LOG__LEVEL", "WARNING")
    assert load().log.level == "WARNING"


def test_a_home_that_cannot_be_made_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    command = [sys.executable, "-c", "import sys; from sabir.cli.main import main; sys.exit(main())"]
    done = subprocess.run(
        [*command, "serve", "--port", "0", "--home", str(tmp_path / "file" / "home")],
        capture_output=True,
        text=True,
        timeout=600,
        cwd=tmp_path,
        check=False,
    )
    assert done.returncode == BAD_USAGE
    assert done.stderr.startswith("sabir: home: ")
    assert "Traceback" not in done.stderr


WHOLE_NUMBERS = [
    ["audit", "export", "--since", "x"],
    ["bench", "http://127.0.0.1:9", "--connections", "x"],
    ["bench", "http://127.0.0.1:9", "--requests", "1.5"],
    ["bus", "replay", "hotel", "x"],
    ["bus", "discard", "hotel", "x"],
    ["dev", "app.py", "--port", "x"],
    ["inbox", "http://127.0.0.1:9/acl", "ada", "--through", "x"],
    ["ingest", "items.csv", "--max-pages", "x"],
    ["init", "--port", "x"],
    ["send", "http://127.0.0.1:9/acl", "--wait", "x"],
    ["serve", "--port", "x"],
    ["serve", "--workers", "1.5"],
]


@pytest.mark.parametrize("arguments", WHOLE_NUMBERS, ids=lambda arguments: " ".join(arguments))
def test_a_number_that_is_not_whole_is_rejected_in_plain_words(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == BAD_USAGE
    assert f"expected a whole number, not {arguments[-1]!r}" in capsys.readouterr().err


def test_every_number_on_the_command_line_has_a_plain_error() -> None:
    bare = []
    for name in COMMANDS:
        command = argparse.ArgumentParser()
        importlib.import_module(f"sabir.cli.{name}").add(command)
        bare += [
            (name, action.dest) for leaf in leaves(command) for action in leaf._actions if action.type in (int, float)
        ]
    assert bare == []


@pytest.mark.parametrize(("url", "text"), [("http://[::1", "hi"), ("http://127.0.0.1:9", "\udcff")])
def test_what_cannot_be_asked_is_reported(url: str, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ask", url, text]) == BAD_USAGE
    assert capsys.readouterr().err.startswith("sabir: ")


def test_an_answer_is_printed_also_where_nothing_can_be_kept(
    serve: Serve, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("SABIR_HOME", str(tmp_path / "file" / "home"))
    assert main(["ask", serve(Gateway(echo, home=home)).url + "/nlip", "hi"]) == 0
    printed = capsys.readouterr()
    assert printed.out == "You said: hi\n"
    assert "cannot be stored" in printed.err

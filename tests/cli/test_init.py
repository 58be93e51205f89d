"""``sabir init``: what it makes runs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from sabir.cli import main
from sabir.cli.init import KINDS
from sabir.config.app_file import load_app
from sabir.config.load import load


@pytest.mark.parametrize("kind", list(KINDS))
def test_what_it_makes_is_a_valid_configuration(tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init", str(tmp_path / "new"), "--name", "My 2nd bot!", "--kind", kind, "--port", "9000"]) == 0
    assert "Next:" in capsys.readouterr().out
    assert load(tmp_path / "new" / "sabir.yaml").port == 9000
    assert (
        main(["init", str(tmp_path / "new"), "--name", "x", "--kind", kind, "--port", "9000"]) == 2
    )  # nothing is lost
    assert "already exists" in capsys.readouterr().err


def test_the_state_with_its_secret_is_kept_out_of_git(tmp_path: Path) -> None:
    new, old = tmp_path / "new", tmp_path / "old"
    old.mkdir()
    (old / ".gitignore").write_text("mine\n")
    for folder in (new, old):
        assert main(["init", str(folder), "--name", "bot", "--kind", "function", "--port", "9000"]) == 0
    assert ".sabir/" in (new / ".gitignore").read_text().splitlines()
    assert (old / ".gitignore").read_text() == "mine\n"


def test_a_function_is_served_and_its_test_passes(tmp_path: Path) -> None:
    assert main(["init", str(tmp_path), "--name", "bot", "--kind", "function", "--port", "9000"]) == 0
    agents = load_app(str(tmp_path / "app.py"))
    assert isinstance(agents, list) and agents[0].card.name == "bot"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_app.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout


def test_without_a_command_it_says_what_to_do_next(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    said = capsys.readouterr().out
    assert "sabir serve" in said and "sabir init" in said and "--help" in said


def test_what_was_made_is_printed_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init", str(tmp_path / "new"), "--name", "a", "--kind", "site", "--port", "1", "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert [Path(name).name for name in made["files"]] == ["sabir.yaml", "items.jsonl", ".gitignore"]

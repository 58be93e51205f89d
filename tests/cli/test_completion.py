"""Shell completion: the script that a shell runs offers every command, its flags, and the values they take."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from cli.conftest import Sabir
from deadline import DEADLINE
from sabir.cli.main import COMMANDS

ASKED = [
    ("sabir ", "", set(COMMANDS)),
    ("sabir ke", "", {"keys"}),
    ("sabir keys ", "", {"add", "list", "revoke"}),
    ("sabir keys add --ro", "", {"--role"}),
    ("sabir ask --protocol nl", "", {"nlip", "nlweb"}),
    ("sabir ask --to", "", {"--tool"}),
    ("sabir completion ", "", {"bash", "zsh", "fish"}),
    ("sabir config ch", "", {"check"}),
    ("sabir dev ", "", set()),  # nothing of ours: the shell completes file names
    ("sabir config check ", "", set()),
    ("sabir serve --tls-cert ", "", set()),
    ("sabir store backup --home ", "", set()),
    ("sabir ask --file ", "", set()),
    ("sabir keys add --role ", "", set()),
]
BASH = """
source "$1"
line=$2
read -ra COMP_WORDS <<< "$line"
[[ $line == *" " ]] && COMP_WORDS+=("")
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
_sabir
printf '%s\\n' "${COMPREPLY[@]}"
complete -p sabir
"""


def script(sabir: Sabir, shell: str, folder: Path) -> Path:
    said = sabir("completion", shell)
    assert said.code == 0 and not said.err
    path = folder / f"sabir.{shell}"
    path.write_text(said.out)
    return path


@pytest.mark.parametrize(("line", "_", "expected"), ASKED)
def test_bash_completes(line: str, _: str, expected: set[str], sabir: Sabir, tmp_path: Path) -> None:
    command = ["bash", "-c", BASH, "bash", str(script(sabir, "bash", tmp_path)), line]
    done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE, check=True)
    *offered, registered = done.stdout.splitlines()
    assert registered == "complete -o default -F _sabir sabir"
    assert {word for word in offered if word} == expected


def test_bash_offers_flags_after_a_dash_and_where_nothing_else_may_follow(sabir: Sabir, tmp_path: Path) -> None:
    path = script(sabir, "bash", tmp_path)
    for line, flag in [("sabir dev -", "--port"), ("sabir keys list ", "--home"), ("sabir -", "--version")]:
        command = ["bash", "-c", BASH, "bash", str(path), line]
        done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE, check=True)
        assert flag in done.stdout.splitlines(), line


@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not installed")
def test_fish_completes(sabir: Sabir, tmp_path: Path) -> None:
    path = script(sabir, "fish", tmp_path)
    for line, _, expected in ASKED:
        command = ["fish", "--no-config", "-c", f"source {path}; complete -C '{line}'"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE, check=True)
        offered = {row.partition("\t")[0] for row in done.stdout.splitlines()}
        assert offered - {"--help", "--version"} == expected, line


@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not installed")
def test_zsh_reads_the_script_and_completes(sabir: Sabir, tmp_path: Path) -> None:
    path = script(sabir, "zsh", tmp_path)
    lines = (
        f"source {path}; whence -w _sabir; emulate ksh; COMP_WORDS=(sabir ask --protocol nl); COMP_CWORD=3; "
        '_sabir; print -r -- "${COMPREPLY[@]}"'
    )
    done = subprocess.run(["zsh", "-f", "-c", lines], capture_output=True, text=True, timeout=DEADLINE, check=True)
    assert done.stdout.splitlines() == ["_sabir: function", "nlip a2a nlweb mcp acl"]  # zsh filters itself

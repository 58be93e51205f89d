"""``scripts/install``, which `make run` and `make test` begin with: it shows what it does, and what went wrong.

It installs a project without dependencies, whose build needs nothing from the network.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cli.terminal import Terminal
from doc_pages import ROOT

pytestmark = pytest.mark.slow

PROJECT = """
[project]
name = "small"
version = "1"
[project.optional-dependencies]
search = []
mcp = []
a2a = []
terminal = []
missing = ["no-such-package-anywhere"]
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
"""

METADATA = """Metadata-Version: 2.1
Name: small
Version: 1
Provides-Extra: missing
Requires-Dist: no-such-package-anywhere; extra == 'missing'
"""
WHEEL = """Wheel-Version: 1.0
Generator: test
Root-Is-Purelib: true
Tag: py3-none-any
"""
BACKEND = f"""
import zipfile


def build_editable(folder, settings=None, metadata=None):
    with zipfile.ZipFile(folder + "/small-1-py3-none-any.whl", "w") as wheel:
        wheel.writestr("small-1.dist-info/METADATA", {METADATA!r})
        wheel.writestr("small-1.dist-info/WHEEL", {WHEEL!r})
        wheel.writestr("small-1.dist-info/RECORD", "")
    return "small-1-py3-none-any.whl"
"""


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    (tmp_path / "scripts").mkdir()
    shutil.copy(ROOT / "scripts" / "install", tmp_path / "scripts" / "install")
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    (tmp_path / "backend.py").write_text(BACKEND)
    return tmp_path


def install(clone: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHON": sys.executable, "PIP_NO_INDEX": "1", **variables}
    command = ["./scripts/install", "run"]
    return subprocess.run(command, cwd=clone, env=environment, capture_output=True, text=True, timeout=600)


def test_a_log_gets_few_lines_and_the_second_run_none(clone: Path) -> None:
    first = install(clone)
    assert first.returncode == 0, first.stderr
    lines = first.stdout.splitlines()
    assert lines[0].startswith("Creating .venv/ with Python 3.")
    assert lines[1].startswith("Installing Sabir [search,mcp,a2a,terminal] into .venv/")
    assert lines[-1].startswith("  Installed in ")
    assert len(lines) <= 4 and "\x1b" not in first.stdout
    assert (clone / ".venv" / "install.log").read_text()
    again = install(clone)
    assert (again.returncode, again.stdout, again.stderr) == (0, "", "")


def test_a_failure_shows_the_end_of_what_pip_said_and_is_tried_again(clone: Path) -> None:
    failed = install(clone, EXTRAS="missing")
    assert failed.returncode == 1
    assert "no-such-package-anywhere" in failed.stderr
    assert failed.stderr.splitlines()[-1] == ("The installation failed; .venv/install.log has the whole output of pip.")
    assert install(clone, EXTRAS="missing").returncode == 1  # not taken for installed
    terminal = Terminal(["./scripts/install", "run"], clone, PYTHON=sys.executable, PIP_NO_INDEX="1")
    try:
        terminal.until("Installed in")
        assert terminal.process.wait(60) == 0
    finally:
        terminal.close()

"""A protocol of a third party: installed into a virtual environment, served, called, listed, held to the HTTP rules."""

from __future__ import annotations

import os
import site
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "examples" / "plugin_protocol"


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment that has Sabir, as this one has it, and the package beside it."""
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    python = folder / "bin" / "python"
    packages = next(folder.glob("lib/python*/site-packages"))
    (packages / "beside.pth").write_text(f"import site; site.addsitedir({site.getsitepackages()[0]!r})\n")
    install = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-deps", str(PACKAGE)]
    subprocess.run(install, check=True, timeout=600)
    return python


def run(python: Path, *arguments: str) -> str:
    """The output of pytest in that environment."""
    command = [str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    return done.stdout


def test_it_is_served_called_and_listed_without_a_change_to_sabir(python: Path) -> None:
    assert "4 passed" in run(python, str(PACKAGE / "tests"))


def test_its_door_keeps_the_rules_of_the_http_edge(python: Path) -> None:
    assert " passed" in run(python, "tests/http/test_edge.py", "-k", "telegram")


def test_it_is_small() -> None:
    sources = (PACKAGE / "sabir_telegram").glob("*.py")
    assert sum(len(path.read_text(encoding="utf-8").splitlines()) for path in sources) < 300

"""A command loads what it needs and no more: a person waits for each of them to start."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import sabir

# Each takes longer to load than all that a small command does.
HEAVY = ("a2a", "httpx2", "joserfc", "mcp", "numpy", "onnxruntime", "starlette", "uvicorn", "websockets", "yaml")
SERVER = ("starlette", "uvicorn", "sabir.gateway")

LOADED = """
import sys
from sabir.cli import main
try:
    main(sys.argv[1:])
except SystemExit:
    pass
print("loaded:", *sys.modules)
"""


def loaded(cwd: Path, *arguments: str) -> set[str]:
    command = [sys.executable, "-c", LOADED, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, cwd=cwd, timeout=600, check=True)
    return set(done.stdout.rpartition("loaded:")[2].split())


@pytest.mark.parametrize("arguments", [["--version"], ["--help"], ["nonsense"]])
def test_help_and_version_load_none_of_its_parts(arguments: list[str], tmp_path: Path) -> None:
    assert not loaded(tmp_path, *arguments) & {*HEAVY, *SERVER}


@pytest.mark.parametrize(
    "arguments",
    [["ask", "http://127.0.0.1:9/nlip", "hi"], ["keys", "list"], ["audit", "verify"], ["sites"], ["store", "migrate"]],
    ids=lambda words: words[0],
)
def test_a_command_that_serves_nothing_loads_no_server(arguments: list[str], tmp_path: Path) -> None:
    assert not loaded(tmp_path, *arguments) & {*SERVER, "mcp", "a2a", "numpy", "onnxruntime", "joserfc"}


def test_the_public_names_are_there_before_they_are_loaded() -> None:
    answer = (
        "import sabir, sys; print('sabir.gateway' in sys.modules, 'Gateway' in dir(sabir), sabir.Gateway.__module__)"
    )
    done = subprocess.run([sys.executable, "-c", answer], capture_output=True, text=True, timeout=600, check=True)
    assert done.stdout.split() == ["False", "True", "sabir.gateway.gateway"]
    with pytest.raises(AttributeError, match="no attribute 'gatewy'"):
        _ = sabir.gatewy  # type: ignore[attr-defined]

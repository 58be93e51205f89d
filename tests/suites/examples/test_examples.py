"""Every example prints what its README says."""

from __future__ import annotations

import os
import runpy
import shutil
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import httpx2
import pytest

from deadline import DEADLINE
from free_ports import free_port
from sabir import connect

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
SERVING = ("echo", "fastapi_mount")  # tests of their own
PRINTING = sorted(path.parent.name for path in EXAMPLES.glob("*/main.py") if path.parent.name not in SERVING)
NEEDS = {"site": ("tantivy",), "mcp_tools": ("mcp",), "a2a_nlweb": ("a2a",), "voice": ("pocketsphinx",)}
PROGRAMS = {"voice": "espeak-ng"}


def printed(readme: Path, command: str) -> list[str]:
    """The lines of a README between a command and the end of its block."""
    after = readme.read_text(encoding="utf-8").partition(f"$ {command}\n")[2]
    return after.partition("\n```")[0].splitlines()


@pytest.mark.parametrize("name", PRINTING)
def test_an_example_prints_what_its_readme_says(
    name: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = [module for module in NEEDS.get(name, ()) if find_spec(module) is None]
    program = PROGRAMS.get(name)
    if missing or (program is not None and shutil.which(program) is None):
        pytest.skip(f"needs {', '.join([*missing, *([program] if program else [])])}")
    expected = printed(EXAMPLES / name / "README.md", f"python examples/{name}/main.py")
    assert expected
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(EXAMPLES / name / "main.py"), run_name="__main__")
    assert [line.rstrip() for line in capsys.readouterr().out.splitlines()] == expected


def test_echo(tmp_path: Path) -> None:
    url = f"http://127.0.0.1:{(port := free_port())}"
    environment = {**os.environ, "SABIR_HOME": str(tmp_path), "SABIR_PORT": str(port)}
    readme = EXAMPLES / "echo" / "README.md"
    with subprocess.Popen([sys.executable, str(EXAMPLES / "echo" / "main.py")], env=environment) as server:
        try:
            wait_for(url)
            for path in ("", "/mcp"):
                command = [sys.executable, str(EXAMPLES / "echo" / "ask.py"), f"{url}{path}"]
                done = subprocess.run(command, capture_output=True, text=True, timeout=600)
                shown = printed(readme, f"python examples/echo/ask.py http://127.0.0.1:8080{path}")
                assert done.stdout.splitlines() == shown[:1], done.stderr
        finally:
            server.terminate()


async def test_fastapi_mount(tmp_path: Path) -> None:
    pytest.importorskip("fastapi")
    readme = (EXAMPLES / "fastapi_mount" / "README.md").read_text(encoding="utf-8")
    url = f"http://127.0.0.1:{(port := free_port())}"
    command = [sys.executable, "-m", "uvicorn", "main:app", "--port", str(port), "--log-level", "warning"]
    environment = {**os.environ, "SABIR_HOME": str(tmp_path)}
    with subprocess.Popen(command, cwd=EXAMPLES / "fastapi_mount", env=environment) as server:
        try:
            assert wait_for(url).text in readme
            async with connect(f"{url}/agents/nlip") as peer:
                assert (await peer.ask("Hello")).text == "You said: Hello"
            assert '"Hello" --new\nYou said: Hello\n' in readme
        finally:
            server.terminate()


def wait_for(url: str) -> httpx2.Response:
    end = time.monotonic() + DEADLINE
    while True:
        try:
            return httpx2.get(url)
        except httpx2.ConnectError:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)


def test_each_example_has_a_readme_that_the_list_names() -> None:
    listed = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    folders = sorted(path.parent.name for path in EXAMPLES.glob("*/*.py"))
    assert [name for name in folders if not (EXAMPLES / name / "README.md").exists()] == []
    assert [name for name in set(folders) if f"({name}" not in listed] == []

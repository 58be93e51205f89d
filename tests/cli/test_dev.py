"""``sabir dev``: agents of a file are served, reloaded when it changes, and what goes wrong in them is shown."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx2
import pytest
import uvicorn

from deadline import DEADLINE
from free_ports import free_port
from sabir.cli.dev import Reloader

ECHO = """from sabir import agent

@agent
async def echo(turn):
    return {answer}
"""
HELLO = {"format": "text", "subformat": "english", "content": "hi"}


class Developing:
    """A running ``sabir dev``, and what it has printed."""

    def __init__(self, folder: Path, *flags: str) -> None:
        self.app = folder / "app.py"
        self.port = free_port()
        self.out = folder / "out.txt"
        command = [sys.executable, "-m", "sabir", "dev", "app.py", "--port", str(self.port), *flags]
        with self.out.open("wb") as out:
            self.process = subprocess.Popen(command, cwd=folder, stdout=out, stderr=out, start_new_session=True)

    def until(self, holds: Callable[[], bool], seconds: float = 60.0) -> None:
        end = time.monotonic() + seconds
        while not holds():
            assert time.monotonic() < end and self.process.poll() is None, self.printed()
            time.sleep(0.05)

    def printed(self) -> str:
        return self.out.read_text()

    def says(self, words: str) -> bool:
        try:
            return words in httpx2.post(f"http://127.0.0.1:{self.port}/nlip", json=HELLO).text
        except httpx2.TransportError:
            return False

    def stop(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGINT)
        self.process.wait(DEADLINE)


@pytest.fixture
def developing(tmp_path: Path) -> Iterator[Developing]:
    (tmp_path / "app.py").write_text(ECHO.format(answer='"first " + turn.text'))
    started = Developing(tmp_path)
    yield started
    started.stop()


@pytest.mark.slow
def test_a_change_is_served_an_exception_shown_and_a_syntax_error_waits_for_the_next_change(
    developing: Developing,
) -> None:
    developing.until(lambda: developing.says("first hi"))
    developing.app.write_text(ECHO.format(answer='"second " + turn.text'))
    developing.until(lambda: developing.says("second hi"))
    assert developing.printed().partition("Reloading …\n")[2] == "Ready: echo (default: echo)\n"  # and no more

    developing.app.write_text(ECHO.format(answer="turn.text[99]"))
    developing.until(lambda: developing.says("failed"))
    developing.until(lambda: "IndexError: string index out of range" in developing.printed())
    assert "app.py:5 in echo" in developing.printed() and "return turn.text[99]" in developing.printed()

    developing.app.write_text("from sabir import agent\nthis is no Python\n")
    developing.until(lambda: "Waiting for a change" in developing.printed())
    assert "app.py:2: invalid syntax" in developing.printed()
    developing.until(lambda: developing.says("app.py:2: invalid syntax"))  # a request is answered with the reason
    developing.app.write_text(ECHO.format(answer='"third " + turn.text'))
    developing.until(lambda: developing.says("third hi"))
    assert "Traceback" not in developing.printed()

    (developing.app.parent / "helper.py").write_text("\nimport nothing_of_this_name\n")
    developing.app.write_text("import helper\n" + ECHO.format(answer="turn.text"))
    developing.until(lambda: developing.says("helper.py:2: ModuleNotFoundError"))
    developing.app.unlink()
    developing.until(lambda: developing.says("app.py: no such file"))
    developing.app.write_text(ECHO.format(answer='"fourth " + turn.text'))  # a file that was not there is a change
    developing.until(lambda: developing.says("fourth hi"))


def test_the_files_of_tools_are_not_watched(tmp_path: Path) -> None:
    for name in ("app.py", "shop/till.py", ".venv/lib/x.py", "venv/lib/x.py", "node_modules/x.py", "__pycache__/x.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "venv" / "pyvenv.cfg").touch()
    config = uvicorn.Config("", reload=True, reload_dirs=[str(tmp_path)], log_config=None)
    reloader = Reloader(config, target=lambda sockets: None, sockets=[])
    names = {str(path.relative_to(tmp_path.resolve())) for path in reloader.iter_py_files()}
    assert names == {"app.py", "shop/till.py"}


@pytest.mark.parametrize(
    ("text", "place", "expected"),
    [
        ("x = 1\n", "app.py", "app.py: no agent found; decorate a function with @agent"),
        ("import nothing_of_this_name\n", "app.py", "app.py:1: ModuleNotFoundError: No module named"),
        ("1 / 0\n", "app.py", "app.py:1: ZeroDivisionError: division by zero"),
        ("def (:\n", "app.py", "app.py:1: invalid syntax"),
        (ECHO.format(answer="1"), "app.py:ecko", "app.py has no 'ecko'"),
        (ECHO.format(answer="1"), "other.py", "other.py: no such file"),
        (ECHO.format(answer="1"), "sabir.yaml", "expected a Python file"),
    ],
)
def test_what_is_wrong_with_a_file_is_one_line_and_exit_code_2(
    tmp_path: Path, text: str, place: str, expected: str
) -> None:
    (tmp_path / "app.py").write_text(text)
    command = [sys.executable, "-m", "sabir", "dev", place, "--no-reload", "--port", "0"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600)
    assert done.returncode == 2 and expected in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1

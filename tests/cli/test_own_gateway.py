"""A Python file that creates its own gateway: commands serve that one, where and how their flags say."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest

from cli.conftest import Sabir
from deadline import DEADLINE
from free_ports import free_port
from sabir import Gateway
from sabir.config.app_file import load_app

AGENT = """from sabir import Gateway, agent

@agent
async def echo(turn):
    return f"You said: {turn.text}"
"""
KINDS = {
    "a name": AGENT + "\napp = Gateway(echo)\n",
    "the README": AGENT + "\nGateway(echo).run()\n",
    "with a port": AGENT + "\nGateway(echo).run(port=8080)\n",
}
HELLO = {"format": "text", "subformat": "english", "content": "hi"}


@contextmanager
def running(folder: Path, *arguments: str) -> Iterator[str]:
    """A command that serves app.py on a free port, from the moment it listens; yields its address."""
    url = f"http://127.0.0.1:{(port := free_port())}"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SABIR_")}
    command = [sys.executable, "-m", "sabir", *arguments, "--port", str(port)]
    log = folder / "log.txt"
    with log.open("wb") as out:
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=out, stderr=out, start_new_session=True)
    try:
        end = time.monotonic() + DEADLINE
        while f"Sabir is listening on {url}" not in log.read_text():
            assert process.poll() is None and time.monotonic() < end, log.read_text()
            time.sleep(0.05)
        yield url
    finally:
        os.killpg(process.pid, signal.SIGINT)
        process.wait(DEADLINE)


@pytest.mark.parametrize("command", ["dev app.py --no-reload", "dev app.py", "serve app.py"])
@pytest.mark.parametrize("kind", KINDS)
def test_it_is_served_where_the_flags_say(kind: str, command: str, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(KINDS[kind])
    with running(tmp_path, *command.split(), "--home", "kept") as url:
        assert httpx2.post(f"{url}/nlip", json=HELLO).json()["content"] == "You said: hi"
    assert (tmp_path / "kept" / "sabir.db").exists()
    assert not (tmp_path / ".sabir").exists()


@pytest.mark.parametrize(
    "flags", ["--store memory:", "--durability power", "--dev-tls", "--behind-tls-proxy", "--access-log"]
)
def test_a_flag_that_it_would_ignore_is_rejected(flags: str, sabir: Sabir, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(KINDS["a name"])
    said = sabir("serve", "app.py", *flags.split())
    assert (said.code, said.out) == (2, "")
    assert f"{flags.split()[0]}: app.py creates a Gateway; give it there" in said.err


def test_over_mcp_its_state_is_next_to_the_file(tmp_path: Path, sabir: Sabir) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "app.py").write_text(KINDS["the README"])
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    command = [sys.executable, "-m", "sabir", "mcp", str(project / "app.py")]
    done = subprocess.run(command, input="", capture_output=True, text=True, timeout=600, cwd=elsewhere)
    assert (done.returncode, done.stderr) == (0, "")
    assert (project / ".sabir" / "sabir.db").exists()
    assert not list(elsewhere.iterdir())


def test_a_home_of_its_own_stays(tmp_path: Path) -> None:
    own = tmp_path / "own"
    (tmp_path / "app.py").write_text(f"{AGENT}\napp = Gateway(echo, home={str(own)!r})\n")
    found = load_app(str(tmp_path / "app.py"), str(tmp_path / "given"))
    assert isinstance(found, Gateway) and found.home == own
    assert "SABIR_HOME" not in os.environ or os.environ["SABIR_HOME"] != str(tmp_path / "given")

"""A gateway at the end of a script: the README's ten lines, their variables, and what they say when they cannot."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from deadline import DEADLINE
from sabir import Gateway
from sabir.agents.echo import echo
from sabir.errors import ConfigError

EXAMPLE = Path(__file__).resolve().parent.parent.parent / "examples" / "echo" / "main.py"


def script(cwd: Path, **variables: str) -> subprocess.Popen[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SABIR_")}
    return subprocess.Popen(
        [sys.executable, str(EXAMPLE)],
        cwd=cwd,
        env={**kept, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_for(url: str) -> None:
    end = time.monotonic() + DEADLINE
    while time.monotonic() < end:
        try:
            with urllib.request.urlopen(url, timeout=DEADLINE) as answer:
                if answer.status == 200:
                    return
        except OSError:
            time.sleep(0.05)
    raise AssertionError(f"{url} does not answer")


def ended(program: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = program.communicate(timeout=600)
    return program.returncode, out, err


def test_a_port_that_is_taken_is_one_line_and_exit_2(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, out, err = ended(script(tmp_path, SABIR_PORT=str(port)))
    assert (code, out) == (2, "")
    (line,) = err.splitlines()
    assert line.startswith(f"sabir: cannot listen on 127.0.0.1:{port}: Address already in use; ")
    assert "SABIR_PORT" in line


def test_a_port_that_cannot_be_is_one_line_and_exit_2(tmp_path: Path) -> None:
    for port in ("eighty", "70000", "-1"):
        code, _, err = ended(script(tmp_path, SABIR_PORT=port))
        assert code == 2
        (line,) = err.splitlines()
        assert (
            "ort: expected a number from 0 to 65535, not" in line or "PORT: expected a number from 0 to 65535" in line
        )


def test_the_variables_say_where_it_listens_and_keeps_its_state(tmp_path: Path) -> None:
    program = script(tmp_path, SABIR_PORT="0", SABIR_HOME="state")
    try:
        assert program.stdout is not None
        first = program.stdout.readline()
        assert first.startswith("Sabir is listening on http://127.0.0.1:")
        assert not first.strip().endswith((":8080", ":0"))
        wait_for(first.split()[-1] + "/health/ready")
    finally:
        program.send_signal(signal.SIGTERM)
        code, _, err = ended(program)
    assert (code, "Traceback" in err) == (0, False)
    assert (tmp_path / "state" / "sabir.db").exists()
    assert not (tmp_path / ".sabir").exists()


def test_what_the_script_says_counts_before_the_variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SABIR_HOME", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("SABIR_PORT", "eighty")
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    gateway = Gateway(echo, home=tmp_path / "here")
    assert gateway.home == tmp_path / "here"
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(ConfigError, match="SABIR_PORT"):
        gateway.run(port=taken.getsockname()[1])


def test_another_failure_is_shown_as_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[BaseException] = []
    monkeypatch.setattr(sys, "excepthook", lambda kind, value, trace: seen.append(value))
    with pytest.raises(ConfigError) as raised:
        Gateway(echo, home=tmp_path).run(port=70000)
    other = ValueError("of the script's own")
    sys.excepthook(ValueError, other, None)
    assert seen == [other]
    with pytest.raises(SystemExit) as ending:
        sys.excepthook(ConfigError, raised.value, None)
    assert ending.value.code == 2

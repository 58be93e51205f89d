"""What ``sabir serve`` prints: a live status on a terminal, plain lines elsewhere, and JSON that is all JSON."""

from __future__ import annotations

import io
import json
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from cli.terminal import Terminal
from deadline import DEADLINE
from free_ports import free_port
from sabir.cli.colours import RED, coloured
from sabir.cli.log_setup import WithoutNoise
from sabir.cli.status import DoorUse, Usage
from sabir.observe.metrics import Metrics

APP = """
import logging, threading, warnings
from sabir import agent

warnings.warn("an old function")

@agent
async def echo(turn):
    logging.getLogger("shop").info("a line of the agent's own")
    logging.getLogger("third.party").warning("of a library")
    thread = threading.Thread(target=lambda: 1 / 0)
    thread.start()
    thread.join()
    if turn.text == "fail":
        raise ValueError("flour is out")
    return turn.text
"""
HELLO = {"format": "text", "subformat": "english", "content": "hi"}


@pytest.fixture
def app(tmp_path: Path) -> Path:
    (tmp_path / "app.py").write_text(APP)
    return tmp_path


def start(folder: Path, *flags: str) -> tuple[subprocess.Popen[str], Iterator[str], int]:
    port = free_port()
    command = [sys.executable, "-m", "sabir", "serve", "app.py", "--port", str(port), "--home", "home", *flags]
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None and process.stdout is not None
    return process, iter(process.stderr), port


def test_the_json_log_is_all_json_from_start_to_stop(app: Path) -> None:
    process, lines, port = start(app, "--json", "--access-log")
    records: list[dict[str, Any]] = []
    for line in lines:
        records.append(json.loads(line))
        if records[-1]["text"].startswith("Listening on"):
            break
    url = f"http://127.0.0.1:{port}"
    httpx2.post(f"{url}/nlip?token=s3cret", json=HELLO).raise_for_status()
    httpx2.post(f"{url}/nlip", json={**HELLO, "content": "fail"})
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=600)
    records += [json.loads(line) for line in err.splitlines()]
    assert (process.returncode, out) == (0, "")
    texts = [record["text"] for record in records]
    listening = next(record for record in records if record["text"] == f"Listening on {url}")
    assert listening["agents"] == ["echo"] and listening["addresses"]["NLIP over HTTP"] == f"{url}/nlip"
    assert any("an old function" in text for text in texts)
    assert "a line of the agent's own" in texts and "of a library" in texts
    assert any(text == "Uncaught ZeroDivisionError" for text in texts)
    access = [record for record in records if record["logger"] == "sabir.access"]
    requests = [(record["method"], record["path"], record["status"]) for record in access]
    assert requests == [("POST", "/nlip", 200), ("POST", "/nlip", 500)]
    assert "s3cret" not in err
    assert texts[-1] == "Stopped"


def test_without_a_terminal_there_are_plain_lines_and_no_escapes(app: Path) -> None:
    process, _, port = start(app)
    assert process.stdout is not None
    first = [process.stdout.readline() for _ in range(3)]
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=600)
    assert first[0] == f"Sabir is listening on http://127.0.0.1:{port}\n"
    assert first[1] == "  agents: echo (default: echo)\n"
    assert "\x1b" not in "".join(first) + out + err
    assert "access" not in err and "POST" not in err


def test_a_terminal_shows_addresses_rates_and_errors(app: Path) -> None:
    port = free_port()
    command = [sys.executable, "-m", "sabir", "serve", "app.py", "--port", str(port), "--home", "home", "--access-log"]
    terminal = Terminal(command, app)
    try:
        terminal.until(f"Open: http://127.0.0.1:{port}/")
        terminal.until("Try: ")
        terminal.until(f"http://127.0.0.1:{port}/nlip")
        for content, line in (("hi", "127.0.0.1 POST /nlip 200"), ("fail", "127.0.0.1 POST /nlip 500")):
            body = {**HELLO, "content": content}
            asking = threading.Thread(
                target=httpx2.post, args=(f"http://127.0.0.1:{port}/nlip",), kwargs={"json": body}
            )
            asking.start()  # the screen is read meanwhile: a full one stops the program that writes to it
            terminal.until(line)
            asking.join()
        terminal.until("a second")
        terminal.until("2       0.0       1")  # turns, turns a second, errors
        os.kill(terminal.process.pid, signal.SIGINT)
        terminal.until("Stopped")
        assert terminal.process.wait(DEADLINE) == 0
    finally:
        terminal.close()


def test_rates_are_counted_by_door() -> None:
    metrics = Metrics()
    usage = Usage(metrics)
    start = usage._at
    for outcome, count in (("ok", 8), ("TurnFailed", 2)):
        for _ in range(count):
            metrics.turns.add("nlip-http", "echo", outcome)
    metrics.turns.add("mcp", "echo", "ok")
    assert usage.look(start + 2) == {"nlip-http": (DoorUse(10, 2), 5.0), "mcp": (DoorUse(1, 0), 0.5)}
    assert usage.look(start + 4) == {"nlip-http": (DoorUse(10, 2), 0.0), "mcp": (DoorUse(1, 0), 0.0)}


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stream", "variables", "expected"),
    [
        (Screen(), {}, "\x1b[31mno\x1b[0m"),
        (Screen(), {"NO_COLOR": "1"}, "no"),
        (Screen(), {"NO_COLOR": ""}, "\x1b[31mno\x1b[0m"),
        (Screen(), {"TERM": "dumb"}, "no"),
        (io.StringIO(), {}, "no"),
    ],
)
def test_colour_is_for_terminals(
    stream: Any, variables: dict[str, str], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert coloured("no", RED, stream) == expected


@pytest.mark.parametrize("no_color", [{}, {"NO_COLOR": "1"}], ids=["colour", "no colour"])
def test_an_error_is_coloured_on_a_terminal(no_color: dict[str, str], tmp_path: Path) -> None:
    command = [sys.executable, "-m", "sabir", "ask", "http://127.0.0.1:9/nlip", "hi"]
    terminal = Terminal(command, tmp_path, **{"NO_COLOR": "", **no_color})
    try:
        terminal.until("connection refused")
        assert ("\x1b[31m" in terminal.raw) is not bool(no_color)
    finally:
        terminal.close()


@pytest.mark.parametrize(
    ("name", "path", "level", "passes"),
    [
        ("sabir.mcp", "site-packages", logging.DEBUG, True),
        ("shop", "elsewhere", logging.DEBUG, True),
        ("httpcore2", "site-packages", logging.DEBUG, False),
        ("mcp.server", "site-packages", logging.INFO, False),
        ("httpcore2", "site-packages", logging.WARNING, True),
        ("asyncio", "stdlib", logging.DEBUG, False),
        ("sabirx", "site-packages", logging.INFO, False),
    ],
)
def test_libraries_make_no_noise(name: str, path: str, level: int, passes: bool) -> None:
    places = {"site-packages": httpx2.__file__, "stdlib": logging.__file__, "elsewhere": "/shop/app.py"}
    record = logging.LogRecord(name, level, places[path], 1, "noise", None, None)
    assert WithoutNoise().filter(record) is passes

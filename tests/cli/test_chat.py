"""``sabir chat`` on a terminal: answers stream, commands work, Ctrl-C cancels a turn and keeps the session."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from cli.terminal import Terminal
from conftest import Served, serving
from deadline import DEADLINE
from free_ports import free_port
from sabir import Gateway, agent
from sabir.events import Progress
from sabir.turn import Turn


@agent(description="Writes in pieces")
async def writer(turn: Turn) -> AsyncIterator[Any]:
    yield "**Hel"
    yield f"lo** turn {len(turn.conversation.turns) + 1}"


@agent(description="Never ends")
async def sleeper(turn: Turn) -> AsyncIterator[Any]:
    yield Progress(0.5, "asleep")
    await asyncio.Event().wait()
    yield "awake"


@agent(description="Asks back")
async def barista(turn: Turn) -> str:
    return f"One {(await turn.ask('Which size?')).text} {turn.text}"


@agent(description="Tells what it was given")
async def clerk(turn: Turn) -> str:
    return f"got {[part.label for part in turn.message.parts if part.label]}"


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Served]:
    with serving(Gateway(writer, sleeper, barista, clerk, home=tmp_path / "home")) as served:
        yield served


@pytest.fixture
def terminal(gateway: Served, tmp_path: Path) -> Iterator[Terminal]:
    opened = Terminal([sys.executable, "-m", "sabir", "chat", gateway.url], tmp_path)
    yield opened
    opened.close()


def test_an_address_where_nobody_listens_is_said_at_once(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "sabir", "chat", f"http://127.0.0.1:{free_port()}"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=600)
    assert done.returncode == 3 and "connection refused" in done.stderr and "Connected" not in done.stdout


def test_a_person_chats(terminal: Terminal, tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("note")
    terminal.until("/help lists the commands")
    terminal.type("hi\r")
    terminal.until("Hello turn 1")
    terminal.type("again\r")
    terminal.until("Hello turn 2")
    terminal.type("/agent barista\r")
    terminal.until("Now talking to barista")
    terminal.type("latte\r")
    terminal.until("Which size?")
    terminal.type("large\r")
    terminal.until("One large latte")
    terminal.type("/agent sleeper\r")
    terminal.until("Now talking to sleeper")
    terminal.type("sleep\r")
    terminal.until("asleep")
    terminal.type("\x03")
    terminal.until("Cancelled.")
    terminal.type("/agent clerk\r")
    terminal.until("Now talking to clerk")
    terminal.type("/file note.txt\r")
    terminal.until("goes along")
    terminal.type("take it\r")
    terminal.until("got ['note.txt']")
    terminal.type("/nonsense\r")
    terminal.until("no such command")
    terminal.type("/trace\r")
    terminal.until("The wire is shown")
    terminal.type("bytes\r")
    terminal.until('"content":"bytes"')
    for protocol in ("nlweb", "mcp", "a2a", "acl"):
        terminal.type(f"/protocol {protocol}\r")
        terminal.until(f"Now over {protocol}")
        terminal.type(f"over {protocol}\r")
        terminal.until("got []")
    terminal.type("/trace\r")
    terminal.until("wire view is off")
    terminal.type("/agent barista\r")
    terminal.until("Now talking to barista")
    terminal.type("/protocol mcp\r")
    terminal.until("Now over mcp")
    terminal.type("mocha\r")
    terminal.until("answer>")
    terminal.type("/help\r")  # a command, and no answer
    terminal.until("/cancel (or Ctrl-D) declines the question")
    terminal.type("tiny\r")
    terminal.until("One tiny mocha")
    terminal.type("flat white\r")
    terminal.until("answer>")
    terminal.type("\x03")
    terminal.until("Cancelled. This is a new conversation.")
    terminal.type("cortado\r")
    terminal.until("answer>")  # and not the answer to the question before
    terminal.type("small\r")
    terminal.until("One small cortado")
    terminal.type("/protocol nlip\r")
    terminal.until("Now over nlip")
    terminal.type("doppio\r")
    terminal.until("answer>")
    terminal.type("\x03")
    terminal.until("Cancelled.")
    terminal.type("lungo\r")
    terminal.until("answer>")
    terminal.type("/quit\r")
    assert terminal.process.wait(DEADLINE) == 0

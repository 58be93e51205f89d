"""Long lines on a terminal: the bytes on the wire keep their arrow, and messages of the inbox stay in their column."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from cli.terminal import ESCAPES, Terminal
from conftest import Served, serving
from sabir import Gateway, Turn, agent
from sabir.agents.echo import echo
from sabir.cli.ingest import Bar
from sabir.cli.wrapping import wrapped
from sabir.search import IngestProgress

LONG = "a long task whose words do not fit into one line of a narrow terminal, so that they have to be broken somewhere"


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(Gateway(echo, home=tmp_path_factory.mktemp("home"))) as served:
        yield served


def screen(folder: Path, *arguments: str) -> tuple[str, list[str]]:
    """What a command writes to a terminal of 80 columns: as it is, and the lines without what only acts there."""
    terminal = Terminal([sys.executable, "-m", "sabir", *arguments], folder, COLUMNS="80")
    try:
        terminal.until("\n")  # it has begun
        while terminal.process.poll() is None:
            _read(terminal)
        _read(terminal)
        return terminal.raw, ESCAPES.sub("", terminal.raw).splitlines()
    finally:
        terminal.close()


def _read(terminal: Terminal) -> None:
    try:
        terminal.until("\x00", seconds=0.3)  # never comes: reads what there is
    except (AssertionError, OSError):  # nothing more for now, or the terminal is closed
        pass


def test_each_line_of_the_wire_has_its_arrow_and_fits(gateway: Served, tmp_path: Path) -> None:
    raw, lines = screen(tmp_path, "ask", f"{gateway.url}/nlip", LONG, "--trace", "--new")
    wire = [line for line in lines if line.startswith(("> ", "< "))]
    assert any(line.startswith('> {"format"') for line in wire)
    assert all(len(line) <= 80 for line in wire)
    body = "".join(line[2:] for line in wire if line.startswith("> ")).partition("{")
    assert json.loads(f"{{{body[2]}")["content"] == LONG  # no line of it was left without an arrow
    assert "\x1b[2m> POST" in raw  # dimmed, so that the answer stands out


def test_a_long_inbox_message_continues_below_its_sender(gateway: Served, tmp_path: Path) -> None:
    message = {
        "mcp_version": "0.1.0",
        "message_id": "m-1",
        "performative": "TASK_REQUEST",
        "sender": {"agent_id": "ada"},
        "receiver": {"agent_id": "ben"},
        "timestamp": "2026-01-01T00:00:00Z",
        "conversation_id": "c-1",
        "payload": {"task_type": "ask", "task_description": LONG},
    }
    assert "Nothing waits for ben." in screen(tmp_path, "inbox", f"{gateway.url}/acl", "ben")[1]
    assert httpx2.post(f"{gateway.url}/acl", json=message).status_code == 202
    _, lines = screen(tmp_path, "inbox", f"{gateway.url}/acl", "ben")
    first, *rest = [line for line in lines if line.strip()]
    column = first.index("ada")
    assert all(len(line) <= 80 for line in lines)
    assert rest and all(line.startswith(" " * 18) and line[18] != " " for line in rest), (column, lines)
    assert " ".join(" ".join([first, *rest]).split()).endswith(LONG)


def test_escaped_text_is_measured_as_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "60")
    lines = wrapped("\x1b[31mred\x1b[0m \u202eevil\u202c " * 8).split("\n")
    assert len(lines) > 3 and all(len(line) <= 60 and line.isprintable() for line in lines)


def test_the_report_of_a_check_is_broken_between_words(gateway: Served, tmp_path: Path) -> None:
    _, lines = screen(tmp_path, "check", gateway.url, "--binding", "http", "--verbose")
    shown = [line for line in lines if " ok " in line or line.startswith((" ", "ours"))]
    assert len(shown) > 100 and all(len(line) <= 80 for line in shown)
    assert "our decision where the standard is silent" in " ".join(" ".join(shown).split())


@pytest.mark.parametrize("columns", [20, 60, 80, 200])
@pytest.mark.parametrize("name", ["feed.xml", f"/srv/{'a-long-folder/' * 9}feed.xml"])
def test_a_progress_bar_is_one_line(name: str, columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    class Screen(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("COLUMNS", str(columns))
    out = Screen()
    bar = Bar(name, out)
    bar.show(IngestProgress(done=12, total=24, items=340, rate=170.0))
    bar.show_share(0.5)
    lines = [ESCAPES.sub("", line) for line in out.getvalue().split("\r") if line]
    assert len(lines) == 2 and all(len(line) < columns for line in lines)
    if columns >= 80:
        assert all("feed.xml [##############--------------] " in line for line in lines)
        assert lines[0].endswith("0:02 left")


@pytest.mark.parametrize("command", ["tools", "agents"])
def test_long_descriptions_are_broken_between_words(command: str, tmp_path: Path) -> None:
    @agent(description=LONG)
    async def clerk(turn: Turn) -> str:
        return turn.text

    with serving(Gateway(clerk, home=tmp_path / "home")) as served:
        _, lines = screen(tmp_path, command, served.url)
    shown = [line for line in lines if line.strip()]
    assert all(len(line) <= 80 for line in shown)
    assert any(line.startswith("  ") for line in shown)
    assert f"clerk: {LONG}" in " ".join(" ".join(shown).replace(" (default)", "").split())

"""MCP servers that are programs on this machine, from the command line: asked, dying, and being one oneself."""

from __future__ import annotations

import json
import logging
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from cli.conftest import Sabir
from sabir.cli.main import BAD_USAGE, UNREACHABLE
from sabir.errors import PeerUnavailable
from sabir.message import Message
from sabir.protocols.mcp.peer.peer import McpPeer
from sabir.turn import Turn

DYING = """
import sys
print("reading the settings", file=sys.stderr)
sys.exit("no such database: /srv/" + "x" * 300)
"""
INITIALIZE = (
    '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},'
    '"clientInfo":{"name":"t","version":"1"}}}\n'
)


@pytest.fixture
def dying(tmp_path: Path) -> str:
    program = tmp_path / "dying.py"
    program.write_text(DYING)
    return f"stdio:{shlex.join([sys.executable, str(program)])}"


def test_a_program_that_dies_at_its_start_says_why(dying: str, sabir: Sabir) -> None:
    said = sabir("ask", dying, "hi")
    assert (said.code, said.out) == (UNREACHABLE, "")
    last = said.err.splitlines()[-1]
    assert last.startswith(f"sabir: stdio:{sys.executable}: ")
    assert "its last words: no such database: /srv/xxx" in last
    assert len(last.partition("last words: ")[2]) <= 200


async def test_the_log_says_it_too_and_anonymous_callers_do_not_see_it(
    dying: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with McpPeer(dying, name="oven") as peer:
        with caplog.at_level(logging.WARNING, "sabir.mcp"), pytest.raises(PeerUnavailable) as raised:
            async for _ in peer(Turn(Message.text("hi"))):
                pass
    assert "last words: no such database" in caplog.text
    assert str(raised.value) == "oven: Connection closed"


def test_a_program_that_is_not_there_is_reported(sabir: Sabir) -> None:
    said = sabir("ask", "stdio:no-such-program --flag", "hi")
    assert said.code == UNREACHABLE
    assert said.err == "sabir: stdio:no-such-program: no connection: it cannot be started (No such file or directory)\n"
    assert sabir("ask", "stdio:", "hi").code == BAD_USAGE


def speaking(home: Path, **pipes: object) -> subprocess.Popen[str]:
    (home / "sabir.yaml").write_text("agents: [{id: echo, use: echo}]\nsample: false\n")
    command = [sys.executable, "-m", "sabir", "mcp"]
    return subprocess.Popen(command, cwd=home, text=True, stderr=subprocess.PIPE, **pipes)  # type: ignore[call-overload,no-any-return]


def test_where_no_client_is_speaking_mcp_ends_quietly(tmp_path: Path) -> None:
    for closed in ("</dev/null", "<&-"):
        (tmp_path / "sabir.yaml").write_text("agents: [{id: echo, use: echo}]\nsample: false\n")
        command = ["sh", "-c", f"exec {shlex.quote(sys.executable)} -m sabir mcp {closed}"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_what_was_asked_before_the_input_ended_is_answered(tmp_path: Path) -> None:
    program = speaking(tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    asked = (
        INITIALIZE + '{"jsonrpc":"2.0","method":"notifications/initialized"}\n'
        '{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"echo","arguments":{"text":"hi"}}}\n'
    )
    out, err = program.communicate(asked, timeout=600)
    assert (program.returncode, err) == (0, "")
    answers = [json.loads(line) for line in out.splitlines()]
    assert [answer["id"] for answer in answers] == [1, 2]
    assert answers[1]["result"]["content"] == [{"type": "text", "text": "You said: hi"}]


def test_a_client_that_leaves_before_its_answer_is_not_a_failure(tmp_path: Path) -> None:
    program = speaking(tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert program.stdin is not None and program.stdout is not None and program.stderr is not None
    program.stdout.close()
    program.stdin.write(INITIALIZE)
    program.stdin.close()
    printed = program.stderr.read()
    program.stderr.close()
    assert (program.wait(60), printed) == (0, "")

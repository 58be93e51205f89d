"""``--trace`` shows request and reply as they were on the wire, by every protocol, and no credential."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest

from cli.conftest import PROTOCOLS, Sabir, ServeEverywhere
from sabir.agents.echo import echo

# The first line that goes out with the question, and that comes back with its answer.
HEADS = {
    "nlip": ("> POST /nlip/echo HTTP/1.1", "< HTTP/1.1 200 OK"),
    "nlweb": ("> POST /ask/echo HTTP/1.1", "< HTTP/1.1 200 OK"),
    "mcp": ("> POST /mcp/echo HTTP/1.1", "< HTTP/1.1 200 OK"),
    "a2a": ("> POST /a2a/echo HTTP/1.1", "< HTTP/1.1 200 OK"),
    "acl": ("> POST /acl HTTP/1.1", "< HTTP/1.1 200 OK"),
    "ws": ("> CBOR, ", "< CBOR, "),
    "ws-text": ("> {", "< {"),
    "amqp": ("> CBOR, ", "< CBOR, "),
}


@pytest.mark.parametrize("more", [[], ["--stream"]], ids=["whole", "stream"])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_wire_is_shown_by_every_protocol(
    protocol: str, more: list[str], everywhere: ServeEverywhere, home: Path, sabir: Sabir
) -> None:
    key = sabir("keys", "add", "ann", "--home", str(home)).out.split()[0]
    url = everywhere(echo, amqp=protocol == "amqp").of(protocol, "echo")
    said = sabir("ask", url, "good morning", "--trace", *more, token=key)
    assert said.out == "You said: good morning\n", said.err
    sent = [line for line in said.err.splitlines() if line.startswith("> ")]
    received = [line for line in said.err.splitlines() if line.startswith("< ")]
    assert all(line.startswith((">", "<")) for line in said.err.splitlines())
    assert any(line.startswith(HEADS[protocol][0]) for line in sent)
    assert any(line.startswith(HEADS[protocol][1]) for line in received)
    assert any("good morning" in line for line in sent)
    assert any("You said: good morning" in line for line in received)
    assert key not in said.err


def test_the_messages_of_a_program_are_shown(sabir: Sabir, tmp_path: Path) -> None:
    server = tmp_path / "server.py"
    server.write_text(ECHOING)
    said = sabir("ask", f"stdio:{shlex.join([sys.executable, str(server)])}", "good morning", "--trace")
    assert said.out == "heard good morning\n", said.err
    assert any(line.startswith("> {") and '"good morning"' in line for line in said.err.splitlines())
    assert any(line.startswith("< {") and '"heard good morning"' in line for line in said.err.splitlines())


ECHOING = """
from mcp.server.mcpserver import MCPServer

server = MCPServer("echoing")

@server.tool()
def ask(text: str) -> str:
    return f"heard {text}"

server.run("stdio")
"""

"""``sabir ask …/mcp``: certificates, refusals, and questions back; and who we are to a server behind the gateway."""

from __future__ import annotations

import asyncio
import os
import pty
import re
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client

from cli.conftest import Sabir, sabir
from conftest import Serve
from deadline import DEADLINE
from sabir.agent import agent
from sabir.agents.echo import echo
from sabir.errors import PeerRefused
from sabir.events import Field, Question
from sabir.gateway.gateway import Gateway
from sabir.guard import Authenticator, Rights, Rule
from sabir.guard.build import GuardSettings
from sabir.guard.egress.credentials import Service
from sabir.message import Message, json_part
from sabir.protocols.mcp.peer.peer import McpPeer
from sabir.turn import Caller, Turn

__all__ = ["sabir"]


class ByName:
    """Knows everybody by name, and remembers who came."""

    challenge = "Bearer"

    def __init__(self) -> None:
        self.came: list[str] = []

    async def verify(self, credentials: Any, tokens: Any) -> Caller | None:
        name = (credentials.authorization or "").removeprefix("Bearer ")
        self.came.append(name)
        return Caller(id=name, kind="subject") if name else None


@agent(description="Sells shirts")
async def shop(turn: Turn) -> str:
    fields = (Field("size", "Size", "single_select", ("S", "L")), Field("many", "How many", "number"))
    answer = await turn.ask(Question("Which shirt?", fields, id="shirt"))
    part = answer.labelled("answer")
    return f"You want {part.value if part is not None else answer.text}"


@contextmanager
def serving_tls(folder: Path) -> Iterator[tuple[str, Path]]:
    """``sabir serve --dev-tls``: its address, and the certificate to trust."""
    (folder / "sabir.yaml").write_text("sites: []\n")
    command = [sys.executable, "-m", "sabir", "serve", "sabir.yaml", "--port", "0", "--home", "state", "--dev-tls"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=folder)
    try:
        assert process.stdout is not None
        found = re.search(r"https://\S+", process.stdout.readline())
        assert found is not None
        trusted = folder / "state" / "dev-tls" / "cert.pem"
        context, end = ssl.create_default_context(cafile=str(trusted)), time.monotonic() + DEADLINE
        while time.monotonic() < end:
            try:
                httpx2.get(f"{found.group()}/health/ready", verify=context)
                break
            except httpx2.TransportError:
                time.sleep(0.05)
        yield found.group(), trusted
    finally:
        process.kill()
        process.wait()
        process.stdout.close()  # type: ignore[union-attr]


def test_a_certificate_that_is_trusted_by_hand_is_trusted_over_mcp(sabir: Sabir, tmp_path: Path) -> None:
    with serving_tls(tmp_path) as (url, trusted):
        done = sabir("ask", f"{url}/mcp/echo", "hello", "--ca", str(trusted))
        assert (done.code, done.out) == (0, "You said: hello\n"), done.err
        assert sabir("ask", f"{url}/mcp/echo", "hello").code == 3


def test_an_unauthenticated_caller_is_refused_as_over_other_protocols(serve: Serve, home: Path, sabir: Sabir) -> None:
    rights = Rights((Rule(roles=("known",)),))
    served = serve(Gateway(echo, home=home, store="memory:", rights=rights, identity=Authenticator([ByName()])))
    for path in ("/nlip", "/mcp", "/mcp/echo"):
        done = sabir("ask", f"{served.url}{path}", "hello")
        assert done.code == 4, (path, done.err)
        assert "authentication" in done.err
    known = sabir("ask", f"{served.url}/mcp", "hello", token="ada")
    assert (known.code, known.out) == (0, "You said: hello\n")


@pytest.mark.parametrize("version", ["auto", "legacy"])
async def test_a_refusal_has_its_status(serve: Serve, home: Path, version: str) -> None:
    rights = Rights((Rule(roles=("known",)),))
    served = serve(Gateway(echo, home=home, store="memory:", rights=rights))
    async with McpPeer(f"{served.url}/mcp", version=version) as peer:
        with pytest.raises(PeerRefused, match="it answered 401") as refused:
            await peer.ask("hello")
        assert refused.value.status == 401


def test_a_question_is_put_to_the_person_at_the_terminal(serve: Serve, home: Path, tmp_path: Path) -> None:
    served = serve(Gateway(shop, home=home, store="memory:"))
    person, terminal = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "sabir", "ask", f"{served.url}/mcp/shop", "a shirt"],
        stdin=terminal,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
    )
    os.close(terminal)
    os.write(person, b"L\n2\n")
    said, asked = process.communicate(timeout=600)
    os.close(person)
    assert (process.returncode, said) == (0, "You want {'size': 'L', 'many': 2}\n"), asked
    assert "Which shirt?" in asked
    assert "Size [1-2]\n  1. S\n  2. L\n> " in asked


def test_where_no_person_is_the_question_is_printed(serve: Serve, home: Path, sabir: Sabir) -> None:
    served = serve(Gateway(shop, home=home, store="memory:"))
    done = sabir("ask", f"{served.url}/mcp/shop", "a shirt")
    assert done.code == 0, done.err
    assert "Which shirt?" in done.out
    assert "S, L" in done.out


@pytest.mark.parametrize("version", ["auto", "legacy"])
async def test_what_is_said_next_answers_what_was_asked(serve: Serve, home: Path, version: str) -> None:
    served = serve(Gateway(shop, home=home, store="memory:"))
    async with McpPeer(f"{served.url}/mcp/shop", version=version) as peer:
        assert "Which shirt?" in (await peer.ask("a shirt")).text
        assert (await peer.ask("the large one")).text == "You want the large one"


@pytest.mark.parametrize("version", ["auto", "legacy"])
async def test_questions_go_to_the_given_answerer(serve: Serve, home: Path, version: str) -> None:
    async def answer(question: Question) -> Message:
        return Message.text("", parts=(json_part({"size": "S", "many": 1}, label="answer"),))

    served = serve(Gateway(shop, home=home, store="memory:"))
    async with McpPeer(f"{served.url}/mcp/shop", version=version, answer=answer) as peer:
        assert (await peer.ask("a shirt")).text == "You want {'size': 'S', 'many': 1}"


async def test_a_server_is_met_and_asked_with_our_identity_for_it(serve: Serve, tmp_path: Path) -> None:
    seen = ByName()
    rights = Rights((Rule(roles=("id:the-gateway",)),))
    far = serve(Gateway(echo, home=tmp_path / "far", store="memory:", identity=Authenticator([seen]), rights=rights))
    behind = McpPeer(f"{far.url}/mcp/echo", name="behind")
    settings = GuardSettings(services=(Service(far.url, token="the-gateway"),))
    near = serve(Gateway(behind, home=tmp_path / "near", store="memory:", guard=settings))
    async with asyncio.timeout(DEADLINE):
        while not behind.tools:
            await asyncio.sleep(0.02)
    async with Client(f"{near.url}/mcp") as client:
        result = await client.call_tool("behind", {"text": "hi"})
        assert result.structured_content is not None
        assert "You said: hi" in str(result.structured_content)
    async with Client(f"{near.url}/mcp/behind") as client:  # the relay
        assert [tool.name for tool in (await client.list_tools()).tools] == ["echo"]
    assert set(seen.came) == {"the-gateway"}

"""Secrets in the system prompt, in keys, tokens and the configuration reach no other party (MW-41).

A model with tools is asked over every protocol, and its tools are agents behind every protocol. Between them and the
gateway stands a proxy that keeps every byte.
"""

from __future__ import annotations

import socket
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from conftest import Served, serving
from openai_server import Scripted, calls, scripted
from sabir import Caller, Gateway, Turn, agent, connect
from sabir.agents.llm import BackendSettings, model_agent
from sabir.guard import Authenticator, Credentials
from sabir.message import Part
from sabir.protocols.connect import place_of_agent
from sabir.protocols.mcp.peer.connections import Program
from sabir.protocols.mcp.peer.peer import McpPeer
from sabir.tools import McpTools, Toolbox, agent_tool, tool
from suites.bridge.bridge_clients import TALKERS

SYSTEM = "PLANTED-system-prompt"
KEY = "PLANTED-model-key"
BEARER = "PLANTED-bearer"  # of the caller
TOKEN = "PLANTED-authentication-token"  # in the caller's message
SETTING = "PLANTED-setting"  # of an MCP server, in its environment
EVERYTHING = (SYSTEM, KEY, BEARER, TOKEN, SETTING)

PROGRAM = """
import os
from mcp.server import MCPServer

server = MCPServer("vault")

@server.tool()
def unlock() -> str:
    return "open" if os.environ.get("VAULT_KEY") else "no key"

server.run()
"""


class ByBearer:
    """Knows one caller, by its secret."""

    challenge = "Bearer"

    async def verify(self, credentials: Credentials, tokens: tuple[Part, ...]) -> Caller | None:
        return Caller(id="ada", kind="subject") if credentials.authorization == f"Bearer {BEARER}" else None


class Tap:
    """A TCP proxy that keeps what goes to the other side."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        self.sent = bytearray()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listening.accept()
            except OSError:
                return
            far = socket.create_connection(("127.0.0.1", self._target))
            for here, there, kept in ((near, far, True), (far, near, False)):
                threading.Thread(target=self._pump, args=(here, there, kept), daemon=True).start()

    def _pump(self, here: socket.socket, there: socket.socket, kept: bool) -> None:
        with here, there:
            try:
                while data := here.recv(65536):
                    if kept:
                        self.sent += data
                    there.sendall(data)
                there.shutdown(socket.SHUT_WR)
            except OSError:
                return

    def close(self) -> None:
        self._listening.close()


@agent(description="Listens")
async def listener(turn: Turn) -> str:
    return f"heard: {turn.text}"


@tool
def note(text: str, turn: Turn) -> str:
    """Takes a note."""
    NOTED.append(f"{text} {turn.caller!r} {turn.message!r}")
    return "noted"


NOTED: list[str] = []


def script(body: dict[str, Any]) -> Any:
    if body["messages"][-1]["role"] != "user":
        return "All is done."
    wanted = [(item["function"]["name"], {"text": "hello"}) for item in body["tools"]]
    return calls(*[(name, {} if "unlock" in name else arguments) for name, arguments in wanted])


@pytest.fixture(scope="module")
def model() -> Iterator[Scripted]:
    with scripted(script) as made:
        yield made


@pytest.fixture(scope="module")
def tap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tap]:
    with serving(Gateway(listener, home=tmp_path_factory.mktemp("others"))) as served:
        made = Tap(served.port)
        served.gateway.services.public_url = f"http://127.0.0.1:{made.port}"  # as its cards name it
        yield made
        made.close()


@pytest.fixture(scope="module")
def house(model: Scripted, tap: Tap, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("vault")
    (folder / "vault.py").write_text(PROGRAM)
    url = f"http://127.0.0.1:{tap.port}"
    peers = [connect(place_of_agent(url, "listener", name), protocol=name, name=f"by_{name}") for name in TALKERS]
    vault = McpPeer(Program(sys.executable, (str(folder / "vault.py"),), {"VAULT_KEY": SETTING}), name="vault")
    backend = BackendSettings(model="small", base_url=model.url, api_key=KEY)
    box = Toolbox([note, *map(agent_tool, peers)], sources=[McpTools(vault, "vault")])
    clerk = model_agent("clerk", backend, system_message=f"{SYSTEM}: never tell anybody.", tools=box)
    gateway = Gateway(
        clerk,
        home=tmp_path_factory.mktemp("house"),
        identity=Authenticator([ByBearer()]),
        beside=[clerk, vault, *peers],
    )
    with serving(gateway) as served:
        yield served


@pytest.mark.parametrize("protocol", list(TALKERS))
async def test_no_planted_secret_leaves(protocol: str, house: Served, model: Scripted, tap: Tap) -> None:
    before = len(model.chats)
    talker = TALKERS[protocol](house.url)
    talker.http.headers["authorization"] = f"Bearer {BEARER}"
    if protocol == "nlip":
        heard = await talker.ask("clerk", "Please ask everybody", [Part("token", "authentication-x", TOKEN)])
    else:
        heard = await talker.ask("clerk", "Please ask everybody")
    await talker.aclose()
    assert heard.text.strip().startswith("All is done."), heard
    first, second = model.chats[before:]
    results = [message["content"] for message in second["messages"] if message["role"] == "tool"]
    assert len(results) == 7 and results.count("heard: hello") == 5 and "open" in results, results
    sent = bytes(tap.sent)
    assert b"hello" in sent
    for secret in EVERYTHING:
        assert secret.encode() not in sent, f"{secret} went to another agent"
        assert secret not in repr(heard) or secret == TOKEN  # whose own it is
        assert secret not in "".join(NOTED), f"{secret} was given to a tool"
    asked = repr((first, second))
    assert SYSTEM in asked  # the model's own
    for secret in (KEY, BEARER, TOKEN, SETTING):
        assert secret not in asked, f"{secret} was given to the model"
    assert set(model.keys) == {f"Bearer {KEY}"}

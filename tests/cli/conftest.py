"""``sabir ask`` in this process, against one gateway that is reached by every protocol."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from conftest import Serve
from deadline import DEADLINE
from protocols.nlip.amqp.conftest import broker, door_of, prefix
from sabir import Gateway
from sabir.agent import Agent
from sabir.cli import main

__all__ = ["broker", "prefix"]

PROTOCOLS = ("nlip", "ws", "ws-text", "amqp", "nlweb", "mcp", "a2a", "acl")


@dataclass
class Places:
    """Where the agents of a gateway are, by protocol."""

    url: str
    letters: str

    def of(self, protocol: str, agent: str) -> str:
        ws = self.url.replace("http", "ws", 1)
        return {
            "nlip": f"{self.url}/nlip/{agent}",
            "ws": f"{ws}/nlip/{agent}/ws",
            "ws-text": f"{ws}/nlip/{agent}/ws/text",
            "amqp": f"{self.letters}/{agent}",
            "nlweb": f"{self.url}/ask/{agent}",
            "mcp": f"{self.url}/mcp/{agent}",
            "a2a": f"{self.url}/a2a/{agent}",
            "acl": f"{self.url}/acl/{agent}",
        }[protocol]


ServeEverywhere = Callable[..., Places]


@pytest.fixture
def everywhere(serve: Serve, home: Path, request: pytest.FixtureRequest) -> ServeEverywhere:
    """Serve agents over what HTTP carries and, where the test has a broker, over AMQP."""

    def served(*agents: Agent, amqp: bool = False, **settings: Any) -> Places:
        if not amqp:
            return Places(serve(Gateway(*agents, home=home, **settings)).url, "")
        url = request.getfixturevalue("broker")
        address = f"{request.getfixturevalue('prefix')}-cli-{time.monotonic_ns()}"
        gateway = Gateway(*agents, home=home, doors={"nlip-amqp": {"url": url, "address": address}}, **settings)
        places = Places(serve(gateway).url, f"{url}/{address}")
        end = time.monotonic() + DEADLINE
        while not door_of(gateway).ready.is_set():
            assert time.monotonic() < end, "the broker does not take the door"
            time.sleep(0.01)
        return places

    return served


@dataclass
class Said:
    """What a command ended with, and what it printed."""

    code: int
    out: str
    err: str


Sabir = Callable[..., Said]


@pytest.fixture
def sabir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Sabir]:
    """Runs a command as a person would, in an empty folder; ``token`` is what SABIR_TOKEN holds."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SABIR_HOME", raising=False)

    def run(*arguments: str, token: str = "") -> Said:
        monkeypatch.setenv("SABIR_TOKEN", token)
        capsys.readouterr()
        code = main(list(arguments))
        printed = capsys.readouterr()
        return Said(code, printed.out, printed.err)

    yield run

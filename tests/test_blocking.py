"""The client for scripts without asyncio."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import Served, serving
from free_ports import free_port
from sabir import Gateway, agent, blocking
from sabir.errors import PeerUnavailable
from sabir.events import Delta, Reply
from sabir.turn import Turn


@agent
async def writer(turn: Turn) -> AsyncIterator[Any]:
    yield "turn "
    yield f"{len(turn.conversation.turns) + 1}"


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Served]:
    with serving(Gateway(writer, home=tmp_path)) as served:
        yield served


@pytest.mark.parametrize("path", ["", "/nlip", "/ask", "/mcp", "/a2a"])
def test_a_script_asks_and_asks_again(gateway: Served, path: str) -> None:
    with blocking.connect(f"{gateway.url}{path}") as peer:
        assert peer.ask("hi").text.startswith("turn 1")
        assert peer.ask("again").text.startswith("turn 2")


def test_events_come_one_by_one_and_the_loop_may_be_left(gateway: Served) -> None:
    with blocking.connect(f"{gateway.url}/nlip") as peer:
        events = list(peer.stream("hi"))
        assert [type(event) for event in events] == [Delta, Delta, Reply]
        for _ in peer.stream("once more"):
            break
        assert "turn" in peer.ask("still there?").text


def test_what_does_not_answer_raises_in_the_script() -> None:
    with blocking.connect(f"http://127.0.0.1:{free_port()}/nlip") as peer, pytest.raises(PeerUnavailable):
        peer.ask("hi")

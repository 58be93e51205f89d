"""The protocol in use: served, called by name, listed, and found by its path. Needs the package to be installed."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
import uvicorn

from sabir import Gateway, Turn, agent, connect


@agent(description="Counts the turns of a conversation")
async def counter(turn: Turn) -> str:
    return f"turn {len(turn.conversation.turns) + 1}: {turn.text}"


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    home: Path = tmp_path_factory.mktemp("home")
    server = uvicorn.Server(uvicorn.Config(Gateway(counter, home=home), port=0, log_level="warning"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    server.should_exit = True
    thread.join(10)


def test_a_telegram_is_answered_and_its_thread_goes_on(url: str) -> None:
    first = httpx2.post(f"{url}/telegram/counter", json={"text": "one"}).json()
    assert first["text"] == "turn 1: one"
    second = httpx2.post(f"{url}/telegram/counter", json={"text": "two", "thread": first["thread"]}).json()
    assert second["text"] == "turn 2: two"


def test_an_unknown_agent_is_a_problem(url: str) -> None:
    answer = httpx2.post(f"{url}/telegram/nobody", json={"text": "hello"})
    assert answer.status_code == 404 and "nobody" in answer.json()["problem"]


async def test_connect_finds_the_protocol_by_the_path(url: str) -> None:
    async with connect(f"{url}/telegram/counter") as peer:
        assert peer.protocol == "telegram"
        assert (await peer.ask("a")).text == "turn 1: a"
        assert (await peer.ask("b")).text == "turn 2: b"


def test_who_lists_it(url: str) -> None:
    found = httpx2.post(f"{url}/who", json={"query": {"text": ""}}).json()
    assert {"telegram": f"{url}/telegram/counter"}.items() <= {
        row["protocol"]: row["endpoint"].replace("http://127.0.0.1:8080", url) for row in found["results"]
    }.items()

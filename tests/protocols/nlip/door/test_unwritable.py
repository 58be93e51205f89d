"""Agent output that no encoding can carry: the caller gets an NLIP failure over both doors, not silence."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest
from websockets.sync.client import connect

from conftest import Serve
from deadline import DEADLINE
from sabir import Gateway, Turn, agent
from sabir.protocols.nlip.wire import cbor
from sabir.protocols.nlip.wire import json as nlip

HALF = "half a pair: \ud83d"
ASKED = {"format": "text", "subformat": "english", "content": "hi"}


@agent(name="kept")
async def kept(turn: Turn) -> str:
    return HALF


@agent(name="passed", remembers=False)
async def passed(turn: Turn) -> dict[str, object]:
    return {"what": object()}


@agent(name="pieces")
async def pieces(turn: Turn) -> AsyncIterator[object]:
    yield "good so far"
    yield {"what": object()}


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, "sabir")


@pytest.mark.parametrize("name", ["kept", "passed", "pieces"])
def test_over_http_it_is_a_500_in_nlip(serve: Serve, home: Path, name: str) -> None:
    """CORE-6.1: every outcome is an NLIP message."""
    url = serve(Gateway(kept, passed, pieces, home=home)).url
    response = httpx2.post(f"{url}/nlip/{name}", json=ASKED)
    assert response.status_code == 500
    assert nlip.decode(response.content).is_error
    assert f"{name} failed" in response.json()["content"]
    # The conversation is free for the next turn.
    assert httpx2.post(f"{url}/nlip/{name}", json=ASKED).status_code == 500


@pytest.mark.parametrize("name", ["kept", "passed", "pieces"])
def test_as_a_stream_it_ends_with_an_error(serve: Serve, home: Path, name: str) -> None:
    url = serve(Gateway(kept, passed, pieces, home=home)).url
    response = httpx2.post(f"{url}/nlip/{name}", json=ASKED, headers={"accept": "text/event-stream"})
    assert f"{name} failed" in response.text
    assert '"messagetype":"error"' in response.text


@pytest.mark.parametrize("name", ["kept", "passed", "pieces"])
def test_over_websocket_it_is_an_error_and_the_connection_stays(serve: Serve, home: Path, name: str) -> None:
    url = serve(Gateway(kept, passed, pieces, home=home)).ws_url
    with connect(f"{url}/nlip/{name}/ws") as socket:
        for _ in range(2):
            socket.send(json.dumps(ASKED))
            assert f"{name} failed" in nlip.decode(str(socket.recv(timeout=DEADLINE)).encode()).text
            socket.send(cbor.encode(nlip.decode(json.dumps(ASKED).encode())))
            assert cbor.decode(bytes(socket.recv(timeout=DEADLINE))).is_error

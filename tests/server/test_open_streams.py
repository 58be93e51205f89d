"""A gateway with open streams stops at once: a stream on which nothing happens does not delay it until its timeout."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx2
import pytest
from websockets.sync.client import connect

from deadline import DEADLINE
from free_ports import free_port

SECONDS = 12.0  # of the 30 that requests have to finish


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[tuple[str, subprocess.Popen[bytes], Path]]:
    (tmp_path / "app.py").write_text("from sabir import agent\n\n@agent\nasync def clerk(turn):\n    return 'yes'\n")
    port, log = free_port(), tmp_path / "log.txt"
    command = [sys.executable, "-m", "sabir", "serve", "app.py", "--plain", "--port", str(port), "--home", "kept"]
    with log.open("wb") as out:
        process = subprocess.Popen(command, cwd=tmp_path, stdout=out, stderr=out)
    end = time.monotonic() + DEADLINE
    while "Try:" not in log.read_text():
        assert process.poll() is None and time.monotonic() < end, log.read_text()
        time.sleep(0.05)
    yield f"127.0.0.1:{port}", process, log
    process.kill()
    process.wait()


SSE = {"accept": "text/event-stream"}
HELLO = {"format": "text", "subformat": "english", "content": "Hello"}


def subscription(place: str) -> dict[str, object]:
    """A subscription to a conversation that exists."""
    tokens = httpx2.post(f"http://{place}/nlip", json=HELLO).json()["submessages"]
    wish = {"format": "structured", "subformat": "json", "label": "subscribe", "content": {"topic": "conversation"}}
    return {**HELLO, "messagetype": "control", "submessages": [wish, *tokens]}


@pytest.mark.parametrize("stream", ["/acl/inbox/ada", "/mcp-events?agent=ada", "/mcp/sse?agent=ada", "/nlip"])
def test_a_stream_of_events_ends_when_the_gateway_stops(
    stream: str, gateway: tuple[str, subprocess.Popen[bytes], Path]
) -> None:
    place, process, log = gateway
    with ExitStack() as opened:
        client = opened.enter_context(httpx2.Client(timeout=600))
        body = {"json": subscription(place)} if stream == "/nlip" else {}
        method = "POST" if body else "GET"
        answer = opened.enter_context(client.stream(method, f"http://{place}{stream}", headers=SSE, **body))
        assert answer.status_code == 200
        process.send_signal(signal.SIGTERM)
        assert process.wait(SECONDS) == 0
        assert "Traceback" not in log.read_text()


@pytest.mark.parametrize("stream", ["/acl/ws/ada", "/nlip/ws"])
def test_a_websocket_is_closed_when_the_gateway_stops(
    stream: str, gateway: tuple[str, subprocess.Popen[bytes], Path]
) -> None:
    place, process, log = gateway
    with connect(f"ws://{place}{stream}"):
        process.send_signal(signal.SIGTERM)
        assert process.wait(SECONDS) == 0
        assert "Traceback" not in log.read_text()

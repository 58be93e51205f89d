"""What tests share: a gateway on a real socket, in a thread of its own."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import uvicorn

from sabir.gateway import Gateway
from sabir.server import Server, uvicorn_config


@dataclass
class Served:
    """A gateway that listens."""

    gateway: Gateway
    host: str
    port: int
    server: uvicorn.Server

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}"

    @property
    def ws_url(self) -> str:
        return f"ws://{self.host}:{self.port}"


@contextmanager
def serving(gateway: Gateway) -> Iterator[Served]:
    """Serve a gateway on a free port of the loopback until the block ends."""
    sock = socket.socket()
    sock.bind(("127.0.0.1", 0))
    port = sock.getsockname()[1]
    gateway.house.public_url = gateway.public_url = f"http://127.0.0.1:{port}"
    if gateway.exchange.concierge is not None:
        gateway.exchange.concierge.public_url = gateway.public_url
    server = Server(uvicorn_config(gateway, gateway.serving), gateway.exchange.close, 5.0)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [sock]}, daemon=True)
    thread.start()
    end = time.monotonic() + 20
    while not server.started:
        if not thread.is_alive() or time.monotonic() > end:
            raise RuntimeError("the gateway did not start")
        time.sleep(0.005)
    try:
        yield Served(gateway, "127.0.0.1", port, server)
    finally:
        server.should_exit = True
        thread.join(20)


Serve = Callable[[Gateway], Served]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Serve gateways on real sockets; they are stopped when the test ends."""
    with _Stack() as stack:
        yield stack.serve


class _Stack:
    def __init__(self) -> None:
        self._running: list[object] = []

    def __enter__(self) -> _Stack:
        return self

    def serve(self, gateway: Gateway) -> Served:
        context = serving(gateway)
        served = context.__enter__()
        self._running.append(context)
        return served

    def __exit__(self, *_: object) -> None:
        for context in reversed(self._running):
            context.__exit__(None, None, None)  # type: ignore[attr-defined]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"

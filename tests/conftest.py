"""What tests share: a gateway on a real socket, in a thread of its own."""

from __future__ import annotations

import asyncio
import gc
import inspect
import logging
import os
import signal
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import httpx
import httpx2
import pytest
import uvicorn
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings

import coverage_of_new  # first: it has to begin before what it measures is imported
from deadline import DEADLINE
from free_ports import free_port
from sabir.gateway.gateway import Gateway
from sabir.server.server import Server, uvicorn_config

# A busy machine makes slow inputs; that is no defect of what is tested.
hypothesis_settings.register_profile("sabir", deadline=None, suppress_health_check=[HealthCheck.too_slow])
hypothesis_settings.load_profile("sabir")

HERE = Path(__file__).resolve().parent
# What each file takes, the longest first. SABIR_TEST_RECORD=1 scripts/test measures them anew.
LONGEST = HERE / "longest.txt"
SHORT = 2.0  # seconds; files that take less are not listed
_SECONDS: Counter[str] = Counter()  # by file, in the process that distributes the tests


def longest() -> list[str]:
    """The files that take longest, the longest first."""
    return [line.partition(" ")[2] for line in LONGEST.read_text().splitlines()]


def pytest_configure(config: pytest.Config) -> None:
    coverage_of_new.register(config)
    for library in (httpx, httpx2):  # requests without a timeout of their own would get five seconds
        patience: httpx.Timeout = inspect.signature(library.Client).parameters["timeout"].default
        patience.connect = patience.read = patience.write = patience.pool = DEADLINE
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN and threading.current_thread() is threading.main_thread():
        # A shell starts what runs in its background with Ctrl-C ignored, and programs that tests start inherit that.
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """List the tests that failed in the file that ``scripts/test`` names; it runs them once more."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        return
    _SECONDS[report.nodeid.partition("::")[0].removeprefix(f"{HERE.name}/")] += report.duration
    listing = os.environ.get("SABIR_TEST_FAILED")
    if report.failed and listing:
        with Path(listing).open("a") as failed:
            failed.write(report.nodeid + "\n")


def pytest_sessionfinish(session: pytest.Session) -> None:
    if os.environ.get("SABIR_TEST_RECORD") == "1" and session.config.getoption("numprocesses", None):
        found = [f"{seconds:.0f} {name}\n" for name, seconds in _SECONDS.most_common() if seconds >= SHORT]
        LONGEST.write_text("".join(found))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long files come first, so that all processes end at about the same time."""
    place = {HERE / name: number for number, name in enumerate(longest())}
    items.sort(key=lambda item: place.get(item.path, len(place)))


def pytest_collection_finish() -> None:
    """The tests themselves stay until the end: the garbage collector need not look at them again and again."""
    gc.collect()
    gc.freeze()


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


class PromptServer(Server):
    """Stops at once, where uvicorn checks only ten times a second whether to stop."""

    def __init__(self, gateway: Gateway) -> None:
        super().__init__(uvicorn_config(gateway, gateway.serving), gateway.exchange.close, 5.0)
        self._asked_to_stop = asyncio.Event()

    def end(self) -> None:
        """To be called from any thread."""
        self.should_exit = True
        if self.loop is not None:
            with suppress(RuntimeError):  # it has ended already, and its loop with it
                self.loop.call_soon_threadsafe(self._asked_to_stop.set)

    async def main_loop(self) -> None:
        ticks = asyncio.ensure_future(super().main_loop())
        stop = asyncio.ensure_future(self._asked_to_stop.wait())
        await asyncio.wait((ticks, stop), return_when=asyncio.FIRST_COMPLETED)
        for task in (ticks, stop):
            task.cancel()
        await asyncio.gather(ticks, stop, return_exceptions=True)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for listening in (*self.servers, *(sockets or ())):
            listening.close()
        for connection in list(self.server_state.connections):
            connection.shutdown()
        end = time.monotonic() + 0.1
        while (left := self.server_state.connections or self.server_state.tasks) and time.monotonic() < end:
            await asyncio.sleep(0.001)
        if left:  # a turn is still under way, or a question is open
            await self._closing(0.2)
            await super().shutdown(sockets)
        else:
            await self.lifespan.shutdown()


@contextmanager
def serving(gateway: Gateway, port: int = 0) -> Iterator[Served]:
    """Serve a gateway on a free port of the loopback, or on this one, until the block ends.

    The port is still free afterwards, for the gateway that comes back where this one was.
    """
    port = port or free_port()
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind(("127.0.0.1", port))
    gateway.services.public_url = gateway.public_url = f"http://127.0.0.1:{port}"
    if gateway.exchange.concierge is not None:
        gateway.exchange.concierge.services.public_url = gateway.public_url
    server = PromptServer(gateway)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [sock]}, daemon=True)
    thread.start()
    end = time.monotonic() + DEADLINE
    while not server.started:
        if not thread.is_alive() or time.monotonic() > end:
            raise RuntimeError("the gateway did not start")
        time.sleep(0.001)
    try:
        yield Served(gateway, "127.0.0.1", port, server)
    finally:
        server.end()
        thread.join(DEADLINE)
        if thread.is_alive():
            raise RuntimeError("the gateway did not stop")


@pytest.fixture(autouse=True)
def log_as_before() -> Iterator[None]:
    """Takes back what a test did to the log: its level, and handlers, whose standard error is closed after the test."""
    root, ours = logging.getLogger(), logging.getLogger("sabir")
    before, level, our_level = list(root.handlers), root.level, ours.level
    yield
    root.setLevel(level)
    ours.setLevel(our_level)
    for handler in list(root.handlers):
        if type(handler) is logging.StreamHandler and handler not in before:
            root.removeHandler(handler)


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

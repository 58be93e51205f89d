"""Serving an ASGI application: uvicorn on uvloop and httptools, graceful shutdown."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Final

import uvicorn
from starlette.types import ASGIApp

from sabir.errors import ConfigError
from sabir.guard.quotas.rates import is_loopback

from .http_protocol import Http, HttpWithCertificate, SlowClientReaper
from .settings import Serving
from .tls import tls_context
from .unix_socket import HttpOverUnixSocket, bind_unix, remove_unix
from .websocket_protocol import WebSocket, WebSocketWithCertificate
from .workers import Workers

logger = logging.getLogger("sabir")


CLOSE_SECONDS: Final = 20.0  # for closing doors, bus and store once the turns have ended
GARBAGE: Final = 10_000  # new objects that are not freed before the garbage collector runs
# Seconds for which a thread may keep the GIL from another. With Python's 5 ms the store's thread, which needs it for
# moments between long waits for the file, holds up each group of writes for as long as the event loop is busy.
SWITCH_SECONDS: Final = 0.0002


Closing = Callable[[float], Awaitable[object]]


Ready = Callable[[], object]


def check_exposure(serving: Serving) -> None:
    """Allow plain HTTP only on loopback or behind a declared TLS proxy (CORE-7.1, D-28).

    Raises:
        ConfigError: plain HTTP would be open to the network.
    """
    host = serving.host
    local = host == "localhost" or is_loopback(host)
    if not (local or serving.tls.is_on or serving.behind_tls_proxy):
        raise ConfigError(
            f"{host} is not a loopback address, and plain HTTP would be open to the network: "
            "give --tls-cert and --tls-key, or --dev-tls, or say --behind-tls-proxy"
        )


def bind(host: str, port: int) -> socket.socket:
    """A listening socket.

    Raises:
        ConfigError: the address is taken or not available on this machine.
    """
    if not 0 <= port <= 65535:
        raise ConfigError(f"port: expected a number from 0 to 65535, not {port}")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((host, port))
        sock.listen(2048)  # clients that connect during startup wait instead of being refused
    except OSError as exc:
        sock.close()
        reason = exc.strerror or exc
        raise ConfigError(
            f"cannot listen on {host}:{port}: {reason}; choose another with --port, SABIR_PORT or run(port=…)"
        ) from None
    return sock  # not inheritable: workers are forks and have it anyway, other child processes must not


class Server(uvicorn.Server):
    """A uvicorn server that lets running turns finish; new ones get 503 while it does."""

    def __init__(self, config: uvicorn.Config, closing: Closing, seconds: float, ready: Ready = lambda: None) -> None:
        super().__init__(config)
        self._closing = closing
        self._ready = ready
        self._seconds = seconds
        self.loop: asyncio.AbstractEventLoop | None = None
        self._ending: asyncio.Future[None] | None = None
        self._watch: threading.Timer | None = None
        self.above: int | None = None  # the parent process of this worker
        self.unix: socket.socket | None = None  # where programs on this machine can connect as well
        self.reaper = SlowClientReaper(idle=config.timeout_keep_alive)

    async def on_tick(self, counter: int) -> bool:
        if counter % self.reaper.every == 0:
            self.reaper.sweep(list(self.server_state.connections), asyncio.get_running_loop().time())
        if self.above is not None and self.above != os.getppid():
            self.above = None
            logger.error("The parent process of this worker is gone; stopping")
            self.handle_exit(signal.SIGTERM, None)  # otherwise it would hold the port forever
        return await super().on_tick(counter)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self.loop = asyncio.get_running_loop()
        await super().startup(sockets)
        if self.unix is not None:
            # Without TLS even if TCP uses it: nothing leaves the machine.
            self.servers.append(await self.loop.create_unix_server(self._unix_protocol, sock=self.unix))
        if self.started and not self.should_exit:
            with suppress(BrokenPipeError):  # whoever started us does not read it
                self._ready()

    def _unix_protocol(self) -> HttpOverUnixSocket:
        return HttpOverUnixSocket(self.config, self.server_state, self.lifespan.state)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self._ending is not None or self.loop is None:
            super().handle_exit(sig, frame)  # a second signal does not wait
        else:
            self._end_at_last()
            self.loop.call_soon_threadsafe(self._begin_end)

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        try:
            super().run(sockets)
        finally:
            if self._watch is not None:  # the server has ended; the rest of the process is not our concern
                self._watch.cancel()

    def _end_at_last(self) -> None:
        """Force the process to exit if shutdown hangs.

        Everything acknowledged is stored by then, so nothing is lost.
        """
        self._watch = threading.Timer(self._seconds + CLOSE_SECONDS, _give_up)
        self._watch.daemon = True
        self._watch.start()

    def _begin_end(self) -> None:
        if self._ending is None:
            self._ending = asyncio.ensure_future(self._end())

    async def _end(self) -> None:
        try:
            await self._closing(self._seconds)
        finally:
            self.should_exit = True


class SideServer(uvicorn.Server):
    """The server of a door that listens on its own port; the main server handles signals."""

    def __init__(self, config: uvicorn.Config) -> None:
        config.http = Http
        super().__init__(config)
        self.reaper = SlowClientReaper(idle=config.timeout_keep_alive)

    async def on_tick(self, counter: int) -> bool:
        if counter % self.reaper.every == 0:
            self.reaper.sweep(list(self.server_state.connections), asyncio.get_running_loop().time())
        return await super().on_tick(counter)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class EmbeddedServer(SideServer):
    """A server inside a program with its own event loop and signal handling."""

    async def answers(self, serving: asyncio.Task[None]) -> None:
        """Wait until it answers.

        Raises:
            ConfigError: the gateway did not start; the log says why.
        """
        while not self.started and not serving.done():
            await asyncio.sleep(0.01)
        if not self.started:
            raise ConfigError("the gateway did not start; the log says why")


def _give_up() -> None:
    logger.error("Shutdown timed out; exiting")
    os._exit(1)


def serve(app: ASGIApp, serving: Serving, closing: Closing, sock: socket.socket, ready: Ready) -> int:
    """Serve until stopped; returns the exit code. ``ready`` is called once, when every process answers."""
    unix = bind_unix(serving.socket) if serving.socket else None

    def serve_one(answered: Ready, parent: int | None) -> int:
        def answering() -> None:
            # Exclude what exists now from garbage collection: scanning it again and again would show in the tail
            # latency. Requests in progress hold more objects than Python's threshold of 700, so the collector would
            # scan them several times for each request, and find nothing.
            gc.freeze()
            gc.set_threshold(GARBAGE)
            sys.setswitchinterval(SWITCH_SECONDS)
            answered()

        server = Server(uvicorn_config(app, serving), closing, serving.graceful_seconds, answering)
        server.above, server.unix = parent, unix
        return _run(server, sock)

    try:
        return Workers(serving.workers, serve_one, ready).run() if serving.workers > 1 else serve_one(ready, None)
    finally:
        if serving.socket:
            remove_unix(serving.socket)


def _run(server: Server, sock: socket.socket) -> int:
    before, interval = gc.get_threshold(), sys.getswitchinterval()
    try:
        server.run(sockets=[sock])
    except SystemExit:  # uvicorn's way to report that the application did not start
        if server.started:
            raise
    finally:
        gc.unfreeze()
        gc.set_threshold(*before)
        sys.setswitchinterval(interval)
    return 0 if server.started else 3


def uvicorn_config(app: ASGIApp, serving: Serving) -> uvicorn.Config:
    config = uvicorn.Config(
        app,
        host=serving.host,
        port=serving.port,
        interface="asgi3",
        loop="auto",
        http=HttpWithCertificate if serving.tls.client_ca else Http,
        ws=WebSocketWithCertificate if serving.tls.client_ca else WebSocket,
        ws_max_size=serving.max_message,
        ws_ping_interval=serving.ws_ping_seconds,
        ws_ping_timeout=serving.ws_ping_seconds,
        ws_per_message_deflate=True,
        lifespan="on",
        proxy_headers=False,  # the doors read proxy headers themselves, and only if a proxy is declared
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        timeout_keep_alive=int(serving.idle_seconds),
        timeout_graceful_shutdown=max(1, int(serving.graceful_seconds)),
        backlog=2048,
        h11_max_incomplete_event_size=64 * 1024,
    )
    if serving.tls.is_on:
        config.load()
        config.ssl = tls_context(serving.tls, Path(serving.home))
    return config

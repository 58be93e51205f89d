"""Serving an ASGI application: uvicorn on uvloop and httptools, TLS, several processes, a gentle end."""

from __future__ import annotations

import asyncio
import datetime
import ipaddress
import logging
import os
import select
import signal
import socket
import ssl
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Final

import uvicorn
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from starlette.types import ASGIApp

from .connections import Http, HttpWithCertificate, Patience, WebSocketWithCertificate
from .errors import BadSetup
from .guard.limits import is_loopback
from .home import own_folder
from .serving import Serving, Tls

logger = logging.getLogger("sabir")


LIVED_SECONDS: Final = 30.0  # a worker that dies later than this did not fail to start
CLOSE_SECONDS: Final = 20.0  # for closing doors, bus and store, after the turns have ended
READY_LOOK_SECONDS: Final = 0.1  # between two looks whether a worker has died before it answered
Closing = Callable[[float], Awaitable[object]]
Ready = Callable[[], object]


def check_exposure(serving: Serving) -> None:
    """Plain HTTP only on loopback or behind a declared TLS proxy (CORE-7.1, D-28).

    Raises:
        BadSetup: it would be open to the network in the clear.
    """
    host = serving.host
    local = host == "localhost" or is_loopback(host)
    if not (local or serving.tls.is_on or serving.behind_tls_proxy):
        raise BadSetup(
            f"{host} is not a loopback address, and plain HTTP would be open to the network: "
            "give --tls-cert and --tls-key, or --dev-tls, or say --behind-tls-proxy"
        )


def check_tls(serving: Serving) -> None:
    """What TLS needs is there and fits together, before anybody is told where to find us.

    Raises:
        BadSetup: it is not.
    """
    if serving.tls.key and not serving.tls.cert:
        raise BadSetup("tls: there is a key and no certificate; give --tls-cert, too")
    if serving.tls.is_on:
        tls_context(serving.tls, Path(serving.home))


def bind(host: str, port: int) -> socket.socket:
    """A listening socket.

    Raises:
        BadSetup: the address is taken or not ours.
    """
    if not 0 <= port <= 65535:
        raise BadSetup(f"port: expected a number from 0 to 65535, not {port}")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((host, port))
        sock.listen(2048)  # who comes while the gateway still starts waits instead of being refused
    except OSError as wrong:
        sock.close()
        reason = wrong.strerror or wrong
        raise BadSetup(
            f"cannot listen on {host}:{port}: {reason}; choose another with --port, SABIR_PORT or run(port=…)"
        ) from None
    sock.set_inheritable(True)
    return sock


class Server(uvicorn.Server):
    """A uvicorn server that lets running turns finish: until they have, new ones get 503."""

    def __init__(self, config: uvicorn.Config, closing: Closing, seconds: float, ready: Ready = lambda: None) -> None:
        super().__init__(config)
        self._closing = closing
        self._ready = ready
        self._seconds = seconds
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ending: asyncio.Future[None] | None = None
        self._watch: threading.Timer | None = None
        self.above: int | None = None  # the process that started this worker
        self.patience = Patience(idle=config.timeout_keep_alive)

    async def on_tick(self, counter: int) -> bool:
        if counter % self.patience.every == 0:
            self.patience.look(list(self.server_state.connections), asyncio.get_running_loop().time())
        if self.above is not None and self.above != os.getppid():
            self.above = None
            logger.error("the process that started this worker is gone, so it stops")
            self.handle_exit(signal.SIGTERM, None)  # else it would hold the port for ever, and nobody could stop it
        return await super().on_tick(counter)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        await super().startup(sockets)
        if self.started and not self.should_exit:
            with suppress(BrokenPipeError):  # who started us does not read it
                self._ready()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self._ending is not None or self._loop is None:
            super().handle_exit(sig, frame)  # a second signal does not wait
        else:
            self._end_at_last()
            self._loop.call_soon_threadsafe(self._begin_end)

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        try:
            super().run(sockets)
        finally:
            if self._watch is not None:  # it has ended, and what else this process does is its own affair
                self._watch.cancel()

    def _end_at_last(self) -> None:
        """Whoever tells a gateway to stop may count on it, even if something in it never ends.

        All that was acknowledged is stored by then, so that nothing is lost.
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


def _give_up() -> None:
    logger.error("something did not end in time; the process ends now")
    os._exit(1)


def serve(app: ASGIApp, serving: Serving, closing: Closing, sock: socket.socket, ready: Ready) -> int:
    """Serve until told to stop; returns the exit code. ``ready`` is called once, when every process answers."""
    if serving.workers > 1:
        return _serve_many(app, serving, closing, sock, ready)
    return _serve_one(app, serving, closing, sock, ready)


def _serve_one(
    app: ASGIApp, serving: Serving, closing: Closing, sock: socket.socket, ready: Ready, above: int | None = None
) -> int:
    server = Server(uvicorn_config(app, serving), closing, serving.graceful_seconds, ready)
    server.above = above
    try:
        server.run(sockets=[sock])
    except SystemExit:  # which is how uvicorn tells that the application did not start
        if server.started:
            raise
    return 0 if server.started else 3


def uvicorn_config(app: ASGIApp, serving: Serving) -> uvicorn.Config:
    config = uvicorn.Config(
        app,
        host=serving.host,
        port=serving.port,
        interface="asgi3",
        loop="auto",
        http=HttpWithCertificate if serving.tls.client_ca else Http,
        ws=WebSocketWithCertificate if serving.tls.client_ca else "websockets-sansio",
        ws_max_size=serving.max_message,
        ws_ping_interval=serving.ws_ping_seconds,
        ws_ping_timeout=serving.ws_ping_seconds,
        ws_per_message_deflate=True,
        lifespan="on",
        proxy_headers=False,  # who is behind a proxy is read by the doors, and only when one is declared
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


class _Roll:
    """Which workers have answered: each tells its number, once it does, through a pipe to the process above it."""

    def __init__(self, workers: int, ready: Ready) -> None:
        self._missing = set(range(workers))
        self._ready = ready
        self._told, self._telling = os.pipe()

    def here(self, number: int) -> None:
        """Said by a worker of itself; one that is started anew, later, need not."""
        if self._missing:
            os.write(self._telling, number.to_bytes(4))

    def wait(self) -> tuple[int, int]:
        """The next worker that ends, and how; before that, it is said when the last one has come."""
        while self._missing:
            if select.select([self._told], [], [], READY_LOOK_SECONDS)[0]:
                self._missing.discard(int.from_bytes(os.read(self._told, 4)))
                if not self._missing:
                    with suppress(BrokenPipeError):
                        self._ready()
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid:
                return pid, status
        return os.wait()


def _serve_many(app: ASGIApp, serving: Serving, closing: Closing, sock: socket.socket, ready: Ready) -> int:
    """Fork one process per worker on the same socket; start anew those that die; pass signals on."""
    children: dict[int, tuple[int, float]] = {}  # which worker it is, and when it began
    roll = _Roll(serving.workers, ready)
    stopping = False
    signals, above = (signal.SIGTERM, signal.SIGINT), os.getpid()

    def start(number: int) -> None:
        # No signal between the fork and what is to be done about it: one would be lost on the new worker.
        signal.pthread_sigmask(signal.SIG_BLOCK, signals)
        if stopping:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, signals)
            return
        pid = os.fork()
        if pid == 0:
            code = 3
            try:
                for each in signals:
                    signal.signal(each, signal.SIG_DFL)
                signal.pthread_sigmask(signal.SIG_UNBLOCK, signals)
                code = _serve_one(app, serving, closing, sock, partial(roll.here, number), above)
            except KeyboardInterrupt:
                code = 0
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code)
        children[pid] = number, time.monotonic()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, signals)

    def stop(sig: int, _: FrameType | None) -> None:
        nonlocal stopping
        stopping = True
        for pid in list(children):
            with suppress(ProcessLookupError):  # it has ended by itself, just now
                os.kill(pid, signal.SIGTERM)

    for each in signals:
        signal.signal(each, stop)
    for number in range(serving.workers):
        start(number)
    failures = 0
    while children:
        try:
            pid, status = roll.wait()
        except InterruptedError:
            continue
        gone = children.pop(pid, None)
        code = os.waitstatus_to_exitcode(status)
        if gone is None or stopping:
            continue
        number, began = gone
        if time.monotonic() - began > LIVED_SECONDS:
            failures = 0  # it had started well
        failures += code == 3
        if failures > serving.workers:
            stop(signal.SIGTERM, None)
            continue
        logger.error("worker %s ended with code %s and is started again", number, code)
        start(number)
    return 3 if failures > serving.workers else 0


def tls_context(tls: Tls, home: Path) -> ssl.SSLContext:
    """The server's TLS: 1.3 and up unless 1.2 is asked for.

    Raises:
        BadSetup: the certificate or key cannot be used.
    """
    cert, key = (Path(tls.cert), Path(tls.key or tls.cert)) if tls.cert else dev_certificate(home / "dev-tls")
    minimum = {"1.3": ssl.TLSVersion.TLSv1_3, "1.2": ssl.TLSVersion.TLSv1_2}.get(tls.minimum)
    if minimum is None:
        raise BadSetup(f"tls.minimum: expected 1.3 or 1.2, not {tls.minimum!r}")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = minimum
    try:
        context.load_cert_chain(cert, key)
        if tls.client_ca is not None:
            context.load_verify_locations(tls.client_ca)
            context.verify_mode = ssl.CERT_OPTIONAL
    except (OSError, ssl.SSLError) as wrong:
        raise BadSetup(f"the certificate or key cannot be used ({cert}, {key}): {wrong}") from wrong
    context.set_alpn_protocols(["http/1.1"])
    return context


def dev_certificate(folder: Path) -> tuple[Path, Path]:
    """A self-signed certificate for this machine's own names, made once and kept."""
    cert_path, key_path = folder / "cert.pem", folder / "key.pem"
    if cert_path.exists() and key_path.exists():
        return cert_path, key_path
    own_folder(folder)
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "sabir development")])
    now = datetime.datetime.now(datetime.UTC)
    names: list[x509.GeneralName] = [
        x509.DNSName("localhost"),
        x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
        x509.IPAddress(ipaddress.ip_address("::1")),
    ]
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=5))
        .not_valid_after(now + datetime.timedelta(days=90))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    with os.fdopen(os.open(key_path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
    cert_path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    return cert_path, key_path

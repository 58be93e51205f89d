"""Connections: uvicorn's protocols, with what they lack.

Whose client certificate was verified, as the ASGI TLS extension names it; and an end for those who open a connection
and never finish what they began to say, or go on without end. A connection costs little, but an attacker has many.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any, ClassVar, Final

import msgspec
from uvicorn._types import ASGI3Application
from uvicorn.protocols.http.httptools_impl import (
    HEADER_RE,
    HEADER_VALUE_RE,
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from .doors.base import PROOFS, headers_of
from .guard.identity import subject_of

HEAD_SECONDS: Final = 20.0  # from the first byte, or from the connection, to the end of the headers
BODY_SECONDS: Final = 60.0  # between two pieces of a body
IDLE_SECONDS: Final = 75.0  # between an answer and the next request
MAX_KNOWN: Final = 2048  # bytes of a head that is worth remembering
MOST_KNOWN: Final = 1024
MAX_HEAD: Final = 64 * 1024  # bytes of a head that does not end; what comes in one piece may be somewhat more

_SAID: Final = (
    b'{"messagetype":"error","format":"text","subformat":"english",'
    b'"content":"the headers are too long; at most 65536 bytes"}'
)
_HEAD_TOO_BIG: Final = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-type: application/json\r\n"
    b"content-length: %d\r\nconnection: close\r\n\r\n%s" % (len(_SAID), _SAID)
)
# What a head of the plainest kind has not: what changes what follows it, and what only its owner should keep.
_NOT_PLAIN: Final = frozenset({b"connection", b"upgrade", b"transfer-encoding", b"expect", b"cookie"}) | PROOFS
_H2C = re.compile(rb"\r\nupgrade:[ \t]*h2c[ \t]*(?=\r\n)", re.IGNORECASE)


def _without_h2c(data: bytes) -> bytes:
    """A request without its offer to speak HTTP/2, which a server may ignore (RFC 9110, 7.8).

    Java's HttpClient makes it with every first request; the parser would take what follows for another protocol,
    and the body would be lost.
    """
    head, end, rest = data.partition(b"\r\n\r\n")
    return _H2C.sub(b"", head + b"\r\n", count=1)[:-2] + end + rest


def client_of(transport: asyncio.BaseTransport) -> dict[str, Any]:
    """The ``tls`` extension of a connection: empty unless the client showed a certificate that was verified."""
    certificate = transport.get_extra_info("peercert")
    return {"tls": {"client_cert_name": subject_of(certificate)}} if certificate else {}


class Joined:
    """A transport to which the head of an answer goes together with what follows it, in one write instead of two.

    Each write wakes the other side, and costs more than most of what we do for an answer. A head that nothing
    follows at once, as in a stream, goes out at the end of the event loop's pass.
    """

    __slots__ = ("_call_soon", "_held", "_transport", "_write", "begins", "is_closing")

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self.begins = False  # whether the next to come is the head of an answer
        self._held: bytes | None = None
        self._call_soon = loop.call_soon
        self._transport = transport
        self._write = transport.write
        self.is_closing = transport.is_closing

    def write_at_once(self, data: bytes) -> None:
        self.flush()
        self._write(data)

    def write(self, data: bytes) -> None:
        if self.begins:
            self.begins = False
            self._held = data
            self._call_soon(self.flush)
        elif self._held is not None:
            data, self._held = self._held + data, None
            self._write(data)
        else:
            self._write(data)

    def flush(self) -> None:
        held, self._held = self._held, None
        if held is not None:
            self._write(held)

    def close(self) -> None:
        self.flush()
        self._transport.close()


Headers = tuple[tuple[bytes, bytes], ...]


@lru_cache(maxsize=1024)
def _head(status: int, headers: Headers) -> tuple[bytes, int] | None:
    """The head of an answer as it is written, and the length of its body; None if it is not of the usual kind."""
    length = None
    for name, value in headers:
        if name in (b"connection", b"transfer-encoding") or not name.islower():
            return None
        if HEADER_RE.search(name) or HEADER_VALUE_RE.search(value):
            return None
        if name == b"content-length":
            if length is not None or not value.isdigit():
                return None
            length = int(value)
    lines = b"".join(b"%s: %s\r\n" % header for header in headers)
    return None if length is None else (b"%s%s\r\n" % (STATUS_LINE[status], lines), length)


class Cycle(RequestResponseCycle):
    """One request and its answer; a whole answer of the usual kind can be given at once."""

    task: asyncio.Task[None] | None = None

    async def run(self, app: ASGI3Application, tasks: set[asyncio.Task[None]]) -> None:
        try:
            await self.run_asgi(app)
        finally:
            if self.task is not None:
                tasks.discard(self.task)
                self.task = None

    def answer_at_once(self, status: int, headers: Headers, body: bytes) -> bool:
        """Write a whole answer, if nothing speaks against it; else it must be sent the usual way, in two pieces.

        A door finds this behind the ``send`` it is given, unless somebody stands between.
        """
        if (
            self.response_started
            or self.disconnected
            or not self.keep_alive
            or self.flow.write_paused
            or self.default_headers
            or self.access_log
        ):
            return False
        head = _head(status, headers)
        if head is None or head[1] != len(body) or self.scope["method"] == "HEAD":
            return False
        self.response_started = self.response_complete = True
        self.waiting_for_100_continue = self.chunked_encoding = False
        self.transport.write_at_once(head[0] + body)  # type: ignore[attr-defined]
        self.wake()
        self.on_response()
        return True

    def wake(self) -> None:
        self.message_event.set()


class Again(Cycle):
    """A request that came whole, with a head that is known."""

    # What is the same for all of them stands here; uvicorn's own sets it each time.
    access_log = waiting_for_100_continue = disconnected = False
    more_body = response_started = response_complete = False
    keep_alive = True
    chunked_encoding = None
    expected_content_length = 0
    _event: asyncio.Event | None = None
    _whole: bytes | None

    def __init__(self, scope: Any, body: bytes, connection: Http) -> None:
        self.scope = scope
        self._whole = body
        self.transport = connection.joined
        self.flow = connection.flow
        self.logger = connection.logger
        self.default_headers = connection.server_state.default_headers
        self.on_response = connection.on_response_complete

    @property
    def message_event(self) -> asyncio.Event:  # type: ignore[override]
        """Made when somebody waits for what comes after the body: most do not."""
        if self._event is None:
            self._event = asyncio.Event()
        return self._event

    def wake(self) -> None:
        if self._event is not None:
            self._event.set()

    async def receive(self) -> Any:
        body, self._whole = self._whole, None
        if body is None or self.disconnected or self.response_complete:
            self.body = bytearray()
            return await super().receive()
        return {"type": "http.request", "body": body, "more_body": False}


class Known(msgspec.Struct, frozen=True):
    """A head that was parsed before."""

    scope: dict[str, Any]
    length: int  # of the body that follows it


class Http(HttpToolsProtocol):
    """Counts what it hears, so that silence shows, and headers without end.

    Clients send the same head again and again. A head that was parsed once, byte by byte the same, means the same: a
    request that comes whole with such a head is taken as it is.
    """

    heads: ClassVar[dict[bytes, Known]] = {}
    heard = 0
    head = 0  # bytes of a head that is not complete yet
    is_idle = False
    between = True  # whether the parser stands between two requests
    certified: Mapping[str, Any] = MappingProxyType({})  # extensions that tell of the client's certificate

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.joined: Any = Joined(transport, self.loop)

    def data_received(self, data: bytes) -> None:
        self.heard += 1
        self.is_idle = False
        before = self.cycle
        whole = self.between and (before is None or before.response_complete)
        if whole and before is not None and before.keep_alive:
            end = data.find(b"\r\n\r\n") + 4
            known = self.heads.get(data[:end])
            if known is not None and len(data) == end + known.length:
                self._begin(known, data[end:])
                return
        if b"h2c" in data and (before is None or before.response_complete):
            data = _without_h2c(data)
        super().data_received(data)
        if whole and self.between and self.cycle is not before:
            self._learn(data)
        # Only of a head: the rest of a body may still come after it was refused and answered.
        in_head = self.scope is not None and "method" not in self.scope
        self.head = self.head + len(data) if in_head else 0
        if self.head > MAX_HEAD and not self.transport.is_closing():
            self.transport.write(_HEAD_TOO_BIG)
            self.transport.close()

    def _begin(self, known: Known, body: bytes) -> None:
        scope: Any = known.scope.copy()
        scope["headers"] = scope["headers"].copy()
        scope["server"] = self.server
        scope["client"] = self.client
        scope["scheme"] = self.scheme
        scope["state"] = self.app_state.copy()
        if self.certified:
            scope["extensions"] = dict(self.certified)
        self.scope, self.head = scope, 0
        self.cycle = Again(scope, body, self)
        self._start_asgi_task(self.cycle, self.app)

    def _learn(self, data: bytes) -> None:
        """Remember the head of a request that came whole, by itself, and is of the plainest kind."""
        end = data.find(b"\r\n\r\n") + 4
        scope: Any = self.scope
        headers = headers_of(scope)
        length = len(data) - end
        if (
            end > MAX_KNOWN
            or headers.get(b"content-length") != b"%d" % length
            or not headers.keys().isdisjoint(_NOT_PLAIN)
            or len(headers) != len(scope["headers"])
            or scope["http_version"] != "1.1"
            or not self.cycle.keep_alive
            or self.config.limit_concurrency is not None
            or self.access_log
        ):
            return
        if len(self.heads) >= MOST_KNOWN:
            self.heads.clear()
        self.heads[data[:end]] = Known({**scope, "headers": list(scope["headers"])}, length)

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        if not isinstance(cycle, Cycle):
            cycle.__class__ = Cycle
            cycle.transport = self.joined
        self.joined.begins = True
        mine: Any = cycle
        mine.task = task = self.loop.create_task(mine.run(app, self.tasks))
        self.tasks.add(task)

    def on_message_begin(self) -> None:
        self.between = False
        super().on_message_begin()
        if self.certified:
            self.scope["extensions"] = dict(self.certified)

    def on_message_complete(self) -> None:
        self.between = True
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Without the timer that each answer would start and each request stop: ``Patience`` sees who is idle."""
        if self.pipeline:
            super().on_response_complete()
            return
        self.server_state.total_requests += 1
        self.is_idle = True
        if not self.transport.is_closing():
            self.flow.resume_reading()

    def owing(self) -> tuple[object, ...] | None:
        """What the client still has to send, in a value that changes as it does; None if it owes nothing."""
        cycle = self.cycle
        if self.is_idle:
            return ("idle", self.heard)
        if cycle is None or cycle.response_complete:
            return ("head", id(cycle))
        if cycle.more_body:
            return ("body", id(cycle), self.heard)
        return None


class HttpWithCertificate(Http):
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.certified = client_of(transport)


class WebSocketWithCertificate(WebSocketsSansIOProtocol):
    def handle_connect(self, event: Any) -> None:
        super().handle_connect(event)
        scope: Any = getattr(self, "scope", None)  # not there if the handshake was refused
        if scope is not None:
            scope["extensions"] = {**scope["extensions"], **client_of(self.transport)}


class Patience:
    """Ends connections that owe us something and have been silent for too long. Looked at now and then, not timed
    each: a timer for every request would cost more than most attacks."""

    def __init__(
        self, head: float = HEAD_SECONDS, body: float = BODY_SECONDS, *, idle: float = IDLE_SECONDS, every: int = 20
    ) -> None:
        self.every = every  # ticks of the server, a tenth of a second each, between two looks
        self._longest = {"head": head, "body": body, "idle": idle}
        self._owing: dict[Http, tuple[tuple[object, ...], float]] = {}

    def look(self, connections: Iterable[object], now: float) -> int:
        """End those whose time is over; returns how many."""
        owing: dict[Http, tuple[tuple[object, ...], float]] = {}
        ended = 0
        for each in connections:
            what = each.owing() if isinstance(each, Http) else None
            if what is None or not isinstance(each, Http):
                continue
            known, since = self._owing.get(each, (None, now))
            since = since if known == what else now
            if now - since > self._longest[str(what[0])]:
                each.transport.close() if each.is_idle else each.transport.abort()
                ended += 1
            else:
                owing[each] = (what, since)
        self._owing = owing
        return ended

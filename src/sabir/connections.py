"""Connections: uvicorn's protocols, with what they lack.

Whose client certificate was verified, as the ASGI TLS extension names it; and an end for those who open a connection
and never finish what they began to say, or go on without end. A connection costs little, but an attacker has many.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import (
    HEADER_RE,
    HEADER_VALUE_RE,
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from .guard.identity import subject_of

HEAD_SECONDS: Final = 20.0  # from the first byte, or from the connection, to the end of the headers
BODY_SECONDS: Final = 60.0  # between two pieces of a body
IDLE_SECONDS: Final = 75.0  # between an answer and the next request
MAX_HEAD: Final = 64 * 1024  # bytes of a head that does not end; what comes in one piece may be somewhat more

_SAID: Final = (
    b'{"messagetype":"error","format":"text","subformat":"english",'
    b'"content":"the headers are too long; at most 65536 bytes"}'
)
_HEAD_TOO_BIG: Final = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-type: application/json\r\n"
    b"content-length: %d\r\nconnection: close\r\n\r\n%s" % (len(_SAID), _SAID)
)
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
        self.message_event.set()
        self.on_response()
        return True


class Http(HttpToolsProtocol):
    """Counts what it hears, so that silence shows, and headers without end."""

    heard = 0
    head = 0  # bytes of a head that is not complete yet
    is_idle = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.joined: Any = Joined(transport, self.loop)

    def data_received(self, data: bytes) -> None:
        self.heard += 1
        self.is_idle = False
        if b"h2c" in data and (self.cycle is None or self.cycle.response_complete):
            data = _without_h2c(data)
        super().data_received(data)
        cycle: Any = self.cycle
        if cycle is not None and cycle.transport is self.transport:  # a new one, which has not begun
            cycle.transport = self.joined
            self.joined.begins = True
            cycle.__class__ = Cycle
        # Only of a head: the rest of a body may still come after it was refused and answered.
        in_head = self.scope is not None and "method" not in self.scope
        self.head = self.head + len(data) if in_head else 0
        if self.head > MAX_HEAD and not self.transport.is_closing():
            self.transport.write(_HEAD_TOO_BIG)
            self.transport.close()

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
    def on_message_begin(self) -> None:
        super().on_message_begin()
        found = client_of(self.transport)
        if found:
            self.scope["extensions"] = {**(self.scope.get("extensions") or {}), **found}


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

"""Connections: uvicorn's protocols, with what they lack.

Whose client certificate was verified, as the ASGI TLS extension names it; and an end for those who open a connection
and never finish what they began to say, or go on without end. A connection costs little, but an attacker has many.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from .guard.identity import subject_of

HEAD_SECONDS: Final = 20.0  # from the first byte, or from the connection, to the end of the headers
BODY_SECONDS: Final = 60.0  # between two pieces of a body
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


class Http(HttpToolsProtocol):
    """Counts what it hears, so that silence shows, and headers without end."""

    heard = 0
    head = 0  # bytes of a head that is not complete yet
    in_head = False

    def on_message_begin(self) -> None:
        self.in_head = True
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self.in_head = False
        super().on_headers_complete()

    def data_received(self, data: bytes) -> None:
        self.heard += 1
        begins = self.cycle is None or self.cycle.response_complete
        super().data_received(_without_h2c(data) if begins and b"h2c" in data else data)
        # Only of a head: the rest of a body may still come after it was refused and answered.
        self.head = self.head + len(data) if self.in_head else 0
        if self.head > MAX_HEAD and not self.transport.is_closing():
            self.transport.write(_HEAD_TOO_BIG)
            self.transport.close()

    def owing(self) -> tuple[object, ...] | None:
        """What the client still has to send, in a value that changes as it does; None if it owes nothing."""
        cycle = self.cycle
        if cycle is None or (cycle.response_complete and self.timeout_keep_alive_task is None):
            return ("head", id(cycle))
        if cycle.more_body and not cycle.response_complete:
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

    def __init__(self, head: float = HEAD_SECONDS, body: float = BODY_SECONDS, *, every: int = 20) -> None:
        self.every = every  # ticks of the server, a tenth of a second each, between two looks
        self._longest = {"head": head, "body": body}
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
                each.transport.abort()
                ended += 1
            else:
                owing[each] = (what, since)
        self._owing = owing
        return ended

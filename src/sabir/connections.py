"""Connections: uvicorn's protocols, with what they lack.

Whose client certificate was verified, as the ASGI TLS extension names it; and an end for those who open a connection
and never finish what they began to say. A connection costs little, but an attacker has many.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from .guard.identity import subject_of

HEAD_SECONDS: Final = 20.0  # from the first byte, or from the connection, to the end of the headers
BODY_SECONDS: Final = 60.0  # between two pieces of a body


def client_of(transport: asyncio.BaseTransport) -> dict[str, Any]:
    """The ``tls`` extension of a connection: empty unless the client showed a certificate that was verified."""
    certificate = transport.get_extra_info("peercert")
    return {"tls": {"client_cert_name": subject_of(certificate)}} if certificate else {}


class Http(HttpToolsProtocol):
    """Counts what it hears, so that silence shows."""

    heard = 0

    def data_received(self, data: bytes) -> None:
        self.heard += 1
        super().data_received(data)

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

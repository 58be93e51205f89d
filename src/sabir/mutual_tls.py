"""Client certificates: uvicorn's protocols, which also tell the application whose certificate was verified.

uvicorn does not speak the ASGI TLS extension; this fills in the one name of it that doors read.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from .guard.identity import subject_of


def client_of(transport: asyncio.BaseTransport) -> dict[str, Any]:
    """The ``tls`` extension of a connection: empty unless the client showed a certificate that was verified."""
    certificate = transport.get_extra_info("peercert")
    return {"tls": {"client_cert_name": subject_of(certificate)}} if certificate else {}


class HttpWithCertificate(HttpToolsProtocol):
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

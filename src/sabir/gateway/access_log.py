"""The access log: one line per request, if enabled. No query, no body, no credentials."""

from __future__ import annotations

import logging
import time
from typing import Any, Final
from urllib.parse import quote

from starlette.types import ASGIApp, Receive, Scope, Send

from sabir.http.request import forwarded_address, headers_of

logger = logging.getLogger("sabir.access")

MAX_PATH: Final = 500  # characters of a path in the log


class AccessLog:
    """An ASGI application that logs every request of another one once it has ended."""

    def __init__(self, app: ASGIApp, *, behind_proxy: bool = False) -> None:
        self._app = app
        self._behind_proxy = behind_proxy

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()
        status = 0  # of a client that disconnected before the response

        async def watched(packet: Any) -> None:
            nonlocal status
            if packet["type"] in ("http.response.start", "websocket.http.response.start"):
                status = packet["status"]
            elif packet["type"] == "websocket.accept":
                status = 101
            await send(packet)

        try:
            await self._app(scope, receive, watched)
        finally:
            milliseconds = round((time.perf_counter() - began) * 1000, 1)
            method = scope["method"] if scope["type"] == "http" else "WEBSOCKET"
            path = quote(scope["path"][:MAX_PATH])  # decoded, it may contain a line break and forge an entry
            fields = {
                "client": self._client(scope),
                "method": method,
                "path": path,
                "status": status,
                "ms": milliseconds,
            }
            words = (fields["client"] or "-", method, path, status, milliseconds)
            logger.info("%s %s %s %s %s ms", *words, extra={"fields": fields})

    def _client(self, scope: Scope) -> str:
        client = scope.get("client")
        address = str(client[0]) if client else ""
        if self._behind_proxy:
            forwarded = headers_of(scope).get(b"x-forwarded-for")
            address = (forwarded_address(forwarded) if forwarded else "") or address
        return address

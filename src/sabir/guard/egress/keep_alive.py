"""Connections that are kept for the next request, and that the server may close while they are idle.

Usual servers (uvicorn, Node, Apache) close a connection after 5 idle seconds. A client that keeps it as long sends some
requests at the very moment at which it is closed. So ours are kept for a shorter time. A request that such a connection
has swallowed is sent again only if that is safe: it was not completely written, or its method may be repeated.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeVar

import httpx2

IDLE_SECONDS: Final = 3.0
MAX_STALE: Final = 64  # connections that are tried in vain for one request
_REPEATABLE: Final = frozenset({"GET", "HEAD", "OPTIONS", "PUT", "DELETE"})
_LOST: Final = (httpx2.RemoteProtocolError, httpx2.ReadError, httpx2.WriteError)
R = TypeVar("R")


def kept_connections(connections: int | None, idle: int | None = None) -> httpx2.Limits:
    """Limits of a client with so many connections; of them, ``idle`` are kept for later requests."""
    kept = connections if idle is None else idle
    return httpx2.Limits(max_connections=connections, max_keepalive_connections=kept, keepalive_expiry=IDLE_SECONDS)


class LiveTransport(httpx2.AsyncHTTPTransport):
    """An HTTP transport that survives connections closed by the server while they were idle."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        return await on_live_connection(super().handle_async_request, request, _LOST, httpx2.ByteStream)


async def on_live_connection(
    send: Callable[[Any], Awaitable[R]], request: Any, lost: tuple[type[Exception], ...], whole: type
) -> R:
    """Send a request of httpx or httpx2, again if a kept connection turns out to be closed and that is safe.

    ``lost`` are the errors of a broken connection, and ``whole`` is the type of a body that can be sent again.
    """
    for _ in range(MAX_STALE):
        attempt = _Attempt()
        request.extensions = {**request.extensions, "trace": attempt}
        try:
            return await send(request)
        except lost:
            is_safe = attempt.is_cut or request.method in _REPEATABLE
            if attempt.is_new or not is_safe or not isinstance(request.stream, whole):
                raise
    return await send(request)


class _Attempt:
    """What httpcore reports while it sends a request."""

    __slots__ = ("is_cut", "is_new")

    def __init__(self) -> None:
        self.is_new = False  # whether a connection was opened for it
        self.is_cut = False  # whether it could not be written to the end

    async def __call__(self, event: str, info: Mapping[str, Any]) -> None:
        if event.startswith("connection.connect"):
            self.is_new = True
        elif event.endswith(".failed") and ".send_request" in event:
            self.is_cut = True

"""Connections that are kept for the next request, and that the server may close while they are idle.

Usual servers (uvicorn, Node, Apache) close a connection after 5 idle seconds. A client that keeps it as long sends some
requests at the very moment at which it is closed. So ours are kept for a shorter time. A request that such a connection
has swallowed is sent again only if that is safe: it was not completely written, or its method may be repeated.

A request that is cancelled while its pool closes other connections leaves these open: httpcore shields the closing
against anyio's cancellation only. So each transport remembers its sockets and closes the rest when it is closed itself.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeVar
from weakref import WeakSet

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

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._sockets = OpenSockets()

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        send = super().handle_async_request
        return await on_live_connection(send, request, _LOST, httpx2.ByteStream, self._sockets)

    async def aclose(self) -> None:
        await super().aclose()
        await self._sockets.aclose()

    async def __aexit__(self, *exc_info: object) -> None:
        await self.aclose()


class OpenSockets:
    """The sockets that a transport opened and that are still in use, as httpcore's streams."""

    def __init__(self) -> None:
        self._streams: WeakSet[Any] = WeakSet()

    def add(self, stream: Any) -> None:
        self._streams.add(stream)

    async def aclose(self) -> None:
        for stream in list(self._streams):
            await stream.aclose()  # does nothing if it is closed


async def on_live_connection(
    send: Callable[[Any], Awaitable[R]],
    request: Any,
    lost: tuple[type[Exception], ...],
    whole: type,
    sockets: OpenSockets,
) -> R:
    """Send a request of httpx or httpx2, again if a kept connection turns out to be closed and that is safe.

    ``lost`` are the errors of a broken connection, and ``whole`` is the type of a body that can be sent again. Sockets
    that are opened for it are added to ``sockets``.
    """
    for _ in range(MAX_STALE):
        attempt = _Attempt(sockets)
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

    __slots__ = ("is_cut", "is_new", "sockets")

    def __init__(self, sockets: OpenSockets) -> None:
        self.sockets = sockets
        self.is_new = False  # whether a connection was opened for it
        self.is_cut = False  # whether it could not be written to the end

    async def __call__(self, event: str, info: Mapping[str, Any]) -> None:
        if event.startswith("connection.connect"):
            self.is_new = True
            if event.endswith(".complete"):
                self.sockets.add(info["return_value"])
        elif event.endswith(".failed") and ".send_request" in event:
            self.is_cut = True

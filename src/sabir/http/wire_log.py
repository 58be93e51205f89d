"""The wire log: heads and bodies as they are sent and received, with credentials hidden."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from typing import Any, Final

import httpx2

from sabir.guard.egress.keep_alive import LiveTransport
from sabir.protocols.peer import OnWire

_HIDDEN: Final = frozenset({b"authorization", b"proxy-authorization", b"x-api-key", b"cookie", b"set-cookie"})


def head(line: bytes, headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """The head of a request or a response."""
    shown = [b"%s: %s" % (key, b"(hidden)" if key.lower() in _HIDDEN else value) for key, value in headers]
    return b"\r\n".join([line, *shown, b"", b""])


def request_head(request: Any) -> bytes:
    """The head of a request of httpx or httpx2, which are similar but distinct."""
    return head(b"%s %s HTTP/1.1" % (request.method.encode(), request.url.raw_path), request.headers.raw)


def response_head(response: Any) -> bytes:
    line = f"{response.http_version} {response.status_code} {response.reason_phrase}"
    return head(line.encode(), response.headers.raw)


class Watched(LiveTransport):
    """A transport that logs what passes through it."""

    def __init__(self, on_wire: OnWire, **options: Any) -> None:
        super().__init__(**options)
        self._on_wire = on_wire

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        self._on_wire("sent", request_head(request) + await request.aread())
        response = await super().handle_async_request(request)
        self._on_wire("received", response_head(response))
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        response.stream = _LoggedStream(response.stream, self._on_wire)
        return response


class _LoggedStream(httpx2.AsyncByteStream):
    def __init__(self, inner: httpx2.AsyncByteStream, on_wire: OnWire) -> None:
        self._inner = inner
        self._on_wire = on_wire

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self._inner:
            self._on_wire("received", piece)
            yield piece

    async def aclose(self) -> None:
        await self._inner.aclose()

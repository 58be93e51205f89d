"""HTTP+SSE, the transport of 2024-11-05, as the streams that the SDK's client uses.

The SDK's own transport is not used, because it closes the connection at a message of more than 1 MiB, which fails every
running call and counts as a failure of the server.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any, Final
from urllib.parse import urljoin, urlsplit

import anyio
import httpx2
from mcp.shared.message import SessionMessage

from .limits import EDGE, Lines, LongLine, message_in

ENDPOINT_SECONDS: Final = 10.0  # in which the server must name the address for messages
_MESSAGE: Final = b"message"  # the default name of an event
_HEADERS: Final = {"accept": "text/event-stream", "cache-control": "no-store"}


@asynccontextmanager
async def event_streams(url: str, http: httpx2.AsyncClient, limit: int) -> AsyncIterator[tuple[Any, Any]]:
    """Open the stream of a server; yields the streams for incoming and outgoing messages.

    Raises:
        httpx2.HTTPError: it cannot be reached, refuses, or does not name the address for messages.
    """
    async with http, http.stream("GET", url, headers=_HEADERS) as response:
        response.raise_for_status()
        server = _Server(url, http, response, limit)
        async with anyio.create_task_group() as group:
            try:
                group.start_soon(server.read)
                async with asyncio.timeout(ENDPOINT_SECONDS):
                    place = await server.endpoint
                group.start_soon(server.write, place)
                yield server.incoming, server.outgoing
            except TimeoutError:
                raise httpx2.RemoteProtocolError("it does not say where messages go") from None
            finally:
                server.close()
                group.cancel_scope.cancel()


class _Server:
    """The stream of one session, and the address for messages to it."""

    def __init__(self, url: str, http: httpx2.AsyncClient, response: httpx2.Response, limit: int) -> None:
        self._url = url
        self._http = http
        self._response = response
        self._limit = limit
        self._received, self.incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        self.outgoing, self._to_send = anyio.create_memory_object_stream[SessionMessage](0)
        self.endpoint: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def read(self) -> None:
        """Pass on the server's messages until its stream ends."""
        async with self._received:
            with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError, httpx2.HTTPError, EOFError):
                events = Events(self._limit)
                async for chunk in self._response.aiter_bytes():
                    for name, data in events.feed(chunk):
                        await self._take(name, data)
        if not self.endpoint.done():
            self.endpoint.set_exception(httpx2.RemoteProtocolError("it does not say where messages go"))

    async def _take(self, name: bytes, data: bytes | LongLine) -> None:
        if name == b"endpoint" and isinstance(data, bytes) and not self.endpoint.done():
            self.endpoint.set_result(self._within_origin(data))
        elif name == _MESSAGE and data:
            await self._received.send(message_in(data))

    def _within_origin(self, place: bytes) -> str:
        """Raises:
        httpx2.RemoteProtocolError: messages would go to another server.
        """
        endpoint = urljoin(self._url, place.decode("utf-8", "replace"))
        if urlsplit(endpoint)[:2] != urlsplit(self._url)[:2]:
            raise httpx2.RemoteProtocolError("it wants messages to go to another server")
        return endpoint

    async def write(self, place: str) -> None:
        try:
            async with self._to_send:
                async for item in self._to_send:
                    body = item.message.model_dump_json(by_alias=True, exclude_unset=True).encode()
                    response = await self._http.post(place, content=body, headers={"content-type": "application/json"})
                    response.raise_for_status()
        except httpx2.HTTPError:
            self._received.close()  # waiters learn that there will be no answer

    def close(self) -> None:
        for stream in (self.incoming, self.outgoing, self._received, self._to_send):
            stream.close()
        if not self.endpoint.done():
            self.endpoint.cancel()


class Events:
    """Splits a byte stream into events, each a name and its data."""

    def __init__(self, limit: int) -> None:
        self._lines = Lines(limit)
        self._data = _Data(limit)
        self._name = _MESSAGE

    def feed(self, chunk: bytes) -> list[tuple[bytes, bytes | LongLine]]:
        """The events that end in this chunk."""
        events = []
        for line in self._lines.feed(chunk):
            field = line if isinstance(line, LongLine) else line.removesuffix(b"\r")
            if isinstance(field, LongLine) or field.startswith(b"data:"):
                self._data.add(field)
            elif field.startswith(b"event:"):
                self._name = field[6:].strip()
            elif not field:
                events.append((self._name, self._data.take()))
                self._name = _MESSAGE
        return events


class _Data:
    """The data of one event. Over the limit, only both ends are kept."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._lines: list[bytes] = []
        self._size = 0
        self._long: LongLine | None = None

    def add(self, field: bytes | LongLine) -> None:
        if isinstance(field, LongLine):
            self._long = field
        if isinstance(field, LongLine) or self._long is not None:
            self._lines.clear()
            return
        line = field[5:].removeprefix(b" ")
        self._size += len(line) + 1
        self._lines.append(line)
        if self._size > self._limit + 1:
            self._long = LongLine(self._lines[0][:EDGE], line[-EDGE:], self._limit)
            self._lines.clear()

    def take(self) -> bytes | LongLine:
        data = self._long if self._long is not None else b"\n".join(self._lines)
        self._lines.clear()
        self._size, self._long = 0, None
        return data

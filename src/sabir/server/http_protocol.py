"""uvicorn's HTTP protocol, with additions.

- The subject of a verified client certificate, as the ASGI TLS extension names it.
- Limits on slow clients: a timeout for the head, a pause and a minimum rate for the body, an idle timeout.
- Limits on the head: its size, header count and HTTP version; and on the overhead of chunked coding.
- No ambiguity about where a request ends. Bytes are never changed before the parser sees them. A request that offers
  to upgrade to anything but WebSocket is read as if it did not (RFC 9110, 7.8), with its body. A request that is
  answered before its body was read closes its connection, so that the rest cannot be taken for the next request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final, cast
from urllib.parse import unquote

import httptools
import msgspec
from uvicorn._types import ASGI3Application
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.protocols.http.httptools_impl import (
    HEADER_RE,
    HEADER_VALUE_RE,
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)

from sabir.guard.identity.callers import subject_of

from .request_head import check_head

HEAD_SECONDS: Final = 20.0  # from the first byte, or from the connection, to the end of the headers
BODY_SECONDS: Final = 60.0  # between two pieces of a body
IDLE_SECONDS: Final = 75.0  # between a response and the next request
LINGER_SECONDS: Final = 5.0  # for the rest of a body whose request has been answered
MAX_LINGER: Final = 16 * 1024 * 1024  # bytes of it
GRACE_SECONDS: Final = 60.0  # of a body, before its average rate counts
MIN_RATE: Final = 500.0  # bytes of a body per second, on average
MAX_JOINED: Final = 64 * 1024  # bytes of a body that are copied to send them together with the head
MAX_KNOWN: Final = 256  # bytes of a request target that is cached
MAX_HEAD: Final = 64 * 1024  # bytes of an incomplete head; one that arrives in one piece may be slightly larger
MAX_FRAMING: Final = 64 * 1024  # bytes of chunk sizes, chunk extensions and trailers, besides eight per byte of content

_HEADERS_TOO_LONG: Final = (431, f"the headers are too long; at most {MAX_HEAD} bytes")
_SECOND_OFFER: Final = (400, "only the first of several requests may offer another protocol")
_BAD_FRAMING: Final = (400, "too many bytes of chunk extensions or trailers")
_NOT_HTTP: Final = (400, "the request is not valid HTTP")
_ERROR: Final = b'{"messagetype":"error","format":"text","subformat":"english","content":"%s"}'


def rejection(status: int, reason: str) -> bytes:
    """A whole response, as an NLIP error, to a request that reaches no door."""
    body = _ERROR % reason.encode()
    headers = b"content-type: application/json\r\nx-content-type-options: nosniff\r\nconnection: close\r\n"
    return b"%s%scontent-length: %d\r\n\r\n%s" % (STATUS_LINE[status], headers, len(body), body)


def client_of(transport: asyncio.BaseTransport) -> dict[str, Any]:
    """The ``tls`` extension of a connection: empty unless the client presented a verified certificate."""
    certificate = transport.get_extra_info("peercert")
    return {"tls": {"client_cert_name": subject_of(certificate)}} if certificate else {}


@lru_cache(maxsize=1024)
def _line(name: bytes, value: bytes) -> bytes:
    """A header as bytes, cached: most responses have the same few.

    Raises:
        RuntimeError: it contains characters that HTTP does not allow.
    """
    if HEADER_RE.search(name) or HEADER_VALUE_RE.search(value):
        raise RuntimeError("a header of the answer has characters that HTTP does not allow")
    return b"%s: %s\r\n" % (name.lower(), value)


@lru_cache(maxsize=256)
def _target(url: bytes) -> tuple[str, bytes, bytes]:
    """The path of a request target, decoded and raw, and the query."""
    parsed = httptools.parse_url(url)
    raw = parsed.path
    path = raw.decode("ascii")
    return unquote(path) if "%" in path else path, raw, parsed.query or b""


class Cycle(RequestResponseCycle):
    """One request and its response.

    It does what uvicorn's own does at half the cost: a body that has arrived is handed over without waiting for an
    event, and the head of a response is written together with the first piece of its body, in one system call. ASGI
    allows this: a response does not start before its first body message. A head without a length, as for a stream, is
    written in the next pass of the event loop, and so are the pieces of a stream.
    """

    # Values shared by most requests are class attributes; uvicorn sets them for each request.
    task: asyncio.Task[None] | None = None
    disconnected = response_started = response_complete = False
    more_body = True
    chunked_encoding = None
    expected_content_length = 0
    body: Any = b""  # arrived but not yet received by the application
    _news = False  # whether there is something to receive
    _event: asyncio.Event | None = None  # created when somebody waits
    _head: bytes | None = None  # of the response, until it is written
    _pieces = b""  # of a stream, until they are written

    def __init__(self, connection: Http, scope: Any, keep_alive: bool, expect_100_continue: bool) -> None:
        self.connection = connection
        self.scope = scope
        self.transport = connection.transport
        self.flow = connection.flow
        self.logger = connection.logger
        self.keep_alive = keep_alive
        self.waiting_for_100_continue = expect_100_continue

    @property
    def message_event(self) -> Cycle:  # type: ignore[override]
        """The event that uvicorn sets when there is something to receive."""
        return self

    def set(self) -> None:
        self._news = True
        if self._event is not None:
            self._event.set()

    def add(self, piece: bytes) -> None:
        """Add a piece of the body."""
        if not self.body:
            self.body = piece
        elif isinstance(self.body, bytearray):
            self.body += piece
        else:
            self.body = bytearray(self.body) + piece
        self.set()

    async def run_asgi(self, app: ASGI3Application) -> None:
        try:
            await app(self.scope, self.receive, self.send)
        except BaseException as exc:
            self.logger.error("Exception in ASGI application\n", exc_info=exc)
            await self._give_up()
        else:
            if not self.response_complete and not self.disconnected:
                self.logger.error("the application returned without a complete answer")
                await self._give_up()
        finally:
            if self.task is not None:
                self.connection.tasks.discard(self.task)
                self.task = None

    @property
    def _has_ended(self) -> bool:
        """Whether nothing more can be written to the connection."""
        return self.disconnected or self.transport.is_closing()

    async def _give_up(self) -> None:
        if self.response_complete:
            return  # the next request on this connection may be under way
        if self._head is not None:
            self.response_started = False  # nothing of the response was written
        if not self.response_started and not self._has_ended:
            self._head, self._pieces, self.chunked_encoding, self.expected_content_length = None, b"", None, 0
            await self.send_500_response()
        else:
            self.flush()
            self.connection.close()

    async def receive(self) -> Any:
        if self.waiting_for_100_continue and not self.transport.is_closing():
            self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            self.waiting_for_100_continue = False
        while not (self._news or self.disconnected or self.response_complete):
            self.flow.resume_reading()
            if self._event is None:
                self._event = asyncio.Event()
            self._event.clear()
            await self._event.wait()
        self._news = False
        if self.disconnected or self.response_complete:
            return {"type": "http.disconnect"}
        body, self.body = self.body, b""
        if self.more_body:
            self.flow.resume_reading()
        return {"type": "http.request", "body": bytes(body), "more_body": self.more_body}

    async def send(self, message: Any) -> None:
        if self.flow.write_paused and not self.disconnected:
            await self.flow.drain()
        if self.disconnected:
            return
        kind = message["type"]
        if not self.response_started:
            if kind != "http.response.start":
                raise RuntimeError(f"Expected ASGI message 'http.response.start', but got '{kind}'.")
            self._start(message["status"], message.get("headers", ()))
        elif self.response_complete:
            raise RuntimeError(f"Unexpected ASGI message '{kind}' sent, after response already completed.")
        elif kind != "http.response.body":
            raise RuntimeError(f"Expected ASGI message 'http.response.body', but got '{kind}'.")
        else:
            self._write(message.get("body", b""), more=message.get("more_body", False))

    def _start(self, status: int, headers: Iterable[tuple[bytes, bytes]]) -> None:
        """Build the head of the response."""
        self.waiting_for_100_continue = False
        if self.more_body:  # a response before the end of the body closes the connection
            self.keep_alive = False
            self.connection.owes_body = True
        lines = [STATUS_LINE[status], *(_line(*header) for header in self.connection.server_state.default_headers)]
        says_close = False
        for name, value in headers:
            lines.append(_line(name, value))
            name = name.lower()
            if name == b"content-length" and self.chunked_encoding is None:
                self.expected_content_length = int(value)
                self.chunked_encoding = False
            elif name == b"transfer-encoding" and value.lower() == b"chunked":
                self.expected_content_length = 0
                self.chunked_encoding = True
            elif name == b"connection" and b"close" in (token.strip().lower() for token in value.split(b",")):
                self.keep_alive, says_close = False, True
        if not self.keep_alive and not says_close:
            lines.append(b"connection: close\r\n")
        if self.chunked_encoding is None and self.scope["method"] != "HEAD" and status not in (204, 304):
            self.chunked_encoding = True
            lines.append(b"transfer-encoding: chunked\r\n")
        lines.append(b"\r\n")
        self._head = b"".join(lines)
        self.response_started = True
        if self.chunked_encoding:
            self.connection.loop.call_soon(self.flush)

    def flush(self) -> None:
        """Write whatever is ready: the head, and pieces of a stream; nothing if the connection has ended."""
        head, self._head = self._head, None
        pieces, self._pieces = self._pieces, b""
        if (head is not None or pieces) and not self._has_ended:
            self.transport.write((head or b"") + pieces)

    def _write(self, body: bytes, *, more: bool) -> None:
        """Write a piece of the response, preceded by the head if it is the first."""
        if self.scope["method"] == "HEAD":
            self.expected_content_length, body = 0, b""
        elif self.chunked_encoding:
            self._write_chunk(body, more=more)
            return
        elif len(body) > self.expected_content_length:
            raise RuntimeError("Response content longer than Content-Length")
        else:
            self.expected_content_length -= len(body)
        head, self._head = self._head, None
        if head is not None and len(body) > MAX_JOINED:
            self.transport.writelines((head, body))
        elif head is not None:
            self.transport.write(head + body)
        elif body:
            self.transport.write(body)
        if not more:
            self._end()

    def _write_chunk(self, body: bytes, *, more: bool) -> None:
        """Write a piece of a stream in the next pass of the event loop, with those that follow until then.

        Most streams end in the same pass as their last piece, and each write costs a system call.
        """
        if len(body) > MAX_JOINED:
            self.flush()
            self.transport.writelines((b"%x\r\n" % len(body), body, b"\r\n"))
        elif body:
            if more and self._head is None and not self._pieces:
                self.connection.loop.call_soon(self.flush)
            self._pieces += b"%x\r\n%s\r\n" % (len(body), body)
        if not more:
            self._pieces += b"0\r\n\r\n"
            self.flush()
            self._end()

    def _end(self) -> None:
        if self.expected_content_length != 0:
            raise RuntimeError("Response content shorter than Content-Length")
        self.response_complete = True
        self.set()
        if not self.keep_alive:
            self.connection.close()
        self.connection.on_response_complete()


class Http(HttpToolsProtocol):
    """One connection."""

    received = 0  # pieces of data received, to detect silence
    head = 0  # bytes of an incomplete head
    in_head = False
    ended_here = False  # whether the last piece of data contains the end of a request
    wire = 0  # bytes received for the body, with framing
    content = 0  # bytes of its content
    is_idle = False
    between = True  # whether the parser is between two requests
    is_left_out = False  # whether this request is parsed again without its upgrade offer
    owes_body = False  # whether the rest of a body is still to come although its request is answered
    certified: Mapping[str, Any] = MappingProxyType({})  # extensions that describe the client's certificate
    _rejected: tuple[int, str] | None = None  # why the parser was stopped
    _running: Cycle | None = None  # the request whose application was started last; later ones wait in ``pipeline``

    def data_received(self, data: bytes) -> None:
        self.received += 1
        self.is_idle = False
        if self.owes_body:
            self._discard(len(data))
            return
        self.ended_here = False
        self._feed(data)
        if self.in_head and not self.ended_here:
            self.head += len(data)
            if self.head > MAX_HEAD:
                self._reject(*_HEADERS_TOO_LONG)

    def close(self) -> None:
        """Close; if the client is still sending, close only our side, or a reset could destroy the response."""
        self.pipeline.clear()  # requests after the last response are not answered
        if not self.owes_body:
            self.transport.close()
        elif self.transport.can_write_eof() and not self.transport.is_closing():
            with suppress(OSError):  # the client has already closed
                self.transport.write_eof()

    def _discard(self, size: int) -> None:
        """Discard the rest of an unread body; disconnect a client that never stops sending."""
        self.wire += size
        if self.wire > MAX_LINGER:
            self.transport.abort()

    def _feed(self, data: bytes) -> None:
        """Parse the data; anything invalid ends the connection with a reason."""
        if not self.between:
            self.wire += len(data)
        try:
            try:
                self.parser.feed_data(data)
            except httptools.HttpParserUpgrade as offer:
                if self._should_upgrade():
                    self._upgrade()
                    return
                again = self._without_upgrade() + data[offer.args[0] :]
                self.parser.feed_data(again)
        except httptools.HttpParserUpgrade:
            self._reject(*_SECOND_OFFER)
        except httptools.HttpParserError:
            self._reject(*(self._rejected or _NOT_HTTP))
        else:
            if self.wire - self.content > MAX_FRAMING + 8 * self.content:
                self._reject(*_BAD_FRAMING)

    def _upgrade(self) -> None:
        """Switch to WebSocket, unless an earlier request is still running: its response would follow the 101."""
        if self.cycle is not None and not self.cycle.response_complete:
            self._reject(*_SECOND_OFFER)
        else:
            self.handle_websocket_upgrade()

    def _without_upgrade(self) -> bytes:
        """The parsed head without its upgrade offer, for a new parser.

        The old parser would take what follows for the other protocol. Java's HttpClient offers HTTP/2 with its first
        request, which may have a body.
        """
        lines = [b"%s %s HTTP/%s" % (self.parser.get_method(), self.url, self.parser.get_http_version().encode())]
        for name, value in self.headers:
            if name == b"connection":
                value = b", ".join(token for token in value.split(b",") if token.strip().lower() != b"upgrade")
            if name != b"upgrade":
                lines.append(name + b": " + value)
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
        self.between, self.wire = True, 0
        return b"\r\n".join(lines) + b"\r\n\r\n"

    def _reject(self, status: int, reason: str) -> None:
        """Answer a request that no door sees, and close the connection.

        If earlier requests are still running, they are answered and this one is not: responses carry no ids.
        """
        if self.transport.is_closing():
            return
        self.owes_body = True  # further data is not read
        earlier = self._earlier()
        if earlier is not None:
            earlier.keep_alive = False
            return
        cycle: Any = self.cycle
        if cycle is not None and not cycle.response_complete:
            cycle.disconnected = True
            cycle.set()
        self.transport.write(rejection(status, reason))
        self.close()

    def _earlier(self) -> Any:
        """The last unanswered request before the rejected one, which is forgotten if it waits in the pipeline."""
        cycle = self.cycle
        if cycle is None or cycle.response_complete:
            return None
        if cycle.response_started or not cycle.more_body:
            return cycle  # the rejected one is not there yet
        if not self.pipeline:
            return None  # it is the rejected one, and its application is running
        self.pipeline.popleft()
        self.cycle = self.pipeline[0][0] if self.pipeline else cast(Cycle, self._running)
        return self.cycle

    def connection_lost(self, exc: Exception | None) -> None:
        """As in uvicorn, but the running request is told even if others wait behind it."""
        self.pipeline.clear()
        running = self._running
        if running is not None and not running.response_complete:
            running.disconnected = True
            running.set()
        super().connection_lost(exc)

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        mine: Any = cycle
        mine.task = task = self.loop.create_task(cycle.run_asgi(app))
        self._running = mine
        self.tasks.add(task)

    # -- what the parser says -------------------------------------------------------------------

    def on_message_begin(self) -> None:
        self.url = b""
        self.expect_100_continue = False
        self.headers = []
        self.between = self.is_left_out = False
        self.in_head = True
        self.head = self.wire = self.content = 0

    def on_header(self, name: bytes, value: bytes) -> None:
        """As in uvicorn, but a trailer is never treated as a header."""
        if not self.in_head:
            return
        name = name.lower()
        if name == b"expect" and value.lower() == b"100-continue":
            self.expect_100_continue = True
        self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        parser = self.parser
        self.in_head = False
        self.wire = 0
        version, method = parser.get_http_version(), parser.get_method()
        rejected = self._rejected = check_head(self.headers, version, method)
        if rejected is not None:
            raise ValueError(rejected[1])
        path, raw_path, query = _target(self.url) if len(self.url) < MAX_KNOWN else _target.__wrapped__(self.url)
        scope: Any = {
            "type": "http",
            "asgi": {"version": self.asgi_version, "spec_version": "2.3"},
            "http_version": version,
            "server": self.server,
            "client": self.client,
            "scheme": self.scheme,
            "method": method.decode("ascii"),
            "root_path": self.root_path,
            "path": self.root_path + path,
            "raw_path": self.root_path.encode("ascii") + raw_path,
            "query_string": query,
            "headers": self.headers,
            "state": self.app_state.copy(),
        }
        self.scope = scope
        if self.certified:
            scope["extensions"] = dict(self.certified)
        if parser.should_upgrade():
            self.is_left_out = not self._should_upgrade()  # then the head is parsed again, without the offer
            return
        before = self.cycle
        keep_alive = version != "1.0" and parser.should_keep_alive()
        self.cycle = cycle = Cycle(self, scope, keep_alive, self.expect_100_continue)
        if before is None or before.response_complete:
            self._start_asgi_task(cycle, self.app)
        else:  # pipelined requests
            self.flow.pause_reading()
            self.pipeline.appendleft((cycle, self.app))

    def on_body(self, body: bytes) -> None:
        self.content += len(body)
        cycle: Any = self.cycle
        if self.is_left_out or cycle is None or cycle.response_complete:
            return
        cycle.add(body)
        if len(cycle.body) > HIGH_WATER_LIMIT:
            self.flow.pause_reading()

    def on_message_complete(self) -> None:
        self.between = self.ended_here = True
        self.wire = self.content = 0
        cycle: Any = self.cycle
        if self.is_left_out or cycle is None or cycle.response_complete:
            return
        cycle.more_body = False
        cycle.set()

    def on_response_complete(self) -> None:
        """No timer per response: ``SlowClientReaper`` finds idle connections."""
        if self.pipeline:
            super().on_response_complete()
            return
        self.server_state.total_requests += 1
        self.is_idle = True
        if self.flow.read_paused and not self.transport.is_closing():
            self.flow.resume_reading()

    def pending_state(self) -> tuple[object, ...] | None:
        """What the client still has to send, as a value that changes as data arrives; None if nothing."""
        cycle = self.cycle
        if self.owes_body and (cycle is None or cycle.response_complete or cycle.disconnected):
            return ("linger", id(cycle))
        if self.is_idle:
            return ("idle", self.received)
        if cycle is None or cycle.response_complete:
            return ("head", id(cycle))
        if cycle.more_body:
            return ("body", id(cycle), self.received)
        return None


class HttpWithCertificate(Http):
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.certified = client_of(transport)


class Body(msgspec.Struct):
    """A slow body: when it was first seen, and how much had arrived by then."""

    request: object
    since: float
    content: int


class SlowClientReaper:
    """Closes connections that are silent for too long while data is due, or that send a body too slowly.

    It sweeps periodically: a timer for every request would cost more than most attacks.
    """

    def __init__(
        self,
        head: float = HEAD_SECONDS,
        body: float = BODY_SECONDS,
        *,
        idle: float = IDLE_SECONDS,
        grace: float = GRACE_SECONDS,
        rate: float = MIN_RATE,
        every: int = 20,
    ) -> None:
        self.every = every  # server ticks of 0.1 s between two sweeps
        self._longest = {"head": head, "body": body, "idle": idle, "linger": LINGER_SECONDS}
        self._grace = grace
        self._rate = rate
        self._pending: dict[Http, tuple[tuple[object, ...], float]] = {}
        self._bodies: dict[Http, Body] = {}

    def sweep(self, connections: Iterable[object], now: float) -> int:
        """Close the overdue connections; returns how many."""
        pending: dict[Http, tuple[tuple[object, ...], float]] = {}
        bodies: dict[Http, Body] = {}
        ended = 0
        for connection in connections:
            state = connection.pending_state() if isinstance(connection, Http) else None
            if state is None or not isinstance(connection, Http):
                continue
            known, since = self._pending.get(connection, (None, now))
            since = since if known == state else now
            if now - since > self._longest[str(state[0])] or self._is_too_slow(connection, state, now, bodies):
                connection.transport.close() if connection.is_idle else connection.transport.abort()
                ended += 1
            else:
                pending[connection] = (state, since)
        self._pending, self._bodies = pending, bodies
        return ended

    def _is_too_slow(self, connection: Http, state: tuple[object, ...], now: float, bodies: dict[Http, Body]) -> bool:
        """Whether a body is below the minimum rate after its grace period."""
        if state[0] != "body":
            return False
        body = self._bodies.get(connection)
        if body is None or body.request != state[1]:
            body = Body(state[1], now, connection.content)
        bodies[connection] = body
        seconds = now - body.since
        return seconds > self._grace and connection.content - body.content < self._rate * seconds

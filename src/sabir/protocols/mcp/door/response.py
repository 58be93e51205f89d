"""The parts of streamable HTTP: a context, a session, a response, and the channel of one request.

The SDK's kernel reaches the client through the channel and the session.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import anyio
import msgspec
from mcp.server.connection import Connection
from mcp.shared.dispatcher import CallOptions
from mcp.shared.exceptions import MCPError, NoBackChannelError
from mcp.shared.message import ServerMessageMetadata
from mcp.shared.transport_context import TransportContext
from mcp_types import ProgressToken, RequestId
from starlette.types import Send

from sabir.errors import BadInput, BadMessage, NotFound, RateLimited, SabirError, Unauthenticated
from sabir.guard import Credentials
from sabir.guard.quotas.rates import Rates, rate_limit_key
from sabir.http.admission import Admission
from sabir.http.response import refusal_headers, send_empty, send_events, send_json, start_events
from sabir.protocols.mcp.wire import content as wire
from sabir.turn import Caller

DOOR: Final = "mcp"
WATCH_AFTER: Final = 0.1  # seconds; most requests end before a client could disconnect
REPLY_SECONDS: Final = 600.0  # how long a client may take to answer a question
encode: Final = msgspec.json.Encoder().encode


@dataclass(slots=True)
class McpRequestContext:
    """The caller, and what the kernel's handlers need to know about the request."""

    credentials: Credentials
    caller: Caller
    state: dict[str, Any] = field(default_factory=dict)  # of the session: log level, subscriptions
    trace: str | None = None
    hops: int = 0
    refused: SabirError | None = None  # why it was rejected, for the HTTP status
    admission: Admission | None = None  # None: whoever started this process
    session: McpSession | None = None

    def charge(self, rates: Rates) -> None:
        """Charge a request that is answered here, once; the exchange charges turns.

        Raises:
            RateLimited: over the rate.
        """
        if self.admission is not None:
            if self.admission.charged:
                return
            self.admission.charged = True
        rates.check(self.caller)


class McpSession:
    """A session of a version that has them, while it is in memory here."""

    def __init__(self, session_id: str, caller: Caller, connection: Connection) -> None:
        self.id = session_id
        self.owner = caller.id
        # Anonymous callers share one id, so their address distinguishes them.
        self.holder = rate_limit_key(caller.address) if caller.is_anonymous else caller.id
        self.connection = connection
        self.state: dict[str, Any] = {}
        self.running: dict[str, tuple[asyncio.Task[Any] | None, Channel]] = {}
        self.stream: asyncio.Queue[bytes] | None = None
        self._asked: dict[str, asyncio.Future[dict[str, Any]]] = {}
        self._number = 0
        connection.outbound = self

    # The SDK's Outbound: messages without a request go to the stream that the client opened with GET.

    async def notify(self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None) -> None:
        if self.stream is not None and self.stream.qsize() < 1024:
            self.stream.put_nowait(sse(notification(method, params)))

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> dict[str, Any]:
        raise NoBackChannelError(method)

    # -- asking the client ------------------------------------------------------------------------

    def ask(self) -> tuple[str, asyncio.Future[dict[str, Any]]]:
        """A new id for a request to the client, and the future of its answer."""
        self._number += 1
        request_id = f"sabir-{self._number}"
        future = self._asked[request_id] = asyncio.get_running_loop().create_future()
        return request_id, future

    def forget(self, request_id: str) -> None:
        self._asked.pop(request_id, None)

    def answered(self, message: Mapping[str, Any]) -> None:
        """Handle the client's response to one of our requests; an unknown one is dropped."""
        future = self._asked.pop(str(message.get("id")), None)
        if future is None or future.done():
            return
        error = message.get("error")
        if isinstance(error, dict):
            code = error.get("code")
            exc = MCPError(code if isinstance(code, int) else wire.INTERNAL_ERROR, str(error.get("message", "")))
            future.set_exception(exc)
        else:
            result = message.get("result")
            future.set_result(result if isinstance(result, dict) else {})


class McpResponse:
    """The response to one POST: one JSON object, or a stream if anything is sent before the last."""

    __slots__ = ("_admission", "_challenge", "_send", "begun", "headers", "sent", "streams")

    def __init__(
        self,
        send: Send,
        challenge: Callable[[Unauthenticated], str] | None = None,
        admission: Admission | None = None,
    ) -> None:
        self._send = send if admission is None else admission.with_rate_limit_headers(send)
        self._challenge = challenge
        self._admission = admission
        self.begun = False
        self.sent = False
        self.streams = True
        self.headers: list[tuple[bytes, bytes]] = []

    async def event(self, message: Mapping[str, Any]) -> None:
        if self.sent or not self.streams:
            return
        await self._begin()
        await send_events(self._send, sse(message))

    async def _begin(self) -> None:
        if not self.begun:
            self.begun = True
            await start_events(self._send, self.headers)

    async def last(self, message: Mapping[str, Any] | None, status: int = 200) -> None:
        """Send the final object; None ends without one."""
        if self.sent:
            return
        self.sent = True
        if self.begun or message is None:
            await self._begin()
            body = sse(message) if message is not None else b""
            await send_events(self._send, body, last=True)
        else:
            await self.whole(status, encode(message))

    async def whole(self, status: int, body: bytes = b"") -> None:
        self.sent = self.begun = True
        if body:
            await send_json(self._send, status, body, self.headers)
        else:
            await send_empty(self._send, status, self.headers)

    def charge(self) -> None:
        """Charge a request that is rejected, unless it was charged.

        Raises:
            RateLimited: over the rate.
        """
        if self._admission is not None:
            self._admission.charge()

    async def refuse(self, exc: SabirError, request_id: RequestId | None = None) -> None:
        """Send a failure as a JSON-RPC error with its HTTP status; in a stream, as its last event."""
        if isinstance(exc, NotFound):
            try:
                self.charge()
            except RateLimited as over:
                exc = over
        if self._admission is not None:
            exc = await self._admission.rejected(exc)
        if isinstance(exc, Unauthenticated) and self._challenge is not None:
            exc = Unauthenticated(exc.reason, self._challenge(exc))
        self.headers.extend(refusal_headers(exc))
        error = wire.error_of(exc)
        if request_id is None and type(exc) is BadMessage:
            error["code"] = wire.INVALID_REQUEST  # it was not yet a request with parameters
        message = {"jsonrpc": "2.0", "id": request_id, "error": error}
        default = 400 if isinstance(exc, BadInput) else 404 if isinstance(exc, NotFound) else 200
        await self.last(message, wire.STATUS.get(type(exc), default))

    def is_sent(self) -> bool:
        return self.sent

    async def comment(self, body: bytes) -> None:
        """Keep the stream alive; if the response has not started, it becomes a stream."""
        if not self.sent and self.streams:
            await self._begin()
            await send_events(self._send, body)


class Channel:
    """The SDK's DispatchContext for one request: messages sent during its handling go to its own stream."""

    __slots__ = ("_answer", "_cancelled", "_session", "message_metadata", "progress_token", "request_id", "transport")

    def __init__(
        self, answer: McpResponse, request_id: RequestId, context: McpRequestContext, token: ProgressToken | None
    ) -> None:
        self._answer = answer
        self._session = context.session
        self._cancelled: anyio.Event | None = None
        self.request_id: RequestId | None = request_id
        self.progress_token = token
        self.message_metadata = ServerMessageMetadata(request_context=context)
        self.transport = _TWO_WAY if self.can_send_request else _ONE_WAY

    @property
    def can_send_request(self) -> bool:
        return self._session is not None and self._answer.streams and not self._answer.sent

    @property
    def cancel_requested(self) -> anyio.Event:
        if self._cancelled is None:
            self._cancelled = anyio.Event()
        return self._cancelled

    async def notify(self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None) -> None:
        await self._answer.event(notification(method, params))

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        if self.progress_token is not None:
            said = {"progressToken": self.progress_token, "progress": progress, "total": total, "message": message}
            await self.notify("notifications/progress", {k: v for k, v in said.items() if v is not None})

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> dict[str, Any]:
        if self._session is None or not self.can_send_request:
            raise NoBackChannelError(method)
        request_id, answer = self._session.ask()
        try:
            await self._answer.event(
                {"jsonrpc": "2.0", "id": request_id, "method": method, "params": dict(params or {})}
            )
            async with asyncio.timeout((opts or {}).get("timeout", REPLY_SECONDS)):
                return await answer
        except TimeoutError:
            raise MCPError(wire.INTERNAL_ERROR, f"the client did not answer {method} in time") from None
        finally:
            self._session.forget(request_id)


_TWO_WAY: Final = TransportContext(kind="streamable-http", can_send_request=True)
_ONE_WAY: Final = TransportContext(kind="streamable-http", can_send_request=False)


def notification(method: str, params: Mapping[str, Any] | None) -> dict[str, Any]:
    message: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
    if params is not None:
        message["params"] = dict(params)
    return message


def sse(message: Mapping[str, Any]) -> bytes:
    return b"event: message\r\ndata: %s\r\n\r\n" % encode(message)


class _Silent:
    """The Outbound of a connection before it has a session."""

    async def notify(self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None) -> None:
        return None

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> dict[str, Any]:
        raise NoBackChannelError(method)


SILENT: Final = _Silent()

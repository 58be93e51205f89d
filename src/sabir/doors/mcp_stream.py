"""The pieces of streamable HTTP: a visit, a session, an answer, and the channel of one request.

The channel and the session are what the SDK's kernel speaks to the client through.
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
from starlette.types import Receive, Send

from ..errors import BadInput, BadMessage, NotFound, SabirError, Unauthenticated
from ..guard import Credentials
from ..turn import Caller
from ..wire import mcp as wire
from .base import refusal_headers
from .visitor import Visitor

DOOR: Final = "mcp"
WATCH_AFTER: Final = 0.1  # seconds; most requests are over before anyone could go away
PING_SECONDS: Final = 15.0  # a stream that is silent for so long says that it is still there
REPLY_SECONDS: Final = 600.0  # how long a client may take to answer what it is asked
encode: Final = msgspec.json.Encoder().encode


@dataclass(slots=True)
class Visit:
    """Who is asking, and what the kernel's handlers need to know of the request around a method."""

    credentials: Credentials
    caller: Caller
    state: dict[str, Any] = field(default_factory=dict)  # of the session: log level, subscriptions
    trace: str | None = None
    hops: int = 0
    refused: SabirError | None = None  # why it was refused, for the HTTP status
    visitor: Visitor | None = None  # None: whoever started this process
    session: Session | None = None


class Session:
    """A session of a version that has them, while it lives here."""

    def __init__(self, id: str, owner: str, connection: Connection) -> None:
        self.id = id
        self.owner = owner
        self.connection = connection
        self.state: dict[str, Any] = {}
        self.running: dict[str, tuple[asyncio.Task[Any] | None, Channel]] = {}
        self.stream: asyncio.Queue[bytes] | None = None
        self._asked: dict[str, asyncio.Future[dict[str, Any]]] = {}
        self._number = 0
        connection.outbound = self

    # The SDK's Outbound: what belongs to no request goes down the stream that the client opened with GET.

    async def notify(self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None) -> None:
        if self.stream is not None and self.stream.qsize() < 1024:
            self.stream.put_nowait(sse(notification(method, params)))

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> dict[str, Any]:
        raise NoBackChannelError(method)

    # -- asking the client ------------------------------------------------------------------------

    def ask(self) -> tuple[str, asyncio.Future[dict[str, Any]]]:
        """A new id for a request to the client, and where its answer will be."""
        self._number += 1
        id = f"sabir-{self._number}"
        future = self._asked[id] = asyncio.get_running_loop().create_future()
        return id, future

    def forget(self, id: str) -> None:
        self._asked.pop(id, None)

    def answered(self, message: Mapping[str, Any]) -> None:
        """The client's response to one of our requests; an unknown one is dropped."""
        future = self._asked.pop(str(message.get("id")), None)
        if future is None or future.done():
            return
        error = message.get("error")
        if isinstance(error, dict):
            code = error.get("code")
            wrong = MCPError(code if isinstance(code, int) else wire.INTERNAL_ERROR, str(error.get("message", "")))
            future.set_exception(wrong)
        else:
            result = message.get("result")
            future.set_result(result if isinstance(result, dict) else {})


class Answer:
    """The response to one POST: one JSON object, or a stream of them if anything comes ahead of the last."""

    __slots__ = ("_challenge", "_send", "_visitor", "begun", "headers", "sent", "streams")

    def __init__(
        self,
        send: Send,
        challenge: Callable[[Unauthenticated], str] | None = None,
        visitor: Visitor | None = None,
    ) -> None:
        self._send = send if visitor is None else visitor.telling(send)
        self._challenge = challenge
        self._visitor = visitor
        self.begun = False
        self.sent = False
        self.streams = True
        self.headers: list[tuple[bytes, bytes]] = []

    async def event(self, message: Mapping[str, Any]) -> None:
        if self.sent or not self.streams:
            return
        await self._begin()
        await self._send({"type": "http.response.body", "body": sse(message), "more_body": True})

    async def _begin(self) -> None:
        if not self.begun:
            self.begun = True
            headers = [
                (b"content-type", b"text/event-stream"),
                (b"cache-control", b"no-cache, no-transform"),
                (b"x-accel-buffering", b"no"),
                *self.headers,
            ]
            await self._send({"type": "http.response.start", "status": 200, "headers": headers})

    async def last(self, message: Mapping[str, Any] | None, status: int = 200) -> None:
        """The final object; None ends without one."""
        if self.sent:
            return
        self.sent = True
        if self.begun or message is None:
            await self._begin()
            body = sse(message) if message is not None else b""
            await self._send({"type": "http.response.body", "body": body, "more_body": False})
        else:
            await self.whole(status, encode(message))

    async def whole(self, status: int, body: bytes = b"") -> None:
        self.sent = self.begun = True
        headers = [(b"content-length", str(len(body)).encode()), *self.headers]
        if body:
            headers.append((b"content-type", b"application/json"))
        await self._send({"type": "http.response.start", "status": status, "headers": headers})
        await self._send({"type": "http.response.body", "body": body})

    async def refuse(self, wrong: SabirError, id: RequestId | None = None) -> None:
        """A failure as a JSON-RPC error with its HTTP status; in a stream, as its last event."""
        if self._visitor is not None:
            await self._visitor.refused(wrong)
        if isinstance(wrong, Unauthenticated) and self._challenge is not None:
            wrong = Unauthenticated(wrong.reason, self._challenge(wrong))
        self.headers.extend(refusal_headers(wrong))
        error = wire.error_of(wrong)
        if id is None and type(wrong) is BadMessage:
            error["code"] = wire.INVALID_REQUEST  # it was no request yet whose parameters could be wrong
        message = {"jsonrpc": "2.0", "id": id, "error": error}
        default = 400 if isinstance(wrong, BadInput) else 404 if isinstance(wrong, NotFound) else 200
        await self.last(message, wire.STATUS.get(type(wrong), default))

    async def ping(self) -> None:
        if not self.sent and self.streams:
            await self._begin()
            await self._send({"type": "http.response.body", "body": b": still here\r\n\r\n", "more_body": True})


class Attendance:
    """Watches a request that takes a while: its stream is kept alive, and it ends when its client goes away."""

    __slots__ = ("_answer", "_receive", "_task", "_timer", "_watching", "gone")

    def __init__(self, receive: Receive, answer: Answer) -> None:
        self.gone = False
        self._receive = receive
        self._answer = answer
        self._task = asyncio.current_task()
        self._watching: asyncio.Task[None] | None = None
        self._timer = asyncio.get_running_loop().call_later(WATCH_AFTER, self._start)

    def _start(self) -> None:
        self._watching = asyncio.get_running_loop().create_task(self._watch())

    async def _watch(self) -> None:
        kind = ""
        while kind != "http.disconnect":
            try:
                async with asyncio.timeout(PING_SECONDS):
                    kind = (await self._receive())["type"]
            except TimeoutError:
                await self._answer.ping()
        if not self._answer.sent and self._task is not None:
            self.gone = True
            self._task.cancel("the client went away")

    def stop(self) -> None:
        self._timer.cancel()
        if self._watching is not None:
            self._watching.cancel()


class Channel:
    """The SDK's DispatchContext for one request: what is said while it is handled goes onto its own stream."""

    __slots__ = ("_answer", "_cancelled", "_session", "message_metadata", "progress_token", "request_id", "transport")

    def __init__(self, answer: Answer, id: RequestId, visit: Visit, token: ProgressToken | None) -> None:
        self._answer = answer
        self._session = visit.session
        self._cancelled: anyio.Event | None = None
        self.request_id: RequestId | None = id
        self.progress_token = token
        self.message_metadata = ServerMessageMetadata(request_context=visit)
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
        id, answer = self._session.ask()
        try:
            await self._answer.event({"jsonrpc": "2.0", "id": id, "method": method, "params": dict(params or {})})
            async with asyncio.timeout((opts or {}).get("timeout", REPLY_SECONDS)):
                return await answer
        except TimeoutError:
            raise MCPError(wire.INTERNAL_ERROR, f"the client did not answer {method} in time") from None
        finally:
            self._session.forget(id)


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

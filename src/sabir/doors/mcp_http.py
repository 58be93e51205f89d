"""MCP over streamable HTTP: one entrance for every version of the protocol.

Framing, sessions, streams and refusals are here; what a method means is the SDK's kernel with our handlers
(``mcp_offer``). Up to 2025-11-25 a session is a sealed token: any node, and this one after a restart, opens it;
what lives only in memory is its open streams, its log level and its subscriptions. From 2026-07-28 on there are
no sessions. A request is answered in JSON, unless something is to be said before its answer: then it is a stream.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import anyio
import msgspec
from mcp.server.connection import Connection
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.runner import ServerRunner
from mcp.shared.dispatcher import CallOptions
from mcp.shared.exceptions import MCPError, NoBackChannelError
from mcp.shared.inbound import (
    ERROR_CODE_HTTP_STATUS,
    InboundLadderRejection,
    classify_inbound_request,
    find_duplicated_routing_header,
    unsupported_protocol_version_rejection,
    validate_mcp_param_headers,
)
from mcp.shared.jsonrpc_dispatcher import progress_token_from_params
from mcp.shared.message import ServerMessageMetadata
from mcp.shared.transport_context import TransportContext
from mcp_types import (
    DEFAULT_NEGOTIATED_VERSION,
    HEADER_MISMATCH,
    ErrorData,
    InitializeRequestParams,
    ProgressToken,
    RequestId,
)
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from pydantic import ValidationError
from starlette.types import Receive, Scope, Send

from ..errors import (
    BadInput,
    BadMediaType,
    BadMessage,
    BadMethod,
    NotFound,
    SabirError,
    TooBig,
    Unauthenticated,
    Unreadable,
)
from ..guard import Credentials
from ..turn import Caller
from ..wire import mcp as wire
from ..wire.rules import depth_of
from .base import House, credentials_of
from .nlip_http import refusal_headers

DOOR: Final = "mcp"
WATCH_AFTER: Final = 0.1  # seconds; most requests are over before anyone could go away
PING_SECONDS: Final = 15.0  # a stream that is silent for so long says that it is still there
MOST_SESSIONS: Final = 10_000  # kept in memory; a sealed one that was dropped is opened again when it comes back
REPLY_SECONDS: Final = 600.0  # how long a client may take to answer what it is asked
_SEALED: Final = "mcp-session"
_VERSION: Final = "mcp-protocol-version"
_SESSION: Final = "mcp-session-id"
_encode = msgspec.json.Encoder().encode
_EVERYTHING_CHANGES: Final = NotificationOptions(True, True, True)


@dataclass(slots=True)
class Visit:
    """Who is asking, and what the kernel's handlers need to know of the request around a method."""

    credentials: Credentials
    caller: Caller
    state: dict[str, Any] = field(default_factory=dict)  # of the session: log level, subscriptions
    trace: str | None = None
    hops: int = 0
    refused: SabirError | None = None  # why it was refused, for the HTTP status
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
            self.stream.put_nowait(_event(_notification(method, params)))

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

    __slots__ = ("_challenge", "_send", "begun", "headers", "sent", "streams")

    def __init__(self, send: Send, challenge: Callable[[Unauthenticated], str] | None = None) -> None:
        self._send = send
        self._challenge = challenge
        self.begun = False
        self.sent = False
        self.streams = True
        self.headers: list[tuple[bytes, bytes]] = []

    async def event(self, message: Mapping[str, Any]) -> None:
        if self.sent or not self.streams:
            return
        await self._begin()
        await self._send({"type": "http.response.body", "body": _event(message), "more_body": True})

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
            body = _event(message) if message is not None else b""
            await self._send({"type": "http.response.body", "body": body, "more_body": False})
        else:
            await self.whole(status, _encode(message))

    async def whole(self, status: int, body: bytes = b"") -> None:
        self.sent = self.begun = True
        headers = [(b"content-length", str(len(body)).encode()), *self.headers]
        if body:
            headers.append((b"content-type", b"application/json"))
        await self._send({"type": "http.response.start", "status": status, "headers": headers})
        await self._send({"type": "http.response.body", "body": body})

    async def refuse(self, wrong: SabirError, id: RequestId | None = None) -> None:
        """A failure as a JSON-RPC error with its HTTP status; in a stream, as its last event."""
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
        await self._answer.event(_notification(method, params))

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


def _notification(method: str, params: Mapping[str, Any] | None) -> dict[str, Any]:
    message: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
    if params is not None:
        message["params"] = dict(params)
    return message


def _event(message: Mapping[str, Any]) -> bytes:
    return b"event: message\r\ndata: %s\r\n\r\n" % _encode(message)


FindServer = Callable[[str, Caller], Server[Any]]
FindSchema = Callable[[str, str], Mapping[str, Any] | None]  # path, tool → its input schema, if headers matter to it

Challenge = Callable[[Unauthenticated, str], str]  # with the path that was asked for


class Entrance:
    """The ASGI application behind ``/mcp`` and ``/mcp/{agent}``."""

    def __init__(self, house: House, find: FindServer, schema: FindSchema, challenge: Challenge) -> None:
        self.house = house
        self._challenge = challenge
        self._find = find
        self._schema = schema
        self.sessions: OrderedDict[str, Session] = OrderedDict()
        self._ended: OrderedDict[str, None] = OrderedDict()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = Answer(send, lambda wrong: self._challenge(wrong, scope["path"]))
        try:
            headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
            credentials = credentials_of(scope, behind_proxy=self.house.behind_proxy)
            caller = await self.house.guard.identity.caller(credentials)
            visit = Visit(
                Credentials(credentials.address, caller=caller),
                caller,
                trace=headers.get("traceparent", "")[:64] or None,
            )
            hops = headers.get("x-sabir-hops", "")
            visit.hops = int(hops) if hops.isdigit() and len(hops) < 4 else 0
            server = self._find(scope["path"], caller)
            modern = headers.get(_VERSION) not in (None, *HANDSHAKE_PROTOCOL_VERSIONS)
            match scope["method"]:
                case "POST":
                    body = await self._body(receive, headers)
                    serve = self._modern if modern else self._legacy
                    await serve(server, visit, headers, body, scope, receive, answer)
                case "GET" if not modern:
                    await self._listen(self._session(server, visit, headers), receive, send)
                case "DELETE" if not modern:
                    await self._end(self._session(server, visit, headers), answer)
                case _:
                    raise BadMethod("mcp", "method", "POST" if modern else "GET, POST, DELETE")
        except SabirError as wrong:
            await answer.refuse(wrong)

    # -- the body ---------------------------------------------------------------------------------

    async def _body(self, receive: Receive, headers: Mapping[str, str]) -> Any:
        if headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            raise BadMediaType("mcp", "Content-Type", "application/json")
        if headers.get("content-encoding", "identity") != "identity":
            raise BadMediaType("mcp", "Content-Encoding", "identity")
        limits = self.house.limits
        length = headers.get("content-length", "")
        if length.isdigit() and (len(length) > 18 or int(length) > limits.body):
            raise TooBig("mcp", "$", f"at most {limits.body} bytes")
        body = bytearray()
        more = True
        while more:
            packet = await receive()
            if packet["type"] == "http.disconnect":
                raise Unreadable("mcp", "$", "the whole body")
            body += packet.get("body", b"")
            more = packet.get("more_body", False)
            if len(body) > limits.body:
                raise TooBig("mcp", "$", f"at most {limits.body} bytes")
        try:
            value = msgspec.json.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise Unreadable("mcp", "$", "one JSON-RPC message") from None
        if body.count(b"{") + body.count(b"[") > limits.depth and depth_of(value, limits.depth) > limits.depth:
            raise Unreadable("mcp", "$", f"at most {limits.depth} levels of nesting")
        return value

    # -- 2026-07-28: each request is whole ----------------------------------------------------------

    async def _modern(
        self,
        server: Server[Any],
        visit: Visit,
        headers: Mapping[str, str],
        body: Any,
        scope: Scope,
        receive: Receive,
        answer: Answer,
    ) -> None:
        if not isinstance(body, dict):
            raise _not_one_message()
        id = body.get("id")
        if "id" not in body:
            if not isinstance(body.get("method"), str):
                raise _not_one_message()
            rejection = unsupported_protocol_version_rejection(headers.get(_VERSION, ""))
            return await (answer.whole(202) if rejection is None else _reject(answer, rejection, None))
        if not _is_request(body):
            raise _not_one_message()
        answer.streams = _streams(headers)
        doubled = find_duplicated_routing_header((n.decode("latin-1"), "") for n, _ in scope["headers"])
        if doubled is not None:
            return await _reject(answer, InboundLadderRejection(HEADER_MISMATCH, f"{doubled} is there twice"), id)
        verdict = classify_inbound_request(body, headers=headers)
        if isinstance(verdict, InboundLadderRejection):
            return await _reject(answer, verdict, id)
        params = body["params"]
        if body["method"] == "tools/call" and isinstance(params.get("name"), str):
            schema = self._schema(scope["path"], params["name"])
            given = params.get("arguments") or {}
            if schema is not None and isinstance(given, dict):
                wrong = validate_mcp_param_headers(schema, given, headers)
                if wrong is not None:
                    return await _reject(answer, wrong, id)
        connection = Connection.from_envelope(
            verdict.protocol_version, verdict.client_info, verdict.client_capabilities
        )
        runner = ServerRunner(server, connection, None)
        return await self._run(runner, visit, body, receive, answer, ERROR_CODE_HTTP_STATUS)

    # -- up to 2025-11-25: initialize, then a session -------------------------------------------------

    async def _legacy(
        self,
        server: Server[Any],
        visit: Visit,
        headers: Mapping[str, str],
        body: Any,
        scope: Scope,
        receive: Receive,
        answer: Answer,
    ) -> None:
        if not isinstance(body, dict):
            raise _not_one_message()
        answer.streams = _streams(headers)
        if body.get("method") == "initialize" and _is_request(body):
            return await self._initialize(server, visit, body, receive, answer)
        version = headers.get(_VERSION, DEFAULT_NEGOTIATED_VERSION)
        if _SESSION in headers:
            session = visit.session = self._session(server, visit, headers)
            visit.state, connection = session.state, session.connection
        else:
            connection = Connection.from_envelope(version, None, None)
        if "method" not in body and ("result" in body or "error" in body):
            if visit.session is not None:
                visit.session.answered(body)
            return await answer.whole(202)
        runner = ServerRunner(server, connection, None)
        if "id" in body:
            if not _is_request(body):
                raise _not_one_message()
            return await self._run(runner, visit, body, receive, answer, {})
        return await self._notified(runner, visit, body, answer)

    async def _notified(self, runner: ServerRunner[Any], visit: Visit, body: Mapping[str, Any], answer: Answer) -> None:
        method, params = body.get("method"), body.get("params")
        if not isinstance(method, str) or not (params is None or isinstance(params, dict)):
            raise _not_one_message()
        if method == "notifications/cancelled" and visit.session is not None:
            running = visit.session.running.get(str((params or {}).get("requestId")))
            if running is not None and running[0] is not None:
                running[1].cancel_requested.set()
                running[0].cancel("taken back by the client")
        channel = Channel(answer, 0, visit, None)
        channel.request_id = None
        await runner.on_notify(channel, method, params)
        await answer.whole(202)

    async def _initialize(
        self, server: Server[Any], visit: Visit, body: dict[str, Any], receive: Receive, answer: Answer
    ) -> None:
        connection = Connection.for_loop(_SILENT)
        options = server.create_initialization_options(_EVERYTHING_CHANGES)
        runner = ServerRunner(server, connection, None, init_options=options)
        self.house.guard.rates.check(visit.caller)

        def name_session() -> None:
            client = connection.client_params
            if client is not None:
                session = self._open(visit.caller, connection, client)
                answer.headers.append((b"mcp-session-id", session.id.encode()))

        await self._run(runner, visit, body, receive, answer, {}, before_last=name_session)

    def _open(self, caller: Caller, connection: Connection, client: InitializeRequestParams) -> Session:
        # Only what a later request is judged by: a client's name may be long, and the header carries it each time.
        about = {
            "v": connection.protocol_version,
            "c": client.capabilities.model_dump(mode="json", by_alias=True, exclude_none=True),
            "n": client.client_info.name[:64],
        }
        id = self.house.guard.seal.seal(_SEALED, _encode(about), caller.id)
        connection.session_id = id
        connection.initialized.set()
        return self._keep(Session(id, caller.id, connection))

    def _keep(self, session: Session) -> Session:
        self.sessions[session.id] = session
        while len(self.sessions) > MOST_SESSIONS:
            self.sessions.popitem(last=False)
        return session

    def _session(self, server: Server[Any], visit: Visit, headers: Mapping[str, str]) -> Session:
        """The session that a request names: alive here, or opened from its seal.

        Raises:
            NotFound: it has ended, or is not this caller's.
        """
        id = headers.get(_SESSION)
        if id is None:
            raise BadMessage("mcp", "Mcp-Session-Id", "the session that initialize gave")
        live = self.sessions.get(id)
        if live is not None and live.owner == visit.caller.id:
            self.sessions.move_to_end(id)
            return live
        sealed = self.house.guard.seal.open(_SEALED, id, visit.caller.id)
        if sealed is None or id in self._ended:
            raise NotFound("there is no such session; begin a new one with initialize")
        about = msgspec.json.decode(sealed)
        info = {"name": about["n"], "version": ""}
        client = {"protocolVersion": about["v"], "capabilities": about["c"], "clientInfo": info}
        connection = Connection(
            _SILENT,
            protocol_version=about["v"],
            session_id=id,
            client_params=InitializeRequestParams.model_validate(client),
        )
        connection.initialized.set()
        return self._keep(Session(id, visit.caller.id, connection))

    # -- one request ------------------------------------------------------------------------------

    async def _run(
        self,
        runner: ServerRunner[Any],
        visit: Visit,
        body: dict[str, Any],
        receive: Receive,
        answer: Answer,
        statuses: Mapping[int, int],
        before_last: Callable[[], None] | None = None,
    ) -> None:
        id, method, params = body["id"], body["method"], body.get("params")
        channel = Channel(answer, id, visit, progress_token_from_params(params))
        running = visit.session.running if visit.session is not None else {}
        running[str(id)] = (asyncio.current_task(), channel)
        watch = Attendance(receive, answer)
        try:
            result = await runner.on_request(channel, method, params)
            if before_last is not None:
                before_last()
            await answer.last({"jsonrpc": "2.0", "id": id, "result": result})
        except (MCPError, ValidationError) as wrong:
            if visit.refused is not None:
                await answer.refuse(visit.refused, id)
            else:
                error = _error_data(wrong)
                message = {"jsonrpc": "2.0", "id": id, "error": error}
                await answer.last(message, statuses.get(error["code"], 200))
        except SabirError as wrong:
            await answer.refuse(wrong, id)
        except asyncio.CancelledError:
            if not watch.gone and not channel.cancel_requested.is_set():
                raise
            await self._taken_back(answer, watch.gone)
        finally:
            watch.stop()
            running.pop(str(id), None)

    async def _taken_back(self, answer: Answer, gone: bool) -> None:
        """A cancelled request gets no response: its stream just ends."""
        task = asyncio.current_task()
        if task is not None:
            task.uncancel()
        if not gone:
            await answer.last(None)

    # -- the stream of a session --------------------------------------------------------------------

    async def _listen(self, session: Session, receive: Receive, send: Send) -> None:
        if session.stream is not None:
            raise BadMessage("mcp", "GET", "one stream a session")
        queue = session.stream = asyncio.Queue()
        answer = Answer(send)

        async def gone() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass
            queue.put_nowait(b"")

        leaving = asyncio.ensure_future(gone())
        try:
            await answer.ping()
            body = b": still here\r\n\r\n"
            while body:
                try:
                    async with asyncio.timeout(PING_SECONDS):
                        body = await queue.get()
                except TimeoutError:
                    body = b": still here\r\n\r\n"
                await send({"type": "http.response.body", "body": body, "more_body": bool(body)})
        finally:
            session.stream = None
            leaving.cancel()

    async def _end(self, session: Session, answer: Answer) -> None:
        self.sessions.pop(session.id, None)
        self._ended[session.id] = None
        if len(self._ended) > MOST_SESSIONS:
            self._ended.popitem(last=False)
        for task, channel in session.running.values():
            channel.cancel_requested.set()
            if task is not None:
                task.cancel("the session has ended")
        await answer.whole(200)

    def close(self) -> None:
        """End the open streams, so that the server can stop."""
        for session in self.sessions.values():
            if session.stream is not None:
                session.stream.put_nowait(b"")


class _Silent:
    """The Outbound of a connection before it has a session."""

    async def notify(self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None) -> None:
        return None

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> dict[str, Any]:
        raise NoBackChannelError(method)


_SILENT: Final = _Silent()


def _not_one_message() -> SabirError:
    return BadMessage("mcp", "$", "one JSON-RPC request or notification")


def _is_request(body: Mapping[str, Any]) -> bool:
    id, params = body.get("id"), body.get("params")
    return (
        body.get("jsonrpc") == "2.0"
        and isinstance(body.get("method"), str)
        and (isinstance(id, str) or (isinstance(id, int) and not isinstance(id, bool)))
        and (params is None or isinstance(params, dict))
    )


def _streams(headers: Mapping[str, str]) -> bool:
    accept = headers.get("accept", "*/*").lower()
    return "text/event-stream" in accept or "*/*" in accept or "text/*" in accept


async def _reject(answer: Answer, wrong: InboundLadderRejection, id: RequestId | None) -> None:
    error: dict[str, Any] = {"code": wrong.code, "message": wrong.message}
    if wrong.data is not None:
        error["data"] = wrong.data
    await answer.last({"jsonrpc": "2.0", "id": id, "error": error}, ERROR_CODE_HTTP_STATUS.get(wrong.code, 400))


def _error_data(wrong: MCPError | ValidationError) -> dict[str, Any]:
    """A handler's failure; the texts of a validation stay inside, because they repeat what came in."""
    data = (
        wrong.error
        if isinstance(wrong, MCPError)
        else ErrorData(code=wire.INVALID_PARAMS, message="the parameters are not those of this method")
    )
    return data.model_dump(mode="json", exclude_none=True)

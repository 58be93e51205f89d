"""MCP over streamable HTTP: one ASGI application for every version of the protocol.

Framing, sessions, streams and rejections are here; the methods are handled by the SDK's kernel with our handlers
(``handlers``), or by a server behind the gateway (``proxy``). From 2026-07-28 on there are no sessions. A request is
answered with JSON, unless something is sent before its answer: then it is a stream.

Why not the SDK's ``StreamableHTTPSessionManager``: it keeps each session in the memory of one process, with its own
task and transport, so a session ends with its process and cannot move to another node. Here a session (up to
2025-11-25) is a sealed token that any node opens, even after a restart; only its open streams, log level and
subscriptions are in memory. The manager also reads bodies without our limits, and has no hook for the gateway's
authentication, rate limits, audit and errors before the protocol.
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

import msgspec
from mcp.server.connection import Connection
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.server.runner import ServerRunner, aclose_shielded
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import (
    ERROR_CODE_HTTP_STATUS,
    MCP_NAME_HEADER,
    InboundLadderRejection,
    classify_inbound_request,
    decode_header_value,
    find_duplicated_routing_header,
    unsupported_protocol_version_rejection,
    validate_mcp_param_headers,
)
from mcp.shared.jsonrpc_dispatcher import progress_token_from_params
from mcp_types import (
    DEFAULT_NEGOTIATED_VERSION,
    HEADER_MISMATCH,
    InitializeRequestParams,
    RequestId,
)
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from pydantic import ValidationError
from starlette.types import Receive, Scope, Send

from sabir.errors import BadMessage, BadMethod, NotFound, RateLimited, SabirError, TooLarge, Unauthenticated
from sabir.guard import Credentials
from sabir.http.admission import Admission
from sabir.http.disconnect import DisconnectWatcher, disconnected
from sabir.http.door import DoorContext
from sabir.http.request import EVENTS, accept_of, credentials_of, hops_of, read_json
from sabir.http.response import COMMENT, KEEP_ALIVE, send_events
from sabir.misfits import pydantic_misfit
from sabir.protocols.mcp.wire import content as wire
from sabir.turn import Caller

from .proxy.messages import Kernel, MessageProxy
from .response import DOOR, SILENT, WATCH_AFTER, Channel, McpRequestContext, McpResponse, McpSession, encode

PATH: Final = "/mcp"
MAX_SESSIONS: Final = 10_000  # kept in memory; a dropped sealed one is reopened when it is used again
MAX_CLIENT: Final = 8192  # bytes of a client's capabilities; its session keeps them, and the header carries them
_BY_THE_KERNEL: Final = frozenset({"ping", "logging/setLevel", "server/discover"})  # no handler of ours charges them
_INVALID: Final = frozenset({wire.METHOD_NOT_FOUND, wire.INVALID_REQUEST, wire.INVALID_PARAMS})
_TYPES: Final = ("application/json",)
_SEALED: Final = "mcp-session"
_VERSION: Final = "mcp-protocol-version"
_SESSION: Final = "mcp-session-id"
_ABOUT_TASKS: Final = frozenset({"tasks/get", "tasks/update", "tasks/cancel"})
_EVERYTHING_CHANGES: Final = NotificationOptions(True, True, True)


Passes = Callable[[str, McpRequestContext, Mapping[str, str], Any, Receive, Send], Awaitable[None]]  # a proxy
FindServer = Callable[[str, Caller], Server[Any] | MessageProxy | Passes]
FindSchema = Callable[[str, str], Mapping[str, Any] | None]  # path, tool → its input schema, if headers matter to it

Challenge = Callable[[Unauthenticated, str], str]  # with the requested path


@dataclass(frozen=True, slots=True)
class _HttpRequest:
    """One HTTP request of a caller, and where its response goes."""

    context: McpRequestContext
    headers: Mapping[str, str]
    scope: Scope
    receive: Receive
    answer: McpResponse


class StreamableHttpApp:
    """The ASGI application behind ``/mcp`` and ``/mcp/{agent}``."""

    def __init__(self, services: DoorContext, find: FindServer, schema: FindSchema, challenge: Challenge) -> None:
        self.services = services
        self._challenge = challenge
        self._find = find
        self._schema = schema
        self.sessions: OrderedDict[str, McpSession] = OrderedDict()
        self._ended: OrderedDict[str, None] = OrderedDict()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        credentials = credentials_of(scope, behind_proxy=self.services.behind_proxy)
        agent = scope["path"].removeprefix(PATH).strip("/")  # or NO_AGENT
        admission = Admission(self.services, DOOR, credentials, agent)
        answer = McpResponse(send, lambda exc: self._challenge(exc, scope["path"]), admission)
        try:
            # Spaces around a value are not part of it (RFC 9110 5.5), and not every HTTP parser removes them.
            headers = {name.decode("latin-1"): value.decode("latin-1").strip(" \t") for name, value in scope["headers"]}
            caller = await admission.authenticate()
            context = McpRequestContext(
                Credentials(credentials.address, caller=caller),
                caller,
                trace=headers.get("traceparent", "")[:64] or None,
                admission=admission,
            )
            context.hops = hops_of(headers.get("x-sabir-hops", ""))
            server = self._find(scope["path"], caller)
            request = _HttpRequest(context, headers, scope, receive, answer)
            if not isinstance(server, Server | MessageProxy):
                return await self._passed_on(server, request, admission.with_rate_limit_headers(send))
            modern = headers.get(_VERSION) not in (None, *HANDSHAKE_PROTOCOL_VERSIONS)
            match scope["method"]:
                case "POST":
                    body = await read_json(scope, receive, admission, "mcp", types=_TYPES)
                    _carried(context, body)
                    if not isinstance(body, dict):
                        raise _not_one_message()
                    await (self._modern if modern else self._legacy)(server, request, body)
                case "GET" if not modern:
                    await self._listen(self._session(context, headers), receive, send, admission)
                case "DELETE" if not modern:
                    await self._end(self._session(context, headers), answer)
                case _:
                    raise BadMethod("mcp", "method", "POST" if modern else "GET, POST, DELETE")
        except SabirError as exc:
            await answer.refuse(exc)

    async def _passed_on(self, relay: Passes, request: _HttpRequest, send: Send) -> None:
        context, scope, receive = request.context, request.scope, request.receive
        assert context.admission is not None
        body = None
        if scope["method"] == "POST":
            body = await read_json(scope, receive, context.admission, "mcp", types=_TYPES)
        _carried(context, body)
        try:
            await relay(scope["method"], context, request.headers, body, receive, send)
        except SabirError as exc:
            request_id = body.get("id") if isinstance(body, dict) else None
            await request.answer.refuse(exc, request_id if isinstance(request_id, str | int) else None)

    # -- 2026-07-28: each request is whole ----------------------------------------------------------

    async def _modern(self, server: Server[Any] | MessageProxy, request: _HttpRequest, body: dict[str, Any]) -> None:
        headers, scope, answer = request.headers, request.scope, request.answer
        request_id = body.get("id")
        if "id" not in body:
            if not isinstance(body.get("method"), str):
                raise _misplaced(body)
            rejection = unsupported_protocol_version_rejection(headers.get(_VERSION, ""))
            return await (answer.whole(202) if rejection is None else _reject(answer, rejection, None))
        if not _is_request(body):
            raise _misplaced(body)
        answer.streams = _streams(headers)
        doubled = find_duplicated_routing_header((n.decode("latin-1"), "") for n, _ in scope["headers"])
        if doubled is not None:
            return await _reject(
                answer, InboundLadderRejection(HEADER_MISMATCH, f"{doubled} is there twice"), request_id
            )
        verdict = classify_inbound_request(body, headers=headers)
        if isinstance(verdict, InboundLadderRejection):
            return await _reject(answer, verdict, request_id)
        params = body["params"]
        if not _names_its_task(body["method"], params, headers):
            mismatch = InboundLadderRejection(HEADER_MISMATCH, "mcp-name header does not match the 'taskId' parameter")
            return await _reject(answer, mismatch, request_id)
        if body["method"] == "tools/call" and isinstance(params.get("name"), str):
            schema = self._schema(scope["path"], params["name"])
            given = params.get("arguments") or {}
            if schema is not None and isinstance(given, dict):
                exc = validate_mcp_param_headers(schema, given, headers)
                if exc is not None:
                    return await _reject(answer, exc, request_id)
        connection = Connection.from_envelope(
            verdict.protocol_version, verdict.client_info, verdict.client_capabilities
        )
        if isinstance(server, MessageProxy) and not server.peer.stateless:
            server = server.hub
        runner = _kernel(server, connection, request.context, headers)
        return await self._run(runner, request, body, ERROR_CODE_HTTP_STATUS)

    # -- up to 2025-11-25: initialize, then a session -------------------------------------------------

    async def _legacy(self, server: Server[Any] | MessageProxy, request: _HttpRequest, body: dict[str, Any]) -> None:
        context, headers, answer = request.context, request.headers, request.answer
        answer.streams = _streams(headers)
        if body.get("method") == "initialize" and _is_request(body):
            return await self._initialize(server, request, body)
        version = headers.get(_VERSION, DEFAULT_NEGOTIATED_VERSION)
        if _SESSION in headers:
            session = context.session = self._session(context, headers)
            context.state, connection = session.state, session.connection
        else:
            connection = Connection.from_envelope(version, None, None)
        if "method" not in body and ("result" in body or "error" in body):
            if context.session is not None:
                context.session.answered(body)
            return await answer.whole(202)
        runner = _kernel(server, connection, context, headers)
        if "id" in body:
            if not _is_request(body):
                raise _misplaced(body)
            return await self._run(runner, request, body, {})
        return await self._notified(runner, context, body, answer)

    async def _notified(
        self, runner: AnyKernel, context: McpRequestContext, body: Mapping[str, Any], answer: McpResponse
    ) -> None:
        method, params = body.get("method"), body.get("params")
        if not isinstance(method, str) or not (params is None or isinstance(params, dict)):
            raise _misplaced(body)
        if method == "notifications/cancelled" and context.session is not None:
            running = context.session.running.get(str((params or {}).get("requestId")))
            if running is not None and running[0] is not None:
                running[1].cancel_requested.set()
                running[0].cancel("cancelled by the client")
        channel = Channel(answer, 0, context, None)
        channel.request_id = None
        await runner.on_notify(channel, method, params)
        await answer.whole(202)

    async def _initialize(
        self, server: Server[Any] | MessageProxy, request: _HttpRequest, body: dict[str, Any]
    ) -> None:
        context = request.context
        connection = Connection.for_loop(SILENT)
        options = server.create_initialization_options(_EVERYTHING_CHANGES) if isinstance(server, Server) else None
        runner = _kernel(server, connection, context, request.headers, options)
        context.charge(self.services.rates)

        def name_session() -> None:
            client = connection.client_params
            if client is not None:
                session = self._open(context.caller, connection, client)
                request.answer.headers.append((b"mcp-session-id", session.id.encode()))

        await self._run(runner, request, body, {}, before_last=name_session)

    def _open(self, caller: Caller, connection: Connection, client: InitializeRequestParams) -> McpSession:
        # Only what later requests are checked against: a client's name may be long, and the header carries it each
        # time.
        about = {
            "v": connection.protocol_version,
            "c": client.capabilities.model_dump(mode="json", by_alias=True, exclude_none=True),
            "n": client.client_info.name[:64],
        }
        if len(encode(about)) > MAX_CLIENT:
            raise TooLarge("mcp", "$.params.capabilities", f"at most {MAX_CLIENT} bytes")
        connection.client_params = _client_of(about)
        session_id = self.services.seal.seal(_SEALED, encode(about), caller.id)
        connection.session_id = session_id
        connection.initialized.set()
        return self._keep(McpSession(session_id, caller, connection))

    def _keep(self, session: McpSession) -> McpSession:
        self.sessions[session.id] = session
        if len(self.sessions) > MAX_SESSIONS:
            self._make_room()
        return session

    def _make_room(self) -> None:
        """Drop some of the sessions that were used longest ago. All belong to the caller with the most sessions, so a
        caller who opens many loses only its own."""
        holder, count = Counter(session.holder for session in self.sessions.values()).most_common(1)[0]
        theirs = (session.id for session in self.sessions.values() if session.holder == holder)
        for session_id in list(islice(theirs, 1 + min(count, MAX_SESSIONS) // 100)):
            del self.sessions[session_id]

    def _session(self, context: McpRequestContext, headers: Mapping[str, str]) -> McpSession:
        """The session of a request: in memory here, or opened from its seal.

        Raises:
            NotFound: it has ended, or is not this caller's.
        """
        session_id = headers.get(_SESSION)
        if session_id is None:
            raise BadMessage("mcp", "Mcp-Session-Id", "the session that initialize gave")
        live = self.sessions.get(session_id)
        if live is not None and live.owner == context.caller.id:
            self.sessions.move_to_end(session_id)
            return live
        sealed = self.services.seal.open(_SEALED, session_id, context.caller.id)
        if sealed is None or session_id in self._ended:
            raise NotFound("session not found; start a new one with initialize")
        about = msgspec.json.decode(sealed)
        connection = Connection(
            SILENT,
            protocol_version=about["v"],
            session_id=session_id,
            client_params=_client_of(about),
        )
        connection.initialized.set()
        return self._keep(McpSession(session_id, context.caller, connection))

    # -- one request ------------------------------------------------------------------------------

    async def _run(
        self,
        runner: AnyKernel,
        request: _HttpRequest,
        body: dict[str, Any],
        statuses: Mapping[int, int],
        before_last: Callable[[], None] | None = None,
    ) -> None:
        context, answer = request.context, request.answer
        request_id, method, params = body["id"], body["method"], body.get("params")
        channel = Channel(answer, request_id, context, progress_token_from_params(params))
        running = context.session.running if context.session is not None else {}
        running[str(request_id)] = (asyncio.current_task(), channel)
        watch = DisconnectWatcher(request.receive, answer.is_sent, answer.comment)
        watch.start_after(WATCH_AFTER, asyncio.current_task())
        try:
            if method in _BY_THE_KERNEL:
                context.charge(self.services.rates)
            result = await runner.on_request(channel, method, params)
            if before_last is not None:
                before_last()
            await answer.last({"jsonrpc": "2.0", "id": request_id, "result": result})
        except (MCPError, ValidationError) as exc:
            if context.refused is not None:
                await answer.refuse(context.refused, request_id)
            else:
                error = _error_data(exc, params)
                if error["code"] in _INVALID and context.admission is not None:
                    context.admission.charge()
                message = {"jsonrpc": "2.0", "id": request_id, "error": error}
                await answer.last(message, statuses.get(error["code"], 200))
        except SabirError as exc:
            await answer.refuse(exc, request_id)
        except asyncio.CancelledError:
            if not watch.is_gone and not channel.cancel_requested.is_set():
                raise
            await self._cancelled(answer, watch.is_gone)
        finally:
            watch.stop()
            running.pop(str(request_id), None)

    async def _cancelled(self, answer: McpResponse, gone: bool) -> None:
        """A cancelled request gets no response: its stream just ends."""
        task = asyncio.current_task()
        if task is not None:
            task.uncancel()
        if not gone:
            await answer.last(None)

    # -- the stream of a session --------------------------------------------------------------------

    async def _listen(self, session: McpSession, receive: Receive, send: Send, admission: Admission) -> None:
        if session.stream is not None:
            raise BadMessage("mcp", "GET", "one stream a session")
        send = admission.with_rate_limit_headers(send)
        queue = session.stream = asyncio.Queue()
        answer = McpResponse(send)

        async def gone() -> None:
            await disconnected(receive)
            queue.put_nowait(b"")

        leaving = asyncio.ensure_future(gone())
        try:
            await answer.comment(COMMENT)
            body = COMMENT
            while body:
                try:
                    async with asyncio.timeout(KEEP_ALIVE):
                        body = await queue.get()
                except TimeoutError:
                    body = COMMENT
                try:
                    await admission.check_still_valid()
                except Unauthenticated as exc:
                    await admission.rejected(exc)
                    body = b""
                await send_events(send, body, last=not body)
        finally:
            session.stream = None
            leaving.cancel()

    async def _end(self, session: McpSession, answer: McpResponse) -> None:
        self.sessions.pop(session.id, None)
        self._ended[session.id] = None
        if len(self._ended) > MAX_SESSIONS:
            self._ended.popitem(last=False)
        for task, channel in session.running.values():
            channel.cancel_requested.set()
            if task is not None:
                task.cancel("the session has ended")
        await aclose_shielded(session.connection)
        await answer.whole(200)

    def close(self) -> None:
        """End the open streams, so that the server can stop."""
        for session in self.sessions.values():
            if session.stream is not None:
                session.stream.put_nowait(b"")


AnyKernel = ServerRunner[Any] | Kernel


def _client_of(about: Mapping[str, Any]) -> InitializeRequestParams:
    """A session's client, as far as sessions keep it."""
    info = {"name": about["n"], "version": ""}
    return InitializeRequestParams.model_validate(
        {"protocolVersion": about["v"], "capabilities": about["c"], "clientInfo": info}
    )


def _kernel(
    server: Server[Any] | MessageProxy,
    connection: Connection,
    context: McpRequestContext,
    headers: Mapping[str, str],
    options: InitializationOptions | None = None,
) -> AnyKernel:
    """The handler for the requests of a connection: the SDK's kernel with our handlers, or a channel to a server behind
    us."""
    if isinstance(server, MessageProxy):
        return server.kernel(connection, context, headers)
    return ServerRunner(server, connection, None, init_options=options)


def _carried(context: McpRequestContext, body: Any) -> None:
    """Read trace and hops from ``_meta``, for clients that cannot set headers per request."""
    params = body.get("params") if isinstance(body, dict) else None
    meta = params.get("_meta") if isinstance(params, dict) else None
    if not isinstance(meta, dict):
        return
    hops, trace = meta.get(wire.HOPS), meta.get("traceparent")
    if isinstance(hops, int) and hops > 0:
        context.hops = max(context.hops, hops)
    if context.trace is None and isinstance(trace, str):
        context.trace = trace[:64]


def _not_one_message() -> SabirError:
    return BadMessage("mcp", "$", "one JSON-RPC request or notification")


def _misplaced(body: Mapping[str, Any]) -> SabirError:
    """What is wrong with an object that is no request and no notification."""
    if not isinstance(body.get("method"), str):
        return BadMessage("mcp", "$.method", "the name of a method")
    if not isinstance(body.get("params", {}), dict | None):
        return BadMessage("mcp", "$.params", "an object")
    if body.get("jsonrpc") != "2.0":
        return BadMessage("mcp", "$.jsonrpc", '"2.0"')
    return BadMessage("mcp", "$.id", "a string or a whole number")


def _is_request(body: Mapping[str, Any]) -> bool:
    request_id, params = body.get("id"), body.get("params")
    return (
        body.get("jsonrpc") == "2.0"
        and isinstance(body.get("method"), str)
        and (isinstance(request_id, str) or (isinstance(request_id, int) and not isinstance(request_id, bool)))
        and (params is None or isinstance(params, dict))
    )


def _names_its_task(method: str, params: Mapping[str, Any], headers: Mapping[str, str]) -> bool:
    """Whether the ``Mcp-Name`` of a request about a task is that task (SEP-2663, routing headers). Clients may leave it
    out: the SDK's own do."""
    named = headers.get(MCP_NAME_HEADER)
    return method not in _ABOUT_TASKS or named is None or decode_header_value(named) == params.get("taskId")


def _streams(headers: Mapping[str, str]) -> bool:
    """Whether the client accepts a stream, as most do."""
    return accept_of(headers.get("accept", "").encode("latin-1")).weight(EVENTS) > 0


async def _reject(answer: McpResponse, exc: InboundLadderRejection, request_id: RequestId | None) -> None:
    try:
        answer.charge()
    except RateLimited as over:
        return await answer.refuse(over, request_id)
    error: dict[str, Any] = {"code": exc.code, "message": exc.message}
    if exc.data is not None:
        error["data"] = exc.data
    await answer.last({"jsonrpc": "2.0", "id": request_id, "error": error}, ERROR_CODE_HTTP_STATUS.get(exc.code, 400))


def _error_data(exc: MCPError | ValidationError, params: object) -> dict[str, Any]:
    """A handler's failure, or which parameter is not one of the method."""
    if isinstance(exc, MCPError):
        return exc.error.model_dump(mode="json", exclude_none=True)
    problems = exc.errors(include_url=False, include_input=False)
    is_whole = any(problem["loc"][:1] == ("params",) for problem in problems)
    given, start = ({"params": params} if params is not None else {}, "$") if is_whole else (params or {}, "$.params")
    where, expected = pydantic_misfit(problems, given, start)
    return {"code": wire.INVALID_PARAMS, "message": str(BadMessage("mcp", where, expected))}

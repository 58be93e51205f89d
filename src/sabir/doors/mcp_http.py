"""MCP over streamable HTTP: one entrance for every version of the protocol.

Framing, sessions, streams and refusals are here; what a method means is the SDK's kernel with our handlers
(``mcp_offer``). Up to 2025-11-25 a session is a sealed token: any node, and this one after a restart, opens it;
what lives only in memory is its open streams, its log level and its subscriptions. From 2026-07-28 on there are
no sessions. A request is answered in JSON, unless something is to be said before its answer: then it is a stream.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import msgspec
from mcp.server.connection import Connection
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.server.runner import ServerRunner, aclose_shielded
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import (
    ERROR_CODE_HTTP_STATUS,
    InboundLadderRejection,
    classify_inbound_request,
    find_duplicated_routing_header,
    unsupported_protocol_version_rejection,
    validate_mcp_param_headers,
)
from mcp.shared.jsonrpc_dispatcher import progress_token_from_params
from mcp_types import (
    DEFAULT_NEGOTIATED_VERSION,
    HEADER_MISMATCH,
    ErrorData,
    InitializeRequestParams,
    RequestId,
)
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from pydantic import ValidationError
from starlette.types import Receive, Scope, Send

from ..errors import (
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
from .base import House, credentials_of, hops_of
from .mcp_pipes import Kernel, Pipes
from .mcp_stream import DOOR, PING_SECONDS, SILENT, Answer, Attendance, Channel, Session, Visit, encode
from .visitor import Visitor

PATH: Final = "/mcp"
MOST_SESSIONS: Final = 10_000  # kept in memory; a sealed one that was dropped is opened again when it comes back
_SEALED: Final = "mcp-session"
_VERSION: Final = "mcp-protocol-version"
_SESSION: Final = "mcp-session-id"
_EVERYTHING_CHANGES: Final = NotificationOptions(True, True, True)


Passes = Callable[[str, Visit, Mapping[str, str], Any, Receive, Send], Awaitable[None]]  # a relay
FindServer = Callable[[str, Caller], Server[Any] | Pipes | Passes]
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
        credentials = credentials_of(scope, behind_proxy=self.house.behind_proxy)
        visitor = Visitor(self.house, DOOR, credentials, scope["path"].removeprefix(PATH).strip("/"))  # none: NO_AGENT
        answer = Answer(send, lambda wrong: self._challenge(wrong, scope["path"]), visitor)
        try:
            headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
            caller = await visitor.known()
            visit = Visit(
                Credentials(credentials.address, caller=caller),
                caller,
                trace=headers.get("traceparent", "")[:64] or None,
                visitor=visitor,
            )
            visit.hops = hops_of(headers.get("x-sabir-hops", ""))
            server = self._find(scope["path"], caller)
            if not isinstance(server, Server | Pipes):
                return await self._passed_on(server, scope, visit, headers, receive, visitor.telling(send), answer)
            modern = headers.get(_VERSION) not in (None, *HANDSHAKE_PROTOCOL_VERSIONS)
            match scope["method"]:
                case "POST":
                    body = await self._body(receive, headers)
                    _carried(visit, body)
                    serve = self._modern if modern else self._legacy
                    await serve(server, visit, headers, body, scope, receive, answer)
                case "GET" if not modern:
                    await self._listen(self._session(visit, headers), receive, visitor.telling(send))
                case "DELETE" if not modern:
                    await self._end(self._session(visit, headers), answer)
                case _:
                    raise BadMethod("mcp", "method", "POST" if modern else "GET, POST, DELETE")
        except SabirError as wrong:
            await answer.refuse(wrong)

    async def _passed_on(
        self,
        relay: Passes,
        scope: Scope,
        visit: Visit,
        headers: Mapping[str, str],
        receive: Receive,
        send: Send,
        answer: Answer,
    ) -> None:
        body = await self._body(receive, headers) if scope["method"] == "POST" else None
        _carried(visit, body)
        try:
            await relay(scope["method"], visit, headers, body, receive, send)
        except SabirError as wrong:
            id = body.get("id") if isinstance(body, dict) else None
            await answer.refuse(wrong, id if isinstance(id, str | int) else None)

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
        server: Server[Any] | Pipes,
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
        if isinstance(server, Pipes) and not server.peer.stateless:
            server = server.hub
        runner = _kernel(server, connection, visit, headers)
        return await self._run(runner, visit, body, receive, answer, ERROR_CODE_HTTP_STATUS)

    # -- up to 2025-11-25: initialize, then a session -------------------------------------------------

    async def _legacy(
        self,
        server: Server[Any] | Pipes,
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
            return await self._initialize(server, visit, headers, body, receive, answer)
        version = headers.get(_VERSION, DEFAULT_NEGOTIATED_VERSION)
        if _SESSION in headers:
            session = visit.session = self._session(visit, headers)
            visit.state, connection = session.state, session.connection
        else:
            connection = Connection.from_envelope(version, None, None)
        if "method" not in body and ("result" in body or "error" in body):
            if visit.session is not None:
                visit.session.answered(body)
            return await answer.whole(202)
        runner = _kernel(server, connection, visit, headers)
        if "id" in body:
            if not _is_request(body):
                raise _not_one_message()
            return await self._run(runner, visit, body, receive, answer, {})
        return await self._notified(runner, visit, body, answer)

    async def _notified(self, runner: AnyKernel, visit: Visit, body: Mapping[str, Any], answer: Answer) -> None:
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
        self,
        server: Server[Any] | Pipes,
        visit: Visit,
        headers: Mapping[str, str],
        body: dict[str, Any],
        receive: Receive,
        answer: Answer,
    ) -> None:
        connection = Connection.for_loop(SILENT)
        options = server.create_initialization_options(_EVERYTHING_CHANGES) if isinstance(server, Server) else None
        runner = _kernel(server, connection, visit, headers, options)
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
        id = self.house.guard.seal.seal(_SEALED, encode(about), caller.id)
        connection.session_id = id
        connection.initialized.set()
        return self._keep(Session(id, caller.id, connection))

    def _keep(self, session: Session) -> Session:
        self.sessions[session.id] = session
        while len(self.sessions) > MOST_SESSIONS:
            self.sessions.popitem(last=False)
        return session

    def _session(self, visit: Visit, headers: Mapping[str, str]) -> Session:
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
            SILENT,
            protocol_version=about["v"],
            session_id=id,
            client_params=InitializeRequestParams.model_validate(client),
        )
        connection.initialized.set()
        return self._keep(Session(id, visit.caller.id, connection))

    # -- one request ------------------------------------------------------------------------------

    async def _run(
        self,
        runner: AnyKernel,
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
        await aclose_shielded(session.connection)
        await answer.whole(200)

    def close(self) -> None:
        """End the open streams, so that the server can stop."""
        for session in self.sessions.values():
            if session.stream is not None:
                session.stream.put_nowait(b"")


AnyKernel = ServerRunner[Any] | Kernel


def _kernel(
    server: Server[Any] | Pipes,
    connection: Connection,
    visit: Visit,
    headers: Mapping[str, str],
    options: InitializationOptions | None = None,
) -> AnyKernel:
    """What answers requests of a connection: the SDK's kernel with our handlers, or a channel to a server behind us."""
    if isinstance(server, Pipes):
        return server.kernel(connection, visit, headers)
    return ServerRunner(server, connection, None, init_options=options)


def _carried(visit: Visit, body: Any) -> None:
    """What clients that cannot set headers for one request say in its ``_meta``: trace and hops."""
    params = body.get("params") if isinstance(body, dict) else None
    meta = params.get("_meta") if isinstance(params, dict) else None
    if not isinstance(meta, dict):
        return
    hops, trace = meta.get(wire.HOPS), meta.get("traceparent")
    if isinstance(hops, int) and hops > 0:
        visit.hops = max(visit.hops, hops)
    if visit.trace is None and isinstance(trace, str):
        visit.trace = trace[:64]


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

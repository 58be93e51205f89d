"""A2A: agent cards, JSON-RPC at ``/a2a`` and ``/a2a/{agent}``, and the HTTP+JSON binding below them.

Types, operations and the 0.3 layer are the official SDK's; input passes our limits first, tasks are the gateway's own,
and failures use the protocol's codes and reveal no internals. A version is a row of a table: the methods of 1.0 and of
0.3 have different names, and a request without a version is 0.3.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from email.utils import formatdate
from functools import partial
from typing import Annotated, Any, Final, Literal, NamedTuple

import msgspec
from a2a.compat.v0_3 import types as old
from a2a.compat.v0_3.request_handler import RequestHandler03
from a2a.server.context import ServerCallContext
from a2a.server.routes.common import serialize_list_tasks_response
from a2a.types import a2a_pb2 as pb
from a2a.utils.errors import A2AError, InvalidRequestError, MethodNotFoundError
from a2a.utils.proto_utils import parse_params, to_stream_response
from google.protobuf.json_format import ParseError
from pydantic import BaseModel, ValidationError
from starlette.datastructures import QueryParams
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from sabir.errors import BadMessage, BadMethod, NotFound, RateLimited, SabirError
from sabir.guard.egress.addresses import Outbound, OutboundRules
from sabir.http.admission import Admission
from sabir.http.door import Door, DoorContext, typed
from sabir.http.request import credentials_of, headers_of
from sabir.http.response import refusal_headers
from sabir.misfits import pydantic_misfit
from sabir.protocols.a2a.peer.peer import A2aPeer
from sabir.protocols.a2a.wire import content as wire
from sabir.turn import ANONYMOUS

from .cards import SAME_ORIGIN, Cards
from .handler import DOOR, A2aCall, Operations, calling
from .http import (
    A2aOptions,
    event,
    parse_headers,
    parsed,
    problem_of,
    read_body,
    respond,
    rest_error,
    rpc_error,
    stream,
)
from .push import Webhooks
from .rest_v0_3 import check_old_message, matched_old, plain_old
from .signing_keys import SigningKeys


class Operation(NamedTuple):
    """One row: the input of a method, its operation, and whether the answer is a stream."""

    kind: type[Any]
    answer: str
    streams: bool = False


# The methods of each version, by their JSON-RPC names.
METHODS: Final[Mapping[str, Mapping[str, Operation]]] = {
    wire.VERSION: {
        "SendMessage": Operation(pb.SendMessageRequest, "on_message_send"),
        "SendStreamingMessage": Operation(pb.SendMessageRequest, "on_message_send_stream", True),
        "GetTask": Operation(pb.GetTaskRequest, "on_get_task"),
        "ListTasks": Operation(pb.ListTasksRequest, "on_list_tasks"),
        "CancelTask": Operation(pb.CancelTaskRequest, "on_cancel_task"),
        "SubscribeToTask": Operation(pb.SubscribeToTaskRequest, "on_subscribe_to_task", True),
        "CreateTaskPushNotificationConfig": Operation(
            pb.TaskPushNotificationConfig, "on_create_task_push_notification_config"
        ),
        "GetTaskPushNotificationConfig": Operation(
            pb.GetTaskPushNotificationConfigRequest, "on_get_task_push_notification_config"
        ),
        "ListTaskPushNotificationConfigs": Operation(
            pb.ListTaskPushNotificationConfigsRequest, "on_list_task_push_notification_configs"
        ),
        "DeleteTaskPushNotificationConfig": Operation(
            pb.DeleteTaskPushNotificationConfigRequest, "on_delete_task_push_notification_config"
        ),
        "GetExtendedAgentCard": Operation(pb.GetExtendedAgentCardRequest, "on_get_extended_agent_card"),
    },
    wire.OLD_VERSION: {
        "message/send": Operation(old.SendMessageRequest, "on_message_send"),
        "message/stream": Operation(old.SendStreamingMessageRequest, "on_message_send_stream", True),
        "tasks/get": Operation(old.GetTaskRequest, "on_get_task"),
        "tasks/cancel": Operation(old.CancelTaskRequest, "on_cancel_task"),
        "tasks/resubscribe": Operation(old.TaskResubscriptionRequest, "on_subscribe_to_task", True),
        "tasks/pushNotificationConfig/set": Operation(
            old.SetTaskPushNotificationConfigRequest, "on_create_task_push_notification_config"
        ),
        "tasks/pushNotificationConfig/get": Operation(
            old.GetTaskPushNotificationConfigRequest, "on_get_task_push_notification_config"
        ),
        "tasks/pushNotificationConfig/list": Operation(
            old.ListTaskPushNotificationConfigRequest, "on_list_task_push_notification_configs"
        ),
        "tasks/pushNotificationConfig/delete": Operation(
            old.DeleteTaskPushNotificationConfigRequest, "on_delete_task_push_notification_config"
        ),
        "agent/getAuthenticatedExtendedCard": Operation(
            old.GetAuthenticatedExtendedCardRequest, "on_get_extended_agent_card"
        ),
    },
}
_VERSION_OF: Final = {method: version for version, methods in METHODS.items() for method in methods}

_TASK: Final = r"tasks/(?P<{}>[^/:]+)"
_CONFIGS: Final = _TASK.format("task_id") + "/pushNotificationConfigs"
# The HTTP+JSON binding: the method and path of each operation; path variables are fields of the request.
PATHS: Final[tuple[tuple[str, re.Pattern[str], str], ...]] = (
    ("POST", re.compile("message:send"), "SendMessage"),
    ("POST", re.compile("message:stream"), "SendStreamingMessage"),
    ("GET", re.compile("tasks"), "ListTasks"),
    ("GET", re.compile(_TASK.format("id")), "GetTask"),
    ("POST", re.compile(_TASK.format("id") + ":cancel"), "CancelTask"),
    ("POST", re.compile(_TASK.format("id") + ":subscribe"), "SubscribeToTask"),
    ("GET", re.compile(_TASK.format("id") + ":subscribe"), "SubscribeToTask"),
    ("POST", re.compile(_CONFIGS), "CreateTaskPushNotificationConfig"),
    ("GET", re.compile(_CONFIGS), "ListTaskPushNotificationConfigs"),
    ("GET", re.compile(_CONFIGS + "/(?P<id>[^/:]+)"), "GetTaskPushNotificationConfig"),
    ("DELETE", re.compile(_CONFIGS + "/(?P<id>[^/:]+)"), "DeleteTaskPushNotificationConfig"),
    ("GET", re.compile("extendedAgentCard"), "GetExtendedAgentCard"),
)
# First path segments below /a2a that are not an agent: they go to the default agent.
_PLACES: Final = frozenset({"message:send", "message:stream", "tasks", "extendedAgentCard", "v1"})
_HOOKS: Final = ".hooks/"  # no agent's name starts with a dot
# The path of cards before 0.3. This card has no interface on another origin, which some clients reject.
_SAME_ORIGIN_CARD: Final = ".well-known/agent.json"
_CARDS: Final = frozenset({".well-known/agent-card.json", ".well-known/agent.json"})


CardVersions = Annotated[tuple[Literal["1.0", "0.3"], ...], msgspec.Meta(min_length=1)]


class A2aSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``doors.a2a`` of the configuration."""

    signing_key: str | None = None  # a private key in PEM; cards are signed with it
    push: OutboundRules = OutboundRules()  # where webhooks may be
    grpc: dict[str, Any] | None = None  # host, port, certificate, key; see a2a_grpc
    card_versions: CardVersions = ("1.0", "0.3")  # whose interfaces and fields are on cards


class A2aDoor(Door):
    """The door. One instance serves all agents."""

    name = DOOR

    def __init__(self, services: DoorContext) -> None:
        settings = _settings(services.settings.get(DOOR))
        self.services = services
        self.keys = SigningKeys(services.store, services.seal, settings.signing_key)
        self.cards = Cards(services, self.keys, settings.card_versions)
        self.webhooks = Webhooks(services, self.keys, Outbound(settings.push))
        self.operations = Operations(services, self.cards, self.webhooks)
        self._grpc = _grpc(services, self.operations, settings.grpc) if settings.grpc is not None else None
        self._answers: Mapping[str, Any] = {
            wire.VERSION: self.operations,
            wire.OLD_VERSION: RequestHandler03(self.operations),
        }

    def raw(self) -> Mapping[str, ASGIApp]:
        cards = {f"/{path}": self for path in _CARDS}
        return {"/a2a": self, **cards, **{f"/a2a/{name}": self for name in self.services.agents}}

    def routes(self) -> Sequence[BaseRoute]:
        return [Route("/a2a/{place:path}", self)]

    def addresses(self) -> Sequence[tuple[str, str]]:
        return [("A2A", "/a2a"), ("A2A agent card", "/.well-known/agent-card.json")]

    async def start(self) -> None:
        await self.keys.start()
        await self.webhooks.start()
        for agent in self.services.agents.values():
            if isinstance(agent, A2aPeer) and agent.hooks is not None:
                agent.hooks.url = f"{self.services.public_url.rstrip('/')}/a2a/{_HOOKS}{agent.card.name}"
        if self._grpc is not None:
            await self._grpc.start()
            self.cards.grpc, self.cards.lists_grpc = self._grpc.address, self._grpc.listed

    async def stop(self) -> None:
        if self._grpc is not None:
            await self._grpc.stop()
        await self.webhooks.stop()

    # -- one request ------------------------------------------------------------------------------

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = parse_headers(headers_of(scope))
        agent, rest = self._place(scope["path"])
        admission = Admission(
            self.services, DOOR, credentials_of(scope, behind_proxy=self.services.behind_proxy), agent
        )
        send = admission.with_rate_limit_headers(send)
        if not rest:
            await self._rpc(admission, scope, headers, receive, send)
        elif rest.startswith(_HOOKS):
            await self._rung(rest.removeprefix(_HOOKS), admission, scope, headers, receive, send)
        elif rest.startswith(".well-known/"):
            await self._well_known(agent, rest, admission, scope, headers, send)
        else:
            await self._rest(admission, rest, scope, headers, receive, send)

    def _place(self, path: str) -> tuple[str, str]:
        """The agent that a path names, and the rest of the path."""
        below = path.removeprefix("/a2a").strip("/") if path.startswith("/a2a") else path.strip("/")
        first, _, rest = below.partition("/")
        ours = not first or first.startswith(".") or first in _PLACES
        if self.services.open_to_all:  # otherwise a missing agent is treated like a hidden one
            ours = first not in self.services.agents
        return (self.services.default_agent, below) if ours else (first, rest)

    async def _well_known(
        self, agent: str, rest: str, admission: Admission, scope: Scope, headers: A2aOptions, send: Send
    ) -> None:
        try:
            if scope["method"] not in ("GET", "HEAD"):
                raise BadMethod(wire.PROTOCOL, "method", "GET, HEAD")
            if rest == ".well-known/jwks.json":
                return await respond(send, self.keys.public())
            if rest not in _CARDS:
                raise NotFound("not found")
            # If every agent is public, no caller has to authenticate.
            caller = ANONYMOUS if self.services.open_to_all else await admission.authenticate_and_charge()
            asked = frozenset(QueryParams(scope.get("query_string", b"")).getlist("binding"))
            if rest == _SAME_ORIGIN_CARD:
                asked = asked or SAME_ORIGIN
            card = await self.cards.public(agent, caller, asked)
            whose = b"public" if caller.is_anonymous else b"private"
            entries = [
                (b"etag", card.tag.encode()),
                (b"last-modified", formatdate(card.made, usegmt=True).encode()),
                (b"cache-control", whose + b", max-age=60"),
            ]
            if card.tag.removeprefix("W/") in headers.if_none_match or headers.if_none_match.strip() == "*":
                await send({"type": "http.response.start", "status": 304, "headers": entries})
                return await send({"type": "http.response.body", "body": b""})
            await respond(send, card.body, headers=entries)
        except SabirError as exc:
            await self._refuse_rest(send, exc, admission)

    async def _rung(
        self, rest: str, admission: Admission, scope: Scope, headers: A2aOptions, receive: Receive, send: Send
    ) -> None:
        """Handle a webhook call of a remote agent about a task that one of our peers waits for."""
        name, _, secret = rest.partition("/")
        peer = self.services.agents.get(name)
        hooks = peer.hooks if isinstance(peer, A2aPeer) else None
        try:
            if scope["method"] != "POST":
                raise BadMethod(wire.PROTOCOL, "method", "POST")
            await read_body(scope, receive, admission)
            if hooks is None or not hooks.ring(secret, headers.token):
                raise NotFound("nobody waits for this")
            await respond(send, {})
        except SabirError as exc:
            await self._refuse_rest(send, exc, admission)

    # -- JSON-RPC ---------------------------------------------------------------------------------

    async def _rpc(self, admission: Admission, scope: Scope, headers: A2aOptions, receive: Receive, send: Send) -> None:
        request_id: str | int | None = None
        try:
            if scope["method"] != "POST":
                raise BadMethod(wire.PROTOCOL, "method", "POST")
            request = await read_body(scope, receive, admission)
            request_id = _id(request)
            method, params = _envelope(request)
            version = wire.version_of(headers.version, _VERSION_OF.get(method))
            operation = METHODS[version].get(method)
            if operation is None:
                raise MethodNotFoundError(f"there is no method {method[:64]!r} in A2A {version}")
            context = _call(admission, headers, version)
            async with self.services.heavy.work(admission.cost):
                asked = (
                    _old(request, operation)
                    if version == wire.OLD_VERSION
                    else parsed(params, operation.kind, "$.params")
                )
            answer = getattr(self._answers[version], operation.answer)(asked, context)
            if operation.streams:
                return await stream(receive, send, _rpc_events(answer, request_id))
            await respond(send, {"jsonrpc": "2.0", "id": request_id, "result": _result(await answer, asked)})
        except (SabirError, A2AError) as exc:
            exc = await _rejected(admission, exc)
            problem = problem_of(exc)
            status = problem.status if problem.carried else 200
            await respond(send, rpc_error(request_id, exc), status, headers=refusal_headers(exc))

    # -- HTTP+JSON --------------------------------------------------------------------------------

    async def _rest(
        self, admission: Admission, rest: str, scope: Scope, headers: A2aOptions, receive: Receive, send: Send
    ) -> None:
        try:
            if rest.startswith("v1/"):
                return await self._rest_old(admission, rest.removeprefix("v1/"), scope, headers, receive, send)
            method, named = _matched(scope["method"], rest)
            query = QueryParams(scope.get("query_string", b""))
            version = wire.version_of(headers.version or query.get("A2A-Version", ""), wire.VERSION)
            operation = METHODS[version][method]
            asked = await self._asked(operation, named, query, scope, admission, receive)
            answer = getattr(self.operations, operation.answer)(asked, _call(admission, headers, version))
            if operation.streams:
                return await stream(receive, send, _rest_events(answer))
            result = _result(await answer, asked)
            await respond(send, {} if result is None else result)
        except (SabirError, A2AError) as exc:
            await self._refuse_rest(send, exc, admission)

    async def _rest_old(
        self, admission: Admission, rest: str, scope: Scope, headers: A2aOptions, receive: Receive, send: Send
    ) -> None:
        """The same for 0.3, whose paths start with ``v1``."""
        version = wire.version_of(headers.version, wire.OLD_VERSION)
        context = _call(admission, headers, version)
        path = matched_old(scope["method"], rest)
        body = await read_body(scope, receive, admission) if path.reads else {}
        async with self.services.heavy.work(admission.cost):
            asked = path.asked(body)
        answer = path.answer(self._answers[version], asked, context)
        if path.streams:
            return await stream(receive, send, _events(answer, plain_old, rest_error))
        await respond(send, plain_old(await answer, wraps=path.wraps))

    async def _asked(
        self,
        operation: Operation,
        named: Mapping[str, str],
        query: QueryParams,
        scope: Scope,
        admission: Admission,
        receive: Receive,
    ) -> Any:
        if scope["method"] == "POST" and operation.kind in (pb.SendMessageRequest, pb.TaskPushNotificationConfig):
            body = await read_body(scope, receive, admission)
            async with self.services.heavy.work(admission.cost):
                asked = parsed(body, operation.kind, "$")
        else:
            asked = operation.kind()
            try:
                parse_params(query, asked)
            except (ParseError, ValueError, TypeError):
                raise BadMessage(wire.PROTOCOL, "query", f"the fields of {operation.kind.__name__}") from None
        for field, value in named.items():
            setattr(asked, field, value)
        return asked

    async def _refuse_rest(self, send: Send, exc: SabirError | A2AError, admission: Admission) -> None:
        exc = await _rejected(admission, exc)
        await respond(send, rest_error(exc), problem_of(exc).status, headers=refusal_headers(exc))


# -- what a request says ----------------------------------------------------------------------------


async def _rejected(admission: Admission, exc: SabirError | A2AError) -> SabirError | A2AError:
    """Account for a failure; the SDK's errors before anything ran (unknown method, invalid request) are invalid
    input."""
    if isinstance(exc, MethodNotFoundError | InvalidRequestError):
        try:
            admission.charge()
        except RateLimited as over:
            return await admission.rejected(over)
    return await admission.rejected(exc)


def _call(admission: Admission, headers: A2aOptions, version: str) -> ServerCallContext:
    return calling(A2aCall(admission.agent or "", admission, version, headers.trace, headers.hops))


def _settings(given: Any) -> A2aSettings:
    if given is None or given is True:
        return A2aSettings()
    return typed("doors.a2a", A2aSettings, given)


def _grpc(services: DoorContext, operations: Operations, given: dict[str, Any]) -> Any:
    """Raises:
    ConfigError: the settings are invalid, or the extra is not installed.
    """
    from .grpc import GrpcServer, GrpcSettings  # noqa: PLC0415  # an extra of its own

    return GrpcServer(services, operations, typed("doors.a2a.grpc", GrpcSettings, given))


def _id(request: Any) -> str | int | None:
    """The id of a JSON-RPC request, or None if it has no valid one."""
    request_id = request.get("id") if isinstance(request, dict) else None
    return (
        request_id
        if isinstance(request_id, str) or (isinstance(request_id, int) and not isinstance(request_id, bool))
        else None
    )


def _envelope(request: Any) -> tuple[str, Any]:
    """Method and parameters of a JSON-RPC request.

    Raises:
        InvalidRequestError: it is not a JSON-RPC request.
    """
    if not isinstance(request, dict):
        raise InvalidRequestError("at $: expected one JSON-RPC request; batches are not part of A2A")
    if request.get("jsonrpc") != "2.0":
        raise InvalidRequestError('at $.jsonrpc: expected "2.0"')
    method = request.get("method")
    if not isinstance(method, str) or not method:
        raise InvalidRequestError("at $.method: expected the name of a method")
    if request.get("id") is not None and _id(request) is None:
        raise InvalidRequestError("at $.id: expected a string or a whole number")
    return method, request.get("params", {})


def _old(request: Any, operation: Operation) -> Any:
    """A request of 0.3 in the SDK's types."""
    try:
        asked = operation.kind.model_validate(request)
    except ValidationError as exc:
        raise BadMessage(
            wire.PROTOCOL, *pydantic_misfit(exc.errors(include_url=False, include_input=False), request)
        ) from None
    if operation.kind in (old.SendMessageRequest, old.SendStreamingMessageRequest):
        check_old_message(asked)
    return asked


def _matched(method: str, rest: str) -> tuple[str, dict[str, str]]:
    """The operation for a method and path, and the fields in the path.

    Raises:
        BadMethod: the path exists, with other methods.
        NotFound: it does not exist.
    """
    allowed: list[str] = []
    for taken, pattern, operation in PATHS:
        match = pattern.fullmatch(rest)
        reads = ("GET", "HEAD") if taken == "GET" and operation != "SubscribeToTask" else (taken,)
        if match is not None and method in reads:
            return operation, match.groupdict()
        if match is not None:
            allowed.extend(reads)
    if allowed:
        raise BadMethod(wire.PROTOCOL, "method", ", ".join(allowed))
    raise MethodNotFoundError("not found")


# -- what is answered -------------------------------------------------------------------------------


def _result(answer: Any, asked: Any) -> Any:
    """An answer as plain JSON."""
    if isinstance(answer, pb.ListTasksResponse):
        return serialize_list_tasks_response(answer, asked.include_artifacts)
    if isinstance(asked, pb.SendMessageRequest):
        return {"message" if isinstance(answer, pb.Message) else "task": wire.plain(answer)}
    if isinstance(answer, BaseModel):
        return answer.model_dump(mode="json", by_alias=True, exclude_none=True)
    if isinstance(answer, list):
        return [_result(item, asked) for item in answer]
    return None if answer is None else wire.plain(answer)


Encode = Callable[[Any], Mapping[str, Any]]
Wrong = Callable[[SabirError | A2AError], Mapping[str, Any]]


async def _events(answer: AsyncGenerator[Any], encode: Encode, result: Wrong) -> AsyncGenerator[bytes]:
    """A stream of answers as server-sent events. A failure before the first is raised, later it is an event."""
    begun = False
    try:
        async for item in answer:
            yield event(encode(item))
            begun = True
    except (SabirError, A2AError) as exc:
        if not begun:
            raise
        yield event(result(exc), exc=True)
    finally:
        await answer.aclose()


def _rpc_events(answer: AsyncGenerator[Any], request_id: str | int | None) -> AsyncGenerator[bytes]:
    def encode(event: Any) -> Mapping[str, Any]:
        if isinstance(event, BaseModel):  # the 0.3 layer returns whole JSON-RPC responses
            return event.model_dump(mode="json", by_alias=True, exclude_none=True)
        return {"jsonrpc": "2.0", "id": request_id, "result": wire.plain(to_stream_response(event))}

    return _events(answer, encode, partial(rpc_error, request_id))


def _rest_events(answer: AsyncGenerator[Any]) -> AsyncGenerator[bytes]:
    return _events(answer, lambda item: wire.plain(to_stream_response(item)), rest_error)

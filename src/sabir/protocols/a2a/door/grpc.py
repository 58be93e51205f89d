"""A2A over gRPC, beside the HTTP server, on a separate port: the SDK's servicer in front of the same operations.

``tenant`` names the agent; the card says so. 0.3 has no such field, so its clients reach the default agent. Without TLS
only on loopback.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Annotated, Any, Final
from urllib.parse import urlsplit

import msgspec

from sabir.errors import ConfigError, MissingExtra, SabirError, TooLarge, Unauthenticated, Unreadable
from sabir.guard import Credentials
from sabir.guard.quotas.rates import is_loopback
from sabir.http.admission import Admission
from sabir.http.door import DoorContext
from sabir.http.fallback import BROKEN
from sabir.http.request import hops_of
from sabir.limits import BYTES_AS_A_VALUE, FEW_BYTES
from sabir.protocols.a2a.wire import content as wire
from sabir.turn import ANONYMOUS

from .handler import DOOR, A2aCall, Operations, calling
from .http import WEIGHT, RpcProblem, details, problem_of

try:
    import grpc
    from a2a.compat.v0_3 import a2a_v0_3_pb2, a2a_v0_3_pb2_grpc
    from a2a.compat.v0_3.grpc_handler import CompatGrpcHandler
    from a2a.server.context import ServerCallContext
    from a2a.server.request_handlers.grpc_handler import GrpcHandler
    from a2a.types import a2a_pb2_grpc
    from a2a.utils.errors import A2A_ERROR_MAPPING, JSON_RPC_ERROR_CODE_MAP, A2AError
    from google.protobuf.json_format import ParseDict
    from google.protobuf.message import DecodeError
    from google.rpc import error_details_pb2, status_pb2  # type: ignore[import-untyped]
except ImportError as missing:
    raise MissingExtra("A2A over gRPC", "a2a-grpc") from missing

logger = logging.getLogger("sabir")

_OLD: Final = f"/{a2a_v0_3_pb2.DESCRIPTOR.services_by_name['A2AService'].full_name}/"
_KINDS: Final = {JSON_RPC_ERROR_CODE_MAP[kind]: kind for kind in A2A_ERROR_MAPPING}
_DETAILS: Final = error_details_pb2.DESCRIPTOR  # registers the types of details, so that they can be packed
_GRACE: Final = 2.0  # time for running calls when the gateway stops
_PROOFS: Final = ("x-api-key", "dpop")
_EVERYWHERE: Final = frozenset({"0.0.0.0", "::", "[::]"})
# The path of the current call, which the SDK's servicer does not expose.
_PATH: ContextVar[str] = ContextVar("path", default="")
_REQUEST: ContextVar[Any] = ContextVar("request", default=None)  # which the servicer of 0.3 does not pass on


class GrpcSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``doors.a2a.grpc`` of the configuration."""

    port: Annotated[int, msgspec.Meta(ge=0, le=65535)]
    host: str = "127.0.0.1"
    certificate: str | None = None  # both in PEM
    key: str | None = None
    address: str | None = None  # host and port for clients, if they differ
    listed: bool = False  # in every agent card; google-adk rejects a card with an interface on another port


class Here:
    """Where calls arrive, and who makes them."""

    def __init__(self, services: DoorContext) -> None:
        self.services = services
        self.url = ""  # scheme, host and port; known when it listens

    def call(self, context: Any, agent: str = "", version: str = wire.VERSION) -> ServerCallContext:
        """Raises:
        NotFound: there is no such agent, and the caller may know that; otherwise it is treated as a hidden one.
        """
        metadata = {str(key): value for key, value in context.invocation_metadata() or () if isinstance(value, str)}
        # The called service determines the version; metadata may only confirm it.
        wire.version_of(metadata.get("a2a-version", "") or version, version)
        agent = agent or self.services.default_agent
        if self.services.open_to_all:
            self.services.find(ANONYMOUS, agent, DOOR)
        credentials = Credentials(
            _address(context.peer()),
            metadata.get("authorization"),
            headers={name: metadata[name] for name in _PROOFS if name in metadata},
            method="POST",  # every call over HTTP/2 is a POST; a DPoP proof covers this and its address
            url=self.url + _PATH.get(),
        )
        hops = hops_of(metadata.get("x-sabir-hops", ""))
        admission = Admission(self.services, DOOR, credentials, agent)
        return calling(A2aCall(agent, admission, version, metadata.get("traceparent"), hops))

    async def weigh(self, request: Any, call: ServerCallContext) -> ServerCallContext:
        """Check the cost of a request before it is processed, as ``read_json`` does for JSON.

        Raises:
            TooLarge: it has too many values.
            RateLimited: the address is over its rate.
        """
        size = 0 if request is None else request.ByteSize()
        if size < FEW_BYTES:
            return call
        admission, limit = call.state["call"].admission, self.services.limits.values // WEIGHT
        admission.size = size
        admission.check_open()
        count = count_messages(request, limit)
        if count > limit:
            raise TooLarge(wire.PROTOCOL, "$", f"at most {limit} values")
        async with self.services.heavy.work(WEIGHT * (count + size // BYTES_AS_A_VALUE), admission):
            return call


def count_messages(request: Any, limit: int) -> int:
    """How many messages, such as values, a protobuf message contains; stops beyond ``limit``."""
    count, left = 0, [request]
    while left and count <= limit:
        count += 1
        for field, value in left.pop().ListFields():
            if field.message_type is None:
                continue
            if field.message_type.GetOptions().map_entry:
                if field.message_type.fields_by_name["value"].message_type is not None:
                    left.extend(value.values())
            elif field.is_repeated:
                left.extend(value)
            else:
                left.append(value)
    return count


class Servicer(GrpcHandler):
    """The SDK's servicer, with our callers, agents and errors."""

    def __init__(self, here: Here, operations: Operations) -> None:
        super().__init__(operations)
        self._here = here

    def _build_call_context(self, context: Any, request: Any) -> ServerCallContext:
        return self._here.call(context, getattr(request, "tenant", ""))

    async def _handle_unary(
        self, request: Any, context: Any, handler_func: Callable[[Any], Awaitable[Any]], default_response: Any
    ) -> Any:
        async with report_errors(context) as seen:
            return await handler_func(await self._here.weigh(request, seen(self._build_call_context(context, request))))
        return default_response

    async def _handle_stream(
        self, request: Any, context: Any, handler_func: Callable[[Any], AsyncIterable[Any]]
    ) -> AsyncIterable[Any]:
        async with report_errors(context) as seen:
            call = await self._here.weigh(request, seen(self._build_call_context(context, request)))
            async for item in handler_func(call):
                yield item


class OldServicer(CompatGrpcHandler):
    """The SDK's servicer of 0.3, with the same."""

    def __init__(self, here: Here, operations: Operations) -> None:
        super().__init__(operations)
        self._here = here

    async def _handle_unary(
        self, context: Any, handler_func: Callable[[Any], Awaitable[Any]], default_response: Any
    ) -> Any:
        async with report_errors(context, self) as seen:
            call = seen(self._here.call(context, version=wire.OLD_VERSION))
            return await handler_func(await self._here.weigh(_REQUEST.get(), call))
        return default_response

    async def _handle_stream(
        self, context: Any, handler_func: Callable[[Any], AsyncIterable[Any]]
    ) -> AsyncIterable[Any]:
        async with report_errors(context, self) as seen:
            call = seen(self._here.call(context, version=wire.OLD_VERSION))
            async for item in handler_func(await self._here.weigh(_REQUEST.get(), call)):
                yield item


class _Malformed:
    """Replaces a request that does not match its method."""

    def __init__(self, size: int) -> None:
        self.size = size


class CallInterceptor(grpc.aio.ServerInterceptor):  # type: ignore[misc]  # the package has no types
    """Records the called method, and rejects invalid requests like every other door."""

    def __init__(self, here: Here) -> None:
        self._here = here

    async def intercept_service(self, continuation: Callable[[Any], Awaitable[Any]], details: Any) -> Any:
        _PATH.set(details.method)
        handler = await continuation(details)
        if handler is None:
            return None

        def read(data: bytes) -> Any:
            try:
                return handler.request_deserializer(data)
            except DecodeError:
                return _Malformed(len(data))

        async def one(request: Any, context: Any) -> Any:
            _REQUEST.set(request)
            if isinstance(request, _Malformed):
                await self._refuse(context, request.size)
            return await handler.unary_unary(request, context)

        async def several(request: Any, context: Any) -> AsyncIterator[Any]:
            _REQUEST.set(request)
            if isinstance(request, _Malformed):
                await self._refuse(context, request.size)
            async for item in handler.unary_stream(request, context):
                yield item

        if handler.response_streaming:
            return grpc.unary_stream_rpc_method_handler(several, read, handler.response_serializer)
        return grpc.unary_unary_rpc_method_handler(one, read, handler.response_serializer)

    async def _refuse(self, context: Any, size: int) -> None:
        version = wire.OLD_VERSION if _PATH.get().startswith(_OLD) else wire.VERSION
        async with report_errors(context) as seen:
            seen(self._here.call(context, version=version)).state["call"].admission.size = size
            raise Unreadable(wire.PROTOCOL, "$", "a protobuf message of this method, with texts in UTF-8")


Seen = Callable[[ServerCallContext], ServerCallContext]


@asynccontextmanager
async def report_errors(context: Any, old: CompatGrpcHandler | None = None) -> AsyncIterator[Seen]:
    """Send failures to the client as a gRPC status, and write rejections to the audit log.

    ``old`` is the servicer of 0.3, whose clients recognise protocol errors by their text.
    """
    admissions: list[Admission] = []

    def seen(calling: ServerCallContext) -> ServerCallContext:
        admissions.append(calling.state["call"].admission)
        return calling

    try:
        yield seen
    except grpc.aio.AbortError:
        raise
    except Exception as raised:
        exc = raised if isinstance(raised, A2AError | SabirError) else _broken()
        for admission in admissions:
            exc = await admission.rejected(exc)
        problem = problem_of(exc)
        kind = _KINDS.get(problem.code)
        if old is not None and kind is not None and not problem.carried:
            await old.abort_context(kind(problem.text), context)
        await abort(context, exc, problem)


def _broken() -> SabirError:
    """What the caller learns of a defect; gRPC itself would send the text of the exception."""
    logger.exception("%s failed", _PATH.get())
    return SabirError(BROKEN)


async def abort(context: Any, exc: SabirError | A2AError, problem: RpcProblem) -> None:
    """End a call with the status of a failure, with its reason and fields as details (google.rpc.Status)."""
    code = grpc.StatusCode[problem.word]
    status = status_pb2.Status(code=code.value[0], message=problem.text)
    ParseDict({"details": details(problem)}, status)
    trailers: list[tuple[str, str | bytes]] = [("grpc-status-details-bin", status.SerializeToString())]
    if isinstance(exc, Unauthenticated):
        trailers.append(("www-authenticate", exc.challenge))
    context.set_trailing_metadata(tuple(trailers))
    await context.abort(code, problem.text)


def _address(peer: str) -> str:
    """``ipv4:127.0.0.1:5000`` and ``ipv6:%5B::1%5D:5000`` as addresses."""
    place = peer.partition(":")[2].replace("%5B", "[").replace("%5D", "]")
    return place.rpartition(":")[0].strip("[]")


class GrpcServer:
    """The gRPC side of the door."""

    def __init__(self, services: DoorContext, operations: Operations, settings: GrpcSettings) -> None:
        if settings.certificate is None and not is_loopback("" if settings.host == "localhost" else settings.host):
            raise ConfigError("doors.a2a.grpc: in the clear only on the loopback; give certificate and key")
        self._services = services
        self._here = Here(services)
        self._servicer, self._old = Servicer(self._here, operations), OldServicer(self._here, operations)
        self._settings = settings
        self._server: Any = None
        self.address = ""
        self.listed = settings.listed

    async def start(self) -> None:
        """Raises:
        ConfigError: the port is taken, or the certificate cannot be read.
        """
        options = [("grpc.max_receive_message_length", self._services.limits.body), ("grpc.so_reuseport", 0)]
        self._server = grpc.aio.server(interceptors=(CallInterceptor(self._here),), options=options)
        a2a_pb2_grpc.add_A2AServiceServicer_to_server(self._servicer, self._server)  # type: ignore[no-untyped-call]
        a2a_v0_3_pb2_grpc.add_A2AServiceServicer_to_server(self._old, self._server)  # type: ignore[no-untyped-call]
        place = f"{self._settings.host}:{self._settings.port}"
        try:
            port = (
                self._server.add_insecure_port(place)
                if self._settings.certificate is None
                else self._server.add_secure_port(place, self._credentials())
            )
        except RuntimeError:
            raise ConfigError(f"doors.a2a.grpc: {place} cannot be used") from None
        self.address = self._settings.address or f"{self._host}:{port}"
        self._here.url = f"{'http' if self._settings.certificate is None else 'https'}://{self.address}"
        await self._server.start()

    @property
    def _host(self) -> str:
        """The host in a card: if we listen on all addresses, it is the gateway's."""
        host = self._settings.host
        return (urlsplit(self._services.public_url).hostname or host) if host in _EVERYWHERE else host

    def _credentials(self) -> Any:
        try:
            key, chain = (
                Path(self._settings.key or "").read_bytes(),
                Path(self._settings.certificate or "").read_bytes(),
            )
        except OSError as exc:
            raise ConfigError(f"doors.a2a.grpc: {exc.filename}: {exc.strerror}") from None
        return grpc.ssl_server_credentials([(key, chain)])

    async def stop(self) -> None:
        if self._server is not None:
            await self._server.stop(_GRACE)

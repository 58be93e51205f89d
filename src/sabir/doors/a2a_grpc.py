"""A2A over gRPC, beside the HTTP server, on a port of its own: the SDK's servicer in front of the same operations.

Which agent is meant stands in ``tenant``; the card says so. In 0.3 nothing says it, so that clients of it speak to the
default agent. In the clear only on the loopback.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Annotated, Any, Final
from urllib.parse import urlsplit

import msgspec

from ..errors import BadSetup, MissingExtra, SabirError, Unauthenticated
from ..guard import Credentials
from ..guard.limits import is_loopback
from ..turn import ANONYMOUS
from ..wire import a2a as wire
from .a2a_http import problem_of
from .a2a_tasks import DOOR, Call, Operations, calling
from .base import House, hops_of
from .visitor import Visitor

try:
    import grpc
    from a2a.compat.v0_3 import a2a_v0_3_pb2_grpc
    from a2a.compat.v0_3.grpc_handler import CompatGrpcHandler
    from a2a.server.context import ServerCallContext
    from a2a.server.request_handlers.grpc_handler import GrpcHandler
    from a2a.types import a2a_pb2_grpc
    from a2a.utils.errors import A2A_ERROR_MAPPING, JSON_RPC_ERROR_CODE_MAP, A2AError
except ImportError as missing:
    raise MissingExtra("A2A over gRPC", "a2a-grpc") from missing

_KINDS: Final = {JSON_RPC_ERROR_CODE_MAP[kind]: kind for kind in A2A_ERROR_MAPPING}
_GRACE: Final = 2.0  # seconds that calls under way have when the gateway stops
_PROOFS: Final = ("x-api-key", "dpop")
_EVERYWHERE: Final = frozenset({"0.0.0.0", "::", "[::]"})
# The path of the call that is being answered, which the SDK's servicer does not tell.
_PATH: ContextVar[str] = ContextVar("path", default="")


class GrpcSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``doors.a2a.grpc`` of the configuration."""

    port: Annotated[int, msgspec.Meta(ge=0, le=65535)]
    host: str = "127.0.0.1"
    certificate: str | None = None  # both in PEM
    key: str | None = None
    address: str | None = None  # host and port where clients reach it, if not there


class Paths(grpc.aio.ServerInterceptor):  # type: ignore[misc]  # the package has no types
    """Notes which method is called."""

    async def intercept_service(self, continuation: Callable[[Any], Awaitable[Any]], details: Any) -> Any:
        _PATH.set(details.method)
        return await continuation(details)


class Here:
    """Where calls arrive, and who makes them."""

    def __init__(self, house: House) -> None:
        self.house = house
        self.url = ""  # scheme, host and port; known when it listens

    def call(self, context: Any, agent: str = "", version: str = wire.VERSION) -> ServerCallContext:
        """Raises:
        NotFound: there is no such agent, and that is no secret; else it is asked for as one that is hidden.
        """
        told = {str(key): value for key, value in context.invocation_metadata() or () if isinstance(value, str)}
        agent = agent or self.house.exchange.default
        if self.house.open_to_all:
            self.house.find(ANONYMOUS, agent, DOOR)
        credentials = Credentials(
            _address(context.peer()),
            told.get("authorization"),
            headers={name: told[name] for name in _PROOFS if name in told},
            method="POST",  # what every call is over HTTP/2; a DPoP proof is for this and its address
            url=self.url + _PATH.get(),
        )
        hops = hops_of(told.get("x-sabir-hops", ""))
        visitor = Visitor(self.house, DOOR, credentials, agent)
        return calling(Call(agent, visitor, version, told.get("traceparent"), hops))


class Servicer(GrpcHandler):
    """The SDK's servicer, with our callers, our agents and our failures."""

    def __init__(self, here: Here, operations: Operations) -> None:
        super().__init__(operations)
        self._here = here

    def _build_call_context(self, context: Any, request: Any) -> ServerCallContext:
        return self._here.call(context, getattr(request, "tenant", ""))

    async def _handle_unary(
        self, request: Any, context: Any, handler_func: Callable[[Any], Awaitable[Any]], default_response: Any
    ) -> Any:
        async with told(self, context) as seen:
            return await handler_func(seen(self._build_call_context(context, request)))
        return default_response

    async def _handle_stream(
        self, request: Any, context: Any, handler_func: Callable[[Any], AsyncIterable[Any]]
    ) -> AsyncIterable[Any]:
        async with told(self, context) as seen:
            async for item in handler_func(seen(self._build_call_context(context, request))):
                yield item


class OldServicer(CompatGrpcHandler):
    """The SDK's servicer of 0.3, with the same."""

    def __init__(self, here: Here, operations: Operations) -> None:
        super().__init__(operations)
        self._here = here

    async def _handle_unary(
        self, context: Any, handler_func: Callable[[Any], Awaitable[Any]], default_response: Any
    ) -> Any:
        async with told(self, context) as seen:
            return await handler_func(seen(self._here.call(context, version=wire.OLD_VERSION)))
        return default_response

    async def _handle_stream(
        self, context: Any, handler_func: Callable[[Any], AsyncIterable[Any]]
    ) -> AsyncIterable[Any]:
        async with told(self, context) as seen:
            async for item in handler_func(seen(self._here.call(context, version=wire.OLD_VERSION))):
                yield item


Seen = Callable[[ServerCallContext], ServerCallContext]


@asynccontextmanager
async def told(servicer: GrpcHandler | CompatGrpcHandler, context: Any) -> AsyncIterator[Seen]:
    """What fails inside is told to the client in gRPC's words, and of a refusal also to the audit."""
    visitors: list[Visitor] = []

    def seen(calling: ServerCallContext) -> ServerCallContext:
        visitors.append(calling.state["call"].visitor)
        return calling

    try:
        yield seen
    except A2AError as wrong:
        await servicer.abort_context(wrong, context)
    except SabirError as wrong:
        for visitor in visitors:
            await visitor.refused(wrong)
        await refuse(servicer, context, wrong)


async def refuse(servicer: GrpcHandler | CompatGrpcHandler, context: Any, wrong: SabirError) -> None:
    """A failure of the protocol with its reason, one of the transport with its status."""
    problem = problem_of(wrong)
    kind = _KINDS.get(problem.code)
    if kind is not None and not problem.carried:
        return await servicer.abort_context(kind(problem.text), context)
    if isinstance(wrong, Unauthenticated):
        context.set_trailing_metadata((("www-authenticate", wrong.challenge),))
    await context.abort(grpc.StatusCode[problem.word], problem.text)


def _address(peer: str) -> str:
    """``ipv4:127.0.0.1:5000`` and ``ipv6:%5B::1%5D:5000`` as addresses."""
    place = peer.partition(":")[2].replace("%5B", "[").replace("%5D", "]")
    return place.rpartition(":")[0].strip("[]")


class GrpcServer:
    """The gRPC side of the door."""

    def __init__(self, house: House, operations: Operations, settings: GrpcSettings) -> None:
        if settings.certificate is None and not is_loopback("" if settings.host == "localhost" else settings.host):
            raise BadSetup("doors.a2a.grpc: in the clear only on the loopback; give certificate and key")
        self._house = house
        self._here = Here(house)
        self._servicer, self._old = Servicer(self._here, operations), OldServicer(self._here, operations)
        self._settings = settings
        self._server: Any = None
        self.address = ""

    async def start(self) -> None:
        """Raises:
        BadSetup: the port is taken, or the certificate cannot be read.
        """
        most = self._house.limits.body
        options = [("grpc.max_receive_message_length", most), ("grpc.so_reuseport", 0)]
        self._server = grpc.aio.server(interceptors=(Paths(),), options=options)
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
            raise BadSetup(f"doors.a2a.grpc: {place} cannot be used") from None
        self.address = self._settings.address or f"{self._host}:{port}"
        self._here.url = f"{'http' if self._settings.certificate is None else 'https'}://{self.address}"
        await self._server.start()

    @property
    def _host(self) -> str:
        """The host that a card names: who listens everywhere is reached where the gateway is."""
        host = self._settings.host
        return (urlsplit(self._house.public_url).hostname or host) if host in _EVERYWHERE else host

    def _credentials(self) -> Any:
        try:
            key, chain = (
                Path(self._settings.key or "").read_bytes(),
                Path(self._settings.certificate or "").read_bytes(),
            )
        except OSError as wrong:
            raise BadSetup(f"doors.a2a.grpc: {wrong.filename}: {wrong.strerror}") from None
        return grpc.ssl_server_credentials([(key, chain)])

    async def stop(self) -> None:
        if self._server is not None:
            await self._server.stop(_GRACE)

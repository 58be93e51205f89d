"""A remote A2A agent, from the address of its card, through the official SDK's client.

The SDK speaks every binding and both versions. Here is what it leaves to its user: one pooled connection per peer,
a card whose addresses are only believed on its own origin, answers of limited size, going on with a task after a
dropped connection, polling where there is no stream, and telling the remote agent when we no longer want to know.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import ssl
from collections import OrderedDict
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import ExitStack, aclosing, suppress
from typing import Any, Final
from uuid import uuid4

import msgspec

from .._version import __version__
from ..errors import (
    BadInput,
    BadSetup,
    Forbidden,
    MissingExtra,
    PeerError,
    PeerRefused,
    PeerUnavailable,
    PeerUnreadable,
)
from ..events import Event, Fault, Question, Reply
from ..message import Message, printable
from ..turn import ANONYMOUS
from ..wire import a2a as wire
from ..wire.a2a_card import card_from
from ..wire.a2a_heard import Heard
from .a2a_hooks import Hook, Hooks
from .base import SECONDS, Call, Clock, Identity, OnWire, Peer, choose, origin_of, without_credentials
from .foreign import reason_in
from .on_wire import request_head, response_head
from .reasons import why_no_connection

try:
    import httpx
    from a2a.client import A2ACardResolver, Client, ClientCallContext, ClientConfig, ClientFactory
    from a2a.client.errors import A2AClientError, A2AClientTimeoutError, AgentCardResolutionError
    from a2a.types import a2a_pb2 as pb
    from a2a.utils.errors import JSON_RPC_ERROR_CODE_MAP, A2AError
    from a2a.utils.signing import SignatureVerificationError, create_signature_verifier
    from google.protobuf.json_format import ParseError
    from jwt import PyJWK, PyJWKSet
    from jwt.exceptions import PyJWKError, PyJWTError
except ImportError as missing:
    raise MissingExtra("A2A", "a2a") from missing

logger = logging.getLogger("sabir.a2a")

WELL_KNOWN: Final = "/.well-known/agent-card.json"
GRPC: Final = "GRPC"
BINDINGS: Final = ("JSONRPC", "HTTP+JSON")  # and GRPC, where the extra is installed and it is asked for
MOST_BYTES: Final = 64 * 1024 * 1024
POLLS: Final = (0.05, 0.1, 0.2, 0.5, 1.0)  # seconds between looks at a task; the last one again and again
RECONNECTS: Final = (0.0, 0.2, 0.5, 1.0, 2.0)  # seconds before each try to go on with a dropped stream
_ALGORITHMS: Final = ("ES256", "ES384", "ES512", "EdDSA", "RS256")
_UNRUNG: Final = 15.0  # seconds after which we look, even if nobody rang
_GOODBYE: Final = 2.0  # seconds that telling the remote agent may take when nobody waits any more
_MOST_CONVERSATIONS: Final = 10_000
_REASON: Final = 500
_AT_ONCE: Final = pb.SendMessageConfiguration(return_immediately=True)


class Place(msgspec.Struct, frozen=True):
    """Where one of our conversations is over there: its contextId, and the task that waits for our answer."""

    context: str = ""
    task: str = ""


class _Going:
    """One call on its way: its first answer, which tells the task, is waited for even if the caller leaves before."""

    __slots__ = ("first", "hook", "stream")

    def __init__(self) -> None:
        self.hook: Hook | None = None  # where the agent rings, if it does
        self.stream: AsyncIterator[pb.StreamResponse] | None = None
        self.first: asyncio.Future[pb.StreamResponse | None] | None = None

    @property
    def is_open(self) -> bool:
        return self.first is not None and not self.first.done()


class _Whole(Clock):
    """The time that a task may take over there: what our turn has, if that is more than an answer may take."""

    __slots__ = ("_call", "_clock")

    def __init__(self, call: Call, clock: Clock) -> None:
        self._call, self._clock = call, clock

    @property
    def left(self) -> float:
        return max(self._clock.left, self._call.whole() if self._call.whole is not None else 0.0)


class A2aPeer(Peer):
    """``async with A2aPeer("https://example.com") as peer: await peer.ask("hello")``."""

    protocol = "a2a"

    def __init__(
        self,
        url: str,
        *,
        name: str | None = None,
        seconds: float = SECONDS,
        identities: tuple[Identity, ...] = (),
        headers: Mapping[str, str] | None = None,
        bindings: tuple[str, ...] = BINDINGS,
        origins: tuple[str, ...] = (),
        streaming: bool = True,
        push: bool = False,
        card_keys: Mapping[str, Any] | None = None,
        verify: ssl.SSLContext | None = None,
        connections: int = 100,
        most_bytes: int = MOST_BYTES,
        on_wire: OnWire | None = None,
    ) -> None:
        """Args beside those of every peer:

        url: of the agent (its card is below it, at the well-known path) or of the card itself.
        identities: who we may be, by service; shown when asked with 401.
        bindings: which may be used, the one we like best first.
        origins: where the card may send us beside its own origin.
        streaming: False polls instead.
        push: have it ring at our gateway's A2A door instead of polling; needs an address that it can reach.
        card_keys: a JSON Web Key Set; a card that none of them has signed is refused.
        on_wire: called with each request and response as it was on the wire, credentials hidden; not over gRPC.
        """
        super().__init__(url, name=name, seconds=seconds)
        self._named = name is not None
        self._places: OrderedDict[str, Place] = OrderedDict()
        self._identities = identities
        self._origins = frozenset(origin_of(each) for each in (url, *origins))
        self._bindings = bindings
        self._streaming = streaming and not push
        self.hooks = Hooks() if push else None  # the door says where they are
        self._most = most_bytes
        self._verifier = _verifier(card_keys) if card_keys is not None else None
        self._client: Client | None = None
        self._service = ""  # the origin that our messages go to
        self._authorization: str | None = None
        self._rings = False  # whether the agent can push
        self._connecting = asyncio.Lock()
        self._goodbyes: set[asyncio.Task[None]] = set()
        self._http = httpx.AsyncClient(
            transport=Limited(verify or _tls(), connections, most_bytes, on_wire),
            timeout=httpx.Timeout(seconds, connect=10.0),
            trust_env=False,
            headers={"user-agent": f"sabir/{__version__}", "accept-encoding": "identity", **(headers or {})},
        )

    # -- talking ----------------------------------------------------------------------------------

    async def talk(self, message: Message, call: Call) -> AsyncGenerator[Event, None]:
        clock = Clock(call.seconds)
        client = await self._connected(clock, call.headers)
        heard, going = Heard(), _Going()
        request = self._request(message, call)
        heard.task = request.message.task_id
        hook = self._hook(request, going)
        try:
            async with aclosing(self._events(client, request, heard, going, call, clock)) as events:
                async for event in events:
                    if isinstance(event, Reply | Fault | Question):
                        self._keep(call.conversation, heard)
                        yield event
                        return
                    yield event
            raise PeerUnreadable(self.address, "it ended without an answer")
        except PeerRefused as refused:
            if isinstance(refused.status, int) and refused.status < 0 and not heard.state:
                self._leave_task(call.conversation)  # it takes no answer any more; what is said next begins another
            raise
        finally:
            hook.close()
            if going.is_open or (heard.task and not heard.ended and not heard.asks):
                self._say_goodbye(client, heard, going, call)

    def _request(self, message: Message, call: Call) -> pb.SendMessageRequest:
        place = self._places.get(call.conversation, Place())
        sent = wire.message_to(
            message.without_tokens(), id=call.key or uuid4().hex, context=place.context, task=place.task
        )
        polls = not (self._streaming and self.card.streams)  # then the answer is looked for, not waited for on the line
        return pb.SendMessageRequest(message=sent, configuration=_AT_ONCE if polls else None)

    def _hook(self, request: pb.SendMessageRequest, going: _Going) -> ExitStack:
        """Ask to be rung up about the task, if we are to be and the agent can."""
        stack = ExitStack()
        if self.hooks is not None and self.hooks.url and self._rings:
            going.hook = stack.enter_context(self.hooks.opened())
            request.configuration.return_immediately = True
            config = request.configuration.task_push_notification_config
            config.url, config.token = going.hook.url, going.hook.token
        return stack

    def _keep(self, conversation: str, heard: Heard) -> None:
        """Remember where the conversation is, so that its next message goes there."""
        self._places[conversation] = Place(heard.context, heard.task if heard.asks else "")
        self._places.move_to_end(conversation)
        if len(self._places) > _MOST_CONVERSATIONS:
            self._places.popitem(last=False)

    def _leave_task(self, conversation: str) -> None:
        place = self._places.get(conversation)
        if place is not None:
            self._places[conversation] = Place(place.context)

    def _left(self) -> Any:
        return msgspec.to_builtins(self._places.get("", Place()))

    def _take_up(self, left: Any) -> None:
        self._places[""] = msgspec.convert(left, Place)

    async def _events(
        self, client: Client, request: pb.SendMessageRequest, heard: Heard, going: _Going, call: Call, clock: Clock
    ) -> AsyncGenerator[Event, None]:
        """Everything about one message: its stream, and what follows when that breaks off or there is none."""
        try:
            async for event in self._sent(client, request, heard, going, call, clock):
                yield event
        except PeerUnavailable:
            if not heard.state:
                raise  # it may never have got there; whoever sent it decides
        if heard.ended or heard.asks or not heard.task:
            return
        clock = _Whole(call, clock)
        if self._streaming and self.card.streams:
            async for event in self._resumed(client, heard, call, clock):
                yield event
        if not (heard.ended or heard.asks):
            async for event in self._polled(client, heard, going, call, clock):
                yield event

    async def _sent(
        self, client: Client, request: pb.SendMessageRequest, heard: Heard, going: _Going, call: Call, clock: Clock
    ) -> AsyncGenerator[Event, None]:
        """What comes back for a message; if the agent asks who we are, once more with an answer to that."""
        for _ in range(2):
            stream = client.send_message(request, context=self._context(call, clock))
            try:
                async for event in self._hear(stream, heard, going):
                    yield event
                return
            except PeerRefused as refused:
                shown = choose(self._identities, self._service, "") if refused.status == 401 else None
                if shown is None or shown == self._authorization:
                    raise
                self._authorization = shown

    async def _resumed(self, client: Client, heard: Heard, call: Call, clock: Clock) -> AsyncGenerator[Event, None]:
        """Go on with a task whose stream broke off."""
        for pause in RECONNECTS:
            await asyncio.sleep(min(pause, clock.left))
            if not clock.left:
                return
            try:
                stream = client.subscribe(pb.SubscribeToTaskRequest(id=heard.task), context=self._context(call, clock))
                async for event in self._hear(stream, heard):
                    yield event
            except PeerUnavailable:
                continue
            except PeerRefused:
                return  # it has ended meanwhile, or cannot do this: look at it instead
            if heard.ended or heard.asks:
                return

    async def _polled(
        self, client: Client, heard: Heard, going: _Going, call: Call, clock: Clock
    ) -> AsyncGenerator[Event, None]:
        """Look at a task until it has ended or asks something."""
        failed = 0
        for number in range(1_000_000):
            try:
                with _Told(self.address):
                    task = await client.get_task(pb.GetTaskRequest(id=heard.task), context=self._context(call, clock))
                failed = 0
                for event in self._read(pb.StreamResponse(task=task), heard):
                    yield event
            except PeerUnavailable:
                failed += 1
                if failed >= len(RECONNECTS):
                    raise
            if heard.ended or heard.asks:
                return
            if not clock.left:
                raise PeerUnavailable(self.address, "no answer in time")
            if going.hook is not None:
                await going.hook.rung(min(_UNRUNG, clock.left))
            else:
                await asyncio.sleep(min(POLLS[min(number, len(POLLS) - 1)], clock.left))

    async def _hear(
        self, stream: AsyncIterator[pb.StreamResponse], heard: Heard, going: _Going | None = None
    ) -> AsyncGenerator[Event, None]:
        with _Told(self.address):
            if going is not None:
                going.stream, going.first = stream, asyncio.ensure_future(_next(stream))
                first = await asyncio.shield(going.first)
                if first is None:
                    return
                for event in self._read(first, heard):
                    yield event
            async for response in stream:
                for event in self._read(response, heard):
                    yield event
                if heard.ended or heard.asks:
                    return

    def _read(self, response: pb.StreamResponse, heard: Heard) -> list[Event]:
        try:
            return heard.hear(response)
        except BadInput as wrong:
            raise PeerUnreadable(self.address, str(wrong)) from None

    def _context(self, call: Call, clock: Clock) -> ClientCallContext:
        headers = {"x-sabir-hops": str(call.hops)} if call.hops else {}
        if call.trace is not None:
            headers["traceparent"] = call.trace
        if self._authorization is not None:
            headers["authorization"] = self._authorization
        if self._service == _origin(self.url):  # a card may point elsewhere, where this identity must not go
            headers.update(call.headers)
        return ClientCallContext(timeout=max(0.001, clock.left), service_parameters=headers)

    # -- ending -----------------------------------------------------------------------------------

    def _say_goodbye(self, client: Client, heard: Heard, going: _Going, call: Call) -> None:
        """Nobody waits for this task any more: cancel it over there, without holding up who left."""
        saying = asyncio.ensure_future(self._cancel(client, heard, going, call))
        self._goodbyes.add(saying)
        saying.add_done_callback(self._goodbyes.discard)

    async def _cancel(self, client: Client, heard: Heard, going: _Going, call: Call) -> None:
        try:
            with _Told(self.address):
                async with asyncio.timeout(_GOODBYE):
                    if going.first is not None and going.is_open:
                        first = await going.first  # which task it is, only its first answer says
                        self._read(first or pb.StreamResponse(task=pb.Task()), heard)
                    if heard.task and not heard.ended:
                        context = self._context(call, Clock(_GOODBYE))  # as whom it was asked: only they may
                        await client.cancel_task(pb.CancelTaskRequest(id=heard.task), context=context)
        except (PeerError, TimeoutError) as wrong:
            logger.info("could not cancel: %s", wrong)

    async def aclose(self) -> None:
        if self._goodbyes:
            await asyncio.wait(self._goodbyes, timeout=_GOODBYE)
        if self._client is not None and GRPC in self._bindings:
            await self._client.close()
        await self._http.aclose()

    # -- connecting -------------------------------------------------------------------------------

    async def discover(self) -> None:
        """Read the remote card, so that ours says what the agent can do.

        Raises:
            PeerError: it cannot be read.
        """
        own: Mapping[str, str] = {}
        if self.outgoing is not None:
            with suppress(Forbidden):  # it must know who asks, and nobody does yet
                own = await self.outgoing.headers(self.url, ANONYMOUS)
        await self._connected(Clock(self.seconds), own)

    async def _connected(self, clock: Clock, known: Mapping[str, str]) -> Client:
        if self._client is not None:
            return self._client
        async with self._connecting:
            if self._client is None:
                card = await self._fetched(clock, known)
                self._client = self._made(card)
                told = card_from(card)
                self._rings = card.capabilities.push_notifications
                self.card = msgspec.structs.replace(told, name=self.card.name if self._named else told.name)
            return self._client

    async def _fetched(self, clock: Clock, known: Mapping[str, str]) -> pb.AgentCard:
        """The card; if it is not for everybody, shown to one of our identities, or to who is ``known`` over there."""
        base, path = _card_place(self.url)
        self._authorization = choose(self._identities, _origin(base), None)
        resolver = A2ACardResolver(self._http, base, path)
        headers = {"authorization": self._authorization} if self._authorization else {}
        for _ in range(2):
            try:
                with _Told(self.address):
                    return await resolver.get_agent_card(
                        http_kwargs={"headers": headers, "timeout": clock.left}, signature_verifier=self._verifier
                    )
            except SignatureVerificationError:
                raise PeerUnreadable(self.address, "its card is not signed by a key we know") from None
            except PeerRefused as refused:
                shown = choose(self._identities, _origin(base), "") if refused.status == 401 else None
                if shown is None and refused.status == 401 and known and headers != known:
                    headers = dict(known)  # for this once; a turn has its own
                    continue
                if shown is None or shown == self._authorization:
                    raise
                self._authorization, headers = shown, {"authorization": shown}
        raise PeerRefused(self.address, "it does not know us", 401)

    def _made(self, card: pb.AgentCard) -> Client:
        """A client for the interfaces that stand where the card itself stands, or where we were told they may."""
        near = [each for each in card.supported_interfaces if self._is_near(each)]
        usable = [each for each in near if each.protocol_binding in self._bindings]
        if not usable:
            where = "elsewhere" if not near and card.supported_interfaces else "none that we speak"
            raise PeerUnreadable(self.address, f"its card names no interface to use here ({where})")
        del card.supported_interfaces[:]
        card.supported_interfaces.extend(usable)
        self._service = _origin(self.url if usable[0].protocol_binding == GRPC else usable[0].url)
        if self._service != _origin(self.url):
            self._authorization = choose(self._identities, self._service, None)  # what one service knows, no other does
        config = ClientConfig(
            streaming=self._streaming,
            httpx_client=self._http,
            grpc_channel_factory=self._channel,
            supported_protocol_bindings=list(self._bindings),
            use_client_preference=True,
        )
        return ClientFactory(config).create(card)

    def _is_near(self, interface: pb.AgentInterface) -> bool:
        if interface.protocol_binding == GRPC:  # host and port alone; the port is always another
            return interface.url.rpartition(":")[0].strip("[]") == (httpx.URL(self.url).host)
        return _origin_or_none(interface.url) in self._origins

    def _channel(self, target: str) -> Any:
        """A gRPC channel as safe as the address of the card: in the clear only where that is."""
        try:
            from grpc import aio, ssl_channel_credentials  # noqa: PLC0415  # an extra of its own
        except ImportError as missing:
            raise MissingExtra("A2A over gRPC", "a2a-grpc") from missing
        options = [("grpc.max_receive_message_length", self._most)]
        if self.url.startswith("https:"):
            return aio.secure_channel(target, ssl_channel_credentials(), options)
        return aio.insecure_channel(target, options)


class Limited(httpx.AsyncHTTPTransport):
    """An HTTP transport whose responses end at a size, and are never packed: a small one could become a huge one."""

    def __init__(self, tls: ssl.SSLContext, connections: int, most: int, on_wire: OnWire | None = None) -> None:
        limits = httpx.Limits(max_connections=connections, max_keepalive_connections=connections)
        super().__init__(verify=tls, limits=limits, trust_env=False)
        self._most = most
        self._on_wire = on_wire

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if self._on_wire is not None:
            self._on_wire("sent", request_head(request) + await request.aread())
        response = await super().handle_async_request(request)
        if self._on_wire is not None:
            self._on_wire("received", response_head(response))
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            await response.aclose()
            raise httpx.DecodingError("the answer is packed", request=request)
        assert isinstance(response.stream, httpx.AsyncByteStream)
        response.stream = _Counted(response.stream, self._most, request, self._on_wire)
        return response


class _Counted(httpx.AsyncByteStream):
    def __init__(self, inner: httpx.AsyncByteStream, most: int, request: httpx.Request, on_wire: OnWire | None) -> None:
        self._inner = inner
        self._on_wire = on_wire
        self._left = most
        self._request = request

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self._inner:
            if self._on_wire is not None:
                self._on_wire("received", piece)
            self._left -= len(piece)
            if self._left < 0:
                raise httpx.DecodingError("the answer is too long", request=self._request)
            yield piece

    async def aclose(self) -> None:
        await self._inner.aclose()


class _Told:
    """Turns what the SDK raises into peer errors; whatever it says is cut short and made printable."""

    __slots__ = ("_address",)

    def __init__(self, address: str) -> None:
        self._address = address

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, wrong: BaseException | None, trace: Any) -> None:
        if wrong is None or not isinstance(wrong, A2AError | httpx.HTTPError | ParseError | ValueError):
            return
        raise _peer_error(self._address, wrong) from None


_GRPC_STATUS: Final = {"UNAUTHENTICATED": 401, "PERMISSION_DENIED": 403, "RESOURCE_EXHAUSTED": 429}


def _peer_error(address: str, wrong: Exception) -> PeerError:
    cause = wrong.__cause__
    code = getattr(cause, "code", None)
    word = code().name if callable(code) else ""  # of a gRPC error
    if word in _GRPC_STATUS:
        why = printable(cause.details() or "", _REASON)  # type: ignore[union-attr]  # a call that failed has them
        return PeerRefused(address, f"it answered {word}{f': {why}' if why else ''}", _GRPC_STATUS[word])
    if word in ("UNAVAILABLE", "DEADLINE_EXCEEDED", "CANCELLED"):
        return PeerUnavailable(address, "the connection failed")
    if isinstance(cause, httpx.HTTPStatusError):
        status = cause.response.status_code
        told = type(wrong) in JSON_RPC_ERROR_CODE_MAP  # said by the agent, and not by what stands before it
        broken = status == 503 or (status >= 500 and not told)
        return PeerRefused(address, reason_in(cause.response.content, status), status, broken=broken)
    if isinstance(wrong, AgentCardResolutionError) and wrong.status_code is not None:
        status = wrong.status_code
        return PeerRefused(address, f"it answered {status} for its card", status, broken=status >= 500)
    if isinstance(wrong, A2AClientTimeoutError | httpx.TimeoutException):
        return PeerUnavailable(address, "no answer in time")
    if isinstance(cause, httpx.DecodingError) or isinstance(wrong, httpx.DecodingError):
        return PeerUnreadable(address, "its answer is packed or too long")
    if isinstance(cause, httpx.RequestError) or isinstance(wrong, httpx.HTTPError):
        return PeerUnavailable(address, why_no_connection(wrong, "the connection failed"))
    if isinstance(wrong, A2AError) and type(wrong) in JSON_RPC_ERROR_CODE_MAP:
        said = printable(wrong.message, _REASON)
        return PeerRefused(address, said, JSON_RPC_ERROR_CODE_MAP[type(wrong)])
    if isinstance(wrong, A2AClientError):
        return PeerUnreadable(address, printable(wrong.message, _REASON))
    return PeerUnreadable(address, "its answer is not A2A")


def _verifier(keys: Mapping[str, Any]) -> Callable[[pb.AgentCard], None]:
    """Raises:
    BadSetup: this is no key set.
    """
    try:
        known = {key.key_id: key for key in PyJWKSet.from_dict(dict(keys)).keys}
    except PyJWTError:
        raise BadSetup("card_keys: expected a JSON Web Key Set") from None

    def key_of(kid: str | None, jku: str | None) -> PyJWK:
        found = known.get(kid)
        if found is None:  # where the card says its key is, anybody could have put one
            raise PyJWKError("not a key we know")
        return found

    return create_signature_verifier(key_of, list(_ALGORITHMS))


async def _next(stream: AsyncIterator[pb.StreamResponse]) -> pb.StreamResponse | None:
    return await anext(stream, None)


@functools.cache
def _tls() -> ssl.SSLContext:
    return ssl.create_default_context()


def _card_place(url: str) -> tuple[str, str]:
    """The base and the path of the card that belong to an address."""
    parts = httpx.URL(url)
    path = parts.path.rstrip("/")
    if path.endswith(".json"):
        return str(parts.copy_with(path="/", query=None)).rstrip("/"), path
    return str(parts.copy_with(path=path or "/", query=None)).rstrip("/"), WELL_KNOWN


def _origin(url: str) -> str:
    """Scheme and host as an identity names a service: without a port that goes without saying."""
    return origin_of(without_credentials(url)).removesuffix(":443" if url.startswith("https:") else ":80")


def _origin_or_none(url: str) -> str | None:
    try:
        return origin_of(url)
    except BadSetup:
        return None

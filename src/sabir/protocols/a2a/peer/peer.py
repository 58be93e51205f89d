"""A remote A2A agent, from the address of its card, through the official SDK's client.

The SDK speaks every binding and both versions. This module adds what it leaves to its user: it trusts a card only
about its own origin, resumes a task after a dropped connection, polls where there is no stream, and cancels a task
that nobody waits for. ``transport`` has the HTTP transport and the errors.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Iterable, Mapping
from contextlib import ExitStack, aclosing, suppress
from typing import Any, Final, TypeVar, Unpack
from uuid import uuid4

import httpx
import msgspec
from a2a.client import A2ACardResolver, Client, ClientCallContext, ClientConfig, ClientFactory
from a2a.types import a2a_pb2 as pb
from a2a.utils.signing import SignatureVerificationError

from sabir.errors import (
    BadInput,
    Forbidden,
    MissingExtra,
    PeerError,
    PeerRefused,
    PeerUnavailable,
    PeerUnreadable,
)
from sabir.events import Event, Fault, Question, Reply
from sabir.http.client import client_headers, no_cookies, system_trust
from sabir.message import Message
from sabir.protocols.a2a.wire import content as wire
from sabir.protocols.a2a.wire.cards import card_from
from sabir.protocols.a2a.wire.client import TaskReader
from sabir.protocols.peer import Call, Clock, Peer, PeerOptionNames, PeerOptions, choose, origin_of
from sabir.turn import ANONYMOUS

from .push_receiver import Hook, Hooks
from .transport import (
    LimitedTransport,
    ResponseStream,
    card_location,
    card_verifier,
    origin_or_none,
    service_origin,
    translate_errors,
)

logger = logging.getLogger("sabir.a2a")

GRPC: Final = "GRPC"
BINDINGS: Final = ("JSONRPC", "HTTP+JSON")  # and GRPC, if the extra is installed and it is requested
MAX_BYTES: Final = 64 * 1024 * 1024
POLLS: Final = (0.05, 0.1, 0.2, 0.5, 1.0)  # seconds between polls of a task; the last one repeats
RECONNECTS: Final = (0.0, 0.2, 0.5, 1.0, 2.0)  # seconds before each try to resume a dropped stream
_POLL_ANYWAY: Final = 15.0  # seconds after which we poll, even without a notification
_CANCEL_SECONDS: Final = 2.0  # seconds that cancelling a remote task may take
_MAX_CONVERSATIONS: Final = 10_000
_EXTENSIONS: Final = "a2a-extensions"  # the header that activates extensions
_AT_ONCE: Final = pb.SendMessageConfiguration(return_immediately=True)


class RemoteContext(msgspec.Struct, frozen=True):
    """The remote state of one of our conversations: its contextId, and the task that waits for our answer."""

    context: str = ""
    task: str = ""


class _Going:
    """One running call. Its first answer names the task, so it is awaited even if the caller leaves before."""

    __slots__ = ("first", "hook", "stream")

    def __init__(self) -> None:
        self.hook: Hook | None = None  # where the agent sends notifications, if it does
        self.stream: ResponseStream | None = None
        self.first: asyncio.Future[pb.StreamResponse | None] | None = None

    @property
    def is_open(self) -> bool:
        return self.first is not None and not self.first.done()


T = TypeVar("T")


class _Whole(Clock):
    """The time limit of a remote task: the rest of our turn, or the limit for one answer, whichever is longer."""

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
        options: PeerOptions | None = None,
        *,
        bindings: tuple[str, ...] = BINDINGS,
        origins: tuple[str, ...] = (),
        streaming: bool = True,
        push: bool = False,
        card_keys: Mapping[str, Any] | None = None,
        max_bytes: int = MAX_BYTES,
        **named: Unpack[PeerOptionNames],
    ) -> None:
        """Args besides those of every peer:

        url: the address of the agent (its card is below it, at the well-known path) or of the card itself.
        bindings: allowed bindings, the preferred one first.
        origins: further origins that the card may name, besides its own.
        streaming: False polls instead.
        push: get notifications at our gateway's A2A door instead of polling; needs an address that the agent can reach.
        card_keys: a JSON Web Key Set; a card that none of them has signed is rejected.
        """
        super().__init__(url, options, **named)
        options = self.options
        self._named = options.name is not None
        self._contexts: OrderedDict[str, RemoteContext] = OrderedDict()
        self._identities = options.identities
        self._origins = frozenset(origin_of(item) for item in (url, *origins))
        self._bindings = bindings
        self._streaming = streaming and not push
        self.hooks = Hooks() if push else None  # the door sets their address
        self._max_bytes = max_bytes
        self._verifier = card_verifier(card_keys) if card_keys is not None else None
        self._client: Client | None = None
        self._service = ""  # the origin of our messages
        self._authorization: str | None = None
        self._rings = False  # whether the agent can send notifications
        self._connecting = asyncio.Lock()
        self._cancelling: set[asyncio.Task[None]] = set()
        self._http = httpx.AsyncClient(
            transport=LimitedTransport(
                options.verify or system_trust(), options.connections, max_bytes, options.on_wire
            ),
            timeout=httpx.Timeout(self.seconds, connect=10.0),
            cookies=no_cookies(),
            trust_env=False,
            headers=client_headers(options),
        )

    # -- talking ----------------------------------------------------------------------------------

    async def talk(self, message: Message, call: Call) -> AsyncGenerator[Event, None]:
        clock = Clock(call.seconds)
        client = await self._connected(clock, call.headers)
        reader, going = TaskReader(), _Going()
        request = self._request(message, call)
        reader.task = request.message.task_id
        hook = self._hook(request, going)
        try:
            async with aclosing(self._events(client, request, reader, going, call, clock)) as events:
                async for event in events:
                    if isinstance(event, Reply | Fault | Question):
                        self._keep(call.conversation, reader)
                        yield event
                        return
                    yield event
            raise PeerUnreadable(self.address, "it ended without an answer")
        except PeerRefused as refused:
            if isinstance(refused.status, int) and refused.status < 0 and not reader.state:
                self._leave_task(call.conversation)  # it accepts no more answers; the next message starts a new task
            raise
        finally:
            hook.close()
            if going.is_open or (reader.task and not reader.ended and not reader.asks):
                self._cancel_later(client, reader, going, call)

    def _request(self, message: Message, call: Call) -> pb.SendMessageRequest:
        place = self._contexts.get(call.conversation, RemoteContext())
        sent = wire.message_to(
            message.without_tokens(), message_id=call.key or uuid4().hex, context=place.context, task=place.task
        )
        polls = not (self._streaming and self.card.streams)  # then we poll instead of waiting on the connection
        return pb.SendMessageRequest(message=sent, configuration=_AT_ONCE if polls else None)

    def _hook(self, request: pb.SendMessageRequest, going: _Going) -> ExitStack:
        """Ask for notifications about the task, if we want them and the agent can send them."""
        stack = ExitStack()
        if self.hooks is not None and self.hooks.url and self._rings:
            going.hook = stack.enter_context(self.hooks.opened())
            request.configuration.return_immediately = True
            config = request.configuration.task_push_notification_config
            config.url, config.token = going.hook.url, going.hook.token
        return stack

    def _keep(self, conversation: str, reader: TaskReader) -> None:
        """Remember the remote context of a conversation for its next message."""
        self._contexts[conversation] = RemoteContext(reader.context, reader.task if reader.asks else "")
        self._contexts.move_to_end(conversation)
        if len(self._contexts) > _MAX_CONVERSATIONS:
            self._contexts.popitem(last=False)

    def _leave_task(self, conversation: str) -> None:
        place = self._contexts.get(conversation)
        if place is not None:
            self._contexts[conversation] = RemoteContext(place.context)

    def _left(self) -> Any:
        return msgspec.to_builtins(self._contexts.get("", RemoteContext()))

    def _restore_state(self, left: Any) -> None:
        self._contexts[""] = msgspec.convert(left, RemoteContext)

    async def _events(
        self,
        client: Client,
        request: pb.SendMessageRequest,
        reader: TaskReader,
        going: _Going,
        call: Call,
        clock: Clock,
    ) -> AsyncGenerator[Event, None]:
        """All events of one message: from its stream, then by resuming or polling its task."""
        try:
            async with aclosing(self._sent(client, request, reader, going, call, clock)) as events:
                async for event in events:
                    yield event
        except PeerUnavailable:
            if not reader.state:
                raise  # it may never have arrived; the caller decides what to do
        if reader.ended or reader.asks or not reader.task:
            return
        clock = _Whole(call, clock)
        if self._streaming and self.card.streams:
            async with aclosing(self._resumed(client, reader, call, clock)) as events:
                async for event in events:
                    yield event
        if not (reader.ended or reader.asks):
            async with aclosing(self._polled(client, reader, going, call, clock)) as events:
                async for event in events:
                    yield event

    async def _sent(
        self,
        client: Client,
        request: pb.SendMessageRequest,
        reader: TaskReader,
        going: _Going,
        call: Call,
        clock: Clock,
    ) -> AsyncGenerator[Event, None]:
        """The events of the response; if the agent asks for credentials, the message is sent again with them."""
        for _ in range(2):
            context = self._context(call, clock, request.message.extensions)
            stream = client.send_message(request, context=context)
            try:
                async with aclosing(self._read_stream(stream, reader, going)) as events:
                    async for event in events:
                        yield event
                return
            except PeerRefused as refused:
                shown = choose(self._identities, self._service, "") if refused.status == 401 else None
                if shown is None or shown == self._authorization:
                    raise
                self._authorization = shown

    async def _resumed(
        self, client: Client, reader: TaskReader, call: Call, clock: Clock
    ) -> AsyncGenerator[Event, None]:
        """Resume a task whose stream broke off."""
        for pause in RECONNECTS:
            await asyncio.sleep(min(pause, clock.left))
            if not clock.left:
                return
            try:
                stream = client.subscribe(pb.SubscribeToTaskRequest(id=reader.task), context=self._context(call, clock))
                async with aclosing(self._read_stream(stream, reader, _Going())) as events:
                    async for event in events:
                        yield event
            except PeerUnavailable:
                continue
            except PeerRefused:
                return  # it has ended in the meantime, or does not support this: poll instead
            if reader.ended or reader.asks:
                return

    async def _polled(
        self, client: Client, reader: TaskReader, going: _Going, call: Call, clock: Clock
    ) -> AsyncGenerator[Event, None]:
        """Poll a task until it has ended or asks something."""
        failed = 0
        for number in range(1_000_000):
            try:
                with translate_errors(self.address):
                    task = await client.get_task(pb.GetTaskRequest(id=reader.task), context=self._context(call, clock))
                failed = 0
                for event in self._read(pb.StreamResponse(task=task), reader):
                    yield event
            except PeerUnavailable:
                failed += 1
                if failed >= len(RECONNECTS):
                    raise
            if reader.ended or reader.asks:
                return
            if not clock.left:
                raise PeerUnavailable(self.address, "no answer in time")
            if going.hook is not None:
                await going.hook.rung(min(_POLL_ANYWAY, clock.left))
            else:
                await asyncio.sleep(min(POLLS[min(number, len(POLLS) - 1)], clock.left))

    async def _read_stream(
        self, responses: AsyncIterator[pb.StreamResponse], reader: TaskReader, going: _Going
    ) -> AsyncGenerator[Event, None]:
        going.stream = stream = ResponseStream(responses)
        going.first = stream.first()
        try:
            with translate_errors(self.address):
                response = await self._in_time(asyncio.shield(going.first))
                while response is not None:
                    for event in self._read(response, reader):
                        yield event
                    if reader.ended or reader.asks:
                        return
                    response = await self._in_time(stream.next())
        finally:
            if reader.ended:
                with suppress(PeerError), translate_errors(self.address):
                    await stream.read_rest()
            if not going.is_open:  # otherwise _cancel closes it
                await stream.aclose()

    async def _in_time(self, coming: Awaitable[T]) -> T:
        """What comes next; signs of life that say nothing do not make it come later."""
        try:
            async with asyncio.timeout(self.seconds):
                return await coming
        except TimeoutError:
            raise PeerUnavailable(self.address, "no answer in time") from None

    def _read(self, response: pb.StreamResponse, reader: TaskReader) -> list[Event]:
        try:
            return reader.feed(response)
        except BadInput as exc:
            raise PeerUnreadable(self.address, str(exc)) from None

    def _context(self, call: Call, clock: Clock, extensions: Iterable[str] = ()) -> ClientCallContext:
        headers = {"x-sabir-hops": str(call.hops)} if call.hops else {}
        if extensions:
            headers[_EXTENSIONS] = ",".join(extensions)
        if call.trace is not None:
            headers["traceparent"] = call.trace
        if self._authorization is not None:
            headers["authorization"] = self._authorization
        # a card may point elsewhere, where this identity must not be sent
        if self._service == service_origin(self.url):
            headers.update(call.headers)
        return ClientCallContext(timeout=max(0.001, clock.left), service_parameters=headers)

    # -- ending -----------------------------------------------------------------------------------

    def _cancel_later(self, client: Client, reader: TaskReader, going: _Going, call: Call) -> None:
        """Cancel an abandoned remote task in the background."""
        saying = asyncio.ensure_future(self._cancel(client, reader, going, call))
        self._cancelling.add(saying)
        saying.add_done_callback(self._cancelling.discard)

    async def _cancel(self, client: Client, reader: TaskReader, going: _Going, call: Call) -> None:
        try:
            with translate_errors(self.address):
                async with asyncio.timeout(_CANCEL_SECONDS):
                    if going.first is not None and going.is_open:
                        first = await going.first  # only the first answer names the task
                        self._read(first or pb.StreamResponse(task=pb.Task()), reader)
                    if reader.task and not reader.ended:
                        context = self._context(
                            call, Clock(_CANCEL_SECONDS)
                        )  # as the same caller: only the owner may cancel
                        await client.cancel_task(pb.CancelTaskRequest(id=reader.task), context=context)
        except (PeerError, TimeoutError) as exc:
            logger.info("Could not cancel a remote task: %s", exc)
        finally:
            if going.stream is not None:
                await going.stream.aclose()

    async def aclose(self) -> None:
        if self._cancelling:
            await asyncio.wait(self._cancelling, timeout=_CANCEL_SECONDS)
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
            with suppress(Forbidden):  # it needs a caller, which is not known yet
                own = await self.outgoing.headers(self.url, ANONYMOUS)
        await self._connected(Clock(self.seconds), own)

    async def _connected(self, clock: Clock, known: Mapping[str, str]) -> Client:
        if self._client is not None:
            return self._client
        async with self._connecting:
            if self._client is None:
                card = await self._fetched(clock, known)
                self._client = self._made(card)
                remote = card_from(card)
                self._rings = card.capabilities.push_notifications
                self.card = msgspec.structs.replace(remote, name=self.card.name if self._named else remote.name)
            return self._client

    async def _fetched(self, clock: Clock, known: Mapping[str, str]) -> pb.AgentCard:
        """The card; if it is not public, fetched with one of our identities or with the ``known`` headers."""
        base, path = card_location(self.url)
        self._authorization = choose(self._identities, service_origin(base), None)
        resolver = A2ACardResolver(self._http, base, path)
        headers = {"authorization": self._authorization} if self._authorization else {}
        for _ in range(2):
            try:
                with translate_errors(self.address):
                    return await self._in_time(
                        resolver.get_agent_card(
                            http_kwargs={"headers": headers, "timeout": clock.left}, signature_verifier=self._verifier
                        )
                    )
            except SignatureVerificationError:
                raise PeerUnreadable(self.address, "its card is not signed by a key we know") from None
            except PeerRefused as refused:
                shown = choose(self._identities, service_origin(base), "") if refused.status == 401 else None
                if shown is None and refused.status == 401 and known and headers != known:
                    headers = dict(known)  # for the card only; each turn has its own
                    continue
                if shown is None or shown == self._authorization:
                    raise
                self._authorization, headers = shown, {"authorization": shown}
        raise PeerRefused(self.address, "it does not know us", 401)

    def _made(self, card: pb.AgentCard) -> Client:
        """A client for the interfaces on the origin of the card, or on one of the allowed origins."""
        near = [
            supported_interface
            for supported_interface in card.supported_interfaces
            if self._is_near(supported_interface)
        ]
        usable = [item for item in near if item.protocol_binding in self._bindings]
        if not usable:
            where = "elsewhere" if not near and card.supported_interfaces else "none that we speak"
            raise PeerUnreadable(self.address, f"its card names no supported interface ({where})")
        del card.supported_interfaces[:]
        card.supported_interfaces.extend(usable)
        self._service = service_origin(self.url if usable[0].protocol_binding == GRPC else usable[0].url)
        if self._service != service_origin(self.url):
            self._authorization = choose(self._identities, self._service, None)  # credentials belong to one service
        config = ClientConfig(
            streaming=self._streaming,
            httpx_client=self._http,
            grpc_channel_factory=self._channel,
            supported_protocol_bindings=list(self._bindings),
            use_client_preference=True,
        )
        return ClientFactory(config).create(card)

    def _is_near(self, interface: pb.AgentInterface) -> bool:
        if interface.protocol_binding == GRPC:  # a host and port, without a scheme; the port always differs
            return interface.url.rpartition(":")[0].strip("[]") == (httpx.URL(self.url).host)
        return origin_or_none(interface.url) in self._origins

    def _channel(self, target: str) -> Any:
        """A gRPC channel with TLS if the address of the card has it."""
        try:
            from grpc import aio, ssl_channel_credentials  # noqa: PLC0415  # an extra of its own
        except ImportError as missing:
            raise MissingExtra("A2A over gRPC", "a2a-grpc") from missing
        options = [("grpc.max_receive_message_length", self._max_bytes)]
        if self.url.startswith("https:"):
            return aio.secure_channel(target, ssl_channel_credentials(), options)
        return aio.insecure_channel(target, options)

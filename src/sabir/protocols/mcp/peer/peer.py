"""A remote MCP server as an Agent, and its tools one by one: over HTTP, or a local program over stdio.

Each tool is a skill of the agent's Card. A message labelled with a tool's name calls it with its data; text goes to the
tool that takes text. The server's questions (elicitation, sampling, roots) go to our caller through the turn.
Connections are
kept: one for all calls if the version is stateless, otherwise one per concurrent call, so that a question always
belongs to one call. An unavailable server is tried again with the next call.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import Any, Final, NamedTuple, Unpack
from urllib.parse import urljoin, urlsplit

import httpx2
import mcp_types as types
import msgspec
from mcp.shared.dispatcher import OnNotify, OnRequest
from mcp.shared.exceptions import MCPError
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS

from sabir.errors import (
    ConfigError,
    Forbidden,
    PeerError,
    PeerRefused,
    PeerUnavailable,
    PeerUnreadable,
    SabirError,
)
from sabir.events import Event, Fault, Question, Reply
from sabir.message import Message
from sabir.protocols.mcp.wire import cards as mcp_card
from sabir.protocols.mcp.wire import content as wire
from sabir.protocols.peer import Call, Clock, Peer, PeerOptionNames, PeerOptions, choose, origin_of, trace_of
from sabir.turn import ANONYMOUS, Caller, Permit, Turn

from .channel import RawChannel
from .connections import (
    CONNECT_SECONDS,
    STDIO,
    AskBack,
    ConnectionKind,
    McpConnection,
    OnEvent,
    Place,
    Pool,
    Program,
    given_by,
)
from .limits import MAX_MESSAGE
from .listing import listed
from .stdio import LAST_WORDS
from .tasks import Created, Following
from .tool_choice import choose_tool

__all__ = ["AS_IT_CAME", "McpPeer", "Program"]

BELOW: Final = "/mcp"  # where a gateway serves MCP
MAX_POOLS: Final = 64  # identities and callers whose connections are kept
IDLE_SECONDS: Final = 600.0  # after which the connections of an idle caller are closed
OURSELVES: Final = ""  # the owner of sessions without a caller
_SSE_VERSION: Final = "2024-11-05"  # the only version whose transport is HTTP+SSE
_PASSED_ON: Final = "passed on"
_SWEEP_SECONDS: Final = 30.0
MAX_CONVERSATIONS: Final = 10_000
# Set to also get results as the server returned them, besides the message made from them; and its errors, as {"error":
# …}.
AS_IT_CAME: ContextVar[Callable[[dict[str, Any]], None] | None] = ContextVar("as_it_came", default=None)
_REQUESTS: Final[Mapping[str, tuple[Any, Any]]] = {
    "prompts/get": (types.GetPromptRequest, types.GetPromptResult),
    "resources/read": (types.ReadResourceRequest, types.ReadResourceResult),
    "completion/complete": (types.CompleteRequest, types.CompleteResult),
}


class PoolKey(NamedTuple):
    """Which calls may share connections."""

    url: str
    asks: bool
    version: str
    owner: str
    shown: tuple[tuple[str, str], ...]


def owner_of(turn: Turn) -> str:
    """The owner of a turn's session: its caller; for an unknown one, the conversation."""
    return owner_of_caller(turn.caller, turn.conversation.id or turn.id)


def owner_of_caller(caller: Caller, conversation: str = "") -> str:
    """The owner of a caller's session. Anonymous callers share one id, so their address distinguishes them."""
    if not caller.is_anonymous and caller.kind != "agent":
        return f"caller:{caller.id}"
    if caller.on_behalf_of:
        return f"caller:{caller.on_behalf_of}"
    return f"at:{caller.address}" if caller.address else f"in:{conversation}"


class McpPeer(Peer):
    """An MCP server. Use it as an Agent, or its tools by ``call``."""

    protocol = "mcp"

    def __init__(
        self,
        where: str | Program,
        options: PeerOptions | None = None,
        *,
        auth: httpx2.Auth | None = None,
        tool: str | None = None,
        version: str = "auto",
        answer: AskBack | None = None,
        max_message: int = MAX_MESSAGE,
        roots: bool = True,
        **named: Unpack[PeerOptionNames],
    ) -> None:
        """``version`` is the protocol version: ``auto`` is the newest that both sides support; one up to 2025-11-25, or
        ``legacy``, starts with the handshake of these versions, in which a tool can ask while it works. 2024-11-05 uses
        HTTP+SSE, the transport of that version, as does any address that ends in ``/sse``.

        ``answer`` answers the server's questions outside of a turn; without it the server learns that nobody can be
        asked, so that it asks in text, if it can. A message of the server that has more than ``max_message`` bytes ends
        its call with an error. Without ``roots``, a server that asks for our caller's directories learns that there are
        none, instead of the caller being asked.
        """
        if isinstance(where, str) and where.startswith(STDIO):
            where = Program.of(where)
        self.program = where if isinstance(where, Program) else None
        super().__init__(where if isinstance(where, str) else f"{STDIO}{where.command}", options, **named)
        options = self.options
        self.tool = tool
        self.uses_sse = self.program is None and (version == _SSE_VERSION or urlsplit(self.url).path.endswith("/sse"))
        self.version = "legacy" if self.uses_sse else _mode_of(version)
        self.answer = answer
        self.unavailable: str | None = None  # why it is currently unavailable
        self.stateless = False  # whether its version has no sessions; known after the first contact
        self.on_changed: Callable[[], Awaitable[None]] | None = None
        self.tools: dict[str, dict[str, Any]] = {}
        self.prompts: dict[str, dict[str, Any]] = {}  # by name
        self.resources: dict[str, dict[str, Any]] = {}  # by address
        self.templates: dict[str, dict[str, Any]] = {}  # of addresses
        self.has_resources = False  # including unlisted ones
        own = choose(options.identities, origin_of(self.url), None) if self.program is None else None
        first = {**(options.headers or {}), **({"authorization": own} if own is not None else {})}
        self._place = Place(
            self.url,
            self.address,
            self.program,
            first,
            auth,
            self.version,
            options.verify,
            options.on_wire,
            max_message,
            self.uses_sse,
            roots,
            min(self.seconds, CONNECT_SECONDS),
        )
        self._pools: OrderedDict[PoolKey, Pool] = OrderedDict()
        self._older: set[str] = set()  # tools that need a version in which they can ask at once
        self._closing: set[asyncio.Task[None]] = set()
        self._conversations: OrderedDict[str, str] = OrderedDict()
        self._refreshing: asyncio.Task[None] | None = None
        self._sweeping: asyncio.Task[None] | None = None

    # -- as an agent --------------------------------------------------------------------------------

    def talk(self, message: Message, call: Call) -> AsyncGenerator[Event, None]:
        return self._events(message, call, self.answer, None, OURSELVES)

    async def __call__(self, turn: Turn, /) -> AsyncIterator[Event]:
        """Answer a turn by calling the tool that it means; the server's questions go to our caller.

        Raises:
            PeerError: as ``call`` does, under the server's name: callers do not learn its address.
        """
        seconds = min(turn.remaining, self.seconds)
        shows = self.outgoing is not None and self.program is None and not turn.conversation.agreed.get("anonymous")
        shown = await self.outgoing.headers(self.url, turn.caller) if self.outgoing is not None and shows else {}
        call = Call(turn.conversation.id, seconds, turn.id, trace_of(turn), turn.hops + 1, pieces=True, headers=shown)
        call = replace(call, whole=lambda: turn.remaining)

        def permit(*, tool: str = "", skill: str = "") -> None:
            turn.used.append(tool[:64])  # also if it is rejected: the audit entry names it
            turn.permit(tool=tool, skill=skill)

        try:
            with self.breaker.call() as calling, turn.timeline.span("peer", self.card.name) as hop:

                async def ask(question: Question) -> Message:
                    calling.alive()  # the wait for our caller does not count
                    return await turn.ask(question)

                async with aclosing(self._events(turn.message, call, ask, permit, owner_of(turn))) as events:
                    async for event in events:
                        calling.received(event)
                        if isinstance(event, Reply | Fault):
                            hop.end(failed=isinstance(event, Fault))
                        yield event
        except PeerError as exc:
            raise self._without_address(exc) from None

    def _without_address(self, exc: PeerError) -> PeerError:
        if isinstance(exc, PeerUnavailable):  # a program's output is for the operator, and in the log
            exc = PeerUnavailable(exc.peer, exc.reason.removeprefix(f"{exc.peer}: ").partition(LAST_WORDS)[0])
        return super()._without_address(exc)

    async def _events(
        self, message: Message, call: Call, ask: AskBack | None, permit: Permit | None, owner: str
    ) -> AsyncGenerator[Event, None]:
        events: asyncio.Queue[Event | None] = asyncio.Queue()
        working = asyncio.create_task(self._said(message, call, ask, events.put_nowait, permit, owner))
        working.add_done_callback(lambda _: events.put_nowait(None))
        try:
            while (event := await events.get()) is not None:
                yield event
            reply = working.result()
        finally:
            working.cancel()
        yield Fault(reply.text) if reply.is_error else Reply(reply)

    async def _said(
        self, message: Message, call: Call, ask: AskBack | None, on_event: OnEvent, permit: Permit | None, owner: str
    ) -> Message:
        if not self.tools:
            await self.refresh(call.headers, asks=ask is not None)
        name, arguments = choose_tool(
            message, self.tools, self.tool, self.card.name, self._conversations.get(call.conversation)
        )
        if permit is not None:
            permit(tool=name)
        reply = await self.call(
            name,
            arguments,
            seconds=call.seconds,
            ask=ask,
            on_event=on_event,
            trace=call.trace,
            hops=call.hops,
            shown=call.headers,
            left=call.whole,
            owner=owner,
        )
        token = wire.conversation_of(reply)
        if token is not None:
            self._conversations[call.conversation] = token
            if len(self._conversations) > MAX_CONVERSATIONS:
                self._conversations.popitem(last=False)
        return reply.without_tokens()

    def _left(self) -> Any:
        return self._conversations.get("")

    def _restore_state(self, left: Any) -> None:
        if left is not None:
            self._conversations[""] = msgspec.convert(left, str)

    # -- tools --------------------------------------------------------------------------------------

    async def refresh(self, shown: Mapping[str, str] | None = None, *, asks: bool = True) -> None:
        """Ask the server what it offers, and update the Card. ``shown`` are our credentials for it.

        A bare address that does not serve MCP itself may do so at ``/mcp``, as gateways do.

        Raises:
            PeerError: it cannot be asked.
        """
        at = self.url
        try:
            await self._list(shown, asks=asks)
        except PeerError as first:
            if self.program is not None or urlsplit(at).path.strip("/"):
                raise
            if self.url == at:  # otherwise another call has found it in the meantime
                self._move(urljoin(at, BELOW))
            try:
                await self._list(shown, asks=asks)
            except PeerError as second:
                self._move(at)
                raise _neither(first, second) from None

    def _move(self, url: str) -> None:
        self.url = url
        self._place = replace(self._place, url=url)

    async def _list(self, shown: Mapping[str, str] | None, *, asks: bool) -> None:
        async with self._link(await self._own() if shown is None else shown, asks=asks) as link:
            tools = await listed(link.client.session, "tools")
            offered = link.client.session.server_capabilities
            has_resources = offered is not None and offered.resources is not None
            prompts = await listed(link.client.session, "prompts") if offered is not None and offered.prompts else {}
            resources = await listed(link.client.session, "resources") if has_resources else {}
            templates = await listed(link.client.session, "templates") if has_resources else {}
            info = link.client.server_info
            described = info.model_dump(mode="json", exclude_none=True) if info is not None else {}
        self.tools = tools
        self.prompts, self.resources, self.templates = prompts, resources, templates
        self.has_resources = has_resources
        self.card = mcp_card.card_of(self.card.name, described, tools.values())

    async def call(
        self,
        tool: str,
        arguments: Mapping[str, Any],
        *,
        seconds: float | None = None,
        ask: AskBack | None = None,
        on_event: OnEvent | None = None,
        trace: str | None = None,
        hops: int = 0,
        shown: Mapping[str, str] | None = None,
        left: Callable[[], float] | None = None,
        owner: str = OURSELVES,
    ) -> Message:
        """Call one tool and return its result; a failure of the tool is a message of type error.

        ``seconds`` may pass without a sign of life; ``left`` is the total remaining time, for slow calls.
        ``owner`` owns the session, if the server keeps sessions: they are never shared between owners.

        Raises:
            PeerUnavailable: no connection, or no answer in time.
            PeerRefused: the server refused the call; ``status`` is its code.
            PeerUnreadable: the answer violates the protocol.
        """
        take = AS_IT_CAME.get()
        clock = Clock(seconds or self.seconds)
        meta = {**({"traceparent": trace} if trace else {}), **({wire.HOPS: hops} if hops else {})}
        wanted = ConnectionKind(
            tool,
            dict(arguments),
            clock.left,
            left or (lambda: clock.left),
            ask,
            on_event,
            meta or None,
            str((self.tools.get(tool, {}).get("execution") or {}).get("taskSupport", "")),
            owner,
        )
        result = await self._result(wanted, shown)
        if take is not None:
            take(result)
        try:
            return wire.message_of(result)
        except SabirError as exc:
            raise PeerUnreadable(self.address, str(exc)) from None

    async def _result(self, wanted: ConnectionKind, shown: Mapping[str, str] | None) -> dict[str, Any]:
        """The result of a call. A tool that can only ask while it works is called over a version that supports this:
        many were written before 2026-07-28, and their servers support both."""
        can = wanted.ask is not None and self.version == "auto"
        if not can or wanted.tool not in self._older:
            try:
                result = await self._called(wanted, shown)
                if not can or not result.get("isError") or not _cannot_ask(str(result.get("content"))):
                    return result
            except PeerRefused as refused:
                if not can or not _cannot_ask(refused.reason):
                    raise
            self._older.add(wanted.tool)
        return await self._called(wanted, shown, older=True)

    async def _called(
        self, wanted: ConnectionKind, shown: Mapping[str, str] | None, *, older: bool = False
    ) -> dict[str, Any]:
        async with self._link(shown, asks=wanted.ask is not None, older=older, owner=wanted.owner) as link:
            try:
                result = await link.call(wanted)
            except MCPError as exc:
                if (take := AS_IT_CAME.get()) is not None:
                    take({"error": exc.error.model_dump(mode="json", exclude_none=True)})
                raise
        return await self._followed(result, wanted, shown) if isinstance(result, Created) else result

    async def _followed(
        self, created: Created, wanted: ConnectionKind, shown: Mapping[str, str] | None
    ) -> dict[str, Any]:
        """The result of a call that the server has turned into a task; no connection is held for it."""
        asks = wanted.ask is not None

        async def request(method: str, params: dict[str, Any]) -> dict[str, Any]:
            async with self._link(shown, asks=asks, owner=wanted.owner) as link:
                return await link.request(method, params)

        about = created.model_dump(mode="json", by_alias=True, exclude_none=True)
        task = Following(self.address, about, request, given_by(wanted.ask), wanted.on_event, wanted.left)
        try:
            return await task.result()
        except MCPError as failed:
            raise PeerRefused(self.address, failed.error.message[:500], failed.error.code) from None
        finally:
            if not task.ended:
                self._pool(shown or {}, asks=asks, owner=wanted.owner).leave(task.cancel())

    async def request(
        self, method: str, params: Mapping[str, Any], *, shown: Mapping[str, str] | None = None, owner: str = OURSELVES
    ) -> dict[str, Any]:
        """The result of ``prompts/get``, ``resources/read`` or ``completion/complete``, as the server returned it.

        Raises as ``call`` does.
        """
        make, result_type = _REQUESTS[method]
        async with self._link(shown, owner=owner) as link:
            result = await link.client.session.send_request(make.model_validate({"params": dict(params)}), result_type)
        return dict(result.model_dump(mode="json", by_alias=True, exclude_none=True, exclude={"result_type"}))

    async def prompt(self, name: str, arguments: Mapping[str, str] | None = None) -> Message:
        """A prompt of the server. Raises as ``call`` does."""
        async with self._link() as link:
            result = await link.client.get_prompt(name, dict(arguments or {}))
            blocks = [
                message.content.model_dump(mode="json", by_alias=True, exclude_none=True) for message in result.messages
            ]
        return Message.of(*(wire.part_of(block) for block in blocks)) if blocks else Message.text("")

    async def read(self, uri: str) -> Message:
        """The content of a resource of the server. Raises as ``call`` does."""
        async with self._link() as link:
            result = await link.client.read_resource(uri)
            contents = [
                content.model_dump(mode="json", by_alias=True, exclude_none=True) for content in result.contents
            ]
        return Message.of(*(wire.part_of_contents(content) for content in contents)) if contents else Message.text("")

    # -- connections --------------------------------------------------------------------------------

    @asynccontextmanager
    async def _link(
        self,
        shown: Mapping[str, str] | None = None,
        *,
        asks: bool = True,
        older: bool = False,
        owner: str = OURSELVES,
    ) -> AsyncIterator[McpConnection]:
        """A connection for one call, with our credentials for this caller."""
        try:
            async with self._pool(shown or {}, asks=asks, older=older, owner=owner).link(owner) as link:
                self.unavailable, self.stateless = None, link.stateless or (older and self.stateless)
                yield link
        except PeerUnavailable as exc:
            self.unavailable = str(exc)
            raise

    async def _own(self) -> dict[str, str]:
        """Our credentials for the server without a caller; none if it must know the caller."""
        if self.outgoing is None or self.program is not None:
            return {}
        try:
            return await self.outgoing.headers(self.url, ANONYMOUS)
        except Forbidden:
            return {}

    def _pool(
        self, shown: Mapping[str, str], *, asks: bool = True, older: bool = False, owner: str = OURSELVES
    ) -> Pool:
        """Connections are never shared between our identities; and if the server keeps sessions, which contain a
        caller's data (roots, answers, log level, cookies), not between callers either."""
        place = replace(self._place, version="legacy") if older else self._place
        if self.stateless and not older:
            owner = OURSELVES
        return self._kept_pool(place, shown, owner, asks=asks)

    def _kept_pool(self, place: Place, shown: Mapping[str, str], owner: str, *, asks: bool = True) -> Pool:
        key = PoolKey(place.url, asks, place.version, owner, tuple(sorted(shown.items())))
        pool = self._pools.get(key)
        if pool is None:
            if owner == _PASSED_ON:
                place = replace(place, limit=sys.maxsize)  # nothing of it is kept
            pool = self._pools[key] = Pool(place, shown, self.changed, owner, asks=asks)
            if owner == _PASSED_ON:
                pool.keep_no_cookies()
            self._make_room()
        self._pools.move_to_end(key)
        pool.used = time.monotonic()
        if self._sweeping is None or self._sweeping.done():
            self._sweeping = asyncio.create_task(self._sweep())
        return pool

    def _make_room(self) -> None:
        """Close the least recently used connections; those in use stay."""
        idle = [key for key, pool in self._pools.items() if not pool.is_busy]
        for key in idle[: max(0, len(self._pools) - MAX_POOLS)]:
            if key != next(reversed(self._pools)):
                self._let_go(key)

    def _let_go(self, key: PoolKey) -> None:
        task = asyncio.create_task(self._pools.pop(key).aclose())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def _sweep(self) -> None:
        """Close the connections of idle callers, as long as there are any."""
        while any(key.owner != OURSELVES for key in self._pools):
            await asyncio.sleep(_SWEEP_SECONDS)
            oldest = time.monotonic() - IDLE_SECONDS
            for key, pool in list(self._pools.items()):
                if key.owner != OURSELVES and pool.used < oldest and not pool.is_busy:
                    self._let_go(key)

    @property
    def http(self) -> httpx2.AsyncClient:
        """The client for requests that are passed on byte by byte: for all callers, so it keeps no cookies."""
        return self._kept_pool(self._place, {}, _PASSED_ON).http

    def raw_channel(
        self, shown: Mapping[str, str], owner: str, on_request: OnRequest, on_notify: OnNotify
    ) -> RawChannel:
        """A channel to the server for one caller, on which messages pass unchanged."""
        pool = self._kept_pool(self._place, shown, f"channel:{owner}")
        return RawChannel(self.card.name, pool.held_transport(), on_request, on_notify, self._place.limit)

    def changed(self) -> None:
        """Handle the server's notification that its tools have changed."""
        if self._refreshing is None or self._refreshing.done():
            self._refreshing = asyncio.create_task(self._refresh_quietly())

    async def _refresh_quietly(self) -> None:
        try:
            await self.refresh()
        except PeerError as exc:
            self.unavailable = str(exc)
        else:
            if self.on_changed is not None:
                await self.on_changed()

    async def aclose(self) -> None:
        for task in (self._refreshing, self._sweeping):
            if task is not None:
                task.cancel()
        pools = list(self._pools.values())
        for pool in pools:
            await pool.said_goodbye()  # which still needs a connection
        self._pools.clear()
        for pool in pools:
            await pool.aclose()
        await asyncio.gather(*self._closing, return_exceptions=True)


def _mode_of(version: str) -> str:
    """The version argument of the SDK's client.

    Raises:
        ConfigError: unknown version.
    """
    if version in HANDSHAKE_PROTOCOL_VERSIONS:
        return "legacy"
    if version not in ("auto", "legacy", *MODERN_PROTOCOL_VERSIONS):
        known = ", ".join((*HANDSHAKE_PROTOCOL_VERSIONS, *MODERN_PROTOCOL_VERSIONS))
        raise ConfigError(f"version {version[:40]!r} of MCP is unknown; known are auto, legacy, {known}")
    return version


def _cannot_ask(words: str) -> bool:
    """Whether a tool failed because its server cannot ask its client at once; by the official SDK's error text."""
    return "Cannot send" in words and "back-channel" in words


def _neither(first: PeerError, second: PeerError) -> PeerError:
    """Why neither a bare address nor the one below it could be used."""
    words = [item.reason.removeprefix(f"{item.peer}: ") for item in (first, second)]
    text = f"{words[0]}; {BELOW} below it was tried too: {words[1]}"
    if isinstance(second, PeerRefused):
        return PeerRefused(first.peer, text, second.status, broken=second.broken)
    return type(second)(first.peer, text)

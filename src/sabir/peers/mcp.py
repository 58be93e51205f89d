"""A remote MCP server as an Agent, and its tools one by one: over HTTP, or a program on this machine over stdio.

Each tool is a skill of the agent's Card. A message that is labelled with a tool's name calls it with its data; words
go to the tool that takes words. What the server asks (elicitation, sampling, roots) is asked of our caller through
the turn. Connections are kept: one for all calls where the version is stateless, else one a call at a time, so that
a question of the server always belongs to one call. A server that is gone is tried again with the next call.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import OrderedDict
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import Any, Final
from urllib.parse import urljoin, urlsplit

import httpx2
import mcp_types as types
import msgspec
from mcp.shared.dispatcher import OnNotify, OnRequest
from mcp.shared.exceptions import MCPError

from ..errors import (
    BadMessage,
    Forbidden,
    PeerError,
    PeerRefused,
    PeerUnavailable,
    PeerUnreadable,
    SabirError,
)
from ..events import Event, Fault, Question, Reply
from ..message import Message, Part
from ..turn import ANONYMOUS, Permit, Turn
from ..wire import mcp as wire
from ..wire import mcp_card
from .base import SECONDS, Call, Clock, Identity, OnWire, Peer, choose, origin_of, trace_of
from .mcp_link import STDIO, AskBack, Link, Place, Pool, Program, Tell, Wanted, given_by
from .mcp_pipe import Pipe
from .mcp_program import LAST_WORDS
from .mcp_tasks import Created, Following

__all__ = ["AS_IT_CAME", "McpPeer", "Program"]

BELOW: Final = "/mcp"  # where a gateway speaks MCP
MOST_POOLS: Final = 64  # identities whose connections are kept
MOST_CONVERSATIONS: Final = 10_000
# Set by who wants results also as the server gave them, beside the message that they are made into; and its refusals,
# as {"error": …}.
AS_IT_CAME: ContextVar[Callable[[dict[str, Any]], None] | None] = ContextVar("as_it_came", default=None)
_SPEAKING: Final = ("ask", "chat", "query", "search")  # tools that take words, if none is named
_WORDS: Final = ("text", "query", "prompt", "message", "question", "input")


class McpPeer(Peer):
    """An MCP server. Use it as an Agent, or its tools by ``call``."""

    protocol = "mcp"

    def __init__(
        self,
        where: str | Program,
        *,
        name: str | None = None,
        seconds: float = SECONDS,
        identities: tuple[Identity, ...] = (),
        headers: Mapping[str, str] | None = None,
        auth: httpx2.Auth | None = None,
        tool: str | None = None,
        version: str = "auto",
        verify: ssl.SSLContext | None = None,
        answer: AskBack | None = None,
        on_wire: OnWire | None = None,
    ) -> None:
        """``verify`` is the TLS context, None the system's trust. ``answer`` answers what the server asks outside of a
        turn; without it the server is told that nobody can be asked, so that it asks in words, if it can.
        ``on_wire`` is called with what goes over the wire, credentials hidden.
        """
        if isinstance(where, str) and where.startswith(STDIO):
            where = Program.of(where)
        self.program = where if isinstance(where, Program) else None
        super().__init__(where if isinstance(where, str) else f"{STDIO}{where.command}", name=name, seconds=seconds)
        self.tool = tool
        self.version = version
        self.answer = answer
        self.unavailable: str | None = None  # why it cannot be used now
        self.stateless = False  # whether it speaks a version without sessions; known once it was met
        self.on_changed: Callable[[], Awaitable[None]] | None = None
        self.tools: dict[str, dict[str, Any]] = {}
        own = choose(identities, origin_of(self.url), None) if self.program is None and identities else None
        first = {**(headers or {}), **({"authorization": own} if own is not None else {})}
        self._place = Place(self.url, self.address, self.program, first, auth, version, verify, on_wire)
        self._pools: OrderedDict[tuple[str, bool, str, tuple[tuple[str, str], ...]], Pool] = OrderedDict()
        self._older: set[str] = set()  # tools that need a version in which they can ask at once
        self._closing: set[asyncio.Task[None]] = set()
        self._conversations: OrderedDict[str, str] = OrderedDict()
        self._refreshing: asyncio.Task[None] | None = None

    # -- as an agent --------------------------------------------------------------------------------

    def talk(self, message: Message, call: Call) -> AsyncGenerator[Event, None]:
        return self._events(message, call, self.answer, None)

    async def __call__(self, turn: Turn, /) -> AsyncIterator[Event]:
        """Answer a turn by calling the tool that it means; what the server asks is asked of our caller.

        Raises:
            PeerError: as ``call`` does, told by the server's name: where it is, is not the caller's affair.
        """
        seconds = min(turn.remaining, self.seconds)
        shows = self.outgoing is not None and self.program is None and not turn.conversation.agreed.get("anonymous")
        shown = await self.outgoing.headers(self.url, turn.caller) if self.outgoing is not None and shows else {}
        call = Call(turn.conversation.id, seconds, turn.id, trace_of(turn), turn.hops + 1, pieces=True, headers=shown)
        call = replace(call, whole=lambda: turn.remaining)

        def permit(*, tool: str = "", skill: str = "") -> None:
            turn.used.append(tool[:64])  # also where it is refused: the audit line names it
            turn.permit(tool=tool, skill=skill)

        try:
            with self.breaker.call() as calling:

                async def ask(question: Question) -> Message:
                    calling.alive()  # nobody else waits until our caller has answered
                    return await turn.ask(question)

                async with aclosing(self._events(turn.message, call, ask, permit)) as events:
                    async for event in events:
                        calling.heard(event)
                        yield event
        except PeerError as wrong:
            raise self._told(wrong) from None

    def _told(self, wrong: PeerError) -> PeerError:
        if isinstance(wrong, PeerUnavailable):  # what a program says is for who runs it, and in the log
            wrong = PeerUnavailable(wrong.peer, wrong.reason.removeprefix(f"{wrong.peer}: ").partition(LAST_WORDS)[0])
        return super()._told(wrong)

    async def _events(
        self, message: Message, call: Call, ask: AskBack | None, permit: Permit | None
    ) -> AsyncGenerator[Event, None]:
        told: asyncio.Queue[Event | None] = asyncio.Queue()
        working = asyncio.create_task(self._said(message, call, ask, told.put_nowait, permit))
        working.add_done_callback(lambda _: told.put_nowait(None))
        try:
            while (event := await told.get()) is not None:
                yield event
            reply = working.result()
        finally:
            working.cancel()
        yield Fault(reply.text) if reply.is_error else Reply(reply)

    async def _said(
        self, message: Message, call: Call, ask: AskBack | None, tell: Tell, permit: Permit | None
    ) -> Message:
        if not self.tools:
            await self.refresh(call.headers, asks=ask is not None)
        name, arguments = self._meant(message, self._conversations.get(call.conversation))
        if permit is not None:
            permit(tool=name)
        reply = await self.call(
            name,
            arguments,
            seconds=call.seconds,
            ask=ask,
            tell=tell,
            trace=call.trace,
            hops=call.hops,
            shown=call.headers,
            left=call.whole,
        )
        token = wire.conversation_of(reply)
        if token is not None:
            self._conversations[call.conversation] = token
            if len(self._conversations) > MOST_CONVERSATIONS:
                self._conversations.popitem(last=False)
        return reply.without_tokens()

    def _left(self) -> Any:
        return self._conversations.get("")

    def _take_up(self, left: Any) -> None:
        if left is not None:
            self._conversations[""] = msgspec.convert(left, str)

    def _meant(self, message: Message, token: str | None) -> tuple[str, dict[str, Any]]:
        """The tool that a message means, and its arguments.

        Raises:
            BadMessage: it names none, and none takes words.
        """
        for part in message.parts:
            if part.label in self.tools and isinstance(part.value, dict):
                return part.label or "", part.value
        name = self.tool or self._speaking()
        if name is None:
            known = ", ".join(list(self.tools)[:20])
            raise BadMessage(
                wire.PROTOCOL, "$", f"data labelled with the tool that is meant: {known or 'there is none'}"
            )
        properties = _properties(self.tools[name])
        given = _data(message)
        if given is not None and not message.text:
            return name, given
        if {"text", "conversation"} <= properties.keys():
            return name, wire.arguments_of(message, token)
        words = next((each for each in (*_WORDS, *properties) if each in properties), "text")
        return name, {**(given or {}), words: message.text}

    def _speaking(self) -> str | None:
        """The tool that takes words: of our name for the server, an agent's, one so named, or the only one there is."""
        if self.card.name in self.tools:
            return self.card.name
        agents = [name for name, tool in self.tools.items() if {"text", "conversation"} <= _properties(tool).keys()]
        if agents:
            return agents[0]  # a gateway of agents lists its default agent first
        named = next((each for each in _SPEAKING if each in self.tools), None)
        if named is not None:
            return named
        talking = [name for name, tool in self.tools.items() if _takes_text(tool)]
        return talking[0] if len(talking) == 1 else None

    # -- tools --------------------------------------------------------------------------------------

    async def refresh(self, shown: Mapping[str, str] | None = None, *, asks: bool = True) -> None:
        """Ask the server what it offers; the Card says so from then on. ``shown`` is who we are to it.

        A bare address that does not speak MCP itself may do so at ``/mcp``, as gateways do.

        Raises:
            PeerError: it cannot be asked.
        """
        at = self.url
        try:
            await self._list(shown, asks=asks)
        except PeerError as first:
            if self.program is not None or urlsplit(at).path.strip("/"):
                raise
            if self.url == at:  # else another call has found it meanwhile
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
            tools: dict[str, dict[str, Any]] = {}
            cursor: str | None = None
            while True:
                page = await link.client.session.list_tools(params=types.PaginatedRequestParams(cursor=cursor))
                for tool in page.tools:
                    tools[tool.name] = tool.model_dump(mode="json", by_alias=True, exclude_none=True)
                cursor = page.next_cursor
                if not cursor or len(tools) > 10_000:
                    break
            info = link.client.server_info
            described = info.model_dump(mode="json", exclude_none=True) if info is not None else {}
        self.tools = tools
        self.card = mcp_card.card_of(self.card.name, described, tools.values())

    async def call(
        self,
        tool: str,
        arguments: Mapping[str, Any],
        *,
        seconds: float | None = None,
        ask: AskBack | None = None,
        tell: Tell | None = None,
        trace: str | None = None,
        hops: int = 0,
        shown: Mapping[str, str] | None = None,
        left: Callable[[], float] | None = None,
    ) -> Message:
        """Call one tool and return what it says; a failure of the tool is a message of type error.

        ``seconds`` may pass without a sign of life; ``left`` says how many there are in all, for what takes longer.

        Raises:
            PeerUnavailable: no connection, or no answer in time.
            PeerRefused: the server refused the call; ``status`` is its code.
            PeerUnreadable: the answer is not of the protocol.
        """
        take = AS_IT_CAME.get()
        clock = Clock(seconds or self.seconds)
        meta = {**({"traceparent": trace} if trace else {}), **({wire.HOPS: hops} if hops else {})}
        wanted = Wanted(
            tool,
            dict(arguments),
            clock.left,
            left or (lambda: clock.left),
            ask,
            tell,
            meta or None,
            str((self.tools.get(tool, {}).get("execution") or {}).get("taskSupport", "")),
        )
        result = await self._result(wanted, shown)
        if take is not None:
            take(result)
        try:
            return wire.message_of(result)
        except SabirError as wrong:
            raise PeerUnreadable(self.address, str(wrong)) from None

    async def _result(self, wanted: Wanted, shown: Mapping[str, str] | None) -> dict[str, Any]:
        """The result of a call. A tool that can only ask at once, in the middle of its work, is called over a version
        that has a way for it: many were written before 2026-07-28, and their servers speak both."""
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

    async def _called(self, wanted: Wanted, shown: Mapping[str, str] | None, *, older: bool = False) -> dict[str, Any]:
        async with self._link(shown, asks=wanted.ask is not None, older=older) as link:
            try:
                result = await link.call(wanted)
            except MCPError as wrong:
                if (take := AS_IT_CAME.get()) is not None:
                    take({"error": wrong.error.model_dump(mode="json", exclude_none=True)})
                raise
        return await self._followed(result, wanted, shown) if isinstance(result, Created) else result

    async def _followed(self, created: Created, wanted: Wanted, shown: Mapping[str, str] | None) -> dict[str, Any]:
        """The result of a call that the server has made a task of; no connection is kept for it."""
        asks = wanted.ask is not None

        async def request(method: str, params: dict[str, Any]) -> dict[str, Any]:
            async with self._link(shown, asks=asks) as link:
                return await link.request(method, params)

        about = created.model_dump(mode="json", by_alias=True, exclude_none=True)
        task = Following(self.address, about, request, given_by(wanted.ask), wanted.tell, wanted.left)
        try:
            return await task.result()
        except MCPError as failed:
            raise PeerRefused(self.address, failed.error.message[:500], failed.error.code) from None
        finally:
            if not task.ended:
                self._pool(shown or {}, asks=asks).leave(task.cancel())

    async def prompt(self, name: str, arguments: Mapping[str, str] | None = None) -> Message:
        """What a prompt of the server says. Raises as ``call`` does."""
        async with self._link() as link:
            result = await link.client.get_prompt(name, dict(arguments or {}))
            blocks = [
                each.content.model_dump(mode="json", by_alias=True, exclude_none=True) for each in result.messages
            ]
        return Message.of(*(wire.part_of(block) for block in blocks)) if blocks else Message.text("")

    async def read(self, uri: str) -> Message:
        """What a resource of the server holds. Raises as ``call`` does."""
        async with self._link() as link:
            result = await link.client.read_resource(uri)
            contents = [each.model_dump(mode="json", by_alias=True, exclude_none=True) for each in result.contents]
        return Message.of(*(wire.part_of_contents(each) for each in contents)) if contents else Message.text("")

    # -- connections --------------------------------------------------------------------------------

    @asynccontextmanager
    async def _link(
        self, shown: Mapping[str, str] | None = None, *, asks: bool = True, older: bool = False
    ) -> AsyncIterator[Link]:
        """A connection for one call, as who we are to the server for this caller."""
        try:
            async with self._pool(shown or {}, asks=asks, older=older).link() as link:
                self.unavailable, self.stateless = None, link.stateless or (older and self.stateless)
                yield link
        except PeerUnavailable as wrong:
            self.unavailable = str(wrong)
            raise

    async def _own(self) -> dict[str, str]:
        """Who we are to the server where nobody asks through us; nothing, if it must know for whom."""
        if self.outgoing is None or self.program is not None:
            return {}
        try:
            return await self.outgoing.headers(self.url, ANONYMOUS)
        except Forbidden:
            return {}

    def _pool(self, shown: Mapping[str, str], *, asks: bool = True, older: bool = False) -> Pool:
        """Connections are never shared between identities."""
        place = replace(self._place, version="legacy") if older else self._place
        key = (self.url, asks, place.version, tuple(sorted(shown.items())))
        pool = self._pools.get(key)
        if pool is None:
            pool = self._pools[key] = Pool(place, shown, self.changed, asks=asks)
            if len(self._pools) > MOST_POOLS:
                _, oldest = self._pools.popitem(last=False)
                self._closing.add(task := asyncio.create_task(oldest.aclose()))
                task.add_done_callback(self._closing.discard)
        self._pools.move_to_end(key)
        return pool

    @property
    def http(self) -> httpx2.AsyncClient:
        """The client whose connections all requests without an identity of their own share."""
        return self._pool({}).http

    def pipe(self, shown: Mapping[str, str], on_request: OnRequest, on_notify: OnNotify) -> Pipe:
        """A channel of its own to the server, on which messages pass as they are."""
        return Pipe(self.card.name, self._pool(shown).transport(), on_request, on_notify)

    def changed(self) -> None:
        """The server says that its tools are others now."""
        if self._refreshing is None or self._refreshing.done():
            self._refreshing = asyncio.create_task(self._refresh_quietly())

    async def _refresh_quietly(self) -> None:
        try:
            await self.refresh()
        except PeerError as wrong:
            self.unavailable = str(wrong)
        else:
            if self.on_changed is not None:
                await self.on_changed()

    async def aclose(self) -> None:
        if self._refreshing is not None:
            self._refreshing.cancel()
        pools = list(self._pools.values())
        for pool in pools:
            await pool.said_goodbye()  # which needs a connection yet
        self._pools.clear()
        for pool in pools:
            await pool.aclose()
        await asyncio.gather(*self._closing, return_exceptions=True)


def _cannot_ask(words: str) -> bool:
    """Whether a tool failed because its server has no way to ask its client at once; so says the official SDK."""
    return "Cannot send" in words and "back-channel" in words


def _neither(first: PeerError, second: PeerError) -> PeerError:
    """Why neither a bare address nor the one below it can be asked."""
    words = [each.reason.removeprefix(f"{each.peer}: ") for each in (first, second)]
    told = f"{words[0]}; {BELOW} below it was tried too: {words[1]}"
    if isinstance(second, PeerRefused):
        return PeerRefused(first.peer, told, second.status, broken=second.broken)
    return type(second)(first.peer, told)


def _data(message: Message) -> dict[str, Any] | None:
    return next((part.value for part in message.parts if _is_object(part)), None)


def _is_object(part: Part) -> bool:
    return part.format == "structured" and part.kind == "json" and isinstance(part.value, dict)


def _properties(tool: Mapping[str, Any]) -> Mapping[str, Any]:
    return (tool.get("inputSchema") or {}).get("properties") or {}


def _takes_text(tool: Mapping[str, Any]) -> bool:
    schema = tool.get("inputSchema") or {}
    properties = _properties(tool)
    required = schema.get("required") or list(properties)[:1]
    return len(required) == 1 and (properties.get(required[0]) or {}).get("type") == "string"

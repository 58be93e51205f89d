"""A remote MCP server as an Agent, and its tools one by one: over HTTP, or a program on this machine over stdio.

Each tool is a skill of the agent's Card. A message that is labelled with a tool's name calls it with its data; words
go to the tool that takes words. What the server asks (elicitation, sampling, roots) is asked of our caller through
the turn. Connections are kept: one for all calls where the version is stateless, else one a call at a time, so that
a question of the server always belongs to one call. A server that is gone is tried again with the next call.
"""

from __future__ import annotations

import asyncio
import shlex
from collections import OrderedDict
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

import httpx2
import mcp_types as types
from mcp import Client, StdioServerParameters
from mcp.client.session import ClientRequestContext, IncomingMessage
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel, ValidationError

from .. import _version
from ..errors import BadSetup, PeerError, PeerRefused, PeerUnavailable, PeerUnreadable, SabirError, TurnFailed
from ..events import Event, Fault, Progress, Question, Reply
from ..message import Message, Part
from ..turn import Turn
from ..wire import mcp as wire
from ..wire import mcp_ask
from .base import SECONDS, Call, Identity, Peer, choose, origin_of

STDIO: Final = "stdio:"
ROUNDS: Final = 10  # times a server may ask for input before one call is given up
MOST_LINKS: Final = 16
MOST_CONVERSATIONS: Final = 10_000
CONNECT_SECONDS: Final = 30.0
_SPEAKING: Final = ("ask", "chat", "query", "search")  # tools that take words, if none is named
_WORDS: Final = ("text", "query", "prompt", "message", "question", "input")
_CLIENT: Final = types.Implementation(name="sabir", version=_version.__version__)
_RESULTS: Final[Mapping[str, type[BaseModel]]] = {
    "elicitation/create": types.ElicitResult,
    "sampling/createMessage": types.CreateMessageResult,
    "roots/list": types.ListRootsResult,
}

AskBack = Callable[[Question], Awaitable[Message]]
Tell = Callable[[Event], None]


@dataclass(frozen=True, slots=True)
class Program:
    """An MCP server that is started here and spoken to over its standard input and output."""

    command: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] | None = None
    directory: str | None = None

    @classmethod
    def of(cls, address: str) -> Program:
        """``stdio:python server.py`` as a program.

        Raises:
            BadSetup: it names none.
        """
        try:
            words = shlex.split(address.removeprefix(STDIO))
        except ValueError as wrong:
            raise BadSetup(f"{address[:80]}: {wrong}") from None
        if not words:
            raise BadSetup(f"{address[:80]}: expected stdio: and a command")
        return cls(words[0], tuple(words[1:]))


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
    ) -> None:
        if isinstance(where, str) and where.startswith(STDIO):
            where = Program.of(where)
        self.program = where if isinstance(where, Program) else None
        super().__init__(where if isinstance(where, str) else f"{STDIO}{where.command}", name=name, seconds=seconds)
        self.tool = tool
        self.version = version
        self.unavailable: str | None = None  # why it cannot be used now
        self.on_changed: Callable[[], Awaitable[None]] | None = None
        self.tools: dict[str, dict[str, Any]] = {}
        self.headers = dict(headers or {})
        own = choose(identities, origin_of(self.url), None) if self.program is None and identities else None
        if own is not None:
            self.headers["authorization"] = own
        self._auth = auth
        self._http: httpx2.AsyncClient | None = None
        self._shared: Link | None = None
        self._idle: list[Link] = []
        self._room = asyncio.Semaphore(MOST_LINKS)
        self._opening = asyncio.Lock()
        self._conversations: OrderedDict[str, str] = OrderedDict()
        self._refreshing: asyncio.Task[None] | None = None

    # -- as an agent --------------------------------------------------------------------------------

    def talk(self, message: Message, call: Call) -> AsyncGenerator[Event, None]:
        return self._events(message, call, None)

    async def __call__(self, turn: Turn, /) -> AsyncIterator[Event]:
        """Answer a turn by calling the tool that it means; what the server asks is asked of our caller."""
        seconds = min(turn.remaining, self.seconds)
        call = Call(turn.conversation.id, seconds, turn.id, turn.trace, turn.hops + 1, pieces=True)
        try:
            async for event in self._events(turn.message, call, turn.ask):
                yield event
        except PeerError as wrong:
            yield Fault.of(wrong)

    async def _events(self, message: Message, call: Call, ask: AskBack | None) -> AsyncGenerator[Event, None]:
        told: asyncio.Queue[Event | None] = asyncio.Queue()
        working = asyncio.create_task(self._said(message, call, ask, told.put_nowait))
        working.add_done_callback(lambda _: told.put_nowait(None))
        try:
            while (event := await told.get()) is not None:
                yield event
            reply = working.result()
        finally:
            working.cancel()
        yield Fault(reply.text) if reply.is_error else Reply(reply)

    async def _said(self, message: Message, call: Call, ask: AskBack | None, tell: Tell) -> Message:
        if not self.tools:
            await self.refresh()
        name, arguments = self._meant(message, self._conversations.get(call.conversation))
        reply = await self.call(
            name, arguments, seconds=call.seconds, ask=ask, tell=tell, trace=call.trace, hops=call.hops
        )
        token = wire.conversation_of(reply)
        if token is not None:
            self._conversations[call.conversation] = token
            if len(self._conversations) > MOST_CONVERSATIONS:
                self._conversations.popitem(last=False)
        return reply.without_tokens()

    def _meant(self, message: Message, token: str | None) -> tuple[str, dict[str, Any]]:
        """The tool that a message means, and its arguments.

        Raises:
            TurnFailed: it names none, and none takes words.
        """
        for part in message.parts:
            if part.label in self.tools and isinstance(part.value, dict):
                return part.label or "", part.value
        name = self.tool or self._speaking()
        if name is None:
            known = ", ".join(list(self.tools)[:20])
            raise TurnFailed(f"say which tool is meant: data labelled with one of {known or 'none'}")
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

    async def refresh(self) -> None:
        """Ask the server what it offers; the Card says so from then on.

        Raises:
            PeerError: it cannot be asked.
        """
        async with self._link() as link:
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
        self.card = wire.card_of(self.card.name, described, tools.values())

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
    ) -> Message:
        """Call one tool and return what it says; a failure of the tool is a message of type error.

        Raises:
            PeerUnavailable: no connection, or no answer in time.
            PeerRefused: the server refused the call; ``status`` is its code.
            PeerUnreadable: the answer is not of the protocol.
        """
        async with self._link() as link:
            result = await link.call(tool, dict(arguments), seconds or self.seconds, ask, tell, trace, hops)
        try:
            return wire.message_of(result)
        except SabirError as wrong:
            raise PeerUnreadable(self.address, str(wrong)) from None

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
    async def _link(self) -> AsyncIterator[Link]:
        """A connection for one call; failures of the SDK leave it as ours."""
        async with self._room:
            link = await self._ready()
            try:
                yield link
            except MCPError as wrong:
                if wrong.error.code == types.CONNECTION_CLOSED or link.ended:
                    link.ended = True
                    raise PeerUnavailable(self.address, "the connection was closed") from None
                if wrong.error.code == types.REQUEST_TIMEOUT:
                    raise PeerUnavailable(self.address, "no answer in time") from None
                raise PeerRefused(self.address, wrong.error.message[:500], wrong.error.code) from None
            except (ValidationError, RuntimeError) as wrong:
                raise PeerUnreadable(self.address, f"not of its protocol ({type(wrong).__name__})") from None
            finally:
                link.leave()
                if not link.stateless and not link.ended:
                    self._idle.append(link)

    async def _ready(self) -> Link:
        while self._idle:
            link = self._idle.pop()
            if not link.ended:
                return link
        async with self._opening:
            if self._shared is not None and not self._shared.ended:
                return self._shared
            link = Link(self)
            try:
                await link.open()
            except PeerError as wrong:
                self.unavailable = str(wrong)
                raise
            self.unavailable = None
            if link.stateless:
                self._shared = link
            return link

    def transport(self) -> AbstractAsyncContextManager[Any]:
        """What the SDK's client speaks through."""
        if self.program is not None:
            program = self.program
            return stdio_client(
                StdioServerParameters(
                    command=program.command,
                    args=list(program.args),
                    env=dict(program.env) if program.env is not None else None,
                    cwd=program.directory,
                )
            )
        return streamable_http_client(self.url, http_client=self.http)

    @property
    def http(self) -> httpx2.AsyncClient:
        """One pooled client for all connections: making one costs more than most calls do."""
        if self.program is not None:
            raise BadSetup(f"{self.address} is a program on this machine; it has no HTTP address")
        if self._http is None:
            timeout = httpx2.Timeout(CONNECT_SECONDS, read=None)
            limits = httpx2.Limits(max_connections=256, max_keepalive_connections=64)
            self._http = httpx2.AsyncClient(
                headers=self.headers,
                auth=self._auth,
                timeout=timeout,
                limits=limits,
                trust_env=False,  # no password from ~/.netrc leaves by surprise
            )
        return self._http

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
        links = [*self._idle, *([self._shared] if self._shared is not None else [])]
        self._idle, self._shared = [], None
        for link in links:
            await link.close()
        if self._http is not None:
            await self._http.aclose()
            self._http = None


class Link:
    """One connection, held by a task of its own, because the SDK's scopes belong to the task that entered them."""

    def __init__(self, peer: McpPeer) -> None:
        self.peer = peer
        self.ended = False
        self.client: Client
        self.stateless = False
        self._ask: AskBack | None = None
        self._tell: Tell | None = None
        self._closing = asyncio.Event()
        self._opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._holding: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Raises:
        PeerUnavailable: it cannot be reached, or does not speak MCP.
        """
        self._holding = asyncio.create_task(self._hold())
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                await asyncio.shield(self._opened)
        except TimeoutError:
            await self.close()
            raise PeerUnavailable(self.peer.address, "no connection in time") from None

    async def _hold(self) -> None:
        try:
            async with Client(
                self.peer.transport(),
                client_info=_CLIENT,
                mode=self.peer.version,
                cache=None,
                elicitation_callback=self._elicited,
                sampling_callback=self._sampled,
                list_roots_callback=self._rooted,
                message_handler=self._heard,
            ) as client:
                self.client = client
                self.stateless = client.protocol_version in MODERN_PROTOCOL_VERSIONS
                self._opened.set_result(None)
                await self._closing.wait()
        except (MCPError, OSError, httpx2.HTTPError, ExceptionGroup, ValidationError, ValueError) as wrong:
            if not self._opened.done():
                self._opened.set_exception(PeerUnavailable(self.peer.address, _why(wrong)))
        finally:
            self.ended = True
            if not self._opened.done():
                self._opened.cancel()

    async def close(self) -> None:
        self._closing.set()
        if self._holding is not None:
            _, slow = await asyncio.wait({self._holding}, timeout=5.0)
            for task in slow:
                task.cancel()

    def leave(self) -> None:
        self._ask = self._tell = None

    # -- calling ------------------------------------------------------------------------------------

    async def call(
        self,
        tool: str,
        arguments: dict[str, Any],
        seconds: float,
        ask: AskBack | None,
        tell: Tell | None,
        trace: str | None,
        hops: int,
    ) -> dict[str, Any]:
        """The result of a tool; input that it wants is asked for on the way."""
        if not self.stateless:
            self._ask, self._tell = ask, tell
        meta: Any = {**({"traceparent": trace} if trace else {}), **({wire.HOPS: hops} if hops else {})} or None

        async def on_progress(progress: float, total: float | None, message: str | None) -> None:
            if tell is not None:
                tell(Progress(min(1.0, progress / total) if total else None, message or ""))

        responses: Any = None
        state: str | None = None
        for _ in range(ROUNDS):
            result = await self.client.session.call_tool(
                tool,
                arguments,
                seconds,
                on_progress if tell is not None else None,
                input_responses=responses,
                request_state=state,
                meta=meta,
                allow_input_required=True,
            )
            if not isinstance(result, types.InputRequiredResult):
                return result.model_dump(mode="json", by_alias=True, exclude_none=True)
            wanted = result.input_requests or {}
            responses = {key: await self._answered(request, ask) for key, request in wanted.items()}
            state = result.request_state
        raise PeerRefused(self.peer.address, f"it asked for input more than {ROUNDS} times")

    # -- what the server asks -------------------------------------------------------------------------

    async def _answered(self, request: BaseModel, ask: AskBack | None) -> Any:
        """The response to one request of the server.

        Raises:
            MCPError: there is nobody to ask.
        """
        raw = request.model_dump(mode="json", by_alias=True, exclude_none=True)
        method = str(raw["method"])
        if ask is None:
            raise MCPError(types.INVALID_REQUEST, "nobody can be asked here")
        question = mcp_ask.question_of(method, raw.get("params") or {})
        response = mcp_ask.response_of(question, await ask(question))
        return _RESULTS[method].model_validate(response)

    async def _elicited(self, context: ClientRequestContext, params: types.ElicitRequestParams) -> Any:
        return await self._asked(types.ElicitRequest(params=params))

    async def _sampled(self, context: ClientRequestContext, params: types.CreateMessageRequestParams) -> Any:
        return await self._asked(types.CreateMessageRequest(params=params))

    async def _rooted(self, context: ClientRequestContext) -> Any:
        return await self._asked(types.ListRootsRequest())

    async def _asked(self, request: BaseModel) -> Any:
        """Ask whoever made the call that this connection is busy with."""
        try:
            return await self._answered(request, self._ask)
        except MCPError as wrong:
            return wrong.error
        except (SabirError, ValidationError) as wrong:
            return types.ErrorData(code=types.INVALID_REQUEST, message=str(wrong)[:200])

    async def _heard(self, message: IncomingMessage) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            self.peer.changed()
        elif isinstance(message, types.LoggingMessageNotification) and self._tell is not None:
            self._tell(Progress(note=str(message.params.data)[:1000]))


def _why(wrong: BaseException) -> str:
    while isinstance(wrong, BaseExceptionGroup):
        wrong = wrong.exceptions[0]
    if isinstance(wrong, MCPError):
        return wrong.error.message[:300]
    return f"no connection ({type(wrong).__name__})"


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

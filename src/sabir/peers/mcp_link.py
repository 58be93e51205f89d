"""Connections to one MCP server: kept, shared where the version allows it, and never between identities."""

from __future__ import annotations

import asyncio
import shlex
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

import anyio
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
from ..errors import BadSetup, PeerError, PeerRefused, PeerUnavailable, PeerUnreadable, SabirError
from ..events import Event, Progress, Question
from ..message import Message
from ..wire import mcp as wire
from ..wire import mcp_ask

STDIO: Final = "stdio:"
ROUNDS: Final = 10  # times a server may ask for input before one call is given up
MOST_LINKS: Final = 16
CONNECT_SECONDS: Final = 30.0
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


@dataclass(frozen=True, slots=True)
class Place:
    """Where a server is, and how it is met."""

    url: str
    address: str  # as it may be shown
    program: Program | None
    headers: Mapping[str, str]
    auth: httpx2.Auth | None
    version: str
    verify: ssl.SSLContext | None = None  # None: the system's trust


class Pool:
    """The connections of one identity."""

    def __init__(
        self, place: Place, shown: Mapping[str, str], changed: Callable[[], None], *, asks: bool = True
    ) -> None:
        self.place = place
        self.asks = asks  # whether somebody is there whom the server may ask
        self.refused: int | None = None  # the status with which it said last that we may not
        self.absent = False  # whether it said last that there is nothing at this address
        self.changed = changed
        self._shown = shown
        self._http: httpx2.AsyncClient | None = None
        self._shared: Link | None = None
        self._idle: list[Link] = []
        self._room = asyncio.Semaphore(MOST_LINKS)
        self._opening = asyncio.Lock()

    @asynccontextmanager
    async def link(self) -> AsyncIterator[Link]:
        """A connection for one call; failures of the SDK leave it as ours."""
        address = self.place.address
        async with self._room:
            link = await self._ready()
            try:
                yield link
            except MCPError as wrong:
                if wrong.error.code == types.CONNECTION_CLOSED or link.ended:
                    link.ended = True
                    raise PeerUnavailable(address, "the connection was closed") from None
                if wrong.error.code == types.REQUEST_TIMEOUT:
                    raise PeerUnavailable(address, "no answer in time") from None
                raise PeerRefused(address, wrong.error.message[:500], self.refused or wrong.error.code) from None
            except (ValidationError, RuntimeError) as wrong:
                raise PeerUnreadable(address, f"not of its protocol ({type(wrong).__name__})") from None
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
            await link.open()
            if link.stateless:
                self._shared = link
            return link

    def transport(self) -> AbstractAsyncContextManager[Any]:
        """What the SDK's client speaks through."""
        program = self.place.program
        if program is None:
            return streamable_http_client(self.place.url, http_client=self.http)
        env = dict(program.env) if program.env is not None else None
        return stdio_client(
            StdioServerParameters(command=program.command, args=list(program.args), env=env, cwd=program.directory)
        )

    @property
    def http(self) -> httpx2.AsyncClient:
        """One client for all connections: making one costs more than most calls do."""
        if self.place.program is not None:
            raise BadSetup(f"{self.place.address} is a program on this machine; it has no HTTP address")
        if self._http is None:
            self._http = httpx2.AsyncClient(
                headers={**self.place.headers, **self._shown},
                auth=self.place.auth,
                timeout=httpx2.Timeout(CONNECT_SECONDS, read=None),
                limits=httpx2.Limits(max_connections=256, max_keepalive_connections=64),
                verify=self.place.verify or True,
                event_hooks={"response": [self._answered]},
                trust_env=False,  # no password from ~/.netrc leaves by surprise
            )
        return self._http

    async def _answered(self, response: httpx2.Response) -> None:
        """The SDK tells why, and not with which status, which is how refusals are known from failures."""
        self.refused = response.status_code if response.status_code in (401, 403) else None
        self.absent = response.status_code == 404

    async def aclose(self) -> None:
        links = [*self._idle, *([self._shared] if self._shared is not None else [])]
        self._idle, self._shared = [], None
        for link in links:
            await link.close()
        if self._http is not None:
            await self._http.aclose()
            self._http = None


async def until_open(opened: asyncio.Future[None], close: Callable[[], Awaitable[None]], name: str) -> None:
    """Wait for a connection that a task of its own holds; if nobody will use it, what is half open is closed.

    Raises:
        PeerUnavailable: not in time.
    """
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            await asyncio.shield(opened)
    except TimeoutError:
        await close()
        raise PeerUnavailable(name, "no connection in time") from None
    except asyncio.CancelledError:
        await close()
        raise


class Link:
    """One connection, held by a task of its own, because the SDK's scopes belong to the task that entered them."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self.ended = False
        self.client: Client
        self.stateless = False
        self._ask: AskBack | None = None
        self._tell: Tell | None = None
        self._closing = asyncio.Event()
        self._scope = anyio.CancelScope()
        self._opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._holding: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Raises:
        PeerUnavailable: it cannot be reached, or does not speak MCP.
        PeerRefused: it wants to know who we are, or does not want us.
        """
        self._holding = asyncio.create_task(self._hold())
        await until_open(self._opened, self.close, self.pool.place.address)

    async def _hold(self) -> None:
        with self._scope:
            await self._held()

    async def _held(self) -> None:
        try:
            async with Client(
                self.pool.transport(),
                client_info=_CLIENT,
                mode=self.pool.place.version,
                cache=None,
                elicitation_callback=self._elicited if self.pool.asks else None,
                sampling_callback=self._sampled if self.pool.asks else None,
                list_roots_callback=self._rooted if self.pool.asks else None,
                message_handler=self._heard,
            ) as client:
                self.client = client
                self.stateless = client.protocol_version in MODERN_PROTOCOL_VERSIONS
                self._opened.set_result(None)
                await self._closing.wait()
        except (MCPError, OSError, httpx2.HTTPError, ExceptionGroup, ValidationError, ValueError) as wrong:
            if not self._opened.done():
                self._opened.set_exception(self._failed(why(wrong)))
        finally:
            self.ended = True
            if not self._opened.done():
                self._opened.cancel()

    def _failed(self, words: str) -> PeerError:
        address, refused = self.pool.place.address, self.pool.refused
        if self.pool.absent:
            return PeerRefused(address, words, 404)
        if refused is not None:
            return PeerRefused(address, f"it answered {refused}: {words}", refused)
        return PeerUnavailable(address, words)

    async def close(self) -> None:
        self._closing.set()
        if not self._opened.done():
            self._scope.cancel()  # not the task: the SDK may have a process to end
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
        raise PeerRefused(self.pool.place.address, f"it asked for input more than {ROUNDS} times")

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
            self.pool.changed()
        elif isinstance(message, types.LoggingMessageNotification) and self._tell is not None:
            self._tell(Progress(note=str(message.params.data)[:1000]))


def why(wrong: BaseException) -> str:
    """Why a connection could not be made, in words."""
    while isinstance(wrong, BaseExceptionGroup):
        wrong = wrong.exceptions[0]
    if isinstance(wrong, MCPError):
        return wrong.error.message[:300]
    return f"no connection ({type(wrong).__name__})"

"""Connections to one MCP server: kept, shared if the version allows it, and never between identities."""

from __future__ import annotations

import asyncio
import shlex
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any, Final

import anyio
import httpx2
import mcp_types as types
from mcp import Client, StdioServerParameters
from mcp.client.session import ClientRequestContext, IncomingMessage
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.dispatcher import ProgressFnT
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel, ValidationError

from sabir import _version
from sabir.errors import ConfigError, PeerError, PeerRefused, PeerUnavailable, PeerUnreadable, SabirError
from sabir.events import Event, Progress, Question
from sabir.guard.egress.keep_alive import LiveTransport, kept_connections
from sabir.http.client import system_trust
from sabir.http.connect_errors import why_no_connection
from sabir.http.wire_log import Watched
from sabir.message import Message
from sabir.protocols.mcp.wire import elicitation as mcp_ask
from sabir.protocols.peer import OnWire

from .http_sse import event_streams
from .limits import MAX_MESSAGE, TOO_LARGE, LimitedStream, is_too_large, too_large_words
from .patience import Patience
from .stdio import Complaints, started
from .tasks import Answer, Created, Following, TasksExtension, is_long, offers_old_tasks, raw_request

STDIO: Final = "stdio:"
ROUNDS: Final = 10  # how often a server may ask for input in one call
MAX_LINKS: Final = 16
CONNECT_SECONDS: Final = 30.0
_CLIENT: Final = types.Implementation(name="sabir", version=_version.__version__)
_RESULTS: Final[Mapping[str, type[BaseModel]]] = {
    "elicitation/create": types.ElicitResult,
    "sampling/createMessage": types.CreateMessageResult,
    "roots/list": types.ListRootsResult,
}

_LIST_CHANGED: Final = (
    types.ToolListChangedNotification,
    types.PromptListChangedNotification,
    types.ResourceListChangedNotification,
)
_EXTENSIONS: Final = (TasksExtension(),)
_FOREVER: Final = 1e9
_GOODBYE: Final = 2.0  # seconds for notifying the server when nobody waits any more

AskBack = Callable[[Question], Awaitable[Message]]
OnEvent = Callable[[Event], None]


@dataclass(frozen=True, slots=True)
class ConnectionKind:
    """One call of a tool: its arguments, its time limits, and who is asked and notified."""

    tool: str
    arguments: dict[str, Any]
    seconds: float  # that may pass without a sign of life
    left: Callable[[], float]  # total remaining seconds
    ask: AskBack | None = None
    on_event: OnEvent | None = None
    meta: Any = None
    support: str = ""  # the tool's task support (2025-11-25): required, optional
    owner: str = ""  # whose session it may use


@dataclass(frozen=True, slots=True)
class Program:
    """An MCP server that is started here and reached over its standard input and output."""

    command: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] | None = None
    directory: str | None = None

    @classmethod
    def of(cls, address: str) -> Program:
        """``stdio:python server.py`` as a program.

        Raises:
            ConfigError: it names no program.
        """
        try:
            words = shlex.split(address.removeprefix(STDIO))
        except ValueError as exc:
            raise ConfigError(f"{address[:80]}: {exc}") from None
        if not words:
            raise ConfigError(f"{address[:80]}: expected stdio: and a command")
        return cls(words[0], tuple(words[1:]))


@dataclass(frozen=True, slots=True)
class Place:
    """The address of a server, and how to connect to it."""

    url: str
    address: str  # safe to show
    program: Program | None
    headers: Mapping[str, str]
    auth: httpx2.Auth | None
    version: str
    verify: ssl.SSLContext | None = None  # None: the system's trust
    on_wire: OnWire | None = None
    limit: int = MAX_MESSAGE  # bytes of one message of the server
    sse: bool = False  # whether to use HTTP+SSE, the transport of 2024-11-05
    roots: bool = True  # whether our caller is asked for its directories, if the server wants to know them
    seconds: float = CONNECT_SECONDS  # to connect


class Pool:
    """The connections of one of our identities and, if sessions keep state, of one caller."""

    def __init__(
        self,
        place: Place,
        shown: Mapping[str, str],
        changed: Callable[[], None],
        owner: str = "",
        *,
        asks: bool = True,
    ) -> None:
        self.place = place
        self.owner = owner
        self.asks = asks  # whether somebody can answer the server's questions
        self.refused: int | None = None  # the status of its last refusal
        self.broken: int | None = None  # the status with which it, or a proxy in front of it, last reported an outage
        self.absent = False  # whether it last reported that there is nothing at this address
        self.changed = changed
        self._shown = shown
        self._http: httpx2.AsyncClient | None = None
        self._shared: McpConnection | None = None  # without sessions, one connection serves all callers
        self._cookies = _Cookies()
        self._idle: list[McpConnection] = []
        self._room = asyncio.Semaphore(MAX_LINKS)
        self._opening = asyncio.Lock()
        self._goodbyes: set[asyncio.Task[None]] = set()
        self.used = time.monotonic()  # when it was last used
        self._users = 0
        self._closed = False

    @property
    def is_busy(self) -> bool:
        return bool(self._users or self._goodbyes)

    def keep_no_cookies(self) -> None:
        """For connections that serve several callers."""
        self._cookies.forget()

    @asynccontextmanager
    async def held_transport(self) -> AsyncIterator[Any]:
        """A transport whose connection pool lives as long as it is open."""
        self._users += 1
        try:
            async with self.transport() as streams:
                yield streams
        finally:
            self._users -= 1
            self.used = time.monotonic()

    def leave(self, goodbye: Coroutine[Any, Any, None]) -> None:
        """Notify the server that nobody waits any more, in the background."""
        self._goodbyes.add(saying := asyncio.create_task(_said(goodbye)))
        saying.add_done_callback(self._goodbyes.discard)

    @asynccontextmanager
    async def link(self, owner: str) -> AsyncIterator[McpConnection]:
        """A connection for one call of this owner; errors of the SDK become ours."""
        self._users += 1
        try:
            async with self._room, self._one_link(owner) as link:
                yield link
        finally:
            self._users -= 1
            self.used = time.monotonic()

    @asynccontextmanager
    async def _one_link(self, owner: str) -> AsyncIterator[McpConnection]:
        link = await self._ready()
        try:
            yield link
        except MCPError as exc:
            raise self._failure(link, exc) from None
        except (ValidationError, RuntimeError) as exc:
            raise PeerUnreadable(self.place.address, f"not of its protocol ({type(exc).__name__})") from None
        finally:
            link.leave()
            if not link.stateless and not link.ended:
                # An unexpected session contains its caller's data: it is not kept.
                if self._closed or owner != self.owner:
                    self.leave(link.close())
                else:
                    self._idle.append(link)

    def _failure(self, link: McpConnection, exc: MCPError) -> PeerError:
        address = self.place.address
        if is_too_large(exc.error.message):
            return PeerRefused(address, too_large_words(self.place.limit), TOO_LARGE)
        if exc.error.code == types.CONNECTION_CLOSED or link.ended:
            link.ended = True
            return PeerUnavailable(address, "the connection was closed")
        if exc.error.code == types.REQUEST_TIMEOUT:
            return PeerUnavailable(address, "no answer in time")
        status = self.refused or self.broken or exc.error.code
        return PeerRefused(address, exc.error.message[:500], status, broken=self.broken is not None)

    async def _ready(self) -> McpConnection:
        while self._idle:
            link = self._idle.pop()
            if not link.ended:
                return link
        async with self._opening:
            if self._shared is not None and not self._shared.ended:
                return self._shared
            link = McpConnection(self)
            await link.open()
            if link.stateless:
                self._shared = link
                self._cookies.forget()
            return link

    def transport(self, complaints: Complaints | None = None) -> AbstractAsyncContextManager[Any]:
        """The transport of the SDK's client; ``complaints`` gets a program's standard error."""
        program = self.place.program
        if program is None:
            limit = self.place.limit
            if self.place.sse:
                return event_streams(self.place.url, self._new_http(), limit)
            return streamable_http_client(self.place.url, http_client=self.http, max_sse_event_size=limit)
        env = dict(program.env) if program.env is not None else None
        parameters = StdioServerParameters(
            command=program.command, args=list(program.args), env=env, cwd=program.directory
        )
        return started(parameters, complaints or Complaints(self.place.address), self.place.on_wire, self.place.limit)

    @property
    def http(self) -> httpx2.AsyncClient:
        """One client for all connections: creating one costs more than most calls."""
        if self.place.program is not None:
            raise ConfigError(f"{self.place.address} is a program on this machine; it has no HTTP address")
        if self._http is None:
            self._http = self._new_http()
        return self._http

    def _new_http(self, *_: object, **__: object) -> httpx2.AsyncClient:
        trust = self.place.verify or system_trust()
        options: dict[str, Any] = {"verify": trust, "limits": kept_connections(256, idle=64), "trust_env": False}
        look = self.place.on_wire
        plain = {"accept-encoding": "identity"} if look is not None else {}  # readable for the wire log
        return httpx2.AsyncClient(
            headers={**plain, **self.place.headers, **self._shown},
            auth=self.place.auth,
            timeout=httpx2.Timeout(CONNECT_SECONDS, read=None),
            transport=Watched(look, **options) if look is not None else LiveTransport(**options),
            event_hooks={"response": [self._answered]},
            cookies=self._cookies.jar,
            trust_env=False,  # no password from ~/.netrc is ever sent
        )

    async def _answered(self, response: httpx2.Response) -> None:
        """The SDK reports the reason but not the status, which distinguishes refusals from failures."""
        status, is_json = response.status_code, "json" in response.headers.get("content-type", "")
        self.refused = status if status in (401, 403) else None
        self.broken = status if status == 503 or (status >= 500 and not is_json) else None
        self.absent = status == 404
        if is_json and isinstance(response.stream, httpx2.AsyncByteStream):
            response.stream = LimitedStream(response.stream, self.place.limit)

    async def said_goodbye(self) -> None:
        """Wait until the server knows which requests were abandoned."""
        await asyncio.gather(*self._goodbyes)

    async def aclose(self) -> None:
        self._closed = True
        await self.said_goodbye()
        links = [*self._idle, *([self._shared] if self._shared is not None else [])]
        self._idle, self._shared = [], None
        for link in links:
            await link.close()
        if self._http is not None:
            await self._http.aclose()
            self._http = None


class _Cookies:
    """The cookies of a server. They may identify a caller, so a shared connection keeps none."""

    def __init__(self) -> None:
        self._policy = DefaultCookiePolicy()
        self.jar = CookieJar(self._policy)

    def forget(self) -> None:
        """Drop all, and accept no more."""
        self._policy.set_allowed_domains(())
        self.jar.clear()


async def _said(goodbye: Coroutine[Any, Any, None]) -> None:
    with suppress(MCPError, PeerError, TimeoutError):
        async with asyncio.timeout(_GOODBYE):
            await goodbye


async def answered(method: str, params: Mapping[str, Any], ask: AskBack | None) -> dict[str, Any]:
    """The response to one request of a server, from whoever can be asked.

    Raises:
        MCPError: nobody can be asked.
    """
    if ask is None:
        raise MCPError(types.INVALID_REQUEST, "the caller cannot be asked")
    question = mcp_ask.question_of(method, params)
    return mcp_ask.response_of(question, await ask(question))


def given_by(ask: AskBack | None) -> Answer:
    """The answer of our caller to a task's question."""
    return lambda method, params: answered(method, params, ask)


async def until_open(
    opened: asyncio.Future[None], close: Callable[[], Awaitable[None]], name: str, seconds: float = CONNECT_SECONDS
) -> None:
    """Wait for a connection that its own task opens; if nobody will use it, it is closed again.

    Raises:
        PeerUnavailable: not in time.
    """
    try:
        async with asyncio.timeout(seconds):
            await asyncio.shield(opened)
    except TimeoutError:
        await close()
        raise PeerUnavailable(name, "no connection in time") from None
    except asyncio.CancelledError:
        await close()
        raise


class McpConnection:
    """One connection, held by its own task, because the SDK's scopes belong to the task that entered them."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self.ended = False
        self.client: Client
        self.stateless = False
        self._ask: AskBack | None = None
        self._on_event: OnEvent | None = None
        self._patience: Patience | None = None
        self._closing = asyncio.Event()
        self._scope = anyio.CancelScope()
        self._opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._holding: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Raises:
        PeerUnavailable: it cannot be reached, or does not speak MCP.
        PeerRefused: it requires authentication, or rejects us.
        """
        self._holding = asyncio.create_task(self._hold())
        await until_open(self._opened, self.close, self.pool.place.address, self.pool.place.seconds)

    async def _hold(self) -> None:
        with self._scope:
            await self._held()

    async def _held(self) -> None:
        complaints = Complaints(self.pool.place.address)
        try:
            async with Client(
                self.pool.transport(complaints),
                client_info=_CLIENT,
                mode=self.pool.place.version,
                cache=None,
                elicitation_callback=self._elicited if self.pool.asks else None,
                sampling_callback=self._sampled if self.pool.asks else None,
                list_roots_callback=self._rooted if self.pool.asks and self.pool.place.roots else None,
                message_handler=self._on_message,
                extensions=_EXTENSIONS,
            ) as client:
                self.client = client
                self.stateless = client.protocol_version in MODERN_PROTOCOL_VERSIONS
                self._opened.set_result(None)
                await self._closing.wait()
        except (MCPError, OSError, httpx2.HTTPError, ExceptionGroup, ValidationError, ValueError) as exc:
            if not self._opened.done():
                self._opened.set_exception(self._failed(await complaints.after(why(exc))))
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
        self._ask = self._on_event = self._patience = None

    # -- calling ------------------------------------------------------------------------------------

    async def call(self, wanted: ConnectionKind) -> dict[str, Any] | Created:
        """The result of a tool, or the task that it has become; its questions are passed on."""
        async with Patience(wanted.seconds, wanted.left) as patience:
            if not self.stateless:
                self._ask, self._on_event, self._patience = wanted.ask, wanted.on_event, patience

            async def on_progress(progress: float, total: float | None, message: str | None) -> None:
                patience.renew()
                if wanted.on_event is not None:
                    wanted.on_event(Progress(min(1.0, progress / total) if total else None, message or ""))

            if self._as_old_task(wanted):
                return await self._old_task(wanted, patience, on_progress)
            return await self._called(wanted, patience, on_progress)
        raise PeerUnavailable(self.pool.place.address, "no answer in time")

    async def _called(
        self, wanted: ConnectionKind, patience: Patience, on_progress: ProgressFnT
    ) -> dict[str, Any] | Created:
        responses: Any = None
        state: str | None = None
        for _ in range(ROUNDS):
            result = await self.client.session.call_tool(
                wanted.tool,
                wanted.arguments,
                None,
                on_progress,
                input_responses=responses,
                request_state=state,
                meta=wanted.meta,
                allow_input_required=True,
                allow_claimed=True,
            )
            if isinstance(result, Created):
                return result
            if not isinstance(result, types.InputRequiredResult):
                return result.model_dump(mode="json", by_alias=True, exclude_none=True)
            inputs = result.input_requests or {}
            with patience.held():
                responses = {key: await self._answered(request, wanted.ask) for key, request in inputs.items()}
            state = result.request_state
        raise PeerRefused(self.pool.place.address, f"it asked for input more than {ROUNDS} times")

    def _as_old_task(self, wanted: ConnectionKind) -> bool:
        """Whether a call should be a task of 2025-11-25: the tool requires it, or allows it and we have the time."""
        if wanted.support not in ("required", "optional") or not offers_old_tasks(self.client.session):
            return False
        return wanted.support == "required" or is_long(wanted.left())

    async def _old_task(self, wanted: ConnectionKind, patience: Patience, on_progress: ProgressFnT) -> dict[str, Any]:
        left, session = wanted.left(), self.client.session
        params = {"name": wanted.tool, "arguments": wanted.arguments, "task": {}, "_meta": wanted.meta or {}}
        if left < _FOREVER:
            params["task"] = {"ttl": int(left * 1000)}
        raw = await raw_request(session, "tools/call", params, on_progress)
        about = raw.get("task")
        if not isinstance(about, dict):
            return raw  # it was answered at once
        with patience.held():  # from now on nobody waits on the connection

            async def request(method: str, params: dict[str, Any]) -> dict[str, Any]:
                return await raw_request(session, method, params)

            task = Following(
                self.pool.place.address, about, request, given_by(wanted.ask), wanted.on_event, wanted.left
            )
            try:
                return await task.old_result()
            finally:
                if not task.ended:
                    self.pool.leave(task.cancel())

    async def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """A request about a task."""
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                return await raw_request(self.client.session, method, params)
        except TimeoutError:
            raise PeerUnavailable(self.pool.place.address, "no answer in time") from None

    # -- what the server asks -------------------------------------------------------------------------

    async def _answered(self, request: BaseModel, ask: AskBack | None) -> Any:
        """The response to one request of the server.

        Raises:
            MCPError: nobody can be asked.
        """
        raw = request.model_dump(mode="json", by_alias=True, exclude_none=True)
        method = str(raw["method"])
        return _RESULTS[method].model_validate(await answered(method, raw.get("params") or {}, ask))

    async def _elicited(self, context: ClientRequestContext, params: types.ElicitRequestParams) -> Any:
        return await self._asked(types.ElicitRequest(params=params))

    async def _sampled(self, context: ClientRequestContext, params: types.CreateMessageRequestParams) -> Any:
        return await self._asked(types.CreateMessageRequest(params=params))

    async def _rooted(self, context: ClientRequestContext) -> Any:
        return await self._asked(types.ListRootsRequest())

    async def _asked(self, request: BaseModel) -> Any:
        """Ask the caller of the call that this connection is busy with."""
        try:
            with self._patience.held() if self._patience is not None else nullcontext():
                return await self._answered(request, self._ask)
        except MCPError as exc:
            return exc.error
        except (SabirError, ValidationError) as exc:
            return types.ErrorData(code=types.INVALID_REQUEST, message=str(exc)[:200])

    async def _on_message(self, message: IncomingMessage) -> None:
        if isinstance(message, _LIST_CHANGED):
            self.pool.changed()
        elif isinstance(message, types.LoggingMessageNotification) and self._on_event is not None:
            self._on_event(Progress(note=str(message.params.data)[:1000]))


def why(exc: BaseException) -> str:
    """Why a connection failed, in words."""
    while isinstance(exc, BaseExceptionGroup):
        exc = exc.exceptions[0]
    if isinstance(exc, MCPError):
        return exc.error.message[:300]
    if isinstance(exc, FileNotFoundError | PermissionError):  # of a program
        return f"no connection: it cannot be started ({exc.strerror})"
    return why_no_connection(exc, f"no connection ({type(exc).__name__})")

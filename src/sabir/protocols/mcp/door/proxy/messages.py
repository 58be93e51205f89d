"""The message proxy: in front of a whole MCP server, message by message.

Nothing is translated: prompts, completion, subscriptions, sampling and methods of later versions pass through.
Streamable HTTP, its sessions and its checks are ours (``streamable_http``); instead of the SDK's kernel, a channel to
the server answers. Each client session has its own channel, and so its own program, which is restarted with the same
handshake if it has ended. Requests of versions without sessions share one channel per caller.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Hashable, Mapping
from typing import Any, Final
from weakref import WeakValueDictionary

from mcp.server.connection import Connection
from mcp.server.lowlevel import Server
from mcp.shared.dispatcher import CallOptions, DispatchContext
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import SUBSCRIPTION_ID_META_KEY
from mcp.shared.transport_context import TransportContext
from mcp_types import InitializeRequestParams
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from sabir.errors import RateLimited, SabirError, Unavailable
from sabir.http.door import DoorContext
from sabir.protocols.mcp.door.response import Channel, McpRequestContext, McpSession
from sabir.protocols.mcp.peer.channel import RawChannel
from sabir.protocols.mcp.peer.peer import McpPeer
from sabir.protocols.mcp.wire import content as wire

from .content_filter import ContentFilter
from .http import ProxyBase, passed_in

Json = dict[str, Any]
MAX_CHANNELS: Final = 64  # to one server
MAX_PER_CALLER: Final = 16
IDLE_SECONDS: Final = 600.0  # after which an unused channel is closed; it is reopened on demand
_LOOK: Final = 10.0
# suffixes of notifications that belong to a session and not to a request
_ABOUT_SESSION: Final = ("list_changed", "resources/updated")


class MessageProxy(ProxyBase):
    """The channels to one server, each for one session or one caller."""

    def __init__(self, services: DoorContext, peer: McpPeer, hub: Server[Any]) -> None:
        super().__init__(services, peer)
        self.hub = hub  # answers clients whose version the server does not support
        self._open: OrderedDict[Hashable, ProxyChannel] = OrderedDict()
        self._opening: WeakValueDictionary[Hashable, asyncio.Lock] = WeakValueDictionary()
        self._closing: set[asyncio.Task[None]] = set()
        self._sweeping: asyncio.Task[None] | None = None

    def kernel(self, connection: Connection, context: McpRequestContext, headers: Mapping[str, str]) -> Kernel:
        """The handler for the requests of one connection."""
        return Kernel(self, connection, context, headers)

    def known(self, key: Hashable) -> ProxyChannel | None:
        """The open channel of a session or a caller, or None."""
        upstream = self._open.get(key)
        return upstream if upstream is not None and upstream.ready and not upstream.raw.ended else None

    async def channel(self, kernel: Kernel, *, greet: bool) -> ProxyChannel:
        """The channel of a session or a caller, opened if necessary.

        ``greet``: repeat the handshake with a server that was restarted, or that we reconnect to.

        Raises:
            PeerUnavailable: the server cannot be started or reached.
            RateLimited: the caller has too many active sessions.
        """
        key = kernel.key
        if (upstream := self.known(key)) is not None:
            self._open.move_to_end(key)
            return upstream
        lock = self._opening.setdefault(key, asyncio.Lock())
        async with lock:
            return self.known(key) or await self._opened(kernel, key, greet)

    async def _opened(self, kernel: Kernel, key: Hashable, greet: bool) -> ProxyChannel:
        identity_headers = await self.identity_headers(kernel.context)
        self._make_room(
            [item for item, upstream in self._open.items() if upstream.owner == kernel.owner], MAX_PER_CALLER
        )
        self._make_room(list(self._open), MAX_CHANNELS)
        upstream = self._open[key] = ProxyChannel(self, kernel, identity_headers)
        try:
            await upstream.raw.open()
            if greet:
                await kernel.greet(upstream.raw)
        except BaseException:
            await self.drop(key)
            raise
        upstream.ready = True
        kernel.connection.exit_stack.push_async_callback(self.drop, key)
        if self._sweeping is None or self._sweeping.done():
            self._sweeping = asyncio.create_task(self._sweep())
        return upstream

    def _make_room(self, keys: list[Hashable], limit: int) -> None:
        if len(keys) < limit:
            return
        idle = next((key for key in keys if not self._open[key].is_busy), None)
        if idle is None:
            error = RateLimited if limit == MAX_PER_CALLER else Unavailable
            raise error("too many sessions on this server; retry shortly", retry_after=5.0)
        # a new session does not wait for an old one to close
        closing = asyncio.create_task(self._open.pop(idle).raw.close())
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)

    async def drop(self, key: Hashable) -> None:
        upstream = self._open.pop(key, None)
        if upstream is not None:
            await upstream.raw.close()

    async def _sweep(self) -> None:
        """Close unused channels, as long as there are any."""
        while self._open:
            await asyncio.sleep(_LOOK)
            end = time.monotonic() - IDLE_SECONDS
            for key, upstream in list(self._open.items()):
                if upstream.raw.ended or (upstream.raw.used < end and not upstream.is_busy):
                    await self.drop(key)

    async def aclose(self) -> None:
        """End all channels, and the programs behind them."""
        if self._sweeping is not None:
            self._sweeping.cancel()
        await asyncio.gather(*(self.drop(key) for key in list(self._open)), *self._closing)


class ProxyChannel:
    """One channel, with the client requests that wait on it."""

    def __init__(self, proxy: MessageProxy, kernel: Kernel, identity_headers: Mapping[str, str]) -> None:
        self.owner = kernel.owner
        self.ready = False
        self.filter = ContentFilter(proxy.services.filters, kernel.context.caller)
        self.raw: RawChannel = proxy.peer.raw_channel(identity_headers, kernel.owner, self._on_request, self._on_notify)
        self._connection = kernel.connection
        self._waiting: OrderedDict[str, tuple[Channel, Mapping[str, Any] | None]] = OrderedDict()
        self._number = 0

    @property
    def is_busy(self) -> bool:
        stream = self._session.stream if self._session is not None else None
        return not self.ready or bool(self.raw.under_way) or stream is not None

    @property
    def _session(self) -> McpSession | None:
        outbound = self._connection.outbound
        return outbound if isinstance(outbound, McpSession) else None

    async def request(
        self, channel: Channel, method: str, params: Mapping[str, Any] | None, headers: Mapping[str, str]
    ) -> Json:
        """Forward one request and return its result; raises as ``RawChannel.request`` does."""
        self._number += 1
        request_id = f"sabir-{self._number}"  # not a number, so that the SDK never generates the same
        options: CallOptions = {"request_id": request_id, "headers": dict(headers)}
        if method == "initialize":
            options["cancel_on_abandon"] = False
        if channel.progress_token is not None:
            options["on_progress"] = lambda *at: self._progress(channel, *at)
        self._waiting[request_id] = (channel, params)
        try:
            result = await self.raw.request(method, await self.filter.request(method, params), options)
        except MCPError as exc:
            self.filter.refusal(exc.error.data)
            raise
        finally:
            del self._waiting[request_id]
        return _renamed(await self.filter.result(method, result), request_id, channel)

    async def _progress(self, channel: Channel, progress: float, total: float | None, message: str | None) -> None:
        said = await self.filter.note({"message": message} if message is not None else {})
        await channel.progress(progress, total, (said or {}).get("message"))

    # -- from the server ----------------------------------------------------------------------------

    async def _on_request(
        self, dispatch: DispatchContext[TransportContext], method: str, params: Mapping[str, Any] | None
    ) -> Json:
        """A server's question goes to the latest request: over a pipe nothing says which one it belongs to."""
        if method == "ping":
            return {}
        channel = next((item for item, _ in reversed(self._waiting.values()) if item.can_send_request), None)
        if channel is None:
            raise MCPError(wire.INVALID_REQUEST, "no request of the client is under way; it cannot be asked")
        try:
            result = await channel.send_raw_request(method, await self.filter.question(params))
            passed: Json = await self.filter.answer(result)
        except SabirError as exc:
            raise MCPError(wire.INVALID_REQUEST, str(exc)) from None
        return passed

    async def _on_notify(
        self, dispatch: DispatchContext[TransportContext], method: str, params: Mapping[str, Any] | None
    ) -> None:
        if method in ("notifications/progress", "notifications/cancelled"):
            return  # the SDK has handled these: they belong to one request
        params = await self.filter.note(params)
        meta = (params or {}).get("_meta")
        about = meta.get(SUBSCRIPTION_ID_META_KEY) if isinstance(meta, Mapping) else None
        if about is not None:
            found = self._waiting.get(str(about))
            if found is not None and params is not None:
                await found[0].notify(method, _renamed(dict(params), str(about), found[0]))
            return
        session = self._session
        channel = self._listener(method)
        if session is not None and session.stream is not None and (channel is None or _is_of_session(method)):
            await session.notify(method, params)
        elif channel is not None:
            await channel.notify(method, params)

    def _listener(self, method: str) -> Channel | None:
        """The latest request; without sessions, one that has asked for a log."""
        for channel, params in reversed(self._waiting.values()):
            meta = (params or {}).get("_meta") or {}
            if self._session is not None or "io.modelcontextprotocol/logLevel" in meta:
                return channel
        return None


class Kernel:
    """Used in place of the SDK's kernel: each request is tracked and forwarded."""

    def __init__(
        self, proxy: MessageProxy, connection: Connection, context: McpRequestContext, headers: Mapping[str, str]
    ) -> None:
        self.proxy = proxy
        self.connection = connection
        self.context = context
        self._headers = headers

    async def on_request(self, channel: Channel, method: str, params: Mapping[str, Any] | None) -> Json:
        """The server's result.

        Raises:
            MCPError: the server's error.
            SabirError: not allowed, or the server is unavailable.
        """
        body = {"id": channel.request_id, "method": method, "params": params}
        self.proxy.check(self.context, body)
        try:
            result = await self._passed(channel, method, params)
        except asyncio.CancelledError:
            await self.proxy.audit(self.context, body, "Cancelled")
            raise
        except MCPError as exc:
            await self.proxy.audit(self.context, body, str(exc.error.code))
            raise
        except SabirError as exc:
            await self.proxy.audit(self.context, body, type(exc).__name__)
            raise
        await self.proxy.audit(self.context, body, "ok")
        return self.proxy.listed(self.context, result) if method == "tools/list" else result

    async def _passed(self, channel: Channel, method: str, params: Mapping[str, Any] | None) -> Json:
        if method == "initialize":
            if self._is_modern:  # a program would take it for the start of a session
                raise MCPError(wire.METHOD_NOT_FOUND, "Method not found", method)
            try:
                return await self._begun(channel, params)
            except BaseException:  # there is no session, so nobody will come back for it
                await self.proxy.drop(self.connection)
                raise
        if not self._is_modern and self.connection.client_params is None:
            raise MCPError(wire.INVALID_REQUEST, "no session; start one with initialize")
        upstream = await self.proxy.channel(self, greet=not self._is_modern)
        headers = {**passed_in(self._headers, self.context), **await self.proxy.identity_headers(self.context)}
        return await upstream.request(channel, method, self._carrying(params), headers)

    async def _begun(self, channel: Channel, params: Mapping[str, Any] | None) -> Json:
        upstream = await self.proxy.channel(self, greet=False)
        result = await upstream.request(channel, "initialize", params, {})
        self.connection.client_params = InitializeRequestParams.model_validate(params or {})
        self.connection.protocol_version = str(result.get("protocolVersion", ""))
        return result

    @property
    def _is_modern(self) -> bool:
        return self.connection.protocol_version in MODERN_PROTOCOL_VERSIONS

    @property
    def key(self) -> Hashable:
        """The owner of a channel: sessions never share one; requests without one share their caller's."""
        return self.owner if self._is_modern else self.connection

    @property
    def owner(self) -> str:
        """The owner of a session. Anonymous callers share one id, so their address distinguishes them."""
        caller = self.context.caller
        return f"{caller.id}@{self.context.credentials.address}" if caller.is_anonymous else caller.id

    async def greet(self, raw: RawChannel) -> None:
        """Repeat this connection's earlier handshake with a server that does not know it."""
        client = self.connection.client_params
        assert client is not None
        params = client.model_dump(mode="json", by_alias=True, exclude_none=True)
        params["protocolVersion"] = self.connection.protocol_version
        await raw.request("initialize", params, {"cancel_on_abandon": False})
        await raw.notify("notifications/initialized", None)

    def _carrying(self, params: Mapping[str, Any] | None) -> Json:
        """The parameters with the trace and the hops, for programs, which have no headers."""
        passed = dict(params or {})
        meta = passed.get("_meta")
        trace = {"traceparent": self.context.trace} if self.context.trace else {}
        passed["_meta"] = {**trace, **(meta if isinstance(meta, Mapping) else {}), wire.HOPS: self.context.hops + 1}
        return passed

    async def on_notify(self, channel: Channel, method: str, params: Mapping[str, Any] | None) -> None:
        """Forward a notification from the client. Whoever waits for a cancelled request reports it."""
        self.proxy.check(self.context, None)
        upstream = self.proxy.known(self.key)
        if upstream is not None and method != "notifications/cancelled":
            await upstream.raw.notify(method, params)


def _is_of_session(method: str) -> bool:
    return method.endswith(_ABOUT_SESSION)


def _renamed(said: Json, request_id: str, channel: Channel) -> Json:
    """Replace the id of our request by the client's."""
    meta = said.get("_meta")
    if isinstance(meta, Mapping) and meta.get(SUBSCRIPTION_ID_META_KEY) == request_id:
        return {**said, "_meta": {**meta, SUBSCRIPTION_ID_META_KEY: channel.request_id}}
    return said

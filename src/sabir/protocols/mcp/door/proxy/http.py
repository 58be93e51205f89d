"""The HTTP proxy: in front of a whole MCP server over HTTP, byte by byte.

Nothing is translated, so nothing is lost: prompts, completion, subscriptions, sampling, and methods of later versions.
The gateway adds rights, rate limits, an audit entry per request, and a single address; it withholds the client's
credentials and the server's session ids, which the client only sees sealed. Only lists of tools are parsed, if rights
are configured.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

import httpx2
import msgspec
from starlette.types import Receive, Send

from sabir.errors import BadMessage, Forbidden, NotFound, PeerUnavailable, PeerUnreadable, Refused
from sabir.http.disconnect import DisconnectWatcher
from sabir.http.door import DoorContext
from sabir.protocols.mcp.door.response import DOOR, WATCH_AFTER, McpRequestContext, McpResponse
from sabir.protocols.mcp.peer.peer import McpPeer
from sabir.stores.base import AuditLine
from sabir.turn import MAX_HOPS

from .list_filter import with_lists

_SEALED: Final = "mcp-relay"
_SESSION: Final = "mcp-session-id"
_PASSED_IN: Final = frozenset({"mcp-method", "mcp-name", "mcp-protocol-version", "traceparent"})
_PASSED_OUT: Final = frozenset({"content-type", "cache-control", "x-accel-buffering"})


class ProxyBase:
    """Shared by the MCP proxies: authorization, rate limit, outgoing credentials, audit."""

    def __init__(self, services: DoorContext, peer: McpPeer) -> None:
        self.services = services
        self.peer = peer

    def check(self, context: McpRequestContext, body: Any) -> None:
        """Raises:
        RateLimited: over the rate.
        Refused: it has passed through too many gateways.
        Forbidden: no right to this tool.
        """
        context.charge(self.services.rates)
        if context.hops >= MAX_HOPS:
            raise Refused(f"the request passed {MAX_HOPS} gateways; a loop is likely")
        if isinstance(body, dict) and body.get("method") == "tools/call":
            params = body.get("params")
            name = params.get("name") if isinstance(params, dict) else None
            if isinstance(name, str):
                self.services.rights.check(context.caller, agent=self.peer.card.name, door=DOOR, tool=name)

    def listed(self, context: McpRequestContext, result: Any) -> Any:
        """A list of tools with only those that this caller may use."""
        tools = result.get("tools") if isinstance(result, dict) else None
        if not isinstance(tools, list):
            return result
        agent, allows = self.peer.card.name, self.services.rights.allows

        def may_use(tool: Any) -> bool:
            name = tool.get("name") if isinstance(tool, dict) else None
            return isinstance(name, str) and allows(context.caller, agent=agent, door=DOOR, tool=name, skill=name)

        return {**result, "tools": [tool for tool in tools if may_use(tool)]}

    async def identity_headers(self, context: McpRequestContext) -> dict[str, str]:
        """Our credentials for the server and this caller, if configured."""
        outgoing = self.peer.outgoing
        return await outgoing.headers(self.peer.url, context.caller) if outgoing is not None else {}

    async def audit(self, context: McpRequestContext, body: Any, outcome: str) -> None:
        """Write one audit entry per request; answers and streams belong to one."""
        if not isinstance(body, dict) or "method" not in body or "id" not in body:
            return
        method, params = str(body["method"]), body.get("params")
        name = params.get("name") if isinstance(params, dict) else None
        detail = {"method": method[:64]} | ({"tool": name[:64]} if isinstance(name, str) else {})
        line = AuditLine(time.time(), "relay", context.caller.id, DOOR, self.peer.card.name, outcome, "", "", detail)
        await self.services.store.audit(line)


class HttpProxy(ProxyBase):
    """Forwards requests to one server over HTTP, byte by byte."""

    def __init__(self, services: DoorContext, peer: McpPeer) -> None:
        super().__init__(services, peer)
        self._client: _Client | None = None

    async def __call__(
        self,
        method: str,
        context: McpRequestContext,
        headers: Mapping[str, str],
        body: Any,
        receive: Receive,
        send: Send,
    ) -> None:
        """Forward one request and return its answer.

        Raises:
            SabirError: not allowed, or the server is unavailable.
        """
        if method == "POST" and not isinstance(body, dict):  # nothing would check the contents of a batch
            raise BadMessage("mcp", "$", "one JSON-RPC message")
        self.check(context, body)
        answer = Passing(send)
        watcher = DisconnectWatcher(receive, answer.is_sent, answer.comment)
        watcher.start_after(WATCH_AFTER, asyncio.current_task())
        try:
            await self._pass(method, context, headers, body, answer)
        except asyncio.CancelledError:
            if not watcher.is_gone:
                raise
            task = asyncio.current_task()
            if task is not None:
                task.uncancel()
            await self.audit(context, body, "Cancelled")
        finally:
            watcher.stop()

    async def _pass(
        self, method: str, context: McpRequestContext, headers: Mapping[str, str], body: Any, answer: Passing
    ) -> None:
        http = self.peer.http
        if self._client is None or self._client.http is not http:
            self._client = _Client(http, self.peer.url)
        request = self._client.request(
            method,
            {**self._inward(context, headers), **await self.identity_headers(context)},
            msgspec.json.encode(body) if method == "POST" else None,
        )
        try:
            response = await http.send(request, stream=True)
        except httpx2.HTTPError as exc:
            await self.audit(context, body, "PeerUnavailable")
            raise PeerUnavailable(self.peer.card.name, f"no connection ({type(exc).__name__})") from None
        outcome = "ok" if response.status_code < 400 else str(response.status_code)
        try:
            if response.status_code in (401, 403):
                # It rejects our credentials, not the caller's: its challenge is not for the caller.
                await self.audit(context, body, outcome)
                refused = Forbidden("the server behind the gateway refuses it")
                refused.audited = True
                raise refused
            await answer.begin(response.status_code, self._outward(context, response.headers))
            async for chunk in self._chunks(response, context, body):
                await answer.chunk(chunk)
        except (httpx2.HTTPError, PeerUnreadable):
            outcome = "PeerUnavailable"  # it broke off in the middle: the stream ends here, too
        finally:
            await response.aclose()
        await self.audit(context, body, outcome)  # before the last byte, so that every complete answer is recorded
        await answer.chunk(b"", last=True)

    def _chunks(self, response: httpx2.Response, context: McpRequestContext, body: Any) -> AsyncIterator[bytes]:
        """The bytes of an answer. If rights are configured, lists of tools are parsed: requested ones, and those that a
        resumed stream may repeat."""
        chunks = response.aiter_raw()
        asked = body.get("method") if isinstance(body, dict) else None
        if not self.services.rights.rules or asked not in (None, "tools/list"):
            return chunks
        media_type = response.headers.get("content-type", "").strip().lower()
        return with_lists(chunks, media_type, lambda result: self.listed(context, result), self.peer.card.name)

    def _inward(self, context: McpRequestContext, headers: Mapping[str, str]) -> dict[str, str]:
        passed = passed_in(headers, context)
        passed |= {name: headers[name] for name in ("accept", "content-type", "last-event-id") if name in headers}
        passed["accept-encoding"] = "identity"
        if _SESSION in headers:
            opened = self.services.seal.open(_SEALED, headers[_SESSION], context.caller.id)
            if opened is None:
                raise NotFound("session not found; start a new one with initialize")
            passed[_SESSION] = opened.decode()
        return passed

    def _outward(self, context: McpRequestContext, headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
        passed = [(k.encode(), v.encode("latin-1")) for k, v in headers.items() if k.lower() in _PASSED_OUT]
        session = headers.get(_SESSION)
        if session is not None:
            sealed = self.services.seal.seal(_SEALED, session.encode(), context.caller.id)
            passed.append((_SESSION.encode(), sealed.encode()))
        return passed


class _Client:
    """An HTTP client with what its requests share worked out once; ``build_request`` does it for each of them."""

    def __init__(self, http: httpx2.AsyncClient, url: str) -> None:
        self.http = http
        self._url = httpx2.URL(url)
        self._headers = dict(http.headers)
        self._extensions = {"timeout": http.timeout.as_dict()}

    def request(self, method: str, headers: Mapping[str, str], content: bytes | None) -> httpx2.Request:
        own = {name.lower(): value for name, value in headers.items()}
        return httpx2.Request(
            method, self._url, headers={**self._headers, **own}, content=content, extensions=self._extensions
        )


class Passing(McpResponse):
    """An answer whose bytes come from another server."""

    __slots__ = ()

    async def begin(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        self.begun = True
        await self._send({"type": "http.response.start", "status": status, "headers": headers})

    async def chunk(self, body: bytes, *, last: bool = False) -> None:
        if self.sent:
            return
        self.sent = last
        await self._send({"type": "http.response.body", "body": body, "more_body": not last})

    async def ping(self) -> None:
        return None  # the server behind keeps its own streams alive


def passed_in(headers: Mapping[str, str], context: McpRequestContext) -> dict[str, str]:
    """The client headers that are forwarded, and how many gateways the request has passed."""
    passed = {k: v for k, v in headers.items() if k in _PASSED_IN or k.startswith("mcp-param-")}
    return {**passed, "x-sabir-hops": str(context.hops + 1)}

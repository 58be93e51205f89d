"""Front: in front of all doors. Which host is meant, who links here from a browser, and the hot paths."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from starlette.applications import Starlette
from starlette.types import ASGIApp, Receive, Scope, Send

from .doors.base import Door, House, credentials_of, headers_of
from .doors.last_resort import ANSWERS
from .doors.nlip_http import BROKEN, NlipHttp
from .doors.visitor import NO_AGENT, Visitor
from .errors import Forbidden, SabirError
from .message import Message
from .serving import Serving
from .wire import nlip

logger = logging.getLogger("sabir")


class Front:
    """Takes each request to its door."""

    def __init__(
        self,
        doors: Sequence[Door],
        serving: Serving,
        hosts: Iterable[str],
        origins: Iterable[str],
        lifespan: Callable[[Receive, Send], Awaitable[None]],
        house: House,
    ) -> None:
        self._lifespan = lifespan
        self._house = house
        self._raw: dict[str, ASGIApp] = {
            path: app if isinstance(app, NlipHttp) else _sound(app)  # which sees to its own defects
            for door in doors
            for path, app in door.raw().items()
        }
        routes = [route for door in doors for route in door.routes()]
        self._rest = Starlette(routes=routes, exception_handlers=ANSWERS)
        self._rest.router.redirect_slashes = False
        self._configured = frozenset(host.lower() for host in hosts)
        self._origins = frozenset(origin.lower().rstrip("/") for origin in origins)
        self.bound_to(serving)

    def bound_to(self, serving: Serving) -> None:
        """Which Host values mean this gateway. Bound to loopback, no other name does (DNS rebinding)."""
        names = {"127.0.0.1", "localhost", "[::1]", serving.host.lower()}
        self._local_only = serving.host in ("127.0.0.1", "localhost", "::1") and not serving.behind_tls_proxy
        self._names = frozenset(names) | self._configured
        self._hosts: set[bytes] = set()

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        headers: Mapping[bytes, bytes] = headers_of(scope) if "headers" in scope else {}
        if scope["type"] == "http" and b"origin" not in headers and headers.get(b"host") in self._hosts:
            app = self._raw.get(scope["path"])
            if app is not None:
                return app(scope, receive, send)
        if scope["type"] == "lifespan":
            return self._lifespan(receive, send)
        return self._checked(scope, receive, send, headers)

    async def _checked(self, scope: Scope, receive: Receive, send: Send, headers: Mapping[bytes, bytes]) -> None:
        host, origin = headers.get(b"host", b""), headers.get(b"origin")
        try:
            if host not in self._hosts:
                self._check_host(host)
            if origin is not None:
                self._check_origin(origin, host)
        except SabirError as wrong:
            credentials = credentials_of(scope, behind_proxy=self._house.behind_proxy)
            await Visitor(self._house, "front", credentials, NO_AGENT).refused(wrong)
            return await _refuse(scope, receive, send, wrong)
        if origin is not None and scope["type"] == "http":
            send = _with_cors(send, origin)
            if scope["method"] == "OPTIONS" and b"access-control-request-method" in headers:
                return await _preflight(send)
        app = self._raw.get(scope["path"]) if scope["type"] == "http" else None
        if app is None:
            return await self._rest(scope, receive, send)
        await app(scope, receive, send)

    def _check_host(self, host: bytes) -> None:
        name = host.decode("latin-1").lower()
        bare = name.rpartition(":")[0] if name.rpartition(":")[2].isdigit() else name
        if (self._local_only or self._configured) and bare not in self._names:
            raise Forbidden("this host name is not served here; add it to 'hosts' in the configuration")
        if len(self._hosts) < 64:
            self._hosts.add(host)

    def _check_origin(self, origin: bytes, host: bytes) -> None:
        value = origin.decode("latin-1").lower().rstrip("/")
        if value in self._origins or "*" in self._origins:
            return
        if value.partition("://")[2] == host.decode("latin-1").lower():
            return  # the page was served by us
        raise Forbidden("this origin may not call from a browser; add it to 'origins' in the configuration")


def _sound(app: ASGIApp) -> ASGIApp:
    """An application whose defects do not show: the caller gets a word in NLIP, the log gets why."""

    async def sound(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await app(scope, receive, send)
        except Exception:
            logger.exception("%s failed", scope["path"])
            with suppress(RuntimeError):  # the answer had begun
                await _refuse(scope, receive, send, SabirError(BROKEN))

    return sound


def _with_cors(send: Send, origin: bytes) -> Send:
    async def sending(packet: Any) -> None:
        if packet["type"] == "http.response.start":
            packet["headers"] = [
                *packet["headers"],
                (b"access-control-allow-origin", origin),
                (
                    b"access-control-expose-headers",
                    b"location, retry-after, preference-applied, mcp-session-id, www-authenticate, "
                    b"ratelimit, ratelimit-policy",
                ),
                (b"vary", b"origin"),
            ]
        await send(packet)

    return sending


# What a page of an allowed origin may send: what the doors read.
_ALLOWED_HEADERS: Final = (
    b"authorization, x-api-key, dpop, content-type, accept, prefer, idempotency-key, traceparent, "
    b"a2a-version, a2a-extensions, mcp-protocol-version, mcp-session-id, mcp-method, mcp-name, last-event-id"
)


async def _preflight(send: Send) -> None:
    headers = [
        (b"access-control-allow-methods", b"GET, POST, PUT, DELETE"),
        (b"access-control-allow-headers", _ALLOWED_HEADERS),
        (b"access-control-max-age", b"600"),
    ]
    await send({"type": "http.response.start", "status": 204, "headers": headers})
    await send({"type": "http.response.body", "body": b""})


async def _refuse(scope: Scope, receive: Receive, send: Send, wrong: SabirError) -> None:
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.close", "code": 1008, "reason": str(wrong)[:120]})
        return
    body = nlip.encode(Message.error(str(wrong)))
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": nlip.CODES[type(wrong)], "headers": headers})
    await send({"type": "http.response.body", "body": body})

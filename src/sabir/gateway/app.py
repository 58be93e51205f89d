"""The outermost ASGI application: checks the host and the origin of web pages, and routes to the doors."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from starlette.applications import Starlette
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from sabir.errors import Forbidden, SabirError, Unreadable
from sabir.http.admission import NO_AGENT, Admission
from sabir.http.door import Door, GatewayServices
from sabir.http.fallback import ANSWERS, BROKEN
from sabir.http.request import credentials_of, headers_of
from sabir.http.response import send_json
from sabir.message import Message
from sabir.protocols import registry
from sabir.protocols.nlip.door.http import Everything, NlipHttp
from sabir.protocols.nlip.wire import json as nlip
from sabir.server.settings import Serving

logger = logging.getLogger("sabir")

_FROM_PAGES: Final = frozenset({b"origin", b"sec-fetch-site"})  # headers that only browsers send


class GatewayApp:
    """Routes each request to its door."""

    def __init__(
        self,
        doors: Sequence[Door],
        serving: Serving,
        hosts: Iterable[str],
        origins: Iterable[str],
        lifespan: Callable[[Receive, Send], Awaitable[None]],
        services: GatewayServices,
    ) -> None:
        self._lifespan = lifespan
        self._services = services
        self._raw: dict[str, ASGIApp] = {
            path: app if isinstance(app, NlipHttp) else _sound(app)  # which handles its own failures
            for door in doors
            for path, app in door.raw().items()
        }
        routes = [route for door in doors for route in door.routes()]
        self._below = _whole_folders(routes)
        self._rest = Starlette(routes=routes, exception_handlers=ANSWERS)
        self._rest.router.redirect_slashes = False
        self._configured = frozenset(host.lower() for host in hosts)
        self._origins = frozenset(origin.lower().rstrip("/") for origin in origins)
        registered = registry.doors()
        self._turn_paths = frozenset(step for door in doors if door.name in registered for step in _first_steps(door))
        self.set_allowed_hosts(serving)

    def set_allowed_hosts(self, serving: Serving) -> None:
        """Which Host values are accepted. A gateway on loopback accepts no other name (DNS rebinding)."""
        names = {"127.0.0.1", "localhost", "[::1]", serving.host.lower()}
        self._local_only = serving.host in ("127.0.0.1", "localhost", "::1") and not serving.behind_tls_proxy
        self._names = frozenset(names) | self._configured
        self._hosts: set[bytes] = set()

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        headers: Mapping[bytes, bytes] = headers_of(scope) if "headers" in scope else {}
        if scope["type"] == "http" and _FROM_PAGES.isdisjoint(headers) and headers.get(b"host") in self._hosts:
            app = self._app_at(scope["path"])
            if app is not None:
                return app(scope, receive, send)
        if scope["type"] == "lifespan":
            return self._lifespan(receive, send)
        return self._checked(scope, receive, send, headers)

    def _app_at(self, path: str) -> ASGIApp | None:
        """The application of a path that needs no routes to be tried."""
        return self._raw.get(path) or self._below.get(path[: path.find("/", 1) + 1])

    async def _checked(self, scope: Scope, receive: Receive, send: Send, headers: Mapping[bytes, bytes]) -> None:
        host, origin = headers.get(b"host", b""), headers.get(b"origin")
        try:
            if host not in self._hosts:
                self._check_host(host)
            if origin is not None:
                self._check_origin(origin, host)
            elif headers.get(b"sec-fetch-site") == b"cross-site":
                self._check_cross_site(scope["path"])
        except SabirError as exc:
            credentials = credentials_of(scope, behind_proxy=self._services.behind_proxy)
            await Admission(self._services, "front", credentials, NO_AGENT).rejected(exc)
            return await _refuse(scope, receive, send, exc)
        if origin is not None and scope["type"] == "http":
            send = _with_cors(send, origin)
            if scope["method"] == "OPTIONS" and b"access-control-request-method" in headers:
                return await _preflight(send)
        app = self._app_at(scope["path"]) if scope["type"] == "http" else None
        if app is None:
            return await self._rest(scope, receive, send)
        await app(scope, receive, send)

    def _check_host(self, host: bytes) -> None:
        if (self._local_only or self._configured) and (not host or b"," in host):
            raise Unreadable("http", "Host", "one header with one host name")
        name = host.decode("latin-1").lower()
        bare = name.rpartition(":")[0] if name.rpartition(":")[2].isdigit() else name
        if (self._local_only or self._configured) and bare not in self._names:
            raise Forbidden("this host name is not served here; add it to 'hosts' in the configuration")
        if len(self._hosts) < 64:
            self._hosts.add(host)

    def _check_cross_site(self, path: str) -> None:
        """Reject links, images and forms of other sites: the user did not ask for a turn."""
        if path.split("/")[1] in self._turn_paths and "*" not in self._origins:
            raise Forbidden("pages of other sites may not ask here; add their origin to 'origins' in the configuration")

    def _check_origin(self, origin: bytes, host: bytes) -> None:
        value = origin.decode("latin-1").lower().rstrip("/")
        if value in self._origins or "*" in self._origins:
            return
        if value.partition("://")[2] == host.decode("latin-1").lower():
            return  # our own page
        raise Forbidden("this origin may not call from a browser; add it to 'origins' in the configuration")


def _first_steps(door: Door) -> set[str]:
    """The first path segments of a door. Documents such as ``/openapi.json`` are public."""
    paths = [*door.raw(), *(_path_of(route) for route in door.routes())]
    steps = {path.split("/")[1] for path in paths if path.startswith("/")}
    return {step for step in steps if step and "." not in step}


def _path_of(route: BaseRoute) -> str:
    return str(getattr(route, "path", None) or getattr(route, "prefix", ""))


def _whole_folders(routes: Sequence[BaseRoute]) -> dict[str, ASGIApp]:
    """The applications that have all paths below a first step to themselves."""
    steps = [f"{_path_of(route)}/".split("/")[1] for route in routes]
    if any(step.startswith("{") for step in steps):
        return {}
    return {
        route.prefix: route.app if isinstance(route.app, NlipHttp) else _sound(route.app)
        for route, step in zip(routes, steps, strict=True)
        if isinstance(route, Everything) and route.prefix == f"/{step}/" and steps.count(step) == 1
    }


def _sound(app: ASGIApp) -> ASGIApp:
    """An application whose failures stay hidden: the caller gets an NLIP error, the log gets the reason."""

    async def sound(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await app(scope, receive, send)
        except Exception:
            logger.exception("%s failed", scope["path"])
            with suppress(RuntimeError):  # the response has already started
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


# Headers that pages of allowed origins may send: those that the doors read.
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


async def _refuse(scope: Scope, receive: Receive, send: Send, exc: SabirError) -> None:
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.close", "code": 1008, "reason": str(exc)[:120]})
        return
    await send_json(send, nlip.CODES[type(exc)], nlip.encode(Message.error(str(exc))))

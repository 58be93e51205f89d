"""The outermost ASGI application: routes to the doors what passes the checks of ``front``."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Final

from starlette.applications import Starlette
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from sabir.errors import SabirError
from sabir.http.door import Door, GatewayServices
from sabir.http.fallback import ANSWERS, BROKEN
from sabir.http.request import headers_of
from sabir.protocols import registry
from sabir.protocols.nlip.door.http import Everything, NlipHttp
from sabir.server.settings import Serving

from .front import Front, refuse

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
        routes_of = {door: list(door.routes()) for door in doors}
        routes = [route for of_door in routes_of.values() for route in of_door]
        self._below = _whole_folders(routes)
        self._rest = Starlette(routes=routes, exception_handlers=ANSWERS)
        self._rest.router.redirect_slashes = False
        self.front = Front(services, hosts, origins, serving.host, behind_tls_proxy=serving.behind_tls_proxy)
        registered = registry.doors()
        self._turn_paths = frozenset(
            step for door in doors if door.name in registered for step in _first_steps(door, routes_of[door])
        )

    def set_allowed_hosts(self, serving: Serving) -> None:
        self.front.serve_at(serving.host, behind_tls_proxy=serving.behind_tls_proxy)

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        headers: Mapping[bytes, bytes] = headers_of(scope) if "headers" in scope else {}
        if scope["type"] == "http" and _FROM_PAGES.isdisjoint(headers) and self.front.knows(headers.get(b"host")):
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
        step = scope["path"].removeprefix("/").partition("/")[0]  # the path of ``OPTIONS *`` has no slash
        is_turn = step in self._turn_paths
        answer = await self.front.admit(scope, receive, send, headers, is_turn=is_turn)
        if answer is None:
            return
        app = self._app_at(scope["path"]) if scope["type"] == "http" else None
        await (app or self._rest)(scope, receive, answer)


def _first_steps(door: Door, routes: Iterable[BaseRoute]) -> set[str]:
    """The first path segments of a door. Documents such as ``/openapi.json`` are public."""
    paths = [*door.raw(), *(_path_of(route) for route in routes)]
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
                await refuse(scope, receive, send, SabirError(BROKEN))

    return sound

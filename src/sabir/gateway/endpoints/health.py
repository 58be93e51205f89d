"""``/health``, ``/health/live``, ``/health/ready``, and the gateway's description at ``/.well-known/nlip``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from sabir import _version
from sabir.http.door import Door, GatewayServices, ReportsHealth

from .metrics import answers

_encode = msgspec.json.Encoder().encode


class Health(Door):
    """The door for load balancers and for people."""

    name = "health"

    def __init__(self, services: GatewayServices) -> None:
        self.services = services

    def routes(self) -> Sequence[BaseRoute]:
        return [
            Route("/health", self._ready, methods=["GET"]),
            Route("/health/live", self._live, methods=["GET"]),
            Route("/health/ready", self._ready, methods=["GET"]),
        ]

    def addresses(self) -> Sequence[tuple[str, str]]:
        return [("Health", "/health")]

    async def _live(self, request: Request) -> Response:
        return _json(200, {"status": "ok"})

    async def _ready(self, request: Request) -> Response:
        """200 if messages are answered; 503 while stopping or while the store does not answer.

        An unavailable bus or broker is reported as ``degraded`` with 200: agents of this node still answer, and if the
        bus is unavailable to all nodes, no other node would do better.
        """
        waiting = len(self.services.exchange.waits)  # suspended on a question; idle
        running = max(0, self.services.exchange.running - waiting)
        status = {"status": "ok", "version": _version.__version__, "running": running, "waiting": waiting}
        if self.services.exchange.closing:
            return _json(503, {**status, "status": "stopping"}, {"Retry-After": "5"})
        if not await answers(self.services.store.ping):
            return _json(503, {**status, "status": "store unavailable", "store": "unavailable"}, {"Retry-After": "1"})
        reasons = self._reasons()
        if reasons:
            status = {**status, "status": "degraded", "reason": "; ".join(reasons.values())}
            return _json(200, {**status, **dict.fromkeys(reasons, "unavailable")})
        return _json(200, status)

    def _reasons(self) -> dict[str, str]:
        """Dependencies that are unavailable, and the consequence."""
        reasons = {}
        if self.services.bus is not None and not self.services.bus.up:
            reasons["bus"] = "agents on other nodes cannot be reached"
        for door in self.services.doors:
            trouble = door.trouble() if isinstance(door, ReportsHealth) else None
            if trouble is not None:
                reasons[door.name] = trouble
        return reasons


def _json(status: int, value: object, headers: Mapping[str, str] | None = None) -> Response:
    safe = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store", **(headers or {})}
    return Response(_encode(value), status, safe, media_type="application/json")

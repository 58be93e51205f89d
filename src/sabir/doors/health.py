"""``/health``, ``/health/live``, ``/health/ready``, and what the gateway says of itself at ``/.well-known/nlip``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp

from .. import _version
from .base import House
from .metrics import answers

_encode = msgspec.json.Encoder().encode


class Health:
    """The door for load balancers and people who wonder."""

    name = "health"

    def __init__(self, house: House) -> None:
        self.house = house

    def raw(self) -> Mapping[str, ASGIApp]:
        return {}

    def routes(self) -> Sequence[BaseRoute]:
        return [
            Route("/health", self._ready, methods=["GET"]),
            Route("/health/live", self._live, methods=["GET"]),
            Route("/health/ready", self._ready, methods=["GET"]),
        ]

    def addresses(self) -> Sequence[tuple[str, str]]:
        return [("Health", "/health")]

    async def start(self) -> None:
        return None

    async def stop(self) -> None:
        return None

    async def _live(self, request: Request) -> Response:
        return _json(200, {"status": "ok"})

    async def _ready(self, request: Request) -> Response:
        """200 once messages are answered; 503 while stopping or while the store does not answer.

        A bus that is away is said and no reason to send nobody here: agents of this node are answered for, and where
        one bus is away from all nodes, no other node would do better.
        """
        waiting = len(self.house.exchange.waits)  # for an answer to their question; they run, and do nothing
        running = max(0, self.house.exchange.running - waiting)
        status = {"status": "ok", "version": _version.__version__, "running": running, "waiting": waiting}
        if self.house.exchange.closing:
            return _json(503, {**status, "status": "stopping"}, {"Retry-After": "5"})
        if not await answers(self.house.store.ping):
            return _json(503, {**status, "status": "store unavailable", "store": "away"}, {"Retry-After": "1"})
        if self.house.bus is not None and not self.house.bus.up:
            reason = "agents on other nodes cannot be reached"
            return _json(200, {**status, "status": "degraded", "bus": "away", "reason": reason})
        return _json(200, status)


def _json(status: int, value: object, headers: Mapping[str, str] | None = None) -> Response:
    return Response(_encode(value), status, dict(headers or {}), media_type="application/json")

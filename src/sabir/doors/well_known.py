"""What the gateway says of itself: ``/.well-known/nlip``, ``/ethics`` and ``/security`` (SEC-P1.3, SEC-P2.7)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp

from ..errors import SabirError
from ..message import Message
from ..statements import statement
from ..wire import nlip
from .base import House, credentials_of, refusal_headers


class WellKnown:
    """The door for auditors."""

    name = "well-known"

    def __init__(self, house: House) -> None:
        self.house = house

    def raw(self) -> Mapping[str, ASGIApp]:
        return {}

    def routes(self) -> Sequence[BaseRoute]:
        return [
            Route("/.well-known/nlip", self._self_report, methods=["GET"]),
            Route("/ethics", self._statement, methods=["GET"]),
            Route("/security", self._statement, methods=["GET"]),
        ]

    def addresses(self) -> Sequence[tuple[str, str]]:
        return []

    async def start(self) -> None:
        return None

    async def stop(self) -> None:
        return None

    async def _self_report(self, request: Request) -> Response:
        house = self.house
        credentials = credentials_of(request.scope, behind_proxy=house.behind_proxy)
        try:
            caller = await house.guard.identity.caller(credentials)
        except SabirError as wrong:
            headers = {name.decode(): value.decode("latin-1") for name, value in refusal_headers(wrong)}
            told_no = nlip.encode(Message.error(str(wrong)))
            return Response(told_no, nlip.CODES[type(wrong)], headers, media_type="application/json")
        report = house.facts.get("report")
        told: dict[str, Any] = {
            "nlip": {
                "http": f"{house.public_url}/nlip",
                "websocket": f"{house.public_url.replace('http', 'ws', 1)}/nlip/ws",
            },
            "agents": [card.name for card in house.cards(caller, "nlip-http")],
            "limits": msgspec.to_builtins(house.limits),
            "security": report() if callable(report) else None,
            "ethics": f"{house.public_url}/ethics",
            "disclosure": f"{house.public_url}/security",
        }
        return Response(msgspec.json.encode(told), media_type="application/json")

    async def _statement(self, request: Request) -> Response:
        text = statement(request.url.path.strip("/"))
        return PlainTextResponse(text, media_type="text/markdown") if text else Response(status_code=404)

"""What the gateway publishes about itself: ``/.well-known/nlip``, ``/ethics``, ``/security`` (SEC-P1.3, SEC-P2.7)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

from sabir.errors import SabirError
from sabir.http.door import Door, GatewayServices
from sabir.http.request import credentials_of
from sabir.http.response import refusal_headers
from sabir.message import Message
from sabir.protocols.nlip.wire import json as nlip
from sabir.statements import statement


class WellKnown(Door):
    """The door for auditors."""

    name = "well-known"

    def __init__(self, services: GatewayServices) -> None:
        self.services = services

    def routes(self) -> Sequence[BaseRoute]:
        return [
            Route("/.well-known/nlip", self._self_report, methods=["GET"]),
            Route("/ethics", self._statement, methods=["GET"]),
            Route("/security", self._statement, methods=["GET"]),
        ]

    async def _self_report(self, request: Request) -> Response:
        services = self.services
        credentials = credentials_of(request.scope, behind_proxy=services.behind_proxy)
        try:
            caller = await services.identity.caller(credentials)
        except SabirError as exc:
            headers = {"X-Content-Type-Options": "nosniff"} | {
                name.decode(): value.decode("latin-1") for name, value in refusal_headers(exc)
            }
            refusal = nlip.encode(Message.error(str(exc)))
            return Response(refusal, nlip.CODES[type(exc)], headers, media_type="application/json")
        report = services.facts.get("report")
        about: dict[str, Any] = {
            "nlip": {
                "http": f"{services.public_url}/nlip",
                "websocket": f"{services.public_url.replace('http', 'ws', 1)}/nlip/ws",
            },
            "agents": [card.name for card in services.cards(caller, "nlip-http")],
            "limits": msgspec.to_builtins(services.limits),
            "security": report() if callable(report) else None,
            "ethics": f"{services.public_url}/ethics",
            "disclosure": f"{services.public_url}/security",
        }
        return Response(
            msgspec.json.encode(about), headers={"X-Content-Type-Options": "nosniff"}, media_type="application/json"
        )

    async def _statement(self, request: Request) -> Response:
        text = statement(request.url.path.strip("/"))
        return PlainTextResponse(text, media_type="text/markdown") if text else Response(status_code=404)

"""``/.well-known/oauth-protected-resource/nlip``: who gives tokens for this gateway (RFC 9728)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp

from ..guard.oauth import metadata_path
from .base import House


class ProtectedResource:
    """The door for clients that look for an authorization server. Not there unless one is configured."""

    name = "protected-resource"

    def __init__(self, house: House) -> None:
        self.house = house

    def raw(self) -> Mapping[str, ASGIApp]:
        return {}

    def routes(self) -> Sequence[BaseRoute]:
        guarded = self.house.guarded
        if guarded is None or not guarded.identity.issuers:
            return []
        return [Route(metadata_path(f"{self.house.public_url}/nlip"), self._document, methods=["GET"])]

    def addresses(self) -> Sequence[tuple[str, str]]:
        return []

    async def start(self) -> None:
        return None

    async def stop(self) -> None:
        return None

    async def _document(self, request: Request) -> Response:
        assert self.house.guarded is not None
        about = self.house.guarded.metadata(f"{self.house.public_url}/nlip")
        return Response(msgspec.json.encode(about), media_type="application/json")

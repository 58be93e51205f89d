"""``/.well-known/oauth-protected-resource/nlip``: the authorization servers of this gateway (RFC 9728)."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from sabir.guard.identity.oauth import metadata_path
from sabir.http.door import Door, GatewayServices


class ProtectedResource(Door):
    """The door for clients that look for an authorization server; absent unless one is configured."""

    name = "protected-resource"

    def __init__(self, services: GatewayServices) -> None:
        self.services = services

    def routes(self) -> Sequence[BaseRoute]:
        guarded = self.services.guarded
        if guarded is None or not guarded.identity.issuers:
            return []
        return [Route(metadata_path(f"{self.services.public_url}/nlip"), self._document, methods=["GET"])]

    async def _document(self, request: Request) -> Response:
        assert self.services.guarded is not None
        about = self.services.guarded.metadata(f"{self.services.public_url}/nlip")
        return Response(
            msgspec.json.encode(about), headers={"X-Content-Type-Options": "nosniff"}, media_type="application/json"
        )

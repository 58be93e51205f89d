"""The page at ``/``, its files under ``/web/`` and the documentation: static, with nothing loaded from other hosts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from sabir.http.door import Door, GatewayServices

from .playground_docs import Documentation

FOLDER: Final = Path(__file__).parent.parent.parent / "web"
TYPES: Final[Mapping[str, str]] = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
# The page runs its own script and calls its own gateway; browsers must allow nothing else. Forms may go to the sites
# whose actions a person chooses, in a new tab, as links do.
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; media-src 'self' blob:; "
    "connect-src 'self'; base-uri 'none'; form-action https:; frame-ancestors 'none'"
)
HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": POLICY,
    "Cache-Control": "no-cache",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class Playground(Door):
    """The door for browsers. The files are read once."""

    name = "web"

    def __init__(self, services: GatewayServices) -> None:
        self._documentation = Documentation()
        self._files = {
            file.name: (file.read_bytes(), TYPES[file.suffix]) for file in FOLDER.iterdir() if file.suffix in TYPES
        }

    def routes(self) -> Sequence[BaseRoute]:
        own = [Route("/", self._page, methods=["GET"]), Route("/web/{name}", self._file, methods=["GET"])]
        return [*own, *self._documentation.routes()]

    def addresses(self) -> Sequence[tuple[str, str]]:
        return [("Web page", "/")]

    async def _page(self, request: Request) -> Response:
        return self._answer("index.html", request)

    async def _file(self, request: Request) -> Response:
        return self._answer(request.path_params["name"], request)

    def _answer(self, name: str, request: Request) -> Response:
        if name not in self._files:
            return Response("File not found.", 404, HEADERS, "text/plain")
        body, kind = self._files[name]
        tag = f'"{blake2b(body, digest_size=12).hexdigest()}"'
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers={**HEADERS, "ETag": tag})
        return Response(body, 200, {**HEADERS, "ETag": tag}, kind)

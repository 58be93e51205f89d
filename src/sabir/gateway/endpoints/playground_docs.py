"""The documentation at ``/docs``: the site that ``make docs`` builds into this package."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.staticfiles import StaticFiles

SITE: Final = Path(__file__).parent.parent.parent / "web" / "docs"
# Only the files of the site: its search runs in the page.
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS: Final = {
    "Content-Security-Policy": POLICY,
    "Cache-Control": "no-cache",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
NOT_BUILT: Final = "The documentation is not part of this installation. Run `make docs` in a clone, and reload.\n"
NOT_FOUND: Final = "The documentation has no such page; it begins at /docs/.\n"


class Documentation:
    """The pages of the documentation if they are built, otherwise a hint how to build them."""

    def __init__(self, site: Path = SITE) -> None:
        self._files = StaticFiles(directory=site, html=True, check_dir=False)
        self._index = site / "index.html"

    def routes(self) -> list[BaseRoute]:
        return [
            Route("/docs", self._start, methods=["GET"]),
            Route("/docs/{path:path}", self._page, methods=["GET"]),
        ]

    async def _start(self, request: Request) -> Response:
        # Relative, so that it works under any prefix and host.
        return RedirectResponse("docs/", 307)

    async def _page(self, request: Request) -> Response:
        if not self._index.exists():
            return Response(NOT_BUILT, 404, HEADERS, "text/plain")
        path = request.path_params["path"]
        try:
            response = await self._files.get_response(path or ".", request.scope)
        except HTTPException:
            return Response(NOT_FOUND, 404, HEADERS, "text/plain")
        response.headers.update(HEADERS)
        return response

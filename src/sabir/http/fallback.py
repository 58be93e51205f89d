"""Fallback responses in NLIP: 404, 405 and 500."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from sabir.errors import NotFound
from sabir.message import Message
from sabir.protocols.nlip.wire import json as nlip

BROKEN: Final = "something here failed; the operator's log says why"


async def _not_found(request: Request, exc: Exception) -> Response:
    return _error_response(404, str(NotFound("not found")))


async def _bad_method(request: Request, exc: Exception) -> Response:
    headers: Mapping[str, str] = getattr(exc, "headers", None) or {}
    takes = ", ".join(sorted(headers.get("Allow", "").split(", ")))
    return _error_response(405, f"this path takes {takes or 'other methods'}, not {request.method}", {"Allow": takes})


async def _broken(request: Request, exc: Exception) -> Response:
    return _error_response(500, BROKEN)


def _error_response(status: int, reason: str, headers: Mapping[str, str] | None = None) -> Response:
    safe = {"X-Content-Type-Options": "nosniff", **(headers or {})}
    return Response(nlip.encode(Message.error(reason)), status, safe, media_type="application/json")


ANSWERS: Final[Mapping[Any, Any]] = {404: _not_found, 405: _bad_method, Exception: _broken}

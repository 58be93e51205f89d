"""What is answered, in NLIP, where no door answers: nothing is there, not by this method, or a door has a defect."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from ..errors import NotFound
from ..message import Message
from ..wire import nlip
from .nlip_http import BROKEN


async def _not_found(request: Request, wrong: Exception) -> Response:
    return _told(404, str(NotFound("there is nothing at this path")))


async def _bad_method(request: Request, wrong: Exception) -> Response:
    headers: Mapping[str, str] = getattr(wrong, "headers", None) or {}
    takes = ", ".join(sorted(headers.get("Allow", "").split(", ")))
    return _told(405, f"this path takes {takes or 'other methods'}, not {request.method}", {"Allow": takes})


async def _broken(request: Request, wrong: Exception) -> Response:
    return _told(500, BROKEN)


def _told(status: int, reason: str, headers: Mapping[str, str] | None = None) -> Response:
    return Response(nlip.encode(Message.error(reason)), status, headers, media_type="application/json")


ANSWERS: Final[Mapping[Any, Any]] = {404: _not_found, 405: _bad_method, Exception: _broken}

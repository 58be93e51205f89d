"""The outgoing side of the HTTP edge, shared by all doors: a whole response, or a stream of server-sent events."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from starlette.types import Send

from sabir.errors import BadMethod, RateLimited, Unauthenticated, Unavailable

Header = tuple[bytes, bytes]
Headers = Sequence[Header]

KEEP_ALIVE: Final = 15.0  # seconds between comments on a silent event stream
COMMENT: Final = b": still here\n\n"
JSON: Final = b"application/json"
NO_SNIFF: Final[Header] = (b"x-content-type-options", b"nosniff")
NO_STORE: Final[Header] = (b"cache-control", b"no-store")
_PLAIN: Final[tuple[Header, ...]] = ((b"content-type", JSON), NO_SNIFF, NO_STORE)
_EVENTS: Final[tuple[Header, ...]] = (
    (b"content-type", b"text/event-stream; charset=utf-8"),
    NO_SNIFF,
    NO_STORE,
    (b"x-accel-buffering", b"no"),
)


def json_headers(length: int, more: Headers = (), kind: bytes = JSON) -> list[Header]:
    """The headers of a whole JSON response. It may carry tokens, so it is not cached unless ``more`` says otherwise."""
    if kind is JSON and not more:
        return [*_PLAIN, (b"content-length", b"%d" % length)]
    headers = [(b"content-type", kind), NO_SNIFF, (b"content-length", b"%d" % length), *more]
    if not any(name == b"cache-control" for name, _ in more):
        headers.append(NO_STORE)
    return headers


async def send_json(send: Send, status: int, body: bytes, more: Headers = (), kind: bytes = JSON) -> None:
    """Send a whole JSON response."""
    await send({"type": "http.response.start", "status": status, "headers": json_headers(len(body), more, kind)})
    await send({"type": "http.response.body", "body": body})


async def send_empty(send: Send, status: int, more: Headers = ()) -> None:
    """Send a response without a body."""
    headers = [(b"content-length", b"0"), NO_STORE, *more]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": b""})


async def start_events(send: Send, more: Headers = (), status: int = 200) -> None:
    """Begin a stream of server-sent events."""
    await send({"type": "http.response.start", "status": status, "headers": [*_EVENTS, *more]})


async def send_events(send: Send, body: bytes, *, last: bool = False) -> None:
    """Send some events of a stream."""
    await send({"type": "http.response.body", "body": body, "more_body": not last})


def preference_applied(applied: Sequence[str]) -> list[Header]:
    """Which preferences were honoured (RFC 7240, 3)."""
    return [(b"preference-applied", ", ".join(applied).encode("latin-1"))] if applied else []


def refusal_headers(exc: Exception) -> list[Header]:
    """The HTTP headers of an error: when to retry, how to authenticate, which methods are allowed."""
    if isinstance(exc, RateLimited | Unavailable):
        return [(b"retry-after", str(max(1, math.ceil(exc.retry_after))).encode())]
    if isinstance(exc, Unauthenticated):
        return [(b"www-authenticate", exc.challenge.encode("latin-1"))]
    if isinstance(exc, BadMethod):
        return [(b"allow", exc.allow.encode())]
    return []

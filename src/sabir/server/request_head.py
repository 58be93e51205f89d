"""Which heads of HTTP/1 requests are rejected before a door sees them. Pure."""

from __future__ import annotations

from typing import Final

MAX_HEADERS: Final = 256
_TOO_MANY_HEADERS: Final = (431, f"too many headers; at most {MAX_HEADERS}")
_BAD_VERSION: Final = (400, "the request line must name version 1.1 or 1.0 of HTTP")
_NO_TUNNELS: Final = (400, "CONNECT is not supported")
_UNKNOWN_CODING: Final = (501, "the only transfer coding that is supported is chunked")


def check_head(headers: list[tuple[bytes, bytes]], version: str, method: bytes) -> tuple[int, str] | None:
    """Why a head is rejected; None if it is accepted."""
    if len(headers) > MAX_HEADERS:
        return _TOO_MANY_HEADERS
    if version != "1.1" and version != "1.0":
        return _BAD_VERSION
    if method == b"CONNECT":
        return _NO_TUNNELS
    for name, value in headers:
        if name == b"transfer-encoding" and value.strip().lower() != b"chunked":
            return _UNKNOWN_CODING  # RFC 9112, 6.1
    return None

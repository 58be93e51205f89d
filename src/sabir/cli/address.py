"""The address that a command is given, or the one in SABIR_URL."""

from __future__ import annotations

import os
from collections.abc import Collection
from typing import Final
from urllib.parse import urlsplit

from sabir.errors import ConfigError
from sabir.protocols.peer import origin_of

WEB: Final = ("http", "https")
PROGRAM: Final = "stdio:"  # followed by a command: a local MCP server


def address_of(given: str | None, schemes: Collection[str] = ()) -> str:
    """The address, with a scheme; SABIR_URL by default.

    Args:
        schemes: those that the command supports (default: any).

    Raises:
        ConfigError: no address is given, or it is invalid.
    """
    url = given or os.environ.get("SABIR_URL") or ""
    if not url:
        raise ConfigError("no address: give a URL such as http://127.0.0.1:8080, or set SABIR_URL")
    if "://" not in url and not url.startswith(PROGRAM):
        url = f"http://{url}"
    try:
        scheme = urlsplit(url).scheme.lower()
    except ValueError as exc:
        raise ConfigError(f"{url!r} is not an address: {exc}") from None
    if schemes and scheme not in schemes:
        raise ConfigError(f"unsupported URL scheme {scheme!r}; expected {', '.join(schemes)}")
    if not url.startswith(PROGRAM):
        origin_of(url)  # rejects an invalid port
    return url

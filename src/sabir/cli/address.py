"""The address that a command is given, or the one in SABIR_URL."""

from __future__ import annotations

import os
from typing import Final
from urllib.parse import urlsplit

from sabir.errors import ConfigError

PROGRAM: Final = "stdio:"  # followed by a command: a local MCP server


def address_of(given: str | None) -> str:
    """The address, with a scheme; SABIR_URL by default.

    Raises:
        ConfigError: no address is given, or it is invalid.
    """
    url = given or os.environ.get("SABIR_URL") or ""
    if not url:
        raise ConfigError("no address: give a URL such as http://127.0.0.1:8080, or set SABIR_URL")
    if "://" not in url and not url.startswith(PROGRAM):
        url = f"http://{url}"
    try:
        urlsplit(url)
    except ValueError as exc:
        raise ConfigError(f"{url!r} is not an address: {exc}") from None
    return url

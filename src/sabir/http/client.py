"""The HTTP client of all peers: no cookies, no redirects, nothing from the environment."""

from __future__ import annotations

import functools
import ssl
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any

import httpx2

from sabir._version import __version__
from sabir.protocols.options import PeerOptions


def http_client(options: PeerOptions, **more: Any) -> httpx2.AsyncClient:
    """A client for one peer; ``more`` are further arguments of ``httpx2.AsyncClient``."""
    limit = options.connections
    return httpx2.AsyncClient(
        **{
            "verify": options.verify or system_trust(),
            "headers": client_headers(options),
            "cookies": no_cookies(),
            "follow_redirects": False,  # a redirect would take our credentials elsewhere
            "trust_env": False,  # no password from ~/.netrc is ever sent
            "limits": httpx2.Limits(max_connections=limit, max_keepalive_connections=limit),
            **more,
        }
    )


def client_headers(options: PeerOptions) -> dict[str, str]:
    return {"user-agent": f"sabir/{__version__}", "accept-encoding": "identity", **(options.headers or {})}


def no_cookies() -> CookieJar:
    """A cookie jar that stays empty: cookies would link conversations of different callers."""
    return CookieJar(DefaultCookiePolicy(allowed_domains=[]))


@functools.cache
def system_trust() -> ssl.SSLContext:
    """Made once: loading the system's certificates takes tens of milliseconds."""
    return ssl.create_default_context()

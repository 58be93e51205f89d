"""The HTTP client of all peers: no cookies, no redirects, nothing from the environment."""

from __future__ import annotations

import functools
import ssl
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any

import httpx2

from sabir._version import __version__
from sabir.guard.egress.keep_alive import LiveTransport, kept_connections
from sabir.protocols.options import PeerOptions


def http_client(options: PeerOptions, **more: Any) -> httpx2.AsyncClient:
    """A client for one peer; ``more`` are further arguments of ``httpx2.AsyncClient``, such as ``verify``."""
    verify = more.pop("verify", None) or options.verify or system_trust()
    limits = kept_connections(options.connections)
    return httpx2.AsyncClient(
        **{
            "transport": more.pop("transport", None) or LiveTransport(verify=verify, limits=limits, trust_env=False),
            "headers": client_headers(options),
            "cookies": no_cookies(),
            "follow_redirects": False,  # a redirect would take our credentials elsewhere
            "trust_env": False,  # no password from ~/.netrc is ever sent
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

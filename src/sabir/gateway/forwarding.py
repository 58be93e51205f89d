"""The public address of a gateway behind a proxy, taken from the proxy's headers if ``public_url`` is not set.

The address applies only to the request that carried it and is never stored, so a caller who sends a false
``X-Forwarded-Host`` through a careless proxy affects nobody else.
"""

from __future__ import annotations

import ipaddress
import logging
import re
from collections.abc import Iterable, Mapping
from contextvars import ContextVar
from typing import Any, Final, NamedTuple

from starlette.types import ASGIApp, Receive, Scope, Send

from sabir.agents.concierge import ConciergeServices
from sabir.http.door import GatewayServices
from sabir.http.request import headers_of
from sabir.uploads import Uploads

logger = logging.getLogger("sabir")

_HOST: Final = re.compile(r"(?:[a-z0-9](?:[a-z0-9.-]{0,252}[a-z0-9])?|\[[0-9a-f:.]{2,45}\])(?::\d{1,5})?")
_SCHEMES: Final = ("https", "http")


class SeenAddress(NamedTuple):
    """The address that a request was sent to, and the public address it stands for."""

    instead_of: str
    url: str


_SEEN: ContextVar[SeenAddress | None] = ContextVar("seen_address", default=None)


class PublicAddress:
    """The attribute ``public_url`` of services: from the request, or as configured."""

    def __get__(self, services: Any, owner: type | None = None) -> Any:
        if services is None:
            return self
        own: str = services.__dict__["_public_url"]
        seen = _SEEN.get()
        return seen.url if seen is not None and seen.instead_of == own else own

    def __set__(self, services: Any, url: str) -> None:
        services.__dict__["_public_url"] = url


class ForwardedServices(GatewayServices):
    """The services of a gateway whose address may differ by request."""

    public_url = PublicAddress()


class ForwardedUploads(Uploads):
    """Uploads whose address may differ by request."""

    public_url = PublicAddress()


class ForwardedConcierge(ConciergeServices):
    """Concierge services whose address may differ by request."""

    public_url = PublicAddress()


class Forwarding:
    """An ASGI application that records the address by which each request came through the proxy."""

    def __init__(self, app: ASGIApp, services: GatewayServices, hosts: Iterable[str]) -> None:
        self._app = app
        self._services = services
        self._hosts = frozenset(host.lower() for host in hosts)
        self._warned = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in ("http", "websocket"):
            own = self._services.public_url
            url = forwarded_url(headers_of(scope), self._hosts)
            if url is not None:
                _SEEN.set(SeenAddress(own, url))
            elif not self._warned:
                self._warned = True
                logger.warning(
                    "The proxy in front does not say by which name it is reached, so cards and links name %s: "
                    "set public_url, or let the proxy send X-Forwarded-Host and X-Forwarded-Proto",
                    own,
                )
        await self._app(scope, receive, send)


def forwarded_url(headers: Mapping[bytes, bytes], hosts: frozenset[str] = frozenset()) -> str | None:
    """The public address in a proxy's headers; None if it is missing or internal.

    ``hosts`` are the allowed names, if any are configured.
    """
    host = _last(headers.get(b"x-forwarded-host")) or headers.get(b"host", b"").decode("latin-1").strip().lower()
    scheme = _last(headers.get(b"x-forwarded-proto")) or _SCHEMES[0]  # the proxy terminates TLS
    if not _HOST.fullmatch(host) or scheme not in _SCHEMES:
        return None
    name = re.sub(r":\d+$", "", host)
    if (hosts and name not in hosts) or is_internal(name):
        return None
    return f"{scheme}://{host}"


def is_internal(name: str) -> bool:
    """Whether a host name is only meaningful inside the network: ``localhost``, ``10.0.0.7``, ``backend``."""
    try:
        return not ipaddress.ip_address(name.strip("[]")).is_global
    except ValueError:
        return "." not in name or name.endswith((".local", ".internal", ".localhost"))


def _last(value: bytes | None) -> str:
    """The entry added by the nearest proxy."""
    return (value or b"").decode("latin-1").rpartition(",")[2].strip().lower()

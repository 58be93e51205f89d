"""The checks before every port of a gateway: the host that a request names, and the web page that it comes from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from starlette.types import ASGIApp, Receive, Scope, Send

from sabir.errors import Forbidden, SabirError, Unreadable
from sabir.http.admission import NO_AGENT, Admission
from sabir.http.door import GatewayServices
from sabir.http.request import credentials_of, headers_of
from sabir.http.response import send_json
from sabir.message import Message
from sabir.protocols.nlip.wire import json as nlip

_LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")
_MAX_HOSTS: Final = 64  # spellings that are remembered as accepted


class Front:
    """Rejects other host names (DNS rebinding) and pages of other sites, and answers the preflights of browsers."""

    def __init__(
        self,
        services: GatewayServices,
        hosts: Iterable[str],
        origins: Iterable[str],
        address: str,
        *,
        behind_tls_proxy: bool,
    ) -> None:
        self._services = services
        self._configured = frozenset(host.lower() for host in hosts)
        self._origins = frozenset(origin.lower().rstrip("/") for origin in origins)
        self.serve_at(address, behind_tls_proxy=behind_tls_proxy)

    def serve_at(self, address: str, *, behind_tls_proxy: bool) -> None:
        """Which Host values are accepted. A gateway on loopback accepts no other name (DNS rebinding)."""
        self._behind_tls_proxy = behind_tls_proxy
        self._local_only = address in _LOOPBACK and not behind_tls_proxy
        self._names = frozenset({"127.0.0.1", "localhost", "[::1]", address.lower()}) | self._configured
        self._accepted: set[bytes] = set()

    def knows(self, host: bytes | None) -> bool:
        """Whether this Host value was accepted before."""
        return host in self._accepted

    def before(self, app: ASGIApp, address: str, names: Iterable[str] = ()) -> ASGIApp:
        """An application of another port, with the same checks in front of it.

        Args:
            app: The application.
            address: Where its port listens.
            names: Further names by which it is reached.
        """
        configured = {*self._configured, *names} if self._configured or address in _LOOPBACK else ()
        front = Front(self._services, configured, self._origins, address, behind_tls_proxy=self._behind_tls_proxy)

        async def checked(scope: Scope, receive: Receive, send: Send) -> None:
            answer = await front.admit(scope, receive, send, headers_of(scope), is_turn=True)
            if answer is not None:
                await app(scope, receive, answer)

        return checked

    async def admit(
        self, scope: Scope, receive: Receive, send: Send, headers: Mapping[bytes, bytes], *, is_turn: bool
    ) -> Send | None:
        """The ``send`` for the response; None if the request has been answered here.

        Args:
            is_turn: Whether the path runs turns; web pages of other sites may not request these.
        """
        host, origin = headers.get(b"host", b""), headers.get(b"origin")
        try:
            if host not in self._accepted:
                self._check_host(host)
            if origin is not None:
                self._check_origin(origin, host)
            elif is_turn and headers.get(b"sec-fetch-site") == b"cross-site":
                self._check_cross_site()
        except SabirError as exc:
            credentials = credentials_of(scope, behind_proxy=self._services.behind_proxy)
            await Admission(self._services, "front", credentials, NO_AGENT).rejected(exc)
            await refuse(scope, receive, send, exc)
            return None
        if origin is None or scope["type"] != "http":
            return send
        send = _with_cors(send, origin)
        if scope["method"] == "OPTIONS" and b"access-control-request-method" in headers:
            await _preflight(send)
            return None
        return send

    def _check_host(self, host: bytes) -> None:
        if (self._local_only or self._configured) and (not host or b"," in host):
            raise Unreadable("http", "Host", "one header with one host name")
        name = host.decode("latin-1").lower()
        bare = name.rpartition(":")[0] if name.rpartition(":")[2].isdigit() else name
        if (self._local_only or self._configured) and bare not in self._names:
            raise Forbidden("this host name is not served here; add it to 'hosts' in the configuration")
        if len(self._accepted) < _MAX_HOSTS:
            self._accepted.add(host)

    def _check_cross_site(self) -> None:
        """Reject links, images and forms of other sites: the user did not ask for a turn."""
        if "*" not in self._origins:
            raise Forbidden(
                "web pages of other sites may not use this gateway; add their origin to 'origins' in the configuration"
            )

    def _check_origin(self, origin: bytes, host: bytes) -> None:
        value = origin.decode("latin-1").lower().rstrip("/")
        if value in self._origins or "*" in self._origins:
            return
        if value.partition("://")[2] == host.decode("latin-1").lower():
            return  # our own page
        raise Forbidden("this origin may not call from a browser; add it to 'origins' in the configuration")


def _with_cors(send: Send, origin: bytes) -> Send:
    async def sending(packet: Any) -> None:
        if packet["type"] == "http.response.start":
            packet["headers"] = [
                *packet["headers"],
                (b"access-control-allow-origin", origin),
                (
                    b"access-control-expose-headers",
                    b"location, retry-after, preference-applied, mcp-session-id, www-authenticate, "
                    b"ratelimit, ratelimit-policy",
                ),
                (b"vary", b"origin"),
            ]
        await send(packet)

    return sending


# Headers that pages of allowed origins may send: those that the doors read.
_ALLOWED_HEADERS: Final = (
    b"authorization, x-api-key, dpop, content-type, accept, prefer, idempotency-key, traceparent, "
    b"a2a-version, a2a-extensions, mcp-protocol-version, mcp-session-id, mcp-method, mcp-name, last-event-id"
)


async def _preflight(send: Send) -> None:
    headers = [
        (b"access-control-allow-methods", b"GET, POST, PUT, DELETE"),
        (b"access-control-allow-headers", _ALLOWED_HEADERS),
        (b"access-control-max-age", b"600"),
    ]
    await send({"type": "http.response.start", "status": 204, "headers": headers})
    await send({"type": "http.response.body", "body": b""})


async def refuse(scope: Scope, receive: Receive, send: Send, exc: SabirError) -> None:
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.close", "code": 1008, "reason": str(exc)[:120]})
        return
    await send_json(send, nlip.CODES[type(exc)], nlip.encode(Message.error(str(exc))))

"""Which addresses the gateway may connect to: one guard for everything that fetches.

A URL from a message, a card, a page or a redirect may point to this machine, its network, or a cloud's metadata
service.
So a host is resolved once, every address of it is checked, and the connection goes to a checked address; a name that
changes between check and use gains nothing. The check runs where connections are opened, so redirects and retries
pass it again.

Use ``Outbound.transport()`` with an ``httpx2.AsyncClient`` (and ``trust_env=False``, or a proxy from the environment
would be used instead), ``Outbound.connect()`` for other sockets, ``GuardedClient`` for documents.
"""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final

import httpcore2
import httpx2
import msgspec

from sabir.errors import Forbidden, PeerUnavailable, PeerUnreadable, TooLarge

from .keep_alive import LiveTransport, kept_connections

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network
Resolve = Callable[[str, int], Awaitable[Sequence[str]]]

# All IPv6 space assigned to the public internet; anything else is unassigned or internal.
_UNICAST: Final = ip_network("2000::/3")
# Ranges that IANA's registries reserve, and public ranges that are used internally. Written out, because the standard
# library's lists differ between Python versions.
# https://www.iana.org/assignments/iana-ipv4-special-registry, https://www.iana.org/assignments/iana-ipv6-special-registry
_INSIDE: Final[tuple[Network, ...]] = tuple(
    ip_network(item)
    for item in (
        "0.0.0.0/8",  # this network
        "10.0.0.0/8",
        "100.64.0.0/10",  # carrier-grade NAT, including a cloud's metadata service
        "127.0.0.0/8",
        "168.63.129.16/32",  # Azure's wire server
        "169.254.0.0/16",  # link-local, including the metadata service of most clouds
        "172.16.0.0/12",
        "192.0.0.0/24",  # protocol assignments, including a cloud's metadata service
        "192.0.2.0/24",  # documentation
        "192.31.196.0/24",  # AS112, answers for private names
        "192.52.193.0/24",  # AMT
        "192.88.99.0/24",  # the withdrawn 6to4 anycast
        "192.168.0.0/16",
        "192.175.48.0/24",  # AS112
        "198.18.0.0/15",  # benchmarks
        "198.51.100.0/24",  # documentation
        "203.0.113.0/24",  # documentation
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved, and broadcast
        "2001::/23",  # protocol assignments: Teredo, benchmarks, AMT, AS112, ORCHID, DRIP
        "2001:db8::/32",  # documentation
        "2002::/16",  # 6to4, deprecated; anybody could run a relay
        "2620:4f:8000::/48",  # AS112
        "3fff::/20",  # documentation
    )
)
_MAPPED: Final = ip_network("::ffff:0:0/96")
_NAT64: Final = ip_network("64:ff9b::/96")
_LOCAL_NAT64: Final = ip_network("64:ff9b:1::/48")
_SIIT: Final = ip_network("::ffff:0:0:0/96")
_COMPATIBLE: Final = ip_network("::/96")
_NUMERIC: Final = re.compile(r"(0x[0-9a-f]*|[0-9]+)(\.(0x[0-9a-f]*|[0-9]+))*\.?", re.IGNORECASE)
_NAME: Final = re.compile(r"[a-z0-9_]([a-z0-9._-]{0,251}[a-z0-9_])?")
_PORTS: Final = {"http": 80, "https": 443, "ws": 80, "wss": 443}
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})


def is_public(address: Address) -> bool:
    """Whether an address is on the public internet, whichever way an IPv4 address is written as IPv6."""
    if isinstance(address, IPv6Address):
        inner = _embedded(address) if address in _MAPPED or address in _NAT64 else None
        if inner is not None:
            return is_public(inner)
        if address.scope_id is not None or address not in _UNICAST:
            return False
    return not any(address in network for network in _INSIDE if network.version == address.version)


def _embedded(address: IPv6Address) -> IPv4Address | None:
    """The IPv4 address embedded in an IPv6 one: mapped, compatible, 6to4, Teredo, NAT64, SIIT."""
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address.sixtofour is not None:
        return address.sixtofour
    if address.teredo is not None:
        return address.teredo[1]
    if any(address in network for network in (_NAT64, _LOCAL_NAT64, _SIIT)) or (
        address in _COMPATIBLE and int(address) > 1
    ):
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return None


async def _resolve(host: str, port: int) -> Sequence[str]:
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(entry[4][0]) for entry in found]


class OutboundRules(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where connections may go; a section of the configuration file.

    ``allow`` names internal destinations that are allowed anyway: a host, ``host:port``, an address or a network.
    ``deny`` is refused even if it is public. ``private`` allows all private addresses.
    """

    schemes: tuple[str, ...] = ("https", "http")
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    ports: tuple[int, ...] = ()  # empty: any
    private: bool = False


class Outbound:
    """Decides where connections may go, and opens them to exactly the checked address."""

    def __init__(self, rules: OutboundRules | None = None, *, resolve: Resolve = _resolve) -> None:
        self.rules = rules or OutboundRules()
        self._resolve = resolve
        self._allowed = _Listed(self.rules.allow)
        self._denied = _Listed(self.rules.deny)
        self._tls: ssl.SSLContext | None = None

    # -- deciding ---------------------------------------------------------------------------------

    def check(self, url: str) -> httpx2.URL:
        """Reject what can be rejected before a name is looked up; return the URL to use.

        Raises:
            Forbidden: scheme, port, credentials or host are not allowed.
        """
        try:
            parsed = httpx2.URL(url)
        except (httpx2.InvalidURL, ValueError, TypeError):
            raise Forbidden("this is not a URL that can be fetched") from None
        if parsed.scheme not in self.rules.schemes:
            raise Forbidden(f"URLs must start with {', '.join(self.rules.schemes)} only")
        if parsed.userinfo:
            raise Forbidden("a URL with credentials in it is not fetched")
        if not parsed.host:
            raise Forbidden("this URL names no host")
        self.check_host(parsed.host, parsed.port or _PORTS.get(parsed.scheme, 0))
        return parsed

    def check_host(self, host: str, port: int) -> None:
        """Raises:
        Forbidden: the host name, address or port is not allowed.
        """
        name = _normal(host)
        if self.rules.ports and port not in self.rules.ports and not self._allowed.names(name, port):
            raise Forbidden(f"port {port} is not allowed")
        if self._denied.names(name, port):
            raise Forbidden("this host is not allowed")
        literal = _literal(name)
        if literal is not None:
            self._check_address(literal, name, port)
        elif _NUMERIC.fullmatch(name) or not _NAME.fullmatch(name):
            # To a resolver, 2130706433, 0x7f.1 and 017700000001 are all 127.0.0.1; nobody honest writes them.
            raise Forbidden("a host is written as a name or as a plain address")

    def _check_address(self, address: Address, name: str, port: int) -> None:
        if self._denied.holds(address):
            raise Forbidden("this address is not allowed")
        if self.rules.private or self._allowed.names(name, port) or self._allowed.holds(address):
            return
        if not is_public(address):
            raise Forbidden("this address is not on the open internet")

    async def addresses(self, host: str, port: int) -> list[str]:
        """Every address of a host, each checked.

        Raises:
            Forbidden: one of them is not allowed. One is enough, because it is random which one would be used.
            PeerUnavailable: host not found.
        """
        self.check_host(host, port)
        name = _normal(host)
        if _literal(name) is not None:
            return [name]
        try:
            found = await self._resolve(name, port)
        except OSError:
            raise PeerUnavailable(name[:100], "host not found") from None
        for text in found:
            address = _literal(text)
            if address is None:
                raise Forbidden("this host has an invalid address")
            self._check_address(address, name, port)
        if not found:
            raise PeerUnavailable(name[:100], "host not found")
        return list(dict.fromkeys(found))

    # -- connecting -------------------------------------------------------------------------------

    async def connect(self, host: str, port: int, seconds: float = 10.0) -> socket.socket:
        """A connected socket to a checked address; for libraries that take one (``websockets``: ``sock=``).

        Raises:
            Forbidden, PeerUnavailable: as ``addresses``; or nothing answers there.
        """
        loop = asyncio.get_running_loop()
        for address in await self.addresses(host, port):
            family = socket.AF_INET6 if ":" in address else socket.AF_INET
            sock = socket.socket(family, socket.SOCK_STREAM)
            sock.setblocking(False)
            try:
                async with asyncio.timeout(seconds):
                    await loop.sock_connect(sock, (address, port))
                return sock
            except (OSError, TimeoutError):
                sock.close()
            except BaseException:
                sock.close()
                raise
        raise PeerUnavailable(_normal(host)[:100], "it cannot be reached")

    def transport(self, *, limits: httpx2.Limits | None = None, tls: ssl.SSLContext | None = None) -> GuardedTransport:
        """A transport for ``httpx2.AsyncClient``; share one client, because each has its own connection pool."""
        return GuardedTransport(self, limits or kept_connections(100, idle=20), tls or self.tls())

    def tls(self) -> ssl.SSLContext:
        """The TLS context of outgoing connections, which always verifies certificates. Cached: creating it is
        expensive."""
        if self._tls is None:
            self._tls = ssl.create_default_context()
            self._tls.minimum_version = ssl.TLSVersion.TLSv1_2
        return self._tls


class GuardedTransport(LiveTransport):
    """An HTTP transport that connects only where ``Outbound`` allows."""

    def __init__(self, outbound: Outbound, limits: httpx2.Limits, tls: ssl.SSLContext) -> None:
        super().__init__(verify=tls, trust_env=False)
        self._outbound = outbound
        # The pool is keyed by name, so that TLS verifies the name; the address is chosen when the pool connects.
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=tls,
            max_connections=limits.max_connections,
            max_keepalive_connections=limits.max_keepalive_connections,
            keepalive_expiry=limits.keepalive_expiry,
            network_backend=_Pinned(outbound),
        )

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        self._outbound.check(str(request.url))
        return await super().handle_async_request(request)


class _Pinned(httpcore2.AsyncNetworkBackend):
    """Connects to the checked address, never to a name."""

    def __init__(self, outbound: Outbound) -> None:
        self._outbound = outbound
        self._sockets = httpcore2.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        exc: Exception | None = None
        for address in await self._outbound.addresses(host, port):
            try:
                return await self._sockets.connect_tcp(address, port, timeout, local_address, socket_options)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as failed:
                exc = failed
        assert exc is not None
        raise exc

    async def connect_unix_socket(
        self,
        path: str,
        timeout: float | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        raise Forbidden("sockets of this machine are not fetched from")

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class GuardedResponse(msgspec.Struct, frozen=True):
    """A document and its final URL."""

    url: str
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def media_type(self) -> str:
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()


class GuardedClient:
    """Fetches documents through ``Outbound``: size, time and redirects are limited, every hop is checked."""

    def __init__(
        self,
        outbound: Outbound,
        *,
        max_bytes: int = 16 * 1024 * 1024,
        redirects: int = 5,
        seconds: float = 30.0,
        user_agent: str = "sabir",
    ) -> None:
        self.outbound = outbound
        self._limit = max_bytes
        self._redirects = redirects
        self._seconds = seconds
        self._user_agent = user_agent
        self._made: httpx2.AsyncClient | None = None

    @property
    def _client(self) -> httpx2.AsyncClient:
        # Created on first use: its TLS context is expensive, and most gateways never fetch.
        if self._made is None:
            self._made = httpx2.AsyncClient(
                transport=self.outbound.transport(),
                trust_env=False,
                timeout=httpx2.Timeout(self._seconds),
                headers={"user-agent": self._user_agent},
            )
        return self._made

    async def __aenter__(self) -> GuardedClient:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def close(self) -> None:
        if self._made is not None:
            await self._made.aclose()
            self._made = None

    async def get(
        self, url: str, *, headers: Mapping[str, str] | None = None, max_bytes: int | None = None
    ) -> GuardedResponse:
        """Fetch a document, following redirects.

        Raises:
            Forbidden: the URL, or one it redirects to, is not allowed.
            TooLarge: the document, unpacked, is over the limit.
            PeerUnavailable: no answer, or not in time.
            PeerUnreadable: the answer is not HTTP, or redirects endlessly.
        """
        return await self.send("GET", url, headers=headers, max_bytes=max_bytes)

    async def send(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        max_bytes: int | None = None,
    ) -> GuardedResponse:
        """Like ``get``, with a method and a body (webhooks, token endpoints). Only ``get`` follows redirects."""
        given = dict(headers or {})
        at = self.outbound.check(url)
        try:
            async with asyncio.timeout(self._seconds):
                for _ in range(self._redirects + 1):
                    fetched = await self._one(method, at, given, body, max_bytes or self._limit)
                    where = fetched.headers.get("location")
                    if fetched.status not in _REDIRECTS or not where or method != "GET":
                        return fetched
                    at, given = self._next(at, where, given)
        except TimeoutError:
            raise PeerUnavailable(at.host, "no answer in time") from None
        except httpx2.TransportError as exc:
            kind = PeerUnreadable if isinstance(exc, httpx2.ProtocolError) else PeerUnavailable
            raise kind(at.host, "the connection failed") from None
        raise PeerUnreadable(at.host, f"more than {self._redirects} redirects")

    async def _one(
        self, method: str, url: httpx2.URL, headers: Mapping[str, str], body: bytes | None, limit: int
    ) -> GuardedResponse:
        pieces = bytearray()
        async with self._client.stream(method, url, headers=headers, content=body, follow_redirects=False) as response:
            try:
                async for piece in response.aiter_bytes(64 * 1024):
                    pieces += piece
                    if len(pieces) > limit:
                        raise TooLarge("http", str(url.host), f"at most {limit} bytes")
            except httpx2.DecodingError:
                raise PeerUnreadable(url.host, "its content cannot be unpacked") from None
            return GuardedResponse(str(url), response.status_code, dict(response.headers), bytes(pieces))

    def _next(self, at: httpx2.URL, where: str, headers: dict[str, str]) -> tuple[httpx2.URL, dict[str, str]]:
        try:
            following = self.outbound.check(str(at.join(where)))
        except httpx2.InvalidURL:
            raise PeerUnreadable(at.host, "it redirects to something that is not a URL") from None
        if at.scheme == "https" and following.scheme != "https":
            raise Forbidden("a redirect may not leave https")
        if (at.scheme, at.host, at.port) != (following.scheme, following.host, following.port):
            headers = {name: value for name, value in headers.items() if name.lower() not in _SECRET_HEADERS}
        return following, headers


_SECRET_HEADERS: Final = frozenset({"authorization", "cookie", "x-api-key", "proxy-authorization", "dpop"})


class _Listed:
    """Split a list into hosts, ``host:port`` pairs, addresses and networks."""

    def __init__(self, entries: Iterable[str]) -> None:
        self._names: set[str] = set()
        self._networks: list[Network] = []
        for entry in entries:
            try:
                self._networks.append(ip_network(entry.strip(), strict=False))
            except ValueError:
                self._names.add(_normal(entry.strip()))

    def names(self, name: str, port: int) -> bool:
        written = f"[{name}]" if ":" in name else name
        return name in self._names or f"{written}:{port}" in self._names

    def holds(self, address: Address) -> bool:
        inner = _embedded(address) if isinstance(address, IPv6Address) else None
        return any(
            item.version == network.version and item in network
            for network in self._networks
            for item in (address, inner)
            if item is not None
        )


def _normal(host: str) -> str:
    return host.strip().rstrip(".").lower()


def _literal(host: str) -> Address | None:
    try:
        return ip_address(host.strip("[]"))
    except ValueError:
        return None

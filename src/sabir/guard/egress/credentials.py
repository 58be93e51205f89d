"""Our credentials for other services: chosen by address, never the caller's own token.

A caller's credentials stay here. If a service must know the caller, the caller's token is exchanged for one of that
service (RFC 8693). Tokens are kept per service and caller, and are sent nowhere else.
"""

from __future__ import annotations

import base64
import os
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final
from urllib.parse import SplitResult, quote_plus, urlencode, urlsplit

import msgspec

from sabir.errors import ConfigError, Forbidden, PeerRefused, PeerUnreadable
from sabir.guard.identity.issuer import SubjectTokens
from sabir.misfits import NOT_JSON
from sabir.turn import Caller

from .addresses import GuardedClient

_TOKEN_TYPE: Final = "urn:ietf:params:oauth:token-type:access_token"
_EXCHANGE: Final = "urn:ietf:params:oauth:grant-type:token-exchange"
_EARLY: Final = 30.0  # seconds before expiry at which a token is no longer used
_CACHED: Final = 10_000


class Service(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Our credentials for one service; a section of the configuration file.

    Exactly one of: ``token`` (a bearer token), ``key`` (an API key, in ``header``), or ``token_url`` with ``client``
    and
    ``secret``, where ``exchange`` means that the service must know the caller. ``token``, ``key`` and ``secret`` may be
    ``env:NAME``, to keep them out of the file.
    """

    origin: str  # https://api.example.com, optionally with a path prefix
    token: str | None = None
    key: str | None = None
    header: str = "x-api-key"
    token_url: str | None = None
    client: str | None = None
    secret: str | None = None
    audience: str | None = None
    scope: str | None = None
    exchange: bool = False

    def __post_init__(self) -> None:
        if sum(way is not None for way in (self.token, self.key, self.token_url)) != 1:
            raise ValueError(f"services: {self.origin!r} needs exactly one of token, key or token_url")
        if self.token_url is not None and self.client is None:
            raise ValueError(f"services: {self.origin!r} has a token_url and needs a client")
        if urlsplit(self.origin).scheme not in _PORTS or not urlsplit(self.origin).netloc:
            raise ValueError("services: origin: expected a URL such as https://api.example.com")


class OutgoingCredentials:
    """The outgoing credentials of this gateway."""

    def __init__(
        self,
        services: Sequence[Service] = (),
        fetcher: GuardedClient | None = None,
        subjects: SubjectTokens | None = None,
        *,
        environment: Mapping[str, str] = os.environ,
        clock: Callable[[], float] = time.time,
    ) -> None:
        # Longest first: the most specific rule applies.
        self._services = sorted(services, key=lambda service: -len(service.origin))
        self._fetcher = fetcher
        self._subjects = subjects
        self._environment = environment
        self._clock = clock
        self._tokens: OrderedDict[tuple[str, str], tuple[str, float]] = OrderedDict()

    def service(self, url: str) -> Service | None:
        """The service that a URL belongs to: same scheme, host and port, and below its path."""
        for service in self._services:
            if _below(url, service.origin):
                return service
        return None

    async def headers(self, url: str, caller: Caller) -> dict[str, str]:
        """The headers to send to this URL on behalf of this caller; none for a service that is not configured.

        Raises:
            Forbidden: the service must know the caller, who has no token to exchange.
            PeerRefused: the authorization server refused.
            ConfigError: an environment variable that should hold a secret is not set.
        """
        service = self.service(url)
        if service is None:
            return {}
        if service.token is not None:
            return {"authorization": f"Bearer {self._secret(service.token)}"}
        if service.key is not None:
            return {service.header.lower(): self._secret(service.key)}
        return {"authorization": f"Bearer {await self._token(service, caller)}"}

    async def _token(self, service: Service, caller: Caller) -> str:
        whose = (caller.on_behalf_of or caller.id) if service.exchange else ""
        kept = self._tokens.get((service.origin, whose))
        if kept is not None and self._clock() < kept[1] - _EARLY:
            return kept[0]
        form = {"grant_type": _EXCHANGE if service.exchange else "client_credentials"}
        if service.exchange:
            subject = self._subjects.of(whose) if self._subjects is not None else None
            if subject is None:
                raise Forbidden("this service requires the caller's identity, and there is no token to exchange")
            form |= {"subject_token": subject, "subject_token_type": _TOKEN_TYPE, "requested_token_type": _TOKEN_TYPE}
        form |= {name: value for name, value in (("audience", service.audience), ("scope", service.scope)) if value}
        token, seconds = await self._ask(service, form)
        self._tokens[service.origin, whose] = (token, self._clock() + seconds)
        if len(self._tokens) > _CACHED:
            self._tokens.popitem(last=False)
        return token

    async def _ask(self, service: Service, form: Mapping[str, str]) -> tuple[str, float]:
        assert service.token_url is not None and service.client is not None
        if self._fetcher is None:
            raise ConfigError("services with a token_url need a function that fetches")
        place = urlsplit(service.token_url).netloc.rpartition("@")[2]
        headers = {"content-type": "application/x-www-form-urlencoded", "accept": "application/json"}
        if service.secret is not None:
            pair = f"{quote_plus(service.client)}:{quote_plus(self._secret(service.secret))}"
            headers["authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        else:
            form = {**form, "client_id": service.client}
        body = urlencode(form).encode()
        answer = await self._fetcher.send("POST", service.token_url, headers=headers, body=body, max_bytes=64 * 1024)
        try:
            said: Any = msgspec.json.decode(answer.body)
        except NOT_JSON:
            said = None
        if answer.status != 200:
            error = said.get("error") if isinstance(said, dict) else None
            raise PeerRefused(place, f"no token: {error if isinstance(error, str) else 'refused'}"[:200], answer.status)
        if not isinstance(said, dict) or not isinstance(said.get("access_token"), str):
            raise PeerUnreadable(place, "its answer has no token")
        if str(said.get("token_type", "bearer")).lower() not in ("bearer", "n_a"):
            raise PeerUnreadable(place, "its token has an unsupported type")
        seconds = said.get("expires_in", 60)
        return said["access_token"], float(seconds) if isinstance(seconds, int | float) else 60.0

    def _secret(self, written: str) -> str:
        if not written.startswith("env:"):
            return written
        found = self._environment.get(written[4:])
        if not found:
            raise ConfigError(f"the environment variable {written[4:]} is not set")
        return found


def _below(url: str, origin: str) -> bool:
    try:
        (a, place), (b, wanted) = _placed(url), _placed(origin)
    except ValueError:
        return False
    # Only broker URLs contain a user; elsewhere it is there to deceive.
    allowed = not a.username or a.scheme in _BROKERS
    path = b.path.rstrip("/")
    return place == wanted and allowed and (not path or a.path == path or a.path.startswith(f"{path}/"))


def _placed(url: str) -> tuple[SplitResult, tuple[str, str | None, int | None]]:
    parts = urlsplit(url)
    scheme = _HTTP.get(parts.scheme, parts.scheme)
    return parts, (scheme, parts.hostname, parts.port or _PORTS.get(scheme))


_HTTP: Final = {"ws": "http", "wss": "https"}  # a WebSocket is the same service
_BROKERS: Final = frozenset({"amqp", "amqps"})
_PORTS: Final = {"https": 443, "http": 80, "wss": 443, "ws": 80, "amqps": 5671, "amqp": 5672}

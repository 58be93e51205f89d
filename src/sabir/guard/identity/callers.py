"""Authentication: credentials as a door found them, and the verifiers that turn them into a Caller.

Credentials in a header take precedence over those in the message. Invalid ones in either are rejected, never ignored: a
caller whose token has expired must learn it, not continue as anonymous.
"""

from __future__ import annotations

import logging
import pwd
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final, Protocol, runtime_checkable

import msgspec

from sabir.errors import RateLimited, Unauthenticated
from sabir.guard.quotas.rates import Buckets, rate_limit_key
from sabir.message import Part, token_kind
from sabir.turn import Caller

logger = logging.getLogger("sabir")

_QUIET: Final = 60.0  # seconds without a lockout, after which the next one is logged again
_REMEMBERED: Final = 10_000


class Credentials(msgspec.Struct, frozen=True):
    """What a door knows about the client. Never logged."""

    address: str = ""
    authorization: str | None = None  # the header's value, or None
    certificate: str | None = None  # the verified subject of a client certificate
    headers: dict[str, str] = {}  # those that verifiers read: x-api-key, dpop
    method: str = ""
    url: str = ""
    sender: str | None = None  # claimed name, where many callers share an address; not verified
    caller: Caller | None = None  # already known: a local call, or a broker that authenticated it

    def scheme(self, *names: str) -> str | None:
        """The credential of an ``Authorization`` header of one of these schemes, in lower case: ``bearer``."""
        if self.authorization is None:
            return None
        scheme, _, value = self.authorization.strip().partition(" ")
        return value.strip() if scheme.lower() in names else None

    @property
    def presented(self) -> bool:
        """Whether a header presents credentials."""
        return self.authorization is not None or "x-api-key" in self.headers


@lru_cache(maxsize=1024)
def stranger_at(address: str) -> Caller:
    """An anonymous caller; cached, because the same addresses keep asking."""
    return Caller(address=address)


@lru_cache(maxsize=1024)
def no_credentials(address: str) -> Credentials:
    """The caller of a request without credentials."""
    return Credentials(address)


@lru_cache(maxsize=1024)
def credentials_of_user(uid: int) -> Credentials:
    """The credentials of a local program on the Unix socket: its user, from the kernel."""
    try:
        name = pwd.getpwuid(uid).pw_name
    except KeyError:
        name = str(uid)
    return Credentials(caller=Caller(id=f"uid:{uid}", kind="user", name=name))


class Verifier(Protocol):
    """One way to authenticate."""

    challenge: str  # the challenge for WWW-Authenticate

    async def verify(self, credentials: Credentials, tokens: tuple[Part, ...]) -> Caller | None:
        """The caller, or None if these credentials are not of this verifier's kind.

        ``tokens`` are the ``authentication`` parts of the message (D-18).

        Raises:
            Unauthenticated: they are of this kind, and invalid.
            Unavailable: they cannot be checked now; not the caller's fault.
        """


@runtime_checkable
class Fetches(Protocol):
    """A verifier with background work."""

    async def close(self) -> None: ...


class Authenticator:
    """Tries each verifier in turn; an unknown caller is anonymous, if that is allowed.

    An address that keeps presenting invalid credentials is blocked for a while, which makes guessing slow.
    """

    def __init__(
        self,
        verifiers: Sequence[Verifier] = (),
        *,
        anonymous: bool = True,
        strict: bool = True,
        mistakes: Buckets | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.verifiers = tuple(verifiers)
        self.anonymous = anonymous
        self._strict = strict  # False: credentials that no verifier reads are ignored
        self._mistakes = mistakes or Buckets(rate=0.2, burst=20.0)
        self._clock = clock
        self._locked: OrderedDict[str, float] = OrderedDict()  # blocked addresses, and when they were last blocked

    @property
    def challenge(self) -> str:
        return ", ".join(dict.fromkeys(v.challenge for v in self.verifiers)) or "Bearer"

    async def caller(self, credentials: Credentials, tokens: tuple[Part, ...] = ()) -> Caller:
        """The caller of these credentials.

        Raises:
            Unauthenticated: the credentials are invalid, or missing while anonymous access is disabled.
            RateLimited: this address has presented invalid ones too often.
        """
        if credentials.caller is not None:
            return credentials.caller
        if self.verifiers:
            known = await self._known(credentials, tokens)
            if known is not None:
                return msgspec.structs.replace(known, address=credentials.address)
        if not self.anonymous:
            raise Unauthenticated(challenge=self.challenge)
        return stranger_at(credentials.address)

    async def _known(self, credentials: Credentials, tokens: tuple[Part, ...]) -> Caller | None:
        proofs = tuple(part for part in tokens if token_kind(part.subformat) == "authentication") if tokens else ()
        if not (credentials.presented or proofs or credentials.certificate):
            return None
        place = rate_limit_key(credentials.address)
        if self._mistakes.left(place) < 1.0:
            raise RateLimited("too many wrong credentials from this address", retry_after=5.0)
        try:
            known = await self._first(credentials, ())
            if known is None and credentials.presented and self._strict:
                raise Unauthenticated("these credentials are not known here", self.challenge)
            return await self._first(credentials, proofs) if known is None and proofs else known
        except Unauthenticated:
            self._mistakes.take(place)
            if self._mistakes.left(place) < 1.0:
                self._lock_out(place)
            raise

    def _lock_out(self, place: str) -> None:
        """Log a lockout once: a caller that keeps guessing is released now and then, and blocked again."""
        now = self._clock()
        if now - self._locked.pop(place, float("-inf")) > _QUIET:
            logger.warning("Too many failed logins from %s; blocked for now", place)
        self._locked[place] = now
        if len(self._locked) > _REMEMBERED:
            self._locked.popitem(last=False)

    async def _first(self, credentials: Credentials, proofs: tuple[Part, ...]) -> Caller | None:
        for verifier in self.verifiers:
            known = await verifier.verify(credentials, proofs)
            if known is not None:
                return known
        return None


class CertificateVerifier:
    """Authenticates callers by the subject of their client certificate, verified by the TLS layer.

    ``subjects`` maps subjects to roles; if it is not empty, other certificates are not accepted.
    """

    challenge = "Mutual"

    def __init__(self, subjects: dict[str, tuple[str, ...]] | None = None) -> None:
        self._subjects = subjects or {}

    async def verify(self, credentials: Credentials, tokens: tuple[Part, ...]) -> Caller | None:
        subject = credentials.certificate
        if not subject or credentials.presented:
            return None  # other credentials take precedence over the certificate
        if self._subjects and subject not in self._subjects:
            raise Unauthenticated("this certificate is not known here", self.challenge)
        roles = frozenset(self._subjects.get(subject, ()))
        return Caller(f"cert:{subject}", "certificate", roles, name=_common_name(subject))


def subject_of(certificate: dict[str, object]) -> str:
    """The subject of a certificate from ``ssl.SSLSocket.getpeercert``: ``CN=alice,O=Acme``."""
    short = {"commonName": "CN", "organizationName": "O", "organizationalUnitName": "OU", "countryName": "C"}
    subject = certificate.get("subject")
    pairs = [pair for rdn in subject for pair in rdn] if isinstance(subject, tuple) else []
    return ",".join(f"{short.get(name, name)}={_escaped(value)}" for name, value in reversed(pairs))


def _escaped(value: str) -> str:
    # RFC 4514: a comma inside a name must not look like a separator.
    return "".join(f"\\{c}" if c in ',+"\\<>;=' else c for c in value)


def _common_name(subject: str) -> str:
    return next((pair[3:] for pair in subject.split(",") if pair.startswith("CN=")), subject)

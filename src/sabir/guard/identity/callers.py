"""Who asks: credentials as a door found them, and the verifiers that turn them into a Caller.

What stands in a header counts before what travels in the message, and what is wrong in either is refused, never
taken for nobody: a caller whose token has expired must learn it, not go on as a stranger.
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
    """What a door knows of the other side. Never logged."""

    address: str = ""
    authorization: str | None = None  # the header's value, or None
    certificate: str | None = None  # the verified subject of a client certificate
    headers: dict[str, str] = {}  # the few that verifiers ask for: x-api-key, dpop
    method: str = ""
    url: str = ""
    sender: str | None = None  # who of many this says it is, where the address stands for many; proves nothing
    caller: Caller | None = None  # already known: a local call, or a broker that authenticated it

    def scheme(self, *names: str) -> str | None:
        """The credential of an ``Authorization`` header of one of these schemes, in lower case: ``bearer``."""
        if self.authorization is None:
            return None
        scheme, _, value = self.authorization.strip().partition(" ")
        return value.strip() if scheme.lower() in names else None

    @property
    def presented(self) -> bool:
        """Whether a header claims to say who this is."""
        return self.authorization is not None or "x-api-key" in self.headers


@lru_cache(maxsize=1024)
def stranger_at(address: str) -> Caller:
    """An anonymous caller. They are values, and the same address asks again and again."""
    return Caller(address=address)


@lru_cache(maxsize=1024)
def no_credentials(address: str) -> Credentials:
    """The caller of a request without credentials."""
    return Credentials(address)


@lru_cache(maxsize=1024)
def credentials_of_user(uid: int) -> Credentials:
    """What is known of a program on this machine that connected to the Unix socket: its user, from the kernel."""
    try:
        name = pwd.getpwuid(uid).pw_name
    except KeyError:
        name = str(uid)
    return Credentials(caller=Caller(id=f"uid:{uid}", kind="user", name=name))


class Verifier(Protocol):
    """One way to prove who one is."""

    challenge: str  # what to say in WWW-Authenticate

    async def verify(self, credentials: Credentials, tokens: tuple[Part, ...]) -> Caller | None:
        """The caller, or None if these credentials are not of this verifier's kind.

        ``tokens`` are the ``authentication`` parts of the message (D-18).

        Raises:
            Unauthenticated: they are of this kind, and wrong.
            Unavailable: it cannot be known now; this is nobody's mistake.
        """


@runtime_checkable
class Fetches(Protocol):
    """A verifier that has something under way beside the requests."""

    async def close(self) -> None: ...


class Authenticator:
    """Asks each verifier in turn; an unknown caller is anonymous, where that is allowed.

    An address that keeps presenting wrong credentials is no longer listened to for a while: guessing is slow.
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
        self._locked: OrderedDict[str, float] = OrderedDict()  # who was locked out, and when last

    @property
    def challenge(self) -> str:
        return ", ".join(dict.fromkeys(v.challenge for v in self.verifiers)) or "Bearer"

    async def caller(self, credentials: Credentials, tokens: tuple[Part, ...] = ()) -> Caller:
        """Who this is.

        Raises:
            Unauthenticated: credentials were presented and are not right; or there are none, and nobody is let in
                without.
            RateLimited: this address has presented wrong ones too often.
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
        """A caller that keeps guessing is unlocked now and then, and locked out again; that is logged once."""
        now = self._clock()
        if now - self._locked.pop(place, float("-inf")) > _QUIET:
            logger.warning("too many wrong credentials from %s: it is not listened to for now", place)
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
    """Knows callers by the subject of their client certificate, which the TLS layer has verified.

    ``subjects`` gives roles to subjects; where it is not empty, nobody else is known by a certificate.
    """

    challenge = "Mutual"

    def __init__(self, subjects: dict[str, tuple[str, ...]] | None = None) -> None:
        self._subjects = subjects or {}

    async def verify(self, credentials: Credentials, tokens: tuple[Part, ...]) -> Caller | None:
        subject = credentials.certificate
        if not subject or credentials.presented:
            return None  # who presents more than a certificate is judged by that
        if self._subjects and subject not in self._subjects:
            raise Unauthenticated("this certificate is not known here", self.challenge)
        roles = frozenset(self._subjects.get(subject, ()))
        return Caller(f"cert:{subject}", "certificate", roles, name=_common_name(subject))


def subject_of(certificate: dict[str, object]) -> str:
    """The subject of a certificate as ``ssl.SSLSocket.getpeercert`` gives it: ``CN=alice,O=Acme``."""
    short = {"commonName": "CN", "organizationName": "O", "organizationalUnitName": "OU", "countryName": "C"}
    subject = certificate.get("subject")
    pairs = [pair for rdn in subject for pair in rdn] if isinstance(subject, tuple) else []
    return ",".join(f"{short.get(name, name)}={_escaped(value)}" for name, value in reversed(pairs))


def _escaped(value: str) -> str:
    # RFC 4514: a comma in a name must not look like the next name.
    return "".join(f"\\{c}" if c in ',+"\\<>;=' else c for c in value)


def _common_name(subject: str) -> str:
    return next((pair[3:] for pair in subject.split(",") if pair.startswith("CN=")), subject)

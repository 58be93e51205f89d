"""Bearer tokens of an authorization server: signed JWTs, checked against the issuer's published keys.

The algorithm is chosen by our allow-list and the kind of key, never by the token alone; keys come from the issuer's
key set, never from the token; issuer, audience, time and type must all be right. A token for somebody else is no
token for us (RFC 8707, RFC 9068).
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec
from joserfc import jwk, jws
from joserfc.errors import JoseError

from ..errors import BadSetup, SabirError, Unauthenticated, Unavailable
from ..message import Part
from ..turn import Caller
from .dpop import Dpop
from .identity import Credentials
from .issuer import KEY_KINDS, Issuer, SubjectTokens
from .outbound import Fetcher

_TYPES: Final = frozenset({"", "jwt", "at+jwt", "application/at+jwt"})
_MOST_CHARACTERS: Final = 16 * 1024
_CACHED: Final = 10_000
_CACHE_SECONDS: Final = 60.0


class KeySource:
    """The keys of an issuer, fetched, kept, and fetched again when an unknown one is named.

    While the issuer does not answer, the last keys are good for ``stale`` seconds more.
    """

    def __init__(
        self,
        issuer: Issuer,
        fetcher: Fetcher | None = None,
        *,
        seconds: float = 600.0,
        pause: float = 30.0,
        stale: float = 86400.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if issuer.keys is None and fetcher is None:
            raise BadSetup("an issuer without keys needs a way to fetch them")
        self._issuer = issuer
        self._fetcher = fetcher
        self._seconds = seconds
        self._pause = pause
        self._stale = stale
        self._clock = clock
        self._lock = asyncio.Lock()
        self._read = float("-inf")
        self._tried = float("-inf")
        self._keys: list[jwk.Key] = _keys(issuer.keys, secret=True) if issuer.keys is not None else []

    async def matching(self, kid: str | None, algorithm: str) -> list[jwk.Key]:
        """The keys that a token with this header may be signed with.

        Raises:
            Unavailable: the issuer's keys cannot be had.
        """
        if self._issuer.keys is None and self._clock() - self._read > self._seconds:
            await self._refresh()
        found = self._pick(kid, algorithm)
        if not found and self._issuer.keys is None:
            await self._refresh()  # rotated: the key is newer than what we have
            found = self._pick(kid, algorithm)
        return found

    def _pick(self, kid: str | None, algorithm: str) -> list[jwk.Key]:
        kind = KEY_KINDS[algorithm]
        return [
            key
            for key in self._keys
            if key.key_type == kind and (kid is None or key.kid == kid) and _fits(key.as_dict(private=False), algorithm)
        ]

    async def _refresh(self) -> None:
        asked = self._clock()
        async with self._lock:
            if self._tried >= asked or asked - self._tried < self._pause:
                return  # somebody else just did, or it was tried a moment ago: unknown ids must not cost a fetch each
            self._tried = asked
            try:
                keys = _keys(await self._fetch(), secret=False)
            except (SabirError, msgspec.DecodeError, ValueError) as wrong:
                if self._keys and self._clock() - self._read < self._stale:
                    return
                raise Unavailable("the keys of the authorization server cannot be had", retry_after=5.0) from wrong
            self._keys, self._read = keys, self._clock()

    async def _fetch(self) -> Any:
        assert self._fetcher is not None
        where = self._issuer.jwks
        if where is None:
            base = self._issuer.issuer.rstrip("/")
            for name in ("oauth-authorization-server", "openid-configuration"):
                metadata = await self._json(f"{base}/.well-known/{name}")
                # RFC 8414, 3.3: metadata that names another issuer is somebody else's.
                if isinstance(metadata, dict) and metadata.get("issuer") == self._issuer.issuer:
                    where = metadata.get("jwks_uri")
                    break
        if not isinstance(where, str):
            raise ValueError("no key set is published")
        published = await self._json(where)
        if not isinstance(published, dict) or not isinstance(published.get("keys"), list):
            raise ValueError("what is published is not a key set")
        return published

    async def _json(self, url: str) -> Any:
        assert self._fetcher is not None
        answer = await self._fetcher.get(url, headers={"accept": "application/json"}, most_bytes=512 * 1024)
        return msgspec.json.decode(answer.body) if answer.status == 200 else None


def _keys(published: Any, *, secret: bool) -> list[jwk.Key]:
    """The usable keys of a set: public ones, and secrets only where the operator wrote them down."""
    found: list[jwk.Key] = []
    for entry in published["keys"] if isinstance(published, dict) and "keys" in published else ():
        if not isinstance(entry, dict) or (entry.get("kty") == "oct" and not secret):
            continue
        try:
            key = jwk.import_key(entry)
        except (JoseError, ValueError, TypeError, KeyError):
            continue  # kinds we do not know stand beside those we do
        if isinstance(key, jwk.RSAKey) and key.public_key.key_size < 2048:
            continue
        found.append(key)
    return found


def _fits(key: Mapping[str, Any], algorithm: str) -> bool:
    if key.get("use", "sig") != "sig" or key.get("alg", algorithm) != algorithm:
        return False
    return "verify" in key.get("key_ops", ("verify",))


class JwtVerifier:
    """Knows callers by the tokens of one issuer."""

    def __init__(
        self,
        issuer: Issuer,
        keys: KeySource,
        *,
        challenge: str = "Bearer",
        dpop: Dpop | None = None,
        subjects: SubjectTokens | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.challenge = challenge
        self.issuer = issuer.issuer  # for the metadata that doors publish
        self._issuer = issuer
        self._source = keys
        self._dpop = dpop
        self._subjects = subjects
        self._clock = clock
        self._known: OrderedDict[bytes, tuple[float, Caller]] = OrderedDict()

    async def verify(self, credentials: Credentials, tokens: tuple[Part, ...]) -> Caller | None:
        header = credentials.scheme("bearer", "dpop")
        for token in (header, *(part.content for part in tokens)):
            if isinstance(token, str) and token.count(".") == 2 and len(token) <= _MOST_CHARACTERS:
                caller = await self._caller(token)
                if caller is not None:
                    await self._bound(caller, credentials, token, in_header=token is header)
                    return caller
        return None

    async def _caller(self, token: str) -> Caller | None:
        digest = hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
        known = self._known.get(digest)
        if known is not None and self._clock() < known[0]:
            return known[1]
        read = _read(token)
        if read is None or read[1].get("iss") != self._issuer.issuer:
            return None  # not a JWT, or of another issuer, who may have a verifier of its own
        signature, claims = read
        await self._check_signature(signature)
        self._check_claims(claims)
        caller = self._named(claims)
        until = min(float(claims["exp"]) + self._issuer.leeway, self._clock() + _CACHE_SECONDS)
        self._known[digest] = (until, caller)
        if len(self._known) > _CACHED:
            self._known.popitem(last=False)
        if self._subjects is not None:
            self._subjects.keep(caller.id, token, float(claims["exp"]))
        return caller

    async def _check_signature(self, signature: jws.CompactSignature) -> None:
        header = signature.headers()
        algorithm, kid = header.get("alg"), header.get("kid")
        if algorithm not in self._issuer.algorithms or str(header.get("typ", "")).lower() not in _TYPES:
            raise self._wrong("is of a kind that is not read here")
        if "crit" in header or not (kid is None or isinstance(kid, str)):
            raise self._wrong("has a header that is not understood here")
        for key in (await self._source.matching(kid, algorithm))[:8]:
            try:
                if jws.validate_compact(signature, key, [algorithm]):
                    return
            except (JoseError, ValueError, TypeError):
                continue
        raise self._wrong("has no valid signature")

    def _check_claims(self, claims: Mapping[str, Any]) -> None:
        now, issuer = self._clock(), self._issuer
        audience = claims.get("aud")
        named = [audience] if isinstance(audience, str) else audience
        if not isinstance(named, list) or not any(name in issuer.audience for name in named if isinstance(name, str)):
            raise self._wrong("is meant for somebody else")
        until = _time(claims, "exp")
        if until is None or until + issuer.leeway <= now:
            raise self._wrong("has expired" if until is not None else "does not say until when it is good")
        for claim in ("nbf", "iat"):
            since = _time(claims, claim)
            if claim in claims and (since is None or since - issuer.leeway > now):
                raise self._wrong("is not valid yet")
        if not isinstance(claims.get("sub"), str) or not claims["sub"]:
            raise self._wrong("does not say whose it is")
        issued = _time(claims, "iat")
        longest = issuer.longest_life if _thumbprint(claims) is None else None
        if longest is not None and (issued is None or until - issued > longest):
            raise self._wrong(f"lives longer than {longest:.0f} seconds")

    def _named(self, claims: Mapping[str, Any]) -> Caller:
        issuer = self._issuer
        roles = set(issuer.roles)
        given = _at(claims, issuer.roles_claim)
        if isinstance(given, list):
            roles.update(role for role in given if isinstance(role, str) and role not in _RESERVED)
        if issuer.scopes_are_roles and isinstance(claims.get("scope"), str):
            roles.update(f"scope:{scope}" for scope in claims["scope"].split())
        name = next((claims[c] for c in ("name", "preferred_username", "client_id", "azp") if claims.get(c)), "")
        kept = {name: claims[name] for name in _KEPT if name in claims}
        return Caller(
            f"{issuer.issuer}#{claims['sub']}", "subject", frozenset(roles), name=str(name)[:100], claims=kept
        )

    async def _bound(self, caller: Caller, credentials: Credentials, token: str, *, in_header: bool) -> None:
        """A token bound to a key is good only with a proof of that key (RFC 9449)."""
        thumbprint = _thumbprint(caller.claims)
        if thumbprint is None:
            if self._issuer.dpop or credentials.scheme("dpop") is not None:
                raise self._wrong("is not bound to a key, and must be")
            return
        if self._dpop is None or not in_header or credentials.scheme("dpop") is None:
            raise self._wrong("is bound to a key; present it with its proof")
        await self._dpop.check(credentials, token, thumbprint)

    def _wrong(self, how: str) -> Unauthenticated:
        return Unauthenticated(
            f"this token {how}", f'{self.challenge}{"," if " " in self.challenge else ""} error="invalid_token"'
        )


# Roles that a token cannot give, because the guard gives them.
_RESERVED: Final = frozenset({"anonymous", "known", "local"})
_KEPT: Final = ("iss", "sub", "aud", "azp", "client_id", "jti", "scope", "act", "cnf", "exp")  # SG ID-10; D-55


def _read(token: str) -> tuple[jws.CompactSignature, dict[str, Any]] | None:
    try:
        signature = jws.extract_compact(token.encode("ascii"))
        claims = msgspec.json.decode(signature.payload or b"")
    except (JoseError, ValueError, TypeError, KeyError, RecursionError):
        return None
    return (signature, claims) if isinstance(claims, dict) else None


def _time(claims: Mapping[str, Any], name: str) -> float | None:
    value = claims.get(name)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _at(claims: Mapping[str, Any], name: str) -> Any:
    """The claim of this name, or the one that its dots lead to: ``realm_access.roles``."""
    found: Any = claims
    for step in (name,) if name in claims else name.split("."):
        found = found.get(step) if isinstance(found, dict) else None
    return found


def _thumbprint(claims: Mapping[str, Any]) -> str | None:
    confirmation = claims.get("cnf")
    found = confirmation.get("jkt") if isinstance(confirmation, dict) else None
    return found if isinstance(found, str) else None

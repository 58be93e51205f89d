"""Bearer tokens of an authorization server: signed JWTs, verified with the issuer's published keys.

The algorithm comes from our allow-list and the key type, never from the token alone; keys come from the issuer's key
set, never from the token; issuer, audience, time and type must all match. A token for another audience is rejected
(RFC 8707, RFC 9068).
"""

from __future__ import annotations

import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec
from joserfc import jwk, jws
from joserfc.errors import JoseError

from sabir.errors import Unauthenticated
from sabir.guard.rights import is_given_here
from sabir.message import Part
from sabir.turn import Caller

from .callers import Credentials
from .dpop import Dpop
from .issuer import Issuer, SubjectTokens
from .jwks import KeySource

_TYPES: Final = frozenset({"", "jwt", "at+jwt", "application/at+jwt"})
_MAX_CHARACTERS: Final = 16 * 1024
_CACHED: Final = 10_000
_CACHE_SECONDS: Final = 60.0


class JwtVerifier:
    """Authenticates callers by the tokens of one issuer."""

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
            if isinstance(token, str) and token.count(".") == 2 and len(token) <= _MAX_CHARACTERS:
                caller = await self._caller(token)
                if caller is not None:
                    await self._bound(caller, credentials, token, in_header=token is header)
                    return caller
        return None

    async def close(self) -> None:
        await self._source.close()

    async def _caller(self, token: str) -> Caller | None:
        digest = hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
        known = self._known.get(digest)
        if known is not None and self._clock() < known[0]:
            return known[1]
        read = _read(token)
        if read is None or read[1].get("iss") != self._issuer.issuer:
            return None  # not a JWT, or of another issuer, which may have its own verifier
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
            raise self._wrong("has an unsupported type")
        if "crit" in header or not (kid is None or isinstance(kid, str)):
            raise self._wrong("has an unsupported header")
        keys = await self._source.matching(kid, algorithm)
        if _verifies(signature, keys, algorithm):
            return
        if keys and _verifies(signature, await self._source.newer(kid, algorithm), algorithm):
            return
        raise self._wrong("has no valid signature")

    def _check_claims(self, claims: Mapping[str, Any]) -> None:
        now, issuer = self._clock(), self._issuer
        audience = claims.get("aud")
        named = [audience] if isinstance(audience, str) else audience
        if not isinstance(named, list) or not any(name in issuer.audience for name in named if isinstance(name, str)):
            raise self._wrong("has another audience")
        until = _time(claims, "exp")
        if until is None or until + issuer.leeway <= now:
            raise self._wrong("has expired" if until is not None else "does not say until when it is good")
        for claim in ("nbf", "iat"):
            since = _time(claims, claim)
            if claim in claims and (since is None or since - issuer.leeway > now):
                raise self._wrong("is not valid yet")
        if not isinstance(claims.get("sub"), str) or not claims["sub"]:
            raise self._wrong("does not name its subject")
        issued = _time(claims, "iat")
        longest = issuer.longest_life if _thumbprint(claims) is None else None
        if longest is not None and (issued is None or until - issued > longest):
            raise self._wrong(f"lives longer than {longest:.0f} seconds")

    def _named(self, claims: Mapping[str, Any]) -> Caller:
        issuer = self._issuer
        roles = set(issuer.roles)
        given = _at(claims, issuer.roles_claim)
        if isinstance(given, list):
            roles.update(role for role in given if isinstance(role, str) and not is_given_here(role))
        if issuer.scopes_are_roles and isinstance(claims.get("scope"), str):
            roles.update(f"scope:{scope}" for scope in claims["scope"].split())
        name = next((claims[c] for c in ("name", "preferred_username", "client_id", "azp") if claims.get(c)), "")
        kept = {name: claims[name] for name in _KEPT if name in claims}
        return Caller(
            f"{issuer.issuer}#{claims['sub']}", "subject", frozenset(roles), name=str(name)[:100], claims=kept
        )

    async def _bound(self, caller: Caller, credentials: Credentials, token: str, *, in_header: bool) -> None:
        """Check the key binding: a bound token is valid only with a proof of that key (RFC 9449). Other bindings, such
        as to a certificate (RFC 8705), cannot be checked here and are rejected (RFC 7800, 3.1)."""
        confirmation, thumbprint = caller.claims.get("cnf"), _thumbprint(caller.claims)
        if confirmation is not None and (thumbprint is None or set(confirmation) != {"jkt"}):
            raise self._wrong("is bound to something that this gateway cannot check")
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


_KEPT: Final = ("iss", "sub", "aud", "azp", "client_id", "jti", "scope", "act", "cnf", "exp")  # SG ID-10; D-55


def _read(token: str) -> tuple[jws.CompactSignature, dict[str, Any]] | None:
    try:
        signature = jws.extract_compact(token.encode("ascii"))
        claims = msgspec.json.decode(signature.payload or b"")
    except (JoseError, ValueError, TypeError, KeyError, RecursionError):
        return None
    return (signature, claims) if isinstance(claims, dict) else None


def _verifies(signature: jws.CompactSignature, keys: list[jwk.Key], algorithm: str) -> bool:
    for key in keys[:8]:
        try:
            if jws.validate_compact(signature, key, [algorithm]):
                return True
        except (JoseError, ValueError, TypeError):
            continue
    return False


def _time(claims: Mapping[str, Any], name: str) -> float | None:
    value = claims.get(name)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _at(claims: Mapping[str, Any], name: str) -> Any:
    """The claim of this name, or at this dotted path: ``realm_access.roles``."""
    found: Any = claims
    for step in (name,) if name in claims else name.split("."):
        found = found.get(step) if isinstance(found, dict) else None
    return found


def _thumbprint(claims: Mapping[str, Any]) -> str | None:
    confirmation = claims.get("cnf")
    found = confirmation.get("jkt") if isinstance(confirmation, dict) else None
    return found if isinstance(found, str) else None

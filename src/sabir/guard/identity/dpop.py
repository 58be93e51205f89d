"""DPoP: proof that the caller holds the key its token is bound to (RFC 9449).

A proof is valid once, for one method and URL, for a minute. Used proofs are recorded in the store, so that every node
knows them. For a WebSocket it is the proof of the handshake (``GET``), checked once, when the connection opens; the
caller stays authenticated until the token expires.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import time
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec
from joserfc import jwk, jws
from joserfc.errors import JoseError

from sabir.errors import Unauthenticated
from sabir.stores.base import Record, Store

from .callers import Credentials

SPACE = "dpop"
ALGORITHMS: Final = ("ES256", "ES384", "RS256", "PS256", "Ed25519")
_HTTP: Final = {"ws": "http", "wss": "https"}  # the handshake of a WebSocket is an HTTP request, however it is written
_SECRET_PARTS: Final = frozenset({"d", "p", "q", "dp", "dq", "qi", "k"})


class Dpop:
    """Checks the proof in the ``DPoP`` header."""

    def __init__(
        self, store: Store, *, public_url: str = "", seconds: float = 60.0, clock: Callable[[], float] = time.time
    ) -> None:
        self._store = store
        self._public = public_url.rstrip("/")
        self._seconds = seconds
        self._clock = clock

    async def check(self, credentials: Credentials, token: str, thumbprint: str) -> None:
        """Raises:
        Unauthenticated: the proof is missing, invalid, expired, or was used before.
        """
        claims, key = _read(credentials.headers.get("dpop"))
        if not hmac.compare_digest(key.thumbprint(), thumbprint):
            raise _wrong("is of another key than the token's")
        if claims.get("htm") != credentials.method or not self._is_here(claims.get("htu"), credentials.url):
            raise _wrong("is for another request")
        issued = claims.get("iat")
        if isinstance(issued, bool) or not isinstance(issued, int | float):
            raise _wrong("does not say when it was issued")
        if abs(self._clock() - issued) > self._seconds:
            raise _wrong("is too old or too new")
        if not hmac.compare_digest(str(claims.get("ath")), _digest(token.encode())):
            raise _wrong("is for another token")
        await self.use_once(thumbprint, claims.get("jti"))

    async def use_once(self, thumbprint: str, proof_id: object) -> None:
        """Raises:
        Unauthenticated: a proof with this id was used before, or it has no id.
        """
        if not isinstance(proof_id, str) or not proof_id:
            raise _wrong("has no id")
        seen = hashlib.sha256(f"{thumbprint}\x00{proof_id}".encode("utf-8", "surrogatepass")).hexdigest()
        until = self._clock() + 2 * self._seconds
        if not await self._store.put(Record(SPACE, seen, b"", expires=until), expect=0):
            raise _wrong("was used before")

    def _is_here(self, claimed: object, url: str) -> bool:
        if not isinstance(claimed, str):
            return False
        here = urlsplit(url)
        places = {_place(url)}
        if self._public:  # behind a proxy the request has another URL from outside
            places.add(_place(self._public + here.path))
        return _place(claimed) in places


def _place(url: str) -> tuple[str, str, str]:
    try:
        parts = urlsplit(url)
    except ValueError:
        return ("", "", url)
    scheme = _HTTP.get(parts.scheme.lower(), parts.scheme.lower())
    default = {"https": ":443", "http": ":80"}.get(scheme, "")
    return (scheme, parts.netloc.lower().removesuffix(default), parts.path or "/")


def _read(proof: str | None) -> tuple[dict[str, Any], jwk.Key]:
    if proof is None:
        raise Unauthenticated("this token needs a DPoP proof", "DPoP")
    if len(proof) > 8192:
        raise _wrong("cannot be read")
    try:
        signature = jws.extract_compact(proof.encode("ascii"))
        header, claims = signature.headers(), msgspec.json.decode(signature.payload or b"")
        public = header.get("jwk")
        if not isinstance(public, dict) or not isinstance(claims, dict) or not _SECRET_PARTS.isdisjoint(public):
            raise _wrong("cannot be read")
        algorithm = header.get("alg")
        if header.get("typ") != "dpop+jwt" or algorithm not in ALGORITHMS or "crit" in header:
            raise _wrong("has an unsupported type")
        key = jwk.import_key({name: value for name, value in public.items() if isinstance(value, str)})
        if not jws.validate_compact(signature, key, [algorithm]):
            raise _wrong("has no valid signature")
    except (JoseError, ValueError, TypeError, KeyError, RecursionError):
        raise _wrong("cannot be read") from None
    return claims, key


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def _wrong(how: str) -> Unauthenticated:
    return Unauthenticated(f"the DPoP proof {how}", 'DPoP error="invalid_dpop_proof"')

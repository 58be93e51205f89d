"""API keys: created here, shown once, stored only as a hash.

A key is ``sbk_<id>_<secret>``: the id finds its record in the store, and the secret has 256 random bits, so a plain
SHA-256 hash and a constant-time comparison are enough.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable

import msgspec

from sabir.errors import NotFound, Unauthenticated
from sabir.message import Part
from sabir.stores.base import AuditLine, Record, Store
from sabir.stores.rows import value_of
from sabir.turn import Caller

from .callers import Credentials

SPACE = "keys"
PREFIX = "sbk_"
CALLER = "key:"  # prefix of the caller id of a key
_CACHED = 10_000


class ApiKey(msgspec.Struct, frozen=True, omit_defaults=True):
    """The stored record of a key: everything but the key."""

    id: str
    name: str
    hash: str
    created: float
    roles: tuple[str, ...] = ()
    expires: float = 0.0  # 0: never

    def expired(self, now: float) -> bool:
        return 0 < self.expires <= now


_decode = msgspec.json.Decoder(ApiKey).decode


class ApiKeys:
    """The keys of a store. Adding and revoking write an audit entry."""

    def __init__(self, store: Store, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._clock = clock

    async def add(self, name: str, *, roles: tuple[str, ...] = (), expires: float = 0.0) -> tuple[ApiKey, str]:
        """Create a key; returns its stored record and the key itself, which cannot be shown again."""
        key_id, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
        key = ApiKey(key_id, name, _hash(secret), self._clock(), roles, expires)
        await self._store.put(Record(SPACE, key_id, msgspec.json.encode(key), owner=name), expect=0)
        await self._audit("added", key)
        return key, f"{PREFIX}{key_id}_{secret}"

    async def list(self) -> list[ApiKey]:
        """Every key, expired ones included, oldest first."""
        records = await self._store.list(SPACE, limit=100_000)
        found = [key for record in records if (key := value_of(record, _decode)) is not None]
        return sorted(found, key=lambda key: (key.created, key.id))

    async def find(self, key_id: str) -> ApiKey | None:
        record = await self._store.get(SPACE, key_id)
        return None if record is None else value_of(record, _decode)

    async def revoke(self, key_id: str) -> ApiKey:
        """Revoke a key by its id.

        Raises:
            NotFound: there is no such key.
        """
        key = await self.find(key_id)
        if key is None or not await self._store.delete(SPACE, key_id):
            raise NotFound(f"there is no key {key_id[:40]!r}")
        await self._audit("revoked", key)
        return key

    async def _audit(self, outcome: str, key: ApiKey) -> None:
        detail = {"name": key.name, "roles": list(key.roles), "expires": key.expires}
        await self._store.audit(AuditLine(self._clock(), "key", f"key:{key.id}", outcome=outcome, detail=detail))


class KeyVerifier:
    """Authenticates callers by API key: as a bearer token, in ``X-API-Key``, or as an ``authentication`` token.

    Records are cached for ``seconds``, so a key that is revoked elsewhere works that much longer.
    """

    challenge = "Bearer"

    def __init__(self, keys: ApiKeys, *, seconds: float = 5.0, clock: Callable[[], float] = time.time) -> None:
        self._keys = keys
        self._seconds = seconds
        self._clock = clock
        self._read: OrderedDict[str, tuple[float, ApiKey | None]] = OrderedDict()

    async def verify(self, credentials: Credentials, tokens: tuple[Part, ...]) -> Caller | None:
        presented = [credentials.headers.get("x-api-key"), credentials.scheme("bearer")]
        presented += [part.content for part in tokens if isinstance(part.content, str)]
        for text in presented:
            if text is not None and text.startswith(PREFIX):
                return await self._caller(text)
        return None

    async def caller_of(self, key_id: str) -> Caller | None:
        """The caller of a key that was verified before; None once it is revoked or expired."""
        key = await self._lookup(key_id)
        return None if key is None or key.expired(self._clock()) else _named(key)

    async def _caller(self, text: str) -> Caller:
        key_id, _, secret = text[len(PREFIX) :].partition("_")
        key = await self._lookup(key_id)
        # Compare even without a stored key, so that the timing does not reveal which ids exist.
        right = hmac.compare_digest(_hash(secret), key.hash if key is not None else _NO_HASH)
        if key is None or not right or key.expired(self._clock()):
            raise Unauthenticated("this API key is not known here", self.challenge)
        return _named(key)

    async def _lookup(self, key_id: str) -> ApiKey | None:
        if len(key_id) > 64:
            return None
        now = self._clock()
        read = self._read.get(key_id)
        if read is not None and now < read[0]:
            return read[1]
        key = await self._keys.find(key_id)
        self._read[key_id] = (now + self._seconds, key)
        self._read.move_to_end(key_id)
        if len(self._read) > _CACHED:
            self._read.popitem(last=False)
        return key


def _named(key: ApiKey) -> Caller:
    return Caller(f"{CALLER}{key.id}", "key", frozenset(key.roles), name=key.name)


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


_NO_HASH = _hash(secrets.token_urlsafe(32))

"""The keys of an authorization server: fetched, cached, and refreshed when they rotate or a fetch failed."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final

import msgspec
from joserfc import jwk
from joserfc.errors import JoseError

from sabir.aio import cancel_and_wait
from sabir.errors import ConfigError, SabirError, Unavailable
from sabir.guard.egress.addresses import GuardedClient

from .issuer import KEY_KINDS, Issuer

logger = logging.getLogger("sabir")

_FIRST_WAIT: Final = 0.5  # seconds until a failed fetch is retried; doubled each time
_LONGEST_WAIT: Final = 4.0
_PATIENCE: Final = 5.0  # how long a caller waits for the first fetch
_SHORT_PATIENCE: Final = 1.0  # the same if older keys exist


class KeySource:
    """The keys of an issuer: fetched, cached, and refreshed when a token names an unknown one.

    While the issuer does not answer, it is retried every few seconds. The last keys are valid for ``stale`` seconds
    more; a token that needs another key is answered with "retry later", because nobody can know whether it is invalid.
    """

    def __init__(
        self,
        issuer: Issuer,
        fetcher: GuardedClient | None = None,
        *,
        seconds: float = 600.0,
        pause: float = 30.0,
        stale: float = 86400.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if issuer.keys is None and fetcher is None:
            raise ConfigError("an issuer without keys needs a function that fetches them")
        self._issuer = issuer
        self._fetcher = fetcher
        self._seconds = seconds
        self._pause = pause
        self._stale = stale
        self._clock = clock
        self._read = float("-inf")
        self._fetching: asyncio.Task[None] | None = None  # runs until it has succeeded
        self._tried = asyncio.Event()  # set once it has ended
        self._away: float | None = None  # since when
        self._keys: list[jwk.Key] = _keys(issuer.keys, secret=True) if issuer.keys is not None else []

    async def matching(self, kid: str | None, algorithm: str) -> list[jwk.Key]:
        """The keys that a token with this header may be signed with.

        Raises:
            Unavailable: the issuer's keys cannot be fetched.
        """
        if self._issuer.keys is not None:
            return self._pick(kid, algorithm)
        if self._clock() - self._read > self._seconds:
            await self._refresh()
        found = self._pick(kid, algorithm)
        if not found:
            await self._refresh()  # rotated: the key is newer than ours
            found = self._pick(kid, algorithm)
        if not self._usable or (not found and self._fetching is not None):
            raise _cannot_be_had()
        return found

    async def newer(self, kid: str | None, algorithm: str) -> list[jwk.Key]:
        """The keys to try if matching ones do not verify: an issuer may rotate and keep the key id, or use none. Empty
        if our keys are fresh.

        Raises:
            Unavailable: the issuer does not answer, so the token cannot be checked.
        """
        if self._issuer.keys is not None:
            return []
        before = self._read
        await self._refresh()
        if self._read != before:
            return self._pick(kid, algorithm)
        if self._fetching is not None:
            raise _cannot_be_had()
        return []

    async def close(self) -> None:
        await cancel_and_wait([self._fetching])

    @property
    def _usable(self) -> bool:
        return self._clock() - self._read < self._stale

    def _pick(self, kid: str | None, algorithm: str) -> list[jwk.Key]:
        kind = KEY_KINDS[algorithm]
        return [
            key
            for key in self._keys
            if key.key_type == kind and (kid is None or key.kid == kid) and _fits(key.as_dict(private=False), algorithm)
        ]

    async def _refresh(self) -> None:
        """Wait for new keys for a limited time; the fetch continues even if no caller is waiting."""
        if self._fetching is None:
            if self._clock() - self._read < self._pause:
                return  # unknown ids must not cause a fetch each
            self._tried.clear()
            self._fetching = asyncio.create_task(self._fetch_until_had(), name="keys of an issuer")
        with suppress(TimeoutError):
            async with asyncio.timeout(_SHORT_PATIENCE if self._usable else _PATIENCE):
                await self._tried.wait()

    async def _fetch_until_had(self) -> None:
        wait = _FIRST_WAIT
        try:
            while True:
                try:
                    self._keys = _keys(await self._fetch(), secret=False)
                except (SabirError, msgspec.DecodeError, ValueError) as exc:
                    self._is_away(exc)
                else:
                    self._read = self._clock()
                    self._is_back()
                    return
                self._tried.set()
                await asyncio.sleep(wait)
                wait = min(wait * 2, _LONGEST_WAIT)
        finally:
            self._fetching = None
            self._tried.set()

    def _is_away(self, exc: Exception) -> None:
        if self._away is None:
            self._away = time.monotonic()
            what = "its last keys remain in use" if self._usable else "its callers get 503"
            logger.warning("JWKS of %s unavailable (%s); %s", self._issuer.issuer, exc, what)

    def _is_back(self) -> None:
        if self._away is not None:
            seconds, self._away = time.monotonic() - self._away, None
            logger.info("JWKS of %s available again after %.0f s", self._issuer.issuer, seconds)

    async def _fetch(self) -> Any:
        assert self._fetcher is not None
        where = self._issuer.jwks
        if where is None:
            base = self._issuer.issuer.rstrip("/")
            for name in ("oauth-authorization-server", "openid-configuration"):
                metadata = await self._json(f"{base}/.well-known/{name}")
                # RFC 8414, 3.3: metadata that names another issuer is not for this one.
                if isinstance(metadata, dict) and metadata.get("issuer") == self._issuer.issuer:
                    where = metadata.get("jwks_uri")
                    break
        if not isinstance(where, str):
            raise ValueError("no key set is published")
        published = await self._json(where)
        if not isinstance(published, dict) or not isinstance(published.get("keys"), list):
            raise ValueError("the response is not a key set")
        return published

    async def _json(self, url: str) -> Any:
        assert self._fetcher is not None
        answer = await self._fetcher.get(url, headers={"accept": "application/json"}, max_bytes=512 * 1024)
        return msgspec.json.decode(answer.body) if answer.status == 200 else None


def _cannot_be_had() -> Unavailable:
    reason = "the keys of the authorization server are unavailable; retry shortly"
    return Unavailable(reason, retry_after=_LONGEST_WAIT)


def _keys(published: Any, *, secret: bool) -> list[jwk.Key]:
    """The usable keys of a set: public ones, and secrets only if the operator configured them."""
    found: list[jwk.Key] = []
    for entry in published["keys"] if isinstance(published, dict) and "keys" in published else ():
        if not isinstance(entry, dict) or (entry.get("kty") == "oct" and not secret):
            continue
        try:
            key = jwk.import_key(entry)
        except (JoseError, ValueError, TypeError, KeyError):
            continue  # skip unknown types
        if isinstance(key, jwk.RSAKey) and key.public_key.key_size < 2048:
            continue
        found.append(key)
    return found


def _fits(key: Mapping[str, Any], algorithm: str) -> bool:
    if key.get("use", "sig") != "sig" or key.get("alg", algorithm) != algorithm:
        return False
    return "verify" in key.get("key_ops", ("verify",))

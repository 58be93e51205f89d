"""Checks that the nodes on a store share their secrets, and that a moved store is used with its own.

Tokens sealed under other secrets do not open: conversations would be lost one by one without notice. So the store keeps
a fingerprint of each secret it was used with: one-way and useless to anybody else. Guessing a secret that somebody
chose would be slow.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Callable, Sequence, Set
from typing import Final

import msgspec

from sabir.guard.seal import KEY_BYTES
from sabir.stores.base import Record, Store

logger = logging.getLogger("sabir")

SPACE: Final = "secrets"
KEY: Final = "fingerprints"
DAY: Final = 86400.0
# A secret that no node has used for this long is forgotten, and no longer warned about: by then, most tokens that it
# sealed have expired.
LIFE: Final = 30 * DAY

WARNING: Final = (
    "None of this node's secrets was used with this store before: conversations, passes and upload addresses that"
    " were issued before, or by other nodes, do not open here, and those of this node do not open there. Use"
    " the same `secrets:` as the others, or the secret.key of the home that the store was used with"
    " (docs/many-nodes.md, Secrets)"
)


def fingerprint(secret: bytes) -> str:
    """Slow to compute for a secret that somebody chose; a generated one has 256 random bits, which nobody guesses."""
    if _is_chosen(secret):
        return slow_fingerprint(secret)
    return hashlib.blake2b(secret, person=b"sabir secret", digest_size=12).hexdigest()


def slow_fingerprint(secret: bytes) -> str:
    return hashlib.scrypt(secret, salt=b"sabir fingerprint", n=4096, r=8, p=1, dklen=12).hex()


def _is_chosen(secret: bytes) -> bool:
    """A configured secret is text. A generated one is 32 random bytes, which hardly ever happen to be UTF-8."""
    try:
        secret.decode()
    except UnicodeDecodeError:
        return len(secret) < KEY_BYTES
    return True


class Fingerprints:
    """This node's secrets, and those that its store has seen."""

    def __init__(
        self, store: Store, start: str, secrets: Sequence[bytes], clock: Callable[[], float] = time.time
    ) -> None:
        self._store = store
        self._start = start  # shared by all processes of one start, of which one logs
        self._secrets = secrets
        self._own: frozenset[str] | None = None
        self._clock = clock
        self._kept = float("-inf")

    async def check(self) -> bool:
        """Whether the store knows one of ours, or none at all; otherwise logs a warning."""
        if await self._keep():
            return True
        once = Record(SPACE, f"told {self._start}", b"", expires=self._clock() + 3600.0)
        if await self._store.put(once, expect=0):
            logger.error(WARNING)
        return False

    async def renew(self) -> None:
        """Repeat the check periodically while the node runs."""
        if self._clock() - self._kept > DAY:
            await self._keep()

    async def _keep(self) -> bool:
        if self._own is None:
            self._own = frozenset(fingerprint(secret) for secret in self._secrets)
        while True:
            now = self._kept = self._clock()
            record = await self._store.get(SPACE, KEY)
            seen = {item: until for item, until in _read(record).items() if until > now}
            if seen and not self._own & seen.keys() and not self._was_used_before(seen.keys()):
                return False
            seen |= dict.fromkeys(self._own, now + LIFE)
            made = Record(SPACE, KEY, msgspec.json.encode(seen))
            if await self._store.put(made, expect=record.version if record is not None else 0):
                return True  # otherwise another node was first, and may have other secrets

    def _was_used_before(self, seen: Set[str]) -> bool:
        """Whether an earlier version used one of our secrets here: it kept the slow fingerprint of every secret."""
        return any(slow_fingerprint(secret) in seen for secret in self._secrets)


def _read(record: Record | None) -> dict[str, float]:
    try:
        return msgspec.json.decode(record.value, type=dict[str, float]) if record is not None else {}
    except msgspec.MsgspecError:  # an unreadable record does not prevent the start; it is rewritten
        return {}

"""Whether the nodes on a store share their secrets, and whether a store that was moved is used with its own.

What was sealed under other secrets does not open: conversations would be lost one by one, and nobody be told. So the
store keeps a fingerprint of each secret it was used with. It is one-way and slow to make: of no use to anybody.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from sabir.stores.base import Record, Store

logger = logging.getLogger("sabir")

SPACE: Final = "secrets"
KEY: Final = "fingerprints"
DAY: Final = 86400.0
# A secret that no node has used for so long is forgotten: what it sealed has mostly ended, and who has lost it is told
# no longer.
LIFE: Final = 30 * DAY

TOLD: Final = (
    "none of this node's secrets is one that its store was used with: conversations, passes and upload addresses that"
    " were given out before, or by other nodes, do not open here, and those of this node do not open there. Give it"
    " the same `secrets:` as the others, or the secret.key of the home that the store was used with"
    " (docs/many-nodes.md, Secrets)"
)


def fingerprint(secret: bytes) -> str:
    return hashlib.scrypt(secret, salt=b"sabir fingerprint", n=4096, r=8, p=1, dklen=12).hex()


class Fingerprints:
    """Those of this node's secrets, and those that its store has seen."""

    def __init__(
        self, store: Store, start: str, secrets: Sequence[bytes], clock: Callable[[], float] = time.time
    ) -> None:
        self._store = store
        self._start = start  # the same for all processes of one start, of which one tells
        self._secrets = secrets
        self._own: frozenset[str] | None = None
        self._clock = clock
        self._kept = float("-inf")

    async def check(self) -> bool:
        """Whether the store knows one of ours, or none at all; if not, that is logged."""
        if await self._keep():
            return True
        once = Record(SPACE, f"told {self._start}", b"", expires=self._clock() + 3600.0)
        if await self._store.put(once, expect=0):
            logger.error(TOLD)
        return False

    async def renew(self) -> None:
        """Now and then, while the node runs."""
        if self._clock() - self._kept > DAY:
            await self._keep()

    async def _keep(self) -> bool:
        if self._own is None:
            self._own = frozenset(fingerprint(secret) for secret in self._secrets)
        while True:
            now = self._kept = self._clock()
            record = await self._store.get(SPACE, KEY)
            seen = {item: until for item, until in _read(record).items() if until > now}
            if seen and not self._own & seen.keys():
                return False
            seen |= dict.fromkeys(self._own, now + LIFE)
            made = Record(SPACE, KEY, msgspec.json.encode(seen))
            if await self._store.put(made, expect=record.version if record is not None else 0):
                return True  # else another node was quicker, and may have others


def _read(record: Record | None) -> dict[str, float]:
    try:
        return msgspec.json.decode(record.value, type=dict[str, float]) if record is not None else {}
    except msgspec.MsgspecError:  # an unreadable record does not prevent the start; it is written again
        return {}

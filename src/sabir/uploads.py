"""Uploads: large data beside the messages (CORE-6.4, HTTP-6.1.1).

A place is offered by the concierge: a sealed URI, bound to its caller and its conversation, that expires.
What is put there streams to disk; the next message refers to the URI, and the agent reads the bytes through
``turn.attachments`` without anybody having held them in memory. Large replies go out the same way.
"""

from __future__ import annotations

import secrets
import time
from pathlib import Path
from typing import Final

import msgspec

from .guard.seal import Seal
from .stores.base import Record, Store
from .turn import Caller

SPACE: Final = "upload"
PATH: Final = "/nlip/upload/"
_KIND: Final = "upload"


class UploadLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What may be put and for how long it stays."""

    bytes: int = 4 * 1024**3  # of one upload
    bytes_per_caller: int = 16 * 1024**3  # of all that have not expired
    places_per_caller: int = 1000
    seconds: float = 3600.0  # how long a place is open, and what was put there is kept


class Upload(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is stored of one place."""

    id: str
    conversation: str
    owner: str
    expires: float
    most: int
    total: int | None = None  # as the client announced it
    size: int | None = None  # once it is complete
    sha256: str = ""
    subformat: str = ""  # kind and encoding, e.g. image/png
    name: str = ""

    @property
    def is_complete(self) -> bool:
        return self.size is not None


class Uploads:
    """Offers places, keeps what is put there, and gives it to those it belongs to."""

    def __init__(self, home: Path, store: Store, seal: Seal, limits: UploadLimits | None = None) -> None:
        self.folder = home / "uploads"
        self.store = store
        self.limits = limits or UploadLimits()
        self._seal = seal

    async def offer(self, conversation: str, caller: Caller) -> tuple[str, Upload]:
        """A place for one upload: its path on this gateway, and what holds for it."""
        limits = self.limits
        upload = Upload(secrets.token_urlsafe(16), conversation, caller.id, time.time() + limits.seconds, limits.bytes)
        await self.store.put(
            Record(SPACE, upload.id, msgspec.json.encode(upload), owner=caller.id, expires=upload.expires)
        )
        return PATH + self._seal.seal(_KIND, upload.id.encode(), caller.id), upload

"""Ownership of names: who may send as whom, and read whose inbox (A-9, ACL-47)."""

from __future__ import annotations

import time
from typing import Final

from joserfc.jwk import KeySet

from sabir.cluster.directory import Directory
from sabir.dialogues.service import GATEWAY
from sabir.errors import BadMessage, ConfigError, Conflict, Forbidden
from sabir.http.door import DoorContext
from sabir.protocols.acl.wire.envelope import Envelope
from sabir.protocols.acl.wire.signatures import keys_of, verify
from sabir.turn import Caller

from .settings import AclSettings

DF: Final = "df"  # the directory as an agent
_KNOWN_SECONDS: Final = 30.0  # how long a claim is cached


def owner_id(caller: Caller) -> str:
    """The name under which a caller owns agents. Anonymous callers are distinguished by their address."""
    return f"anonymous@{caller.address}" if caller.is_anonymous else caller.id


class Owners:
    """The names of agents and their owners."""

    def __init__(self, services: DoorContext, directory: Directory, settings: AclSettings) -> None:
        self._services = services
        self._directory = directory
        self._settings = settings
        self._known: dict[tuple[str, str], float] = {}
        remembered = max(settings.keep_seconds, settings.remember_seconds)
        if settings.signatures != "off" and remembered < 2 * settings.skew_seconds:
            # A timestamp is valid from one skew before it until one after it.
            expected = "at least twice skew_seconds, so that replays are recognised as long as they are valid"
            raise ConfigError(f"doors.acl.remember_seconds: expected {expected}")

    async def check(self, name: str, caller: Caller) -> None:
        """Check that a caller may use this name; an unowned name becomes the caller's.

        Raises:
            Forbidden: it belongs to somebody else, or is an agent of this gateway.
        """
        if caller.kind == "local":
            return
        if name in self._services.agents or name in (DF, GATEWAY):
            raise Forbidden(f"{name} is an agent of this gateway; send under a name of your own")
        owner = owner_id(caller)
        if self._known.get((name, owner), 0.0) > time.monotonic():
            return
        try:
            await self._directory.claim(name, owner, seconds=self._settings.keep_seconds)
        except Conflict:
            raise Forbidden(f"{name} belongs to another caller; send under a name of your own") from None
        if len(self._known) > 10_000:
            self._known.clear()
        self._known[name, owner] = time.monotonic() + _KNOWN_SECONDS

    async def is_known(self, name: str) -> bool:
        """Whether there is an agent of this name, here or elsewhere, present or not."""
        return name in self._services.agents or name == DF or await self._directory.owner_of(name) is not None

    async def names_of(self, caller: Caller) -> list[str]:
        return await self._directory.names_of(owner_id(caller))

    async def check_signature(self, envelope: Envelope) -> None:
        """Check that a message is signed as this gateway requires (ACL-48).

        Raises:
            Forbidden: the signature is missing, invalid or too old, or the sender has a key and this message is
            unsigned.
        """
        wanted = self._settings.signatures
        if wanted == "off":
            return
        keys = await self._keys(envelope.sender_id)
        if envelope.signature is None:
            if wanted == "require" or keys is not None:  # a sender with a key must sign: no downgrade
                raise Forbidden(f"messages of {envelope.sender_id} must be signed")
            return
        if keys is None:
            raise Forbidden(f"the directory has no key of {envelope.sender_id}")
        try:
            verify(envelope, keys)
        except BadMessage:
            reason = "the signature does not fit the sender's key and the complete message (no nulls, no defaults)"
            raise Forbidden(reason) from None
        at = envelope.at
        if at is None or abs(at - time.time()) > self._settings.skew_seconds:
            raise Forbidden(f"the timestamp of a signed message must be within {self._settings.skew_seconds:g} seconds")

    async def _keys(self, name: str) -> KeySet | None:
        for entry in await self._directory.find(name):
            if entry.key:
                return keys_of(entry.key)
        return None

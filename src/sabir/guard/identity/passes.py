"""Passes: ``authentication`` tokens that we issue, carried in the message (CORE-6.2.2, SG 3.5).

An authenticated caller gets a pass and presents it in later messages instead. A pass is sealed, so it needs no state
and cannot be forged; it lives for minutes; and it is bound to its holder: to the client certificate, or otherwise to
the address. It is useless to anybody else.

A pass never grants more than what it was issued for. It ends with the caller's token, or as soon as the key is revoked
or expires, and has the key's current roles. A pass can be renewed only up to its own expiry, after which the caller
must authenticate again. Callers who prove a key with each request (DPoP) get none, because a pass would need no proof.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

import msgspec

from sabir.errors import Unauthenticated
from sabir.guard.seal import Seal
from sabir.message import Part, token_part
from sabir.turn import Caller

from .api_keys import CALLER, KeyVerifier
from .callers import Credentials

KIND = "authentication"
_PROVEN: Final = frozenset({"key", "subject", "certificate"})  # kinds of callers that authenticated themselves


class _Pass(msgspec.Struct, frozen=True, array_like=True):
    id: str
    kind: str
    roles: tuple[str, ...]
    name: str
    until: float


class Passes:
    """Issues passes, and authenticates callers by them."""

    challenge = "Bearer"

    def __init__(
        self,
        seal: Seal,
        *,
        seconds: float = 600.0,
        keys: KeyVerifier | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """``keys`` says whether a key is still valid; without it, passes issued for keys are not accepted."""
        self._seal = seal
        self._seconds = seconds
        self._keys = keys
        self._clock = clock

    def life(self, caller: Caller) -> float:
        """How many seconds a pass for this caller would be valid; 0 if it cannot have one."""
        if caller.kind not in _PROVEN or "cnf" in caller.claims:
            return 0.0
        ends = caller.claims.get("exp")  # of the token or pass that it came with
        return self._seconds if ends is None else max(0.0, min(self._seconds, float(ends) - self._clock()))

    def issue(self, caller: Caller, credentials: Credentials, *, suffix: str = "") -> Part:
        """A pass for a known caller, bound to its current connection.

        Raises:
            Unauthenticated: the caller is anonymous.
        """
        life = self.life(caller)
        if life <= 0:
            raise Unauthenticated("authenticate first; then a token can be issued", self.challenge)
        until = self._clock() + life
        payload = msgspec.json.encode(_Pass(caller.id, caller.kind, tuple(sorted(caller.roles)), caller.name, until))
        sealed = self._seal.seal(KIND, payload, _holder(credentials))
        return token_part(sealed, f"{KIND}_{suffix}" if suffix else KIND)

    def issue_to(self, caller: Caller) -> Part:
        """A pass for a caller, bound to its certificate if it has one, otherwise to its address."""
        certificate = caller.id.removeprefix("cert:") if caller.kind == "certificate" else None
        return self.issue(caller, Credentials(caller.address, certificate=certificate))

    async def verify(self, credentials: Credentials, tokens: tuple[Part, ...]) -> Caller | None:
        for content in (credentials.scheme("bearer"), *(part.content for part in tokens)):
            if self._seal.ours(content):
                return await self._opened(content, credentials)
        return None

    async def _opened(self, content: object, credentials: Credentials) -> Caller:
        payload = self._seal.open(KIND, content, _holder(credentials))
        if payload is None:
            raise Unauthenticated("this authentication token is not valid here", self.challenge)
        held = msgspec.json.decode(payload, type=_Pass)
        if held.until <= self._clock():
            raise Unauthenticated("this authentication token has expired", self.challenge)
        caller: Caller | None = Caller(held.id, held.kind, frozenset(held.roles), name=held.name)
        if held.kind == "key":
            caller = await self._keys.caller_of(held.id.removeprefix(CALLER)) if self._keys is not None else None
        if caller is None:
            raise Unauthenticated(
                "the key that this authentication token was issued for was revoked or has expired", self.challenge
            )
        return msgspec.structs.replace(caller, claims={"exp": held.until})


def _holder(credentials: Credentials) -> str:
    return f"cert:{credentials.certificate}" if credentials.certificate else f"address:{credentials.address}"

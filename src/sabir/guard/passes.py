"""Passes: ``authentication`` tokens that we issue, to be carried in the message (CORE-6.2.2, SG 3.5).

Whoever has proven who it is gets a pass and presents it in later messages instead. A pass is sealed, so it needs
no state and cannot be made by others; it lives for minutes; and it is bound to its holder: to the certificate the
connection came with, else to the address it came from. In other hands it does not open.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import msgspec

from ..errors import Unauthenticated
from ..message import Part, token_part
from ..turn import Caller
from .identity import Credentials
from .seal import Seal

KIND = "authentication"


class _Pass(msgspec.Struct, frozen=True, array_like=True):
    id: str
    kind: str
    roles: tuple[str, ...]
    name: str
    until: float


class Passes:
    """Issues passes, and knows callers by them."""

    challenge = "Bearer"

    def __init__(self, seal: Seal, *, seconds: float = 600.0, clock: Callable[[], float] = time.time) -> None:
        self._seal = seal
        self.seconds = seconds
        self._clock = clock

    def issue(self, caller: Caller, credentials: Credentials, *, suffix: str = "") -> Part:
        """A pass for a known caller, bound to how it is connected now.

        Raises:
            Unauthenticated: nobody is given a pass without having proven who they are.
        """
        if caller.is_anonymous:
            raise Unauthenticated("say who you are first; then a token can be issued", self.challenge)
        until = self._clock() + self.seconds
        payload = msgspec.json.encode(_Pass(caller.id, caller.kind, tuple(sorted(caller.roles)), caller.name, until))
        sealed = self._seal.seal(KIND, payload, _holder(credentials))
        return token_part(sealed, f"{KIND}_{suffix}" if suffix else KIND)

    def issue_to(self, caller: Caller) -> Part:
        """A pass for a caller as it was admitted: bound to its certificate if it came by one, else to its address."""
        certificate = caller.id.removeprefix("cert:") if caller.kind == "certificate" else None
        return self.issue(caller, Credentials(caller.address, certificate=certificate))

    async def verify(self, credentials: Credentials, tokens: tuple[Part, ...]) -> Caller | None:
        for content in (credentials.scheme("bearer"), *(part.content for part in tokens)):
            if self._seal.ours(content):
                return self._opened(content, credentials)
        return None

    def _opened(self, content: object, credentials: Credentials) -> Caller:
        payload = self._seal.open(KIND, content, _holder(credentials))
        if payload is None:
            raise Unauthenticated("this authentication token is not valid here", self.challenge)
        held = msgspec.json.decode(payload, type=_Pass)
        if held.until <= self._clock():
            raise Unauthenticated("this authentication token has expired", self.challenge)
        return Caller(held.id, held.kind, frozenset(held.roles), name=held.name)


def _holder(credentials: Credentials) -> str:
    return f"cert:{credentials.certificate}" if credentials.certificate else f"address:{credentials.address}"

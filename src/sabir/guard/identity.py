"""Who asks: credentials as a door found them, and the verifiers that turn them into a Caller."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from ..errors import Unauthenticated
from ..message import Part, token_kind
from ..turn import Caller


class Credentials(msgspec.Struct, frozen=True):
    """What a door knows of the other side. Never logged."""

    address: str = ""
    authorization: str | None = None  # the header's value, or None
    certificate: str | None = None  # the verified subject of a client certificate
    headers: dict[str, str] = {}  # the few that verifiers ask for: x-api-key, dpop
    method: str = ""
    url: str = ""
    caller: Caller | None = None  # already known: a local call, or a broker that authenticated it


class Verifier(Protocol):
    """One way to prove who one is."""

    challenge: str  # what to say in WWW-Authenticate

    async def verify(self, credentials: Credentials, tokens: tuple[Part, ...]) -> Caller | None:
        """The caller, or None if these credentials are not of this verifier's kind.

        Raises:
            Unauthenticated: they are of this kind, and wrong.
        """


class Identity:
    """Asks each verifier in turn; nobody known is an anonymous caller."""

    def __init__(self, verifiers: Sequence[Verifier] = ()) -> None:
        self.verifiers = tuple(verifiers)

    @property
    def challenge(self) -> str:
        return ", ".join(dict.fromkeys(v.challenge for v in self.verifiers)) or "Bearer"

    async def caller(self, credentials: Credentials, tokens: tuple[Part, ...] = ()) -> Caller:
        """Who this is.

        Raises:
            Unauthenticated: credentials were presented in a header, and no verifier knows them.
        """
        if credentials.caller is not None:
            return credentials.caller
        proofs = tuple(part for part in tokens if token_kind(part.subformat) == "authentication")
        if self.verifiers:
            for verifier in self.verifiers:
                known = await verifier.verify(credentials, proofs)
                if known is not None:
                    return msgspec.structs.replace(known, address=credentials.address)
            if credentials.authorization is not None:
                raise Unauthenticated("these credentials are not known here", self.challenge)
        return Caller(address=credentials.address)

"""Configured authorization servers, and the tokens their callers came with. Separate from ``jwt``, whose imports are
slow."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

# The key types that each algorithm may be used with. Other algorithms are rejected.
KEY_KINDS: Final[Mapping[str, str]] = {
    "RS256": "RSA", "RS384": "RSA", "RS512": "RSA", "PS256": "RSA", "PS384": "RSA", "PS512": "RSA",
    "ES256": "EC", "ES384": "EC", "ES512": "EC", "EdDSA": "OKP", "Ed25519": "OKP",
    "HS256": "oct", "HS384": "oct", "HS512": "oct",
}  # fmt: skip


class Issuer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An authorization server whose tokens are accepted; a section of the configuration file."""

    issuer: str
    audience: tuple[str, ...]  # our names at this server
    jwks: str | None = None  # URL of its keys; None: from its metadata
    keys: dict[str, Any] | None = None  # or the key set itself
    algorithms: tuple[str, ...] = ("RS256", "PS256", "ES256", "ES384", "Ed25519")
    leeway: float = 60.0  # seconds by which clocks may differ
    roles: tuple[str, ...] = ()  # roles of every caller with its token
    roles_claim: str = "roles"  # a dotted path: realm_access.roles
    scopes_are_roles: bool = True  # ``scope: "read write"`` gives the roles ``scope:read`` and ``scope:write``
    longest_life: float | None = None  # reject tokens that live longer, unless bound to a key (SG ID-7)
    dpop: bool = False  # reject tokens that are not bound to the caller's key (RFC 9449)

    def __post_init__(self) -> None:
        unknown = [name for name in self.algorithms if name not in KEY_KINDS]
        if unknown or not self.algorithms:
            raise ValueError(f"algorithms: expected some of {', '.join(KEY_KINDS)}, not {', '.join(unknown) or 'none'}")
        if not self.audience:
            raise ValueError(
                "audience: expected at least one name; without one, tokens for other services would be accepted"
            )
        if self.keys is None and any(KEY_KINDS[name] == "oct" for name in self.algorithms):
            raise ValueError(
                "algorithms: HS256, HS384 and HS512 need a shared secret in keys, because it cannot be published"
            )


class SubjectTokens:
    """The tokens that callers came with, by caller, in memory only and while they are valid.

    They are kept only to be exchanged at the issuer for another service's token (RFC 8693), and are sent nowhere else.
    """

    def __init__(self, *, limit: int = 10_000, clock: Callable[[], float] = time.time) -> None:
        self._limit = limit
        self._clock = clock
        self._tokens: OrderedDict[str, tuple[str, float]] = OrderedDict()

    def keep(self, caller: str, token: str, until: float) -> None:
        self._tokens[caller] = (token, until)
        self._tokens.move_to_end(caller)
        if len(self._tokens) > self._limit:
            self._tokens.popitem(last=False)

    def of(self, caller: str) -> str | None:
        token, until = self._tokens.get(caller, ("", 0.0))
        return token if self._clock() < until else None

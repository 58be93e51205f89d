"""The options of every peer, as one value.

Pass them one by one, ``connect(url, seconds=5)``, or together, ``connect(url, options=PeerOptions(seconds=5))``. If
both are given, the single ones win.
"""

from __future__ import annotations

import inspect
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypedDict

SECONDS: Final = 60.0  # default time limit of an answer

Direction = Literal["sent", "received"]
OnWire = Callable[[Direction, bytes], None]


@dataclass(frozen=True, slots=True)
class Identity:
    """One of our own identities, and the services that may see it (TR-7.1.4).

    ``service`` is an origin such as ``https://example.com``, with ``*`` allowed. Only sent when the service asks (401),
    unless
    ``at_once``.
    """

    service: str
    authorization: str
    at_once: bool = False

    def __repr__(self) -> str:
        return f"Identity(service={self.service!r})"  # never the credential


@dataclass(frozen=True, kw_only=True, slots=True)
class PeerOptions:
    """The options that all peers share."""

    name: str | None = None  # our name for the remote agent; None: from its address
    seconds: float = SECONDS  # time limit of an answer
    identities: tuple[Identity, ...] = ()  # our credentials, by service; sent when asked with 401
    headers: Mapping[str, str] | None = None  # sent with every request, if the protocol has headers
    verify: ssl.SSLContext | None = None  # the TLS context; None: the system's trust
    connections: int = 100  # open concurrently, over HTTP
    on_wire: OnWire | None = None  # called with what is sent and received, credentials hidden


class PeerOptionNames(TypedDict, total=False):
    """The same options as keyword arguments of ``SomePeer(url, **options)``. A test keeps the two in step."""

    name: str | None
    seconds: float
    identities: tuple[Identity, ...]
    headers: Mapping[str, str] | None
    verify: ssl.SSLContext | None
    connections: int
    on_wire: OnWire | None


def known_options(kind: type, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that a peer class accepts."""
    names = set(PeerOptionNames.__annotations__)
    for owner in kind.__mro__[:-1]:  # options passed through ``**named`` are declared by a base class
        names |= inspect.signature(owner.__init__).parameters.keys()  # type: ignore[misc]
    return {name: value for name, value in options.items() if name in names}

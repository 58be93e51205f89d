"""What every peer can be given, as one value.

``connect(url, seconds=5)`` names options one by one, ``connect(url, options=PeerOptions(seconds=5))`` together.
Where both are given, the named ones win.
"""

from __future__ import annotations

import inspect
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypedDict

SECONDS: Final = 60.0  # how long an answer may take unless the caller says otherwise

Direction = Literal["sent", "received"]
OnWire = Callable[[Direction, bytes], None]


@dataclass(frozen=True, slots=True)
class Identity:
    """One of our own identities, and the services that may see it (TR-7.1.4).

    ``service`` is an origin such as ``https://example.com``, with ``*`` allowed. Shown only when the
    service asks (401), unless ``at_once``.
    """

    service: str
    authorization: str
    at_once: bool = False

    def __repr__(self) -> str:
        return f"Identity(service={self.service!r})"  # never the credential


@dataclass(frozen=True, kw_only=True, slots=True)
class PeerOptions:
    """The options that all peers share."""

    name: str | None = None  # what we call the remote agent; None: after its address
    seconds: float = SECONDS  # that an answer may take
    identities: tuple[Identity, ...] = ()  # who we may be, by service; shown when asked with 401
    headers: Mapping[str, str] | None = None  # sent with every request, where the protocol has headers
    verify: ssl.SSLContext | None = None  # the TLS context; None: the system's trust
    connections: int = 100  # that are open at once, over HTTP
    on_wire: OnWire | None = None  # called with what is sent and received, credentials hidden


class PeerOptionNames(TypedDict, total=False):
    """The same options, for ``SomePeer(url, **options)``. A test keeps the two alike."""

    name: str | None
    seconds: float
    identities: tuple[Identity, ...]
    headers: Mapping[str, str] | None
    verify: ssl.SSLContext | None
    connections: int
    on_wire: OnWire | None


def known_options(kind: type, options: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the options that a class of peers takes."""
    names = set(PeerOptionNames.__annotations__)
    for owner in kind.__mro__[:-1]:  # what a class passes on by ``**named``, one of its bases names
        names |= inspect.signature(owner.__init__).parameters.keys()  # type: ignore[misc]
    return {name: value for name, value in options.items() if name in names}

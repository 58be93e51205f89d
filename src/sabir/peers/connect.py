"""``connect(url)``: the right peer for an address."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from ..errors import BadSetup
from .base import Peer, without_credentials
from .nlip_http import NlipHttpPeer

# What speaks a scheme, by the name of the protocol; the first is taken if none is named.
PEERS: Final[Mapping[str, Mapping[str, Callable[..., Peer]]]] = {
    "http": {"nlip": NlipHttpPeer},
    "https": {"nlip": NlipHttpPeer},
}


def connect(url: str, *, protocol: str | None = None, **options: Any) -> Peer:
    """A peer for the address, to be used as ``async with connect(url) as peer``.

    ``protocol`` names what it speaks where the address does not say; ``options`` are those of the peer.

    Raises:
        BadSetup: no peer speaks this.
    """
    scheme = urlsplit(url).scheme.lower()
    spoken = PEERS.get(scheme)
    if spoken is None:
        raise BadSetup(f"{without_credentials(url)!r}: nothing here speaks {scheme or 'an address without a scheme'}")
    if protocol is None:
        protocol = next(iter(spoken))
    make = spoken.get(protocol)
    if make is None:
        raise BadSetup(f"{protocol} over {scheme} is not known; known are {', '.join(spoken)}")
    return make(url, **options)

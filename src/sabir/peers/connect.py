"""``connect(url)``: the right peer for an address."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote, urlsplit, urlunsplit

from ..errors import BadSetup, MissingExtra
from .base import Peer, without_credentials

_HTTP: Final[Mapping[str, tuple[str, str]]] = {
    "nlip": ("nlip_http", "NlipHttpPeer"),
    "a2a": ("a2a", "A2aPeer"),
    "nlweb": ("nlweb", "NlwebPeer"),
    "mcp": ("mcp", "McpPeer"),
}
# Paths that tell the protocol; an address without a path is found out by its first question.
PATHS: Final[Mapping[str, str]] = {"nlip": "nlip", "ask": "nlweb", "mcp": "mcp", "a2a": "a2a", "agent-card.json": "a2a"}
# Where a gateway's agents are, by protocol: each at its name below this step.
_DOORS: Final[Mapping[str, str]] = {"nlip": "nlip", "nlweb": "ask", "mcp": "mcp", "a2a": "a2a"}
# What speaks a scheme, by the name of the protocol, as module and class; the first is taken if none is named.
# By name, because some of them need an extra.
PEERS: Final[Mapping[str, Mapping[str, tuple[str, str]]]] = {
    "http": _HTTP,
    "https": _HTTP,
    "ws": {"nlip": ("nlip_ws", "NlipWsPeer")},
    "wss": {"nlip": ("nlip_ws", "NlipWsPeer")},
    "amqp": {"nlip": ("nlip_amqp", "NlipAmqpPeer")},
    "stdio": {"mcp": ("mcp", "McpPeer")},
    "amqps": {"nlip": ("nlip_amqp", "NlipAmqpPeer")},
}

# What brings the modules that import what is not always installed; others say so themselves.
_EXTRAS: Final[Mapping[str, str]] = {"mcp": "mcp"}


def connect(url: str, *, protocol: str | None = None, **options: Any) -> Peer:
    """A peer for the address, to be used as ``async with connect(url) as peer``.

    The address says what is spoken there (``/nlip``, ``/ask``, ``/mcp``, ``/a2a``, ``ws:``, ``amqp:``), or ``protocol``
    does; a bare origin is found out. ``options`` are those of the peer.

    Raises:
        BadSetup: no peer speaks this.
        MissingExtra: what speaks it is not installed.
    """
    return kind_of(url, protocol)(url, **options)


def kind_of(url: str, protocol: str | None = None) -> type[Peer]:
    """What makes the peer for an address; raises as ``connect`` does."""
    scheme = urlsplit(url).scheme.lower()
    spoken = PEERS.get(scheme)
    if spoken is None:
        raise BadSetup(f"{without_credentials(url)!r}: nothing here speaks {scheme or 'an address without a scheme'}")
    path = urlsplit(url).path.rstrip("/")
    if protocol is None and spoken is _HTTP and not path:
        named: tuple[str, str] | None = ("origin", "OriginPeer")
    else:
        wanted = protocol or (_told_by(path) if spoken is _HTTP else None) or next(iter(spoken))
        named = spoken.get(wanted)
    if named is None:
        raise BadSetup(f"{protocol} over {scheme} is not known; known are {', '.join(spoken)}")
    module, name = named
    try:
        make: type[Peer] = getattr(importlib.import_module(f"{__package__}.{module}"), name)
    except ModuleNotFoundError as missing:
        if module not in _EXTRAS:
            raise
        raise MissingExtra(f"{_EXTRAS[module].upper()} ({missing.name})", _EXTRAS[module]) from missing
    return make


def place_of_agent(url: str, name: str, protocol: str | None = None) -> str:
    """The address of one agent of a gateway, from that of the gateway, of one of its doors, or of another agent.

    Raises:
        BadSetup: there are no agents to choose from at such an address.
    """
    parts = urlsplit(url)
    scheme, steps = parts.scheme.lower(), [step for step in parts.path.split("/") if step]
    if scheme not in PEERS or scheme == "stdio":
        raise BadSetup(f"{without_credentials(url)!r}: no agent can be chosen at this address")
    behind: list[str] = []
    if scheme in ("ws", "wss"):
        behind = ["ws", "text"] if steps[-1:] == ["text"] else ["ws"]
    if scheme in ("amqp", "amqps"):
        before = steps or [_DOORS["nlip"]]
    else:
        told = _told_by(parts.path) if PEERS[scheme] is _HTTP else None
        door = _DOORS[protocol or told or "nlip"]
        steps = steps[: steps.index(".well-known")] if ".well-known" in steps else steps
        before = [*(steps[: steps.index(door)] if door in steps else steps), door]
    return urlunsplit(parts._replace(path="/" + "/".join([*before, quote(name, safe=""), *behind])))


def taken(make: type[Peer], options: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the options that this kind of peer takes."""
    known = inspect.signature(make).parameters
    every = any(parameter.kind is parameter.VAR_KEYWORD for parameter in known.values())
    return {name: value for name, value in options.items() if every or name in known}


def _told_by(path: str) -> str | None:
    """The protocol that the first or the last step of a path names: ``/ask``, ``/a2a/painter``, an agent card."""
    steps = path.strip("/").split("/")
    return PATHS.get(steps[0]) or PATHS.get(steps[-1])

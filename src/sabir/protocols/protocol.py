"""What a protocol announces about itself, so that the rest of Sabir finds its parts.

One ``Protocol`` object announces a protocol. The gateway reads its doors from it, ``connect`` its peers, ``/who`` its
addresses, ``sabir check`` its suite, the error tables and the bridge page its wire. Parts are named as
``module:attribute`` and imported when they are first needed: some of them need an extra.

A protocol of a third party registers its object under the entry point group ``sabir.protocols`` (``docs/plugins.md``).
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any

from sabir.errors import MissingExtra


@dataclass(frozen=True, slots=True)
class DoorEntry:
    """One way in."""

    name: str  # the key under ``doors:`` in the configuration
    factory: str  # ``module:attribute``; called with the gateway's context, returns a ``Door``
    default_path: str = ""  # where the default agent answers, if agents are reached by this door
    agent_path: str = ""  # where an agent answers by its name: ``/ask/{name}``
    scheme: str = "http"  # ``http`` or ``ws``; ``""`` if the door's own ``addresses()`` tell where it is
    optional: bool = False  # whether its absence is ignored unless it is configured
    extra: str = ""  # the extra that it needs, if any

    @property
    def reaches_agents(self) -> bool:
        return bool(self.default_path or self.agent_path)


@dataclass(frozen=True, slots=True)
class PeerEntry:
    """One way out."""

    schemes: tuple[str, ...]  # of the addresses it supports
    factory: str  # ``module:attribute``, a subclass of ``sabir.protocols.peer.Peer``
    extra: str = ""


@dataclass(frozen=True, slots=True)
class Protocol:
    """A protocol: its name, its doors, its peers, and where the rest of it is."""

    name: str  # ``nlip``: one lower-case word, for the command line and the configuration
    title: str  # ``NLIP``, for people
    doors: tuple[DoorEntry, ...] = ()
    peers: tuple[PeerEntry, ...] = ()
    path: str = ""  # the first segment of its agents' paths: ``ask`` of ``/ask/{name}``
    marks: tuple[str, ...] = ()  # path segments that also identify this protocol, such as ``agent-card.json``
    probe: str = ""  # a path that exists where the protocol is supported; ``""``: tried by sending a message
    probe_origin: bool = False  # whether the peer then takes the origin rather than the path of the probe
    wire: str = ""  # the module with its ``CODES`` and ``LOSSES``
    listing: str = ""  # ``module:attribute``: lists the agents of a remote gateway
    suite: str = ""  # ``module:attribute``: its conformance suite
    extra: str = ""  # the extra of its wire and its listing, if any
    reserved: frozenset[str] = frozenset()  # names that no agent may have, because paths use them


def load(place: str, what: str, extra: str = "") -> Any:
    """The object at ``module:attribute``.

    Raises:
        MissingExtra: what it imports is not installed; names the extra.
    """
    module, _, attribute = place.partition(":")
    try:
        found = importlib.import_module(module)
    except ModuleNotFoundError as exc:
        if not extra:
            raise
        raise MissingExtra(f"{what} ({exc.name})", extra) from exc
    return getattr(found, attribute) if attribute else found

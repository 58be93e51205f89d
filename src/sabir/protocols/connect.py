"""``connect(url)``: the right peer for an address."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import quote, urlsplit, urlunsplit

from sabir.errors import ConfigError

from .detect import OriginPeer
from .peer import Peer, without_credentials
from .protocol import PeerEntry, Protocol, load
from .registry import protocols

_WEB: Final = frozenset({"http", "https"})


def connect(url: str, *, protocol: str | None = None, **options: Any) -> Peer:
    """A peer for the address, to be used as ``async with connect(url) as peer``.

    The address implies the protocol (``/nlip``, ``/ask``, ``/mcp``, ``/a2a``, ``ws:``, ``amqp:``), or ``protocol``
    names it; for a bare origin it is detected. ``options`` are passed to the peer.

    Raises:
        ConfigError: no protocol matches.
        MissingExtra: the extra of the protocol is not installed.
    """
    return kind_of(url, protocol)(url, **options)


def kind_of(url: str, protocol: str | None = None) -> type[Peer]:
    """The class of the peer for an address; raises as ``connect`` does."""
    scheme = urlsplit(url).scheme.lower()
    spoken = speakers(scheme)
    if not spoken:
        problem = (
            f"unsupported URL scheme {scheme!r}" if scheme else "expected an address with a scheme, such as http://"
        )
        raise ConfigError(f"{without_credentials(url)!r}: {problem}")
    path = urlsplit(url).path.rstrip("/")
    if protocol is None and scheme in _WEB and not path:
        return OriginPeer
    named = protocol or (_protocol_of_path(path) if scheme in _WEB else None) or next(iter(spoken))
    if named not in spoken:
        raise ConfigError(f"{named} is not spoken over {scheme}; expected {', '.join(spoken)}")
    found, entry = spoken[named]
    made: type[Peer] = load(entry.factory, found.title, entry.extra)
    return made


def speakers(scheme: str) -> dict[str, tuple[Protocol, PeerEntry]]:
    """The protocols available for addresses of this scheme, by name."""
    return {
        protocol.name: (protocol, entry)
        for protocol in protocols().values()
        for entry in protocol.peers
        if scheme in entry.schemes
    }


def place_of_agent(url: str, name: str, protocol: str | None = None) -> str:
    """The address of one agent of a gateway, given the address of the gateway, of one of its doors, or of another of
    its agents.

    Raises:
        ConfigError: the address is not one at which agents can be chosen.
    """
    parts = urlsplit(url)
    scheme = parts.scheme.lower()
    steps = [step for step in parts.path.split("/") if step]
    if scheme == "stdio" or not speakers(scheme):
        raise ConfigError(f"{without_credentials(url)!r}: no agent can be chosen at this address")
    behind: list[str] = []
    if scheme in ("ws", "wss"):
        behind = ["ws", "text"] if steps[-1:] == ["text"] else ["ws"]
    if scheme in ("amqp", "amqps"):
        before = steps or [protocols()["nlip"].path]
    else:
        answer = _protocol_of_path(parts.path) if scheme in _WEB else None
        door = protocols()[protocol or answer or "nlip"].path
        if ".well-known" in steps:
            steps = steps[: steps.index(".well-known")]
        before = [*(steps[: steps.index(door)] if door in steps else steps), door]
    return urlunsplit(parts._replace(path="/" + "/".join([*before, quote(name, safe=""), *behind])))


def _protocol_of_path(path: str) -> str | None:
    """The protocol named by the first or last segment of a path: ``/ask``, ``/a2a/painter``, an agent card."""
    steps = path.strip("/").split("/")
    for step in (steps[0], steps[-1]):
        for protocol in protocols().values():
            if step and (step == protocol.path or step in protocol.marks):
                return protocol.name
    return None

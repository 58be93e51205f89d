"""The protocols that Sabir supports: the built-in ones, and the protocols of installed packages."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import cache
from typing import Final

from sabir import plugins
from sabir.errors import ConfigError

from .protocol import DoorEntry, Protocol, load

logger = logging.getLogger("sabir")

# The order in which they are tried at an address that does not imply one.
BUILT_IN: Final = ("nlip", "a2a", "nlweb", "mcp", "acl")


@cache
def protocols() -> Mapping[str, Protocol]:
    """Every protocol by its name, the built-in ones first."""
    found: dict[str, Protocol] = {name: load(f"sabir.protocols.{name}:PROTOCOL", name) for name in BUILT_IN}
    for protocol in _installed():
        if protocol.name in found:
            raise ConfigError(f"two packages register a protocol {protocol.name!r}; uninstall one of them")
        found[protocol.name] = protocol
    return found


def _installed() -> list[Protocol]:
    """Protocols of other packages. One that cannot be loaded is logged and skipped."""
    installed = []
    for name in plugins.names(plugins.PROTOCOLS):
        try:
            protocol = plugins.find(plugins.PROTOCOLS, name)
        except ConfigError as exc:
            logger.warning("%s", exc)
            continue
        if not isinstance(protocol, Protocol):
            raise ConfigError(
                f"plugin {name!r} ({plugins.PROTOCOLS}): expected a Protocol, not {type(protocol).__name__}"
            )
        installed.append(protocol)
    return installed


def doors() -> Mapping[str, tuple[Protocol, DoorEntry]]:
    """Every door by its name, with its protocol."""
    return {door.name: (protocol, door) for protocol in protocols().values() for door in protocol.doors}


def reserved_names() -> frozenset[str]:
    """Names that no agent may have, because paths of the doors use them."""
    return frozenset().union(*(protocol.reserved for protocol in protocols().values()))

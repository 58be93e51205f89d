"""Objects that installed packages register by entry points: agents, tools, filters, stores and protocols.

A package names them in its ``pyproject.toml``::

    [project.entry-points."sabir.agents"]
    weather = "sabir_weather:forecast"

and a configuration uses them by that name (``docs/plugins.md``). Nothing is imported before it is used.
"""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final

from sabir.errors import ConfigError

AGENTS: Final = "sabir.agents"
TOOLS: Final = "sabir.tools"
FILTERS: Final = "sabir.filters"
STORES: Final = "sabir.stores"
PROTOCOLS: Final = "sabir.protocols"


def names(group: str) -> list[str]:
    """The names registered in a group."""
    return sorted(_registered(group))


def find(group: str, name: str) -> Any | None:
    """The object registered under a name, or None.

    Raises:
        ConfigError: the package that registers it cannot be imported.
    """
    entry = _registered(group).get(name)
    if entry is None:
        return None
    try:
        return entry.load()
    except (ImportError, AttributeError) as exc:
        raise ConfigError(f"plugin {name!r} ({group}: {entry.value}) cannot be loaded: {exc}") from exc


def _registered(group: str) -> dict[str, EntryPoint]:
    """The entry points of a group by name.

    Raises:
        ConfigError: two packages register the same name.
    """
    found: dict[str, EntryPoint] = {}
    for entry in entry_points(group=group):
        if entry.name in found and found[entry.name].value != entry.value:
            raise ConfigError(f"two packages register {entry.name!r} in {group}; uninstall one of them")
        found[entry.name] = entry
    return found

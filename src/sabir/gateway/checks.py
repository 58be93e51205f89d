"""Checks made before a gateway is built: its agents, what it opens, and the names of its doors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

from sabir.agent import Agent
from sabir.agents.multicast import GroupDoor
from sabir.cluster.door import BusDoor
from sabir.errors import ConfigError, suggestion
from sabir.protocols import registry
from sabir.protocols.registry import reserved_names


def named_agents(agents: Sequence[Agent]) -> dict[str, Agent]:
    """The agents by name.

    Raises:
        ConfigError: there are no agents, an object is not an agent, or a name is taken.
    """
    if not agents:
        raise ConfigError("a gateway needs an agent")
    named: dict[str, Agent] = {}
    for agent in agents:
        if not isinstance(agent, Agent):
            raise ConfigError(f"{getattr(agent, '__name__', agent)!r} is not an agent; decorate it with @agent")
        name = agent.card.name
        if name in reserved_names():
            raise ConfigError(f"an agent cannot be called {name!r}: the path /nlip/{name} is taken")
        if name in named:
            raise ConfigError(f"two agents are called {name!r}")
        named[name] = agent
    return named


def companions_of(beside: Iterable[Any]) -> tuple[AbstractAsyncContextManager[object], ...]:
    """What is opened and closed with the gateway.

    Raises:
        ConfigError: it is not an async context manager, such as an agent, which belongs before the options.
    """
    companions = tuple(beside)
    for companion in companions:
        if not isinstance(companion, AbstractAsyncContextManager):
            name = getattr(getattr(companion, "card", None), "name", type(companion).__name__)
            hint = f"; agents come first: Gateway({name}, …)" if isinstance(companion, Agent) else ""
            raise ConfigError(f"beside: expected async context managers, such as a search index, not {name!r}{hint}")
    return companions


def check_door_names(settings: Iterable[str], made: Iterable[str]) -> None:
    """Reject settings for unknown doors: a misspelt name must not leave a door open.

    Raises:
        ConfigError: unknown door; names the nearest.
    """
    known = {*made, BusDoor.name, GroupDoor.name, *registry.doors()}
    for name in settings:
        if name not in known:
            raise ConfigError(f"unknown key doors.{name}: {suggestion(name, sorted(known), 'there are', 'doors.')}")

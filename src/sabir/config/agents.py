"""Builds the agents that the settings describe, and their tools.

Agents may refer to each other: as members of a federation or an ensemble, and as tools. So each is built when it is
first needed; one that needs itself is an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec

from sabir import plugins
from sabir.agent import Agent, FunctionAgent
from sabir.agents.echo import echo
from sabir.agents.ensemble import Ensemble, EnsembleOptions
from sabir.agents.federation import Federation
from sabir.agents.group import AgentGroup
from sabir.agents.llm import LLM, model_agent
from sabir.errors import ConfigError, suggestion
from sabir.protocols.connect import connect, kind_of
from sabir.protocols.nlip.peer.base import NlipPeer
from sabir.protocols.peer import Peer
from sabir.tools.router import Router
from sabir.tools.settings import NlipSettings

from .importing import imported
from .settings import AgentSettings, EnsembleSettings, FederationSettings, Settings
from .tools import ToolBuilder

BUILTIN: Final[Mapping[str, Agent]] = {"echo": echo}
ORCHESTRATOR: Final = "orchestrator"  # the id of the ensemble of all agents
KINDS: Final = ("use", "peer", "backend", "federation", "ensemble", "group")


@dataclass
class BuiltAgents:
    """The agents of a configuration, and what is opened and closed with the gateway."""

    agents: list[Agent] = field(default_factory=list)
    beside: list[AbstractAsyncContextManager[object]] = field(default_factory=list)


def build_agents(settings: Settings, beside: Path | None = None) -> BuiltAgents:
    """All agents, in the order of the file; the orchestrator, if there is one, comes last.

    Raises:
        ConfigError: an entry does not describe an agent, or something it names is unavailable.
    """
    builder = _Builder(settings, beside)
    built = [builder.agent(item.id) for item in settings.agents]
    exposed = [builder.routed(item, agent) for item, agent in zip(settings.agents, built, strict=True)]
    if settings.orchestrator is not None:
        exposed.append(builder.orchestrator())
    opened = [agent for agent in built if isinstance(agent, Peer | LLM)]
    return BuiltAgents(exposed, [*opened, *builder.tools.servers.values()])


def agent_of(settings: AgentSettings, beside: Path | None = None) -> Agent:
    """The agent that one entry describes, built alone; raises as ``build_agents`` does."""
    return _Builder(Settings(agents=(settings,)), beside).agent(settings.id)


class _Builder:
    def __init__(self, settings: Settings, beside: Path | None) -> None:
        self._settings = settings
        self._entries = {agent.id: agent for agent in settings.agents}
        self._beside = beside
        self._made: dict[str, Agent] = {}
        self._making: list[str] = []
        self.tools = ToolBuilder(settings, beside, self.agent)

    def agent(self, agent_id: str) -> Agent:
        """The agent with this id, built once.

        Raises:
            ConfigError: there is no such agent, or it depends on itself.
        """
        if agent_id in self._made:
            return self._made[agent_id]
        if agent_id not in self._entries:
            if agent_id in BUILTIN:
                return BUILTIN[agent_id]
            needed_by = f"{self._making[-1]!r}: " if self._making else ""
            others = [name for name in self._entries if name not in self._making]
            raise ConfigError(f"agents: {needed_by}there is no agent {agent_id!r}{_nearest(agent_id, others)}")
        if agent_id in self._making:
            raise ConfigError(f"agents: {' → '.join([*self._making, agent_id])}: an agent cannot need itself")
        self._making.append(agent_id)
        try:
            self._made[agent_id] = self._built(self._entries[agent_id])
        except ConfigError as exc:
            raise _placed(exc, self._entries[agent_id]) from None
        finally:
            self._making.pop()
        return self._made[agent_id]

    def _built(self, entry: AgentSettings) -> Agent:
        kinds = [kind for kind in KINDS if getattr(entry, kind) is not None]
        if len(kinds) != 1:
            raise ConfigError(f"agents: {entry.id!r} needs exactly one of {', '.join(KINDS[:-1])} or {KINDS[-1]}")
        if entry.backend is not None:
            return self._model(entry)
        if entry.tools:
            raise ConfigError(f"agents: {entry.id!r}: tools: requires backend")
        if entry.peer is not None:
            return _peer(entry)
        if entry.federation is not None:
            return self._federation(entry, entry.federation)
        if entry.group is not None:
            return AgentGroup(
                self._members(entry.id, entry.group.members), name=entry.id, description=entry.description or ""
            )
        if entry.ensemble is not None:
            return self._ensemble(entry.id, entry.ensemble, entry.description or "")
        return self._used(entry)

    def _model(self, entry: AgentSettings) -> LLM:
        assert entry.backend is not None
        model = model_agent(
            entry.id,
            entry.backend,
            system_message=entry.system_message or "",
            description=entry.description or "",
            tools=self.tools.toolbox(entry, self.nlip_of(entry)),
        )
        if entry.remembers is not None:
            model.card = msgspec.structs.replace(model.card, remembers=entry.remembers)
        return model

    def _used(self, entry: AgentSettings) -> Agent:
        found = BUILTIN.get(entry.use or "") or _registered(entry) or _imported(entry, self._beside)
        changes = {"name": entry.id, "description": entry.description, "remembers": entry.remembers}
        try:
            card = msgspec.structs.replace(found.card, **{k: v for k, v in changes.items() if v is not None})
        except ValueError as exc:
            raise ConfigError(f"agents: {entry.id!r}: {exc}") from None
        if card == found.card:
            return found
        if isinstance(found, FunctionAgent):
            return found.with_card(card)
        return FunctionAgent(found, card)

    def _federation(self, entry: AgentSettings, settings: FederationSettings) -> Federation:
        members = self._members(entry.id, settings.members)
        names = {member.card.name for member in members}
        seconds = settings.seconds
        for name in seconds if isinstance(seconds, dict) else ():
            if name not in names:
                raise ConfigError(f"agents: {entry.id!r}: federation.seconds: {name!r} is not a member")
        return Federation(
            members,
            strategy=settings.strategy,
            integrator=self.agent(settings.integrator) if settings.integrator is not None else None,
            name=entry.id,
            description=entry.description or "",
            seconds=seconds,
            quorum=settings.quorum,
        )

    def _ensemble(self, agent_id: str, settings: EnsembleSettings, description: str, **more: Any) -> Ensemble:
        known = {item.name for item in msgspec.structs.fields(EnsembleOptions)}
        options = {name: getattr(settings, name) for name in known}
        members = self._members(agent_id, settings.members)
        return Ensemble(members, name=agent_id, description=description, options=EnsembleOptions(**{**options, **more}))

    def _members(self, agent_id: str, names: Sequence[str]) -> list[Agent]:
        if not names or len(set(names)) != len(names):
            raise ConfigError(f"agents: {agent_id!r}: members: expected the ids of agents, each once")
        return [self.agent(name) for name in names]

    def orchestrator(self) -> Ensemble:
        """The ensemble of all agents that the key ``orchestrator`` asks for (MW-58)."""
        settings = self._settings.orchestrator
        assert settings is not None
        if ORCHESTRATOR in self._entries:
            raise ConfigError(f"agents: {ORCHESTRATOR!r} is made by the key orchestrator; give this agent another id")
        members = settings.members or tuple(self._entries)
        if not members:
            raise ConfigError("orchestrator: requires agents")
        wanted = msgspec.structs.replace(settings, members=members)
        return self._ensemble(ORCHESTRATOR, wanted, "", coordinate_via_nlip=settings.nlip.coordinate_via_nlip)

    # -- nlip -------------------------------------------------------------------------------------

    def nlip_of(self, entry: AgentSettings) -> NlipSettings | None:
        """The routing settings of an agent; None if it is not routed. Its own setting takes precedence over the top
        level.
        """
        top = self._settings.nlip
        orchestrator = self._settings.orchestrator
        enabled = top is not None and top.enabled
        if orchestrator is not None and (orchestrator.nlip.enabled or orchestrator.enable_nlip):
            enabled = True
        for own in (entry.nlip.enabled if entry.nlip is not None else None, entry.enable_nlip):
            if own is not None:
                enabled = own
        return (top or NlipSettings()) if enabled else None

    def routed(self, entry: AgentSettings, agent: Agent) -> Agent:
        """The agent as the gateway exposes it: behind a router, if it is a model and NLIP is enabled for it."""
        settings = self.nlip_of(entry)
        if settings is None or not isinstance(agent, LLM):
            return agent
        own = entry.nlip.router_config if entry.nlip is not None else None
        return Router(agent, agent.toolbox, settings=settings, own=own)


def _placed(exc: ConfigError, entry: AgentSettings) -> ConfigError:
    """The error, with the agent and its key in front if the message does not begin with a key of the file."""
    first = re.split(r"[:.\[]", str(exc).removeprefix("unknown key "), maxsplit=1)[0]
    if first in Settings.__struct_fields__:
        return exc
    kind = next((kind for kind in KINDS if getattr(entry, kind) is not None), "")
    separator = "." if re.match(r"[a-z_]+: ", str(exc)) else ": "
    return ConfigError(f"agents: {entry.id!r}: {kind}{separator}{exc}")


def _nearest(name: str, known: Iterable[str]) -> str:
    hint = suggestion(name, known, otherwise="")
    return f"; {hint}" if hint else ""


def _peer(entry: AgentSettings) -> Peer:
    assert entry.peer is not None
    if entry.envelope:
        if not issubclass(kind_of(entry.peer, entry.protocol), NlipPeer):
            raise ConfigError(f"agents: {entry.id!r}: envelope is for NLIP; is protocol: nlip missing?")
        return connect(entry.peer, protocol=entry.protocol, name=entry.id, envelope=True)
    if entry.version is None:
        return connect(entry.peer, protocol=entry.protocol, name=entry.id)
    if kind_of(entry.peer, entry.protocol).protocol != "mcp":
        raise ConfigError(f"agents: {entry.id!r}: version is for MCP servers; is protocol: mcp missing?")
    return connect(entry.peer, protocol=entry.protocol, name=entry.id, version=entry.version)


def _registered(entry: AgentSettings) -> Agent | None:
    """The agent that an installed package registers under this name."""
    found = plugins.find(plugins.AGENTS, entry.use or "")
    if found is not None and not isinstance(found, Agent):
        raise ConfigError(f"agents: {entry.id!r}: the plugin {entry.use!r} is not an agent; decorate it with @agent")
    return found


def _imported(entry: AgentSettings, beside: Path | None) -> Agent:
    if ":" not in (entry.use or ""):
        known = ", ".join([*BUILTIN, *plugins.names(plugins.AGENTS)])
        raise ConfigError(f"agents: {entry.id!r}: use: expected module:name or one of {known}, not {entry.use!r}")
    made = imported(entry.use or "", beside, f"agents: {entry.id!r}")
    if not isinstance(made, Agent):
        raise ConfigError(f"agents: {entry.id!r}: {entry.use} is not an agent; decorate it with @agent")
    return made

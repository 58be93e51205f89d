"""The types of the configuration file: every key that can be set."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from sabir.agents.ensemble import EnsembleOptions
from sabir.agents.llm import BackendSettings
from sabir.agents.site.settings import SearchSettings, SiteSettings
from sabir.card import Policy
from sabir.federation.gateways import RemoteGateway
from sabir.guard import AuditSettings, Quotas, Rule
from sabir.guard.build import IdentitySettings
from sabir.guard.ecma434 import SecuritySettings
from sabir.guard.egress.addresses import OutboundRules
from sabir.guard.egress.credentials import Service
from sabir.limits import Limits
from sabir.observe.settings import ObserveSettings
from sabir.server.settings import Tls
from sabir.stores.sealing import EncryptionSettings
from sabir.tasks import TaskSettings
from sabir.tools.settings import (
    AgentNlipSettings,
    McpServer,
    NlipSettings,
    OrchestratorNlipSettings,
    ToolSettings,
    WorkspaceSettings,
)
from sabir.uploads import UploadLimits

from .validate import LEVELS


class FederationSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Agents that are asked together, and how their answers are combined."""

    members: tuple[str, ...]  # ids of agents
    strategy: Literal["first", "all", "best", "vote", "merge"] = "all"
    integrator: str | None = None  # the id of the agent that writes the combined answer
    # Time limit per member, or by member.
    seconds: Annotated[float, Meta(gt=0)] | dict[str, Annotated[float, Meta(gt=0)]] = 30.0
    quorum: Annotated[int, Meta(ge=1)] = 1


class GroupSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Agents that all receive a message; the reply contains each of their answers."""

    members: tuple[str, ...]  # ids of agents


class EnsembleSettings(EnsembleOptions, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """Agents that answer, vote, and let one of them present the result."""

    members: tuple[str, ...] = ()  # ids of agents; empty: all of them, for the orchestrator


class OrchestratorSettings(EnsembleSettings, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """The agent ``orchestrator``: an ensemble of all agents, and the default."""

    nlip: OrchestratorNlipSettings = OrchestratorNlipSettings()
    enable_nlip: bool | None = None  # the same as nlip.enabled, as MassGen writes it


class AgentSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """An agent, described by exactly one of ``use``, ``peer``, ``backend``, ``federation``, ``ensemble`` or
    ``group``."""

    id: str
    use: str | None = None  # a Python object: "module:name"; or the name of a builtin: "echo"
    peer: str | None = None  # the address of a remote agent
    protocol: str | None = None  # the peer's protocol, if the address does not imply it
    envelope: bool = False  # whether an NLIP peer gets envelopes of the MassGen design
    version: str | None = None  # MCP version to use with the peer; by default the newest that both support
    description: str | None = None
    backend: BackendSettings | None = None  # a language model
    system_message: str | None = None
    tools: tuple[str | ToolSettings, ...] = ()  # of a language model: module:function, file tools, {mcp:}, {agent:}
    federation: FederationSettings | None = None
    ensemble: EnsembleSettings | None = None
    group: GroupSettings | None = None
    nlip: AgentNlipSettings | None = None
    enable_nlip: bool | None = None  # the same as nlip.enabled, as MassGen writes it
    remembers: bool | None = None


class Log(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is logged, and how."""

    level: Annotated[str, Meta(extra_json_schema={"pattern": f"^(?i:{'|'.join(LEVELS)})$"})] = "info"
    json: bool = False
    access: bool = False  # one line for each request


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Everything that can be configured."""

    host: str = "127.0.0.1"
    port: int = 8080
    home: str = ".sabir"
    workers: Annotated[int, Meta(ge=1)] = 1
    socket: str | None = None  # path of a Unix socket to listen on as well
    store: str | None = None
    bus: str | None = None  # nats://…: many nodes as one gateway; store: or a store's address: messages kept there
    node: str = ""  # name of this node; generated if empty
    encryption: EncryptionSettings | None = None  # key that encrypts contents in the store
    durability: str = "process"
    public_url: str | None = None
    default: str | None = None
    hosts: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    behind_tls_proxy: bool = False
    graceful_seconds: Annotated[float, Meta(ge=0)] = 30.0
    tls: Tls = Tls()
    limits: Limits = Limits()
    quotas: Quotas = Quotas()
    agents: tuple[AgentSettings, ...] = ()
    gateways: dict[str, str | RemoteGateway] = {}  # other gateways, whose agents are listed here as our own
    sites: tuple[SiteSettings, ...] | None = None  # None: the sample sites, unless agents are configured
    sample: bool | None = None  # whether to serve the sample sites; None: only without configured sites and agents
    search: SearchSettings = SearchSettings()
    identity: IdentitySettings = IdentitySettings()
    rights: tuple[Rule, ...] = ()
    filters: tuple[str | dict[str, Any], ...] = ()
    outbound: OutboundRules = OutboundRules()
    services: tuple[Service, ...] = ()
    audit: AuditSettings = AuditSettings()
    observe: ObserveSettings = ObserveSettings()
    tasks: TaskSettings = TaskSettings()
    secrets: tuple[str, ...] | None = None  # newest first; may be env:NAME. None: one is generated and kept in home
    security: SecuritySettings = SecuritySettings()
    policies: tuple[
        Policy, ...
    ] = ()  # the gateway's own; required ones must be accepted before clients can ask an agent
    anonymous: bool = True  # whether anonymous mode can be agreed on
    infer_control: bool = False  # whether messages that are clearly control are treated as such without being labelled
    uploads: UploadLimits = UploadLimits()
    doors: dict[str, Any] = {}
    log: Log = Log()
    mcp_servers: dict[str, McpServer] = {}  # whose tools agents may use
    workspace: str | WorkspaceSettings | None = None  # the folder of the file tools
    nlip: NlipSettings | None = None
    orchestrator: OrchestratorSettings | None = None

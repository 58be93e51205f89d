"""The settings of tools and of their routing.

The keys ``nlip``, ``router``, ``translation`` and ``tokens`` come from the MassGen design (``docs/massgen.md``).
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

Hours = Annotated[float, Meta(gt=0)]
Seconds = Annotated[float, Meta(gt=0)]


class _Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    pass


class McpServer(_Settings, frozen=True):
    """An MCP server whose tools are used: at ``url``, or a ``command`` that is started here."""

    name: str = ""  # for servers in a list, as MassGen writes them
    type: Literal["stdio", "http", "streamable-http", "sse"] | None = None  # if not set, url or command decides
    url: str | None = None
    command: str | None = None
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}  # values may be env:NAME
    cwd: str | None = None
    headers: dict[str, str] = {}  # values may be env:NAME
    version: str | None = None  # MCP version; by default the newest that both support
    only: tuple[str, ...] = ()  # the tools that are offered; empty: all
    allowed_tools: tuple[str, ...] = ()  # the same, as MassGen writes it
    confirm: tuple[str, ...] = ()  # tools that need the caller's consent
    seconds: Seconds | None = None

    def __repr__(self) -> str:
        return f"McpServer(name={self.name!r})"  # never env or headers


class ToolSettings(_Settings, frozen=True):
    """One entry of ``tools`` that is not a name: an MCP server or another agent."""

    mcp: str | None = None  # a key of mcp_servers
    agent: str | None = None  # the id of another agent
    only: tuple[str, ...] = ()  # of an MCP server's tools
    confirm: tuple[str, ...] = ()


class CustomTools(_Settings, frozen=True):
    """Functions of a Python file as tools, in MassGen's notation."""

    path: str
    function: str | tuple[str, ...]
    name: str | tuple[str, ...] = ()  # names of the tools; by default those of the functions
    description: str | tuple[str, ...] = ()
    category: str = ""


class WorkspaceSettings(_Settings, frozen=True):
    """The folder of the file tools."""

    path: str
    writable: bool = True
    read_bytes: Annotated[int, Meta(ge=1)] = 1024 * 1024


class RouterSettings(_Settings, frozen=True):
    """``nlip.router``."""

    enable_message_tracking: bool = True  # whether the session's history is kept
    enable_state_management: bool = True  # whether there are sessions at all
    session_timeout_hours: Hours | None = None  # lifetime of an idle session; None: as in quotas


class TranslationSettings(_Settings, frozen=True):
    """``nlip.translation``: which kinds of tools are offered."""

    mcp_enabled: bool = True
    custom_tools_enabled: bool = True
    builtin_tools_enabled: bool = True

    @property
    def disabled(self) -> frozenset[str]:
        """The kinds of tools that are switched off."""
        kinds = {"mcp": self.mcp_enabled, "custom": self.custom_tools_enabled, "builtin": self.builtin_tools_enabled}
        return frozenset(kind for kind, enabled in kinds.items() if not enabled)


class TokenSettings(_Settings, frozen=True):
    """``nlip.tokens``."""

    auto_generate_sessions: bool = True  # whether a request without a session starts one
    track_conversation_turns: bool = True  # whether conversation_turn is incremented
    persist_context_tokens: bool = False  # whether context tokens outlive the process


class NlipSettings(_Settings, frozen=True):
    """``nlip``: the middleware of the MassGen design."""

    enabled: bool = True
    schema_version: Literal["1.0"] = "1.0"
    router: RouterSettings = RouterSettings()
    translation: TranslationSettings = TranslationSettings()
    tokens: TokenSettings = TokenSettings()


class AgentRouterSettings(_Settings, frozen=True):
    """``agents[].nlip.router_config``."""

    default_timeout: Seconds | None = None  # for each tool call
    enable_streaming: bool = True  # whether deltas are sent as they arrive
    buffer_partial_responses: bool = False  # whether deltas are first buffered into sentences


class AgentNlipSettings(_Settings, frozen=True):
    """``agents[].nlip``. Unset keys follow ``nlip``."""

    enabled: bool | None = None
    router_config: AgentRouterSettings = AgentRouterSettings()


class OrchestratorNlipSettings(_Settings, frozen=True):
    """``orchestrator.nlip``."""

    enabled: bool = False
    coordinate_via_nlip: bool = False  # whether members are asked with NLIP messages through the gateway

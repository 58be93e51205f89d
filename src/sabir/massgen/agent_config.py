"""``AgentConfig``: an agent as MassGen's Python describes it (MW-37)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from sabir.agent import Agent
from sabir.agents.llm import BackendSettings
from sabir.http.door import typed
from sabir.stores.base import Store
from sabir.tools import Tool, ToolSource

from .nlip.router import NLIPRouter
from .tool._manager import ToolManager

ToolLike = Callable[..., Any] | Tool | Agent


class AgentConfig:
    """A model, its tools, and whether its messages are routed by NLIP."""

    def __init__(
        self,
        backend_params: Mapping[str, Any],
        agent_id: str | None = None,
        enable_nlip: bool = False,
        nlip_config: Mapping[str, Any] | None = None,
        system_message: str | None = None,
        tools: Iterable[ToolLike] | ToolManager = (),
        *,
        mcp: Iterable[ToolSource] = (),
        store: Store | None = None,
    ) -> None:
        """
        Args:
            backend_params: the keys of ``agents[].backend`` in a configuration file.
            agent_id: its name; None: from its model.
            enable_nlip: whether it has a router.
            nlip_config: the keys of ``nlip``, and ``router_config``.
            system_message: sent to the model before everything else.
            tools: functions, tools, agents, or a tool manager with them.
            mcp: MCP servers, as ``sabir.tools.McpTools``.
            store: where sessions are kept; None: in memory.

        Raises:
            ConfigError: a key is unknown, or a value is invalid.
        """
        self.backend_params = dict(backend_params)
        self.backend = typed("backend_params", BackendSettings, self.backend_params)
        self.agent_id = agent_id or _name(self.backend)
        self.enable_nlip = enable_nlip
        self.nlip_config = dict(nlip_config) if nlip_config is not None else None
        self.system_message = system_message or ""
        self.tool_manager = tools if isinstance(tools, ToolManager) else ToolManager(tools, sources=mcp)
        self.store = store
        self.nlip_router: NLIPRouter | None = None
        if self.enable_nlip:
            self._init_nlip_router()

    def _init_nlip_router(self) -> None:
        """Rebuild the router from ``nlip_config``."""
        self.nlip_router = NLIPRouter(
            tool_manager=self.tool_manager,
            enable_nlip=True,
            config=self.nlip_config or {},
            store=self.store,
            holder=self.agent_id,
        )


def _name(backend: BackendSettings) -> str:
    words = f"{backend.type}_{backend.model}" if backend.model else f"{backend.type}_agent"
    return "".join(letter if letter.isalnum() or letter in "_.-" else "-" for letter in words)[:64]


__all__ = ["AgentConfig", "ToolLike"]

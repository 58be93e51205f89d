"""Builds the tools of an agent: functions, file tools, MCP servers and other agents (MW-33)."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from sabir import plugins
from sabir.agent import Agent
from sabir.errors import ConfigError, suggestion
from sabir.protocols.connect import connect, kind_of
from sabir.protocols.peer import Peer
from sabir.tools import McpTools, Tool, Toolbox, agent_tool, tool
from sabir.tools.router import protocol_of
from sabir.tools.settings import CustomTools, McpServer, NlipSettings, ToolSettings, WorkspaceSettings
from sabir.tools.workspace import Workspace

from .importing import from_file, imported
from .settings import AgentSettings, Settings

FILE_TOOLS: Final = ("read_file", "list_directory", "search_files", "write_file", "edit_file")


class ToolBuilder:
    """Builds toolboxes; each MCP server is connected once, however many agents use it."""

    def __init__(self, settings: Settings, beside: Path | None, agent: Callable[[str], Agent]) -> None:
        self._settings = settings
        self._beside = beside
        self._agent = agent
        self.servers: dict[str, Peer] = {}

    def toolbox(self, entry: AgentSettings, nlip: NlipSettings | None) -> Toolbox:
        """The tools that an agent may call, without the kinds that ``nlip.translation`` disables.

        Raises:
            ConfigError: a tool is unknown or cannot be made; names the entry.
        """
        disabled = nlip.translation.disabled if nlip is not None else frozenset()
        place = f"agents: {entry.id!r}: tools"
        tools: list[Tool] = []
        sources: list[McpTools] = []
        for item in entry.tools:
            if isinstance(item, str):
                tools.append(self._named(item, place))
            elif item.agent is not None and item.mcp is None:
                tools.append(agent_tool(self._agent(item.agent)))
            elif item.mcp is not None and item.agent is None:
                sources.append(self._server_tools(item, place))
            else:
                raise ConfigError(f"{place}: expected a name, {{mcp: server}} or {{agent: id}}")
        if entry.backend is not None:
            tools += [made for custom_tool in entry.backend.custom_tools for made in self._custom(custom_tool, place)]
            sources += self._massgen_servers(entry)
        tools = [item for item in tools if protocol_of(item.name) not in disabled]
        return Toolbox(tools, sources=[] if "mcp" in disabled else sources)

    def _named(self, name: str, place: str) -> Tool:
        if name in FILE_TOOLS:
            return self._file_tool(name, place)
        found = plugins.find(plugins.TOOLS, name)
        if found is None:
            if ":" not in name:
                known = ", ".join([*FILE_TOOLS, *plugins.names(plugins.TOOLS)])
                raise ConfigError(f"{place}: expected module:function or one of {known}, not {name!r}")
            found = imported(name, self._beside, place)
        return _tool_of(found, name, place)

    def _file_tool(self, name: str, place: str) -> Tool:
        given = self._settings.workspace
        if given is None:
            raise ConfigError(f"{place}: {name} works in a folder; set the key workspace")
        settings = given if isinstance(given, WorkspaceSettings) else WorkspaceSettings(given)
        root = Path(settings.path)
        if not root.is_absolute() and self._beside is not None:
            root = self._beside / root
        if not root.is_dir():
            raise ConfigError(f"workspace: {settings.path}: expected a folder")
        workspace = Workspace(root, settings.read_bytes, settings.writable)
        made = {item.name: item for item in workspace.tools()}
        if name not in made:
            raise ConfigError(f"{place}: {name} writes, and the workspace is not writable")
        return made[name]

    def _server_tools(self, entry: ToolSettings, place: str) -> McpTools:
        name = entry.mcp or ""
        server = self._settings.mcp_servers.get(name)
        if server is None:
            hint = suggestion(name, self._settings.mcp_servers)
            raise ConfigError(f"{place}: there is no MCP server {name!r} in mcp_servers; {hint}")
        only = entry.only or server.only or server.allowed_tools
        return McpTools(self._server(name, server), name, only=only, confirm=(*server.confirm, *entry.confirm))  # type: ignore[arg-type]  # an MCP peer lists tools

    def _massgen_servers(self, entry: AgentSettings) -> list[McpTools]:
        assert entry.backend is not None
        given = entry.backend.mcp_servers
        named = given.items() if isinstance(given, dict) else [(server.name, server) for server in given]
        made = []
        for name, server in named:
            if not name:
                raise ConfigError(f"agents: {entry.id!r}: backend.mcp_servers: expected a name in each entry")
            peer = self._server(f"{entry.id}.{name}", server)
            only = server.only or server.allowed_tools
            made.append(McpTools(peer, name, only=only, confirm=server.confirm))  # type: ignore[arg-type]
        return made

    def _server(self, name: str, server: McpServer) -> Peer:
        if name not in self.servers:
            self.servers[name] = _connected(name, server)
        return self.servers[name]

    def _custom(self, given: CustomTools, place: str) -> Iterable[Tool]:
        functions = _listed(given.function)
        names, words = _listed(given.name), _listed(given.description)
        for item, what in ((names, "name"), (words, "description")):
            if item and len(item) != len(functions):
                raise ConfigError(f"{place}: custom_tools: expected one {what} for each function")
        path = Path(given.path)
        if not path.is_absolute() and self._beside is not None:
            path = self._beside / path
        for number, function in enumerate(functions):
            made = _tool_of(from_file(path, function, place), function, place)
            made = replace(made, name=names[number]) if names else made
            yield replace(made, description=words[number]) if words else made


def _listed(value: str | tuple[str, ...]) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else value


def _tool_of(found: Any, name: str, place: str) -> Tool:
    if isinstance(found, Tool):
        return found
    if isinstance(found, Agent):
        return agent_tool(found)
    if not callable(found):
        raise ConfigError(f"{place}: {name} is neither a function nor a tool")
    made: Tool = tool(found)
    return made


def _connected(name: str, server: McpServer) -> Peer:
    """The peer of an MCP server.

    Raises:
        ConfigError: it has neither or both of url and command, or a variable is not set.
    """
    if (server.url is None) == (server.command is None):
        raise ConfigError(f"mcp_servers.{name}: expected either url or command")
    place = f"mcp_servers.{name}"
    # The server's folders are configured here, so the agent's caller is not asked for its own.
    options: dict[str, Any] = {"name": _peer_name(name), "roots": False}
    if server.version is not None:
        options["version"] = server.version
    if server.seconds is not None:
        options["seconds"] = server.seconds
    if server.url is not None:
        headers = {key: _variable(value, place) for key, value in server.headers.items()}
        return connect(server.url, protocol="mcp", headers=headers, **options)
    make: Any = kind_of("stdio:")
    connections = importlib.import_module("sabir.protocols.mcp.peer.connections")  # with the extra, like its peer
    env = {key: _variable(value, place) for key, value in server.env.items()}
    peer: Peer = make(connections.Program(server.command, server.args, env, server.cwd), **options)
    return peer


def _peer_name(name: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "_.-" else "-" for letter in name)[:64]


def _variable(value: str, place: str) -> str:
    if not value.startswith("env:"):
        return value
    name = value.removeprefix("env:")
    if name not in os.environ:
        raise ConfigError(f"{place}: expected the environment variable {name} to be set; it is not")
    return os.environ[name]

"""The settings with which an MCP client starts ``sabir mcp``: JSON with absolute paths.

Clients start servers in their own folder and without your ``PATH``, so nothing in the settings may be relative.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from sabir.config.app_file import path_of

DEFAULT: Final = "claude-desktop"


class McpClient(NamedTuple):
    """Where a client keeps its servers, and the format of an entry."""

    title: str
    file: str
    wrap: Callable[[str, dict[str, Any]], dict[str, Any]]


def _mcp_servers(name: str, server: dict[str, Any]) -> dict[str, Any]:
    return {"mcpServers": {name: server}}


def _servers(name: str, server: dict[str, Any]) -> dict[str, Any]:
    return {"servers": {name: {"type": "stdio", **server}}}


CLIENTS: Final[Mapping[str, McpClient]] = {
    "claude-desktop": McpClient(
        "Claude Desktop", "claude_desktop_config.json (Settings, Developer, Edit Config)", _mcp_servers
    ),
    "claude-code": McpClient("Claude Code", ".mcp.json in the project", _mcp_servers),
    "cursor": McpClient("Cursor", "~/.cursor/mcp.json, or .cursor/mcp.json in the project", _mcp_servers),
    "windsurf": McpClient("Windsurf", "~/.codeium/windsurf/mcp_config.json", _mcp_servers),
    "vscode": McpClient("VS Code", ".vscode/mcp.json in the workspace", _servers),
}


def settings_for(client: str, arguments: argparse.Namespace, file: Path | None, name: str) -> dict[str, Any]:
    """The settings of a client that starts ``sabir mcp`` with these arguments."""
    program, *args = program_of_this()
    args.append("mcp")
    if file is not None:
        args.append(absolute_place(str(file)))
    home = arguments.home or (None if file is not None else ".sabir")  # beside the configuration, if there is one
    if home is not None:
        args += ["--home", os.path.abspath(home)]
    for flag in ("agent", "store"):
        value = getattr(arguments, flag)
        if value is not None:
            args += [f"--{flag}", value]
    return CLIENTS[client].wrap(name, {"command": program, "args": args})


def absolute_place(place: str) -> str:
    """A configuration file, or a Python file with the name of an object in it, as an absolute path."""
    path = path_of(place) if ".py" in place else Path(place)
    return os.path.abspath(path) + place.removeprefix(str(path))


def program_of_this() -> list[str]:
    """The command that starts this Sabir without ``PATH``: its script, or the interpreter and the module."""
    # Not resolved: the interpreter of a virtual environment is a link, and finds its packages by the link's location.
    python = os.path.abspath(sys.executable)
    script = Path(python).with_name("sabir")
    return [str(script)] if script.exists() else [python, "-m", "sabir"]

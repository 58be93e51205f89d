"""``sabir mcp --print-config``: the settings of MCP clients start this Sabir from any folder, without PATH."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from cli.conftest import Sabir
from sabir.cli.main import BAD_USAGE, OK
from sabir.cli.mcp_clients import CLIENTS

CONFIG = 'agents:\n  - {id: parrot, use: "print_config_shop:parrot"}\n'
APP = "from sabir import agent\n\n@agent\nasync def parrot(turn):\n    return turn.text\n"
HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
}


def server_of(found: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    [servers] = found.values()
    [(name, server)] = servers.items()
    return name, server


@pytest.mark.parametrize("client", CLIENTS)
def test_the_settings_name_absolute_paths(client: str, sabir: Sabir, tmp_path: Path) -> None:
    (tmp_path / "print_config_shop.py").write_text(APP)
    (tmp_path / "sabir.yaml").write_text(CONFIG)
    said = sabir("mcp", "--print-config", "--client", client, "--agent", "parrot")
    assert said.code == OK, said.err
    assert CLIENTS[client].title in said.err
    found = json.loads(said.out)
    assert list(found) == ["servers" if client == "vscode" else "mcpServers"]
    name, server = server_of(found)
    assert name == "parrot"
    assert os.path.isabs(server["command"]) and os.access(server["command"], os.X_OK)
    assert server["args"][-4:] == ["mcp", str(tmp_path / "sabir.yaml"), "--agent", "parrot"]
    assert server.get("type", "stdio") == "stdio"


def test_the_command_runs_in_any_folder_and_keeps_its_home_beside_the_configuration(
    sabir: Sabir, tmp_path: Path
) -> None:
    project, elsewhere = tmp_path / "a project", tmp_path / "elsewhere"
    project.mkdir()
    elsewhere.mkdir()
    (project / "print_config_shop.py").write_text(APP)
    (project / "sabir.yaml").write_text(CONFIG)
    _, server = server_of(json.loads(sabir("mcp", "--print-config", str(project / "sabir.yaml")).out))
    done = subprocess.run(
        [server["command"], *server["args"]],
        input=json.dumps(HELLO) + "\n",
        capture_output=True,
        text=True,
        timeout=600,
        cwd=elsewhere,
        env={"HOME": str(tmp_path)},
    )
    assert json.loads(done.stdout.splitlines()[0])["id"] == 1, done.stderr
    assert (project / ".sabir").is_dir()
    assert not list(elsewhere.iterdir())


def test_without_a_configuration_the_home_is_absolute(sabir: Sabir, tmp_path: Path) -> None:
    _, server = server_of(json.loads(sabir("mcp", "--print-config").out))
    assert server["args"][-3:] == ["mcp", "--home", str(tmp_path / ".sabir")]


def test_a_mistake_is_reported_instead(sabir: Sabir, tmp_path: Path) -> None:
    (tmp_path / "sabir.yaml").write_text(CONFIG.replace("print_config_shop", "shop_that_is_absent"))
    said = sabir("mcp", "--print-config")
    assert (said.code, said.out) == (BAD_USAGE, "") and "shop_that_is_absent" in said.err
    said = sabir("mcp", "--print-config", "--agent", "nobody", str(tmp_path / "absent.yaml"))
    assert said.code == BAD_USAGE

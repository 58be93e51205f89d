"""A language model uses MCP servers that we did not write, over stdio and HTTP, from a YAML file (MW-33).

``mcp-server-time`` and ``mcp-server-git`` are from PyPI, the server for files is the reference one from npm, and
the proxy of ``fastmcp`` gives a server that only speaks stdio an HTTP address.
"""

from __future__ import annotations

import asyncio
import importlib.machinery
import importlib.util
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

from conftest import serving
from deadline import DEADLINE
from free_ports import free_port
from openai_server import calls, scripted
from peers_venv import python_of
from sabir import connect
from sabir.config.build import gateway_of
from sabir.config.load import settings_of

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.timeout(900)


def _conformance() -> ModuleType:
    loader = importlib.machinery.SourceFileLoader("mcp_conformance", str(ROOT / "scripts" / "mcp_conformance"))
    spec = importlib.util.spec_from_loader("mcp_conformance", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def programs() -> Path:
    return python_of("mcp-servers").parent


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("repository")
    (folder / "notes.txt").write_text("The ferry leaves at nine.\n")
    identity = ["-c", "user.name=Ada", "-c", "user.email=ada@example.com"]
    for command in (["init", "-q"], ["add", "."], [*identity, "commit", "-q", "-m", "Note when the ferry leaves"]):
        subprocess.run(["git", *command], cwd=folder, check=True)
    return folder


PROXY = """
import sys
from fastmcp.server import create_proxy
servers = {"mcpServers": {"time": {"command": sys.argv[1], "args": []}}}
create_proxy(servers).run(transport="http", host="127.0.0.1", port=int(sys.argv[2]), show_banner=False)
"""


@pytest.fixture(scope="module")
def http_time(programs: Path) -> Iterator[str]:
    port = free_port()
    command = [python_of("fastmcp"), "-c", PROXY, programs / "mcp-server-time", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    end = time.monotonic() + DEADLINE
    try:
        while process.poll() is None and time.monotonic() < end and not is_open(port):
            time.sleep(0.05)
        assert process.poll() is None, "the proxy did not start"
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.terminate()
        process.wait(DEADLINE)


def is_open(port: int) -> bool:
    with socket.socket() as sock:
        return sock.connect_ex(("127.0.0.1", port)) == 0


TIME = ("mcp__time__convert_time", {"source_timezone": "Asia/Tokyo", "target_timezone": "UTC", "time": "09:00"})


async def used(server: dict[str, Any], name: str, call: tuple[str, dict[str, Any]]) -> tuple[list[str], str, str]:
    """Let a model call a tool of a server; the tools that it was offered, what the tool said, and the reply."""

    def script(body: dict[str, Any]) -> Any:
        last = body["messages"][-1]
        return calls(call) if last["role"] == "user" else f"The tool says: {last['content']}"

    with scripted(script) as model:
        backend = {"type": "openai", "model": "small", "base_url": model.url}
        values = {
            "agents": [{"id": "clerk", "backend": backend, "tools": [{"mcp": name}]}],
            "mcp_servers": {name: server},
            "store": "memory:",
        }
        settings = settings_of(yaml.safe_load(yaml.safe_dump(values)))
        with serving(gateway_of(settings)) as served:
            async with connect(f"{served.url}/nlip/clerk", seconds=120) as peer:
                reply = await peer.ask("Please look it up")
    offered = [tool["function"]["name"] for tool in model.chats[0]["tools"]]
    return offered, str(model.chats[1]["messages"][-1]["content"]), reply.text


async def test_the_time_over_stdio(programs: Path, tmp_path: Path) -> None:
    offered, said, reply = await used({"command": str(programs / "mcp-server-time")}, "time", TIME)
    assert set(offered) == {"mcp__time__get_current_time", "mcp__time__convert_time"}
    assert "00:00:00" in said and "00:00:00" in reply


async def test_the_time_over_http(http_time: str) -> None:
    offered, said, reply = await used({"url": http_time}, "time", TIME)
    assert "mcp__time__convert_time" in offered and "00:00:00" in said and "00:00:00" in reply


async def test_git_over_stdio(programs: Path, repository: Path) -> None:
    server = {"command": str(programs / "mcp-server-git"), "args": ["--repository", str(repository)]}
    call = ("mcp__git__git_log", {"repo_path": str(repository), "max_count": 1})
    offered, said, _ = await used(server, "git", call)
    assert {"mcp__git__git_status", "mcp__git__git_diff"} <= set(offered)
    assert "Note when the ferry leaves" in said


async def test_files_of_the_reference_server_and_nothing_outside_its_folder(repository: Path) -> None:
    program, *rest = await asyncio.to_thread(_conformance().filesystem)
    server = {"command": program, "args": [*rest, str(repository)]}
    call = ("mcp__files__read_text_file", {"path": str(repository / "notes.txt")})
    offered, said, reply = await used(server, "files", call)
    assert "mcp__files__write_file" in offered and said == "The ferry leaves at nine.\n" and "nine" in reply
    _, said, _ = await used(server, "files", ("mcp__files__read_text_file", {"path": "/etc/hostname"}))
    assert said.startswith("Error:") and "denied" in said.lower(), said  # what the server refuses is an error here

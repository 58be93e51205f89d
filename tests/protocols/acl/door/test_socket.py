"""ACL over a Unix socket: programs on this machine, named by the kernel."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from acl_messages import message
from deadline import DEADLINE
from sabir.errors import ConfigError
from sabir.protocols.acl.peer.messenger import Messenger
from sabir.server.unix_socket import bind_unix

CONFIG = """\
agents: [{id: echo, use: "sabir.agents.echo:echo"}]
doors: {mcp: false, a2a: false, nlip-amqp: false}
rights: [{roles: [known]}]
"""
URL = "http://localhost/acl"


@contextmanager
def served(folder: Path, *options: str) -> Iterator[Path]:
    """A gateway process on a Unix socket, and the path of that."""
    path = folder / "sabir.sock"
    config = folder / "sabir.yaml"
    config.write_text(CONFIG)
    command = [sys.executable, "-m", "sabir", "serve", str(config), "--port", "0", "--home", str(folder / "home")]
    process = subprocess.Popen(
        [*command, "--socket", str(path), "--log-level", "error", *options], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        for line in process.stdout:
            if line.startswith("Try:"):
                break
        yield path
    finally:
        process.send_signal(signal.SIGTERM)
        process.stdout.close()
        process.wait(DEADLINE)


def post(path: Path, value: dict[str, Any], **headers: str) -> httpx.Response:
    transport = httpx.HTTPTransport(uds=str(path))
    with httpx.Client(transport=transport) as client:
        return client.post(URL, json=value, headers=headers)


@pytest.mark.parametrize("options", [(), ("--workers", "2")], ids=["one process", "two workers"])
def test_the_kernel_names_the_caller(tmp_path: Path, options: tuple[str, ...]) -> None:  # ACL-45
    with served(tmp_path, *options) as path:
        mode = stat.S_IMODE(path.stat().st_mode)
        given = message(sender={"agent_id": "ada"}, receiver={"agent_id": "echo"})
        known = post(path, given, prefer="wait=20")
        invalid = post(path, {**given, "message_id": "other"}, authorization="Bearer wrong")
        store = f"sqlite:///{tmp_path}/home/sabir.db"
        audit = subprocess.run(
            [sys.executable, "-m", "sabir", "audit", "export", "--store", store], capture_output=True, text=True
        )
    assert (mode & 0o007, known.status_code, known.json()["performative"]) == (0, 200, "TASK_ACCEPT")
    assert invalid.status_code == 401  # a credential that is shown counts, and is not passed over
    assert f"uid:{os.getuid()}" in audit.stdout, audit.stderr
    assert not path.exists()


def test_commands_and_agents_use_the_socket(tmp_path: Path) -> None:  # ACL-45
    with served(tmp_path) as path:
        said = {"performative": "TASK_REQUEST", "payload": {"task_type": "ask", "task_description": "hello"}}
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "sabir",
                "send",
                URL,
                "--socket",
                str(path),
                "--wait",
                "20",
                "--sender",
                "ada",
                "--to",
                "echo",
            ],
            input=json.dumps(said),
            capture_output=True,
            text=True,
        )

        async def ask() -> str:
            async with Messenger(URL, "eddy", socket=str(path)) as eddy:
                return str((await (await eddy.request("echo", "hello")).result(DEADLINE)).payload["result_summary"])

        summary = asyncio.run(ask())
    assert done.stdout.splitlines()[0].split()[1:] == ["echo", "→", "ada", "TASK_ACCEPT"], done.stderr
    assert "hello" in summary


def test_a_socket_that_a_gateway_left_behind_is_replaced_and_nothing_else(tmp_path: Path) -> None:  # ACL-45
    path = tmp_path / "a.sock"
    left = socket.socket(socket.AF_UNIX)
    left.bind(str(path))
    left.close()
    bound = bind_unix(str(path))
    with pytest.raises(ConfigError, match="another process listens on"):
        bind_unix(str(path))
    bound.close()
    path.unlink()
    path.write_text("a letter")
    with pytest.raises(ConfigError, match="exists and is not a socket"):
        bind_unix(str(path))
    assert path.read_text() == "a letter"
    with pytest.raises(ConfigError, match="a path of at most 100 bytes"):
        bind_unix("x" * 101)

"""``sabir ask`` speaks what the address says."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest

from conftest import Served


@pytest.mark.parametrize(
    ("path", "more"),
    [
        ("/ask/echo", ()),
        ("/mcp/echo", ()),
        ("/a2a/echo/.well-known/agent-card.json", ("--stream",)),
        ("", ("--protocol", "a2a")),
    ],
)
async def test_one_command_for_every_protocol(far: Served, tmp_path: Path, path: str, more: tuple[str, ...]) -> None:
    command = [sys.executable, "-m", "sabir", "ask", f"{far.url}{path}", "hello", *more]
    process = await asyncio.create_subprocess_exec(
        *command, cwd=tmp_path, env={**os.environ, "HOME": str(tmp_path)}, stdout=asyncio.subprocess.PIPE
    )
    said, _ = await process.communicate()
    assert (process.returncode, said.decode().strip()) == (0, "You said: hello")

"""Two gateway processes on one PostgreSQL and one NATS behind a round-robin; one is killed in mid-task."""

from __future__ import annotations

import asyncio
import socket
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "cluster_durability.py"


def _listens(port: int) -> bool:
    with socket.socket() as sock:
        return sock.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.slow
@pytest.mark.skipif(not (_listens(5432) and _listens(4222)), reason="needs PostgreSQL and NATS: scripts/services")
async def test_five_kills_lose_nothing_and_double_nothing() -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(SCRIPT),
        "--runs",
        "5",
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said = (await process.communicate())[0].decode()
    assert process.returncode == 0, said
    assert "5 tasks: nothing lost, nothing doubled" in said

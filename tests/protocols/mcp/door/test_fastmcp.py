"""``fastmcp``'s client from PyPI, in an environment of its own, against our door."""

from __future__ import annotations

import asyncio
import json
import subprocess
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from conftest import Serve
from deadline import DEADLINE
from peers_venv import python_of
from sabir.agent import agent
from sabir.agents.echo import echo
from sabir.errors import TurnFailed
from sabir.events import Event, Progress, Question
from sabir.gateway.gateway import Gateway
from sabir.turn import Turn

CLIENT = Path(__file__).resolve().parent / "fastmcp_client.py"
ended: list[str] = []


@agent
async def curious(turn: Turn) -> str:
    schema = {"type": "object", "properties": {"size": {"type": "string"}}, "required": ["size"]}
    return f"You want {(await turn.ask(Question('Which size?', schema=schema, id='size'))).text}"


@agent
async def slow(turn: Turn) -> AsyncIterator[Event | str]:
    for done in (0.5, 1.0):
        yield Progress(done)
    yield "done"


@agent
async def broken(turn: Turn) -> str:
    raise TurnFailed("it does not work")


@agent
async def endless(turn: Turn) -> AsyncIterator[Event | str]:
    yield Progress(0.1)
    try:
        await asyncio.sleep(600)
    finally:
        ended.append("endless")


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_fastmcps_client_lists_calls_answers_and_cancels(serve: Serve, home: Path) -> None:
    python = python_of("fastmcp")
    served = serve(Gateway(echo, curious, slow, broken, endless, home=home, store="memory:"))
    done = subprocess.run(
        [str(python), str(CLIENT), f"{served.url}/mcp"], capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads(done.stdout.splitlines()[-1]) == {
        "tools": ["echo", "curious", "slow", "broken", "endless"],
        "echoed": "You said: hi",
        "asked": "You want large",
        "told": [[50, 100], [100, 100], [10, 100]],
        "failed": True,
        "after": "You said: still here",
    }
    end = time.monotonic() + DEADLINE
    while not ended and time.monotonic() < end:
        time.sleep(0.01)
    assert ended == ["endless"]

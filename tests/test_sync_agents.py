"""Sync functions as agents: off the event loop, many at the same time, and nothing that holds up the end."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading

import pytest

from deadline import DEADLINE
from sabir import Message, Turn, agent
from sabir.agent import reply_of


async def test_many_run_at_the_same_time() -> None:
    together = threading.Barrier(30)  # passes only if all thirty are there at once

    @agent
    def meeting(turn: Turn) -> str:
        together.wait(timeout=DEADLINE)
        return "met"

    turns = (reply_of(meeting(Turn(Message.text("x")))) for _ in range(30))
    assert [reply.text for reply in await asyncio.gather(*turns)] == ["met"] * 30


async def test_a_stop_iteration_that_escapes_is_a_failure_and_not_a_silence() -> None:
    @agent
    def empty(turn: Turn) -> str:
        return next(iter(()))

    with pytest.raises(RuntimeError, match="StopIteration"):
        await asyncio.wait_for(reply_of(empty(Turn(Message.text("x")))), DEADLINE)


def test_one_that_never_returns_does_not_keep_the_process() -> None:
    script = """
import asyncio, threading
from sabir import Message, Turn, agent
from sabir.agent import reply_of

@agent
def stuck(turn):
    threading.Event().wait()

async def main():
    try:
        await asyncio.wait_for(reply_of(stuck(Turn(Message.text("x")))), 0.1)
    except TimeoutError:
        print("gave up")

asyncio.run(main())
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=DEADLINE, check=True)
    assert done.stdout == "gave up\n"

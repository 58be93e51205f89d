"""What a shortcut saves, end to end: the same gateway with and without it, alternating, in CPU per request.

    python bench/shortcuts.py [--seconds 0.8] [--rounds 7] [--connections 16]

- ``timer``: one timer for all turns, compared with ``asyncio.timeout`` around each, and with two timers for each (its
  deadline, and the start of watching its client).
- ``nats``: the fast path of calls over NATS, compared with nats-py's own. Two nodes, an agent on the other one, one
  question at a time and many; the CPU of both is counted. Needs NATS at 127.0.0.1:4222 and PostgreSQL at
  127.0.0.1:5432.

What the byte-by-byte proxy for an MCP server saves is in ``bench/mcp_call.py``: ``messages`` compared with ``gateway``.
A shortcut stays if it saves 5 % (docs/decisions.md).
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from urllib.error import URLError
from urllib.request import Request, urlopen
from uuid import uuid4

import uvloop
from load import drive
from nlip_echo import BODY, SABIR, varied
from processes import cpu_of, server

NATS = os.environ.get("SABIR_TEST_NATS", "nats://127.0.0.1:4222")
POSTGRES = os.environ.get("SABIR_TEST_POSTGRES", "postgresql://127.0.0.1:5432/test")
OURS = Path(sys.executable)

# Each runs in the process of a gateway before it starts.
TIMEOUT_EACH = """
import asyncio
import sabir
from sabir.exchange import exchange
from sabir.exchange.deadlines import TurnTimer
from sabir.exchange.run import answer_of
async def with_timeout(agent, turn, sink, services):
    async with asyncio.timeout(120.0):
        return await answer_of(agent, turn, sink, services)
exchange.answer_of = with_timeout
TurnTimer.enter = lambda self, sink: self._running.__setitem__(sink, asyncio.current_task())
"""
TWO_TIMERS_EACH = """
import asyncio
import sabir
from sabir.exchange.deadlines import TurnTimer
handles = {}
def enter(self, sink):
    task, loop = asyncio.current_task(), asyncio.get_running_loop()
    self._running[sink] = task
    handles[sink] = loop.call_later(120.0, task.cancel), loop.call_later(0.1, sink.on_slow or task.done, task)
def leave(self, sink):
    del self._running[sink]
    for handle in handles.pop(sink):
        handle.cancel()
TurnTimer.enter, TurnTimer.leave = enter, leave
"""
NATS_PY = """
from nats.aio.client import Client
from sabir.bus.nats_client import QuickClient
QuickClient.put = lambda *_: False
QuickClient._read_loop, QuickClient._process_msg = Client._read_loop, Client._process_msg
"""
NODE = """
import sys
from sabir import Gateway, agent
@agent(name=sys.argv[3], description="Repeats what it hears", remembers=False)
async def echo(turn):
    return turn.text
off = {"mcp": False, "a2a": False, "nlip-amqp": False}
gateway = Gateway(echo, home=sys.argv[2], node=sys.argv[3], bus=sys.argv[4], store=sys.argv[5], secrets=["x" * 40],
                  doors=off)
gateway.run(port=int(sys.argv[1]), say=lambda line: None)
"""


@dataclass
class Variant:
    """A gateway, or two, and the address to ask."""

    name: str
    port: int
    pids: tuple[int, ...]
    path: str
    costs: list[float] = field(default_factory=list)  # CPU a request, in microseconds


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seconds", type=float, default=0.8)
    options.add_argument("--rounds", type=int, default=7)
    options.add_argument("--connections", type=int, default=16)
    chosen = options.parse_args()
    home = Path(tempfile.mkdtemp(prefix="sabir-bench-"))
    try:
        for kind in ("stateless", "durable"):
            with timers(home, kind) as up:
                compare(up, chosen.connections, chosen.seconds, chosen.rounds)
        with nodes(home) as up:
            for count in (1, chosen.connections):  # what helps a single question may not help many
                compare(up, count, chosen.seconds, chosen.rounds)
    finally:
        shutil.rmtree(home, ignore_errors=True)


@contextmanager
def timers(home: Path, kind: str) -> Iterator[list[Variant]]:
    """One gateway for each way to end overdue turns."""
    ways = {"one timer": "", "asyncio.timeout": TIMEOUT_EACH, "two timers": TWO_TIMERS_EACH}
    with ExitStack() as running:
        up = []
        for name, patch in ways.items():
            where = str(home / f"{kind} {name}")
            port, pid = running.enter_context(server(OURS, patch + SABIR, kind, where))
            up.append(Variant(f"{kind}, {name}", port, (pid,), "/nlip"))
        yield up


@contextmanager
def nodes(home: Path) -> Iterator[list[Variant]]:
    """Two nodes for each NATS client."""
    with ExitStack() as running:
        up = []
        for name, patch in {"NATS, short way": "", "NATS, nats-py": NATS_PY}.items():
            mark = uuid4().hex[:8]
            bus = f"{NATS}?prefix=bench{mark}"
            pair = [
                running.enter_context(
                    server(OURS, patch + NODE, str(home / f"{item}{mark}"), item + mark, bus, POSTGRES)
                )
                for item in ("far", "near")
            ]
            variant = Variant(name, pair[1][0], (pair[0][1], pair[1][1]), f"/nlip/far{mark}")
            wait_for(variant)
            up.append(variant)
        yield up


def wait_for(variant: Variant) -> None:
    """Wait until the near node knows the agent of the remote one."""
    end = time.monotonic() + 30
    while True:
        try:
            urlopen(Request(f"http://127.0.0.1:{variant.port}{variant.path}", BODY), timeout=5).read()
            return
        except URLError:
            if time.monotonic() > end:
                raise SystemExit("the nodes did not find each other") from None
            time.sleep(0.2)


def compare(up: Sequence[Variant], connections: int, seconds: float, rounds: int) -> None:
    requests = {variant.name: varied(variant.path) for variant in up}
    for variant in up:
        variant.costs.clear()
    for number in range(-1, rounds):  # one more as warm-up
        for variant in up if number % 2 else reversed(up):
            before = sum(map(cpu_of, variant.pids))
            result = uvloop.run(drive("127.0.0.1", variant.port, requests[variant.name], connections, seconds))
            if result.failures:
                raise SystemExit(f"{variant.name}: {result.failures} wrong answers")
            if number >= 0:
                variant.costs.append((sum(map(cpu_of, variant.pids)) - before) / result.requests * 1e6)
    first = up[0].costs
    for variant in up:
        ratio = median(mine / theirs for mine, theirs in zip(variant.costs, first, strict=True))
        costs = f"least {min(variant.costs):>6.1f}  median {median(variant.costs):>6.1f} µs of CPU a request"
        print(f"{variant.name:28} {connections:>3} connections  {costs}  × {ratio:.2f}", flush=True)


if __name__ == "__main__":
    main()

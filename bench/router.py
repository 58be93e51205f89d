"""A routed trivial tool: the bare function, the tool manager, NLIPRouter, and NLIPRouter with rights and audit on.

    python bench/router.py [--calls 5000] [--rounds 5]

Prints the CPU of one call, the bytes of an idle session, how long eight parallel tools of 100 ms take, and how much
memory grows while a result of 50 MB passes. The figures of massgen.nlip 0.1.97 were measured once on another machine:
its installation has 265 packages and 1.4 GB. Only the ratio between the routed call and the bare function is comparable
across machines.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import resource
import statistics
import tempfile
import time
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

from sabir import Message, Turn
from sabir.guard import Rights, Rule
from sabir.guard.audit.log import AuditBuffer
from sabir.massgen.nlip.router import NLIPRouter
from sabir.massgen.nlip.schema import (
    NLIPControlField,
    NLIPFormatField,
    NLIPMessageType,
    NLIPRequest,
    NLIPTokenField,
    NLIPToolCall,
)
from sabir.massgen.nlip.state_manager import NLIPStateManager
from sabir.massgen.nlip.token_tracker import NLIPTokenTracker
from sabir.massgen.tool._manager import ToolManager
from sabir.stores import open_store
from sabir.turn import Caller

MASSGEN = {"bare": 4.5, "without the layer": 32.0, "routed": 102.0, "session": 4100}  # µs and bytes, recorded


async def add(a: int, b: int) -> int:
    return a + b


def request(*names: str, timestamp: str = "2026-01-01T00:00:00Z", **parameters: Any) -> NLIPRequest:
    return NLIPRequest(
        format=NLIPFormatField(),
        control=NLIPControlField(message_type=NLIPMessageType.REQUEST, message_id="m", timestamp=timestamp),
        token=NLIPTokenField(session_id="s"),
        content={},
        tool_calls=[
            NLIPToolCall(tool_id=str(n), tool_name=name, parameters=parameters) for n, name in enumerate(names)
        ],
    )


async def cpu(call: Callable[[], Awaitable[Any]], calls: int, rounds: int) -> float:
    """Microseconds of CPU per call, the median of the rounds."""
    found = []
    for _ in range(rounds):
        before = time.process_time()
        for _ in range(calls):
            await call()
        found.append((time.process_time() - before) / calls * 1e6)
    return statistics.median(found)


async def measure_calls(calls: int, rounds: int) -> dict[str, float]:
    manager = ToolManager([add])
    router = NLIPRouter(manager, config={"router": {"enable_message_tracking": False}})
    off = NLIPRouter(manager, enable_nlip=False)
    rights = Rights((Rule(roles=("known",), tools=("add",)),))
    caller = Caller(id="ann", kind="key")

    def permit(*, tool: str = "", skill: str = "") -> None:
        rights.check(caller, agent="router", tool=tool)

    asked = request("add", a=1, b=2)

    async def routed(which: NLIPRouter, turn: Turn | None = None) -> None:
        async for _ in which.route_message(asked, turn):
            pass

    async def from_json() -> None:
        async for response in router.route_message(NLIPRequest.model_validate_json(text)):
            response.model_dump_json()

    text = asked.model_dump_json()

    with tempfile.TemporaryDirectory() as folder:
        store = open_store(f"sqlite:///{Path(folder) / 'bench.db'}")
        await store.open()
        notes = AuditBuffer(store)

        async def guarded() -> None:
            turn = Turn(Message.text(""), caller=caller, permit=permit, used=[])
            await routed(router, turn)
            notes.add(turn, "bench", 0)
            if len(notes._noted) >= 1000:  # as often as a busy gateway writes them
                await notes._write()

        found = {
            "bare": await cpu(lambda: add(1, 2), calls * 10, rounds),
            "tool manager": await cpu(lambda: manager.execute_tool("add", {"a": 1, "b": 2}), calls, rounds),
            "passed through": await cpu(lambda: routed(off), calls, rounds),
            "routed": await cpu(lambda: routed(router), calls, rounds),
            "routed, rights, audit": await cpu(guarded, calls, rounds),
            "routed, JSON in and out": await cpu(from_json, calls, rounds),
        }
        await notes.close()
        await store.close()
    return found


async def session_bytes(number: int = 5000) -> float:
    manager, tracker = NLIPStateManager(), NLIPTokenTracker()
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for _ in range(number):
        token = tracker.create_session_token()
        await manager.create_session(token.session_id or "")
    gc.collect()
    used = (tracemalloc.get_traced_memory()[0] - before) / number
    tracemalloc.stop()
    return used


async def parallel_milliseconds() -> float:
    async def slow() -> str:
        await asyncio.sleep(0.1)
        return "done"

    router = NLIPRouter(ToolManager([slow]))
    began = time.perf_counter()
    async for _ in router.route_message(request(*["slow"] * 8)):
        pass
    return (time.perf_counter() - began) * 1000


async def large_result_growth() -> float:
    """Megabytes by which the process grows while 50 MB pass."""

    class Large:
        async def execute_tool(self, tool_name: str, parameters: dict[str, Any], **options: Any) -> Any:
            return self._pieces()

        async def _pieces(self) -> AsyncIterator[str]:
            for _ in range(800):
                yield "x" * 65536

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    passed = 0
    async for response in NLIPRouter(Large()).route_message(request("large")):
        passed += len(response.content.get("content") or "")
    assert passed == 800 * 65536
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    calls = await measure_calls(arguments.calls, arguments.rounds)
    found = {
        "cpu_us": calls,
        "session_bytes": await session_bytes(),
        "parallel_ms": await parallel_milliseconds(),
        "large_mb": await large_result_growth(),
    }
    if arguments.json:
        print(json.dumps(found))
        return
    for name, micros in calls.items():
        print(f"{name:<24}{micros:8.1f} µs of CPU")
    ratio = calls["routed, rights, audit"] / MASSGEN["routed"]
    print(f"massgen.nlip, recorded  {MASSGEN['routed']:8.1f} µs of CPU; ours is {ratio:.2f} of it")
    print(f"idle session            {found['session_bytes']:8.0f} bytes (massgen.nlip: {MASSGEN['session']})")
    print(f"8 tools of 100 ms       {found['parallel_ms']:8.0f} ms")
    print(f"growth for 50 MB        {found['large_mb']:8.1f} MB")


if __name__ == "__main__":
    asyncio.run(main())

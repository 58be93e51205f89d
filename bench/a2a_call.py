"""One trivial A2A call: a server of the bare ``a2a-sdk`` and Sabir's door side by side, one worker each.

    python bench/a2a_call.py [--seconds 4] [--connections 1,16] [--rounds 3]

All servers run at once and are loaded in turn, round by round, so that a slow moment of the machine falls on each.
The SDK's server keeps tasks in memory and has no limits, rights, conversation or audit; Sabir stores the turn, its
audit entry and the task in SQLite. ``SendMessage`` over JSON-RPC: the agent repeats its input. Every message has an
id and words of its own; the same message again would be answered from the record. Prints calls per second, latency and
server CPU per call, the median of the rounds, and the CPU ratios: the target is at most 1.3.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import statistics
import sys
import tempfile
from contextlib import ExitStack
from uuid import uuid4

import uvloop
from load import Result, drive
from nlip_echo import WORDS
from processes import cpu_of, server

AIM = 1.3
CALLS_PER_SECOND = 8_000  # calls a second: so many are made ahead

BARE = """
import logging, sys, uvicorn
from a2a.helpers import new_task_from_user_message, new_text_message
from a2a.server.agent_execution import AgentExecutor
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import a2a_pb2 as pb
from starlette.applications import Starlette
logging.disable(logging.CRITICAL)

class Echo(AgentExecutor):
    async def execute(self, context, event_queue):
        words = context.get_user_input()
        if sys.argv[2] == "message":
            return await event_queue.enqueue_event(new_text_message(words, context_id=context.context_id))
        task = new_task_from_user_message(context.message)
        await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, task.id, task.context_id)
        await updater.add_artifact([pb.Part(text=words)])
        await updater.complete()
    async def cancel(self, context, event_queue):
        raise NotImplementedError

url = f"http://127.0.0.1:{sys.argv[1]}/"
card = pb.AgentCard(name="echo", description="Repeats what it hears", version="1",
    supported_interfaces=[pb.AgentInterface(url=url, protocol_binding="JSONRPC", protocol_version="1.0")],
    capabilities=pb.AgentCapabilities(streaming=True), default_input_modes=["text/plain"],
    default_output_modes=["text/plain"], skills=[pb.AgentSkill(id="e", name="e", description="e", tags=["e"])])
handler = DefaultRequestHandler(Echo(), InMemoryTaskStore(), card)
app = Starlette(routes=[*create_agent_card_routes(card), *create_jsonrpc_routes(handler, "/a2a")])
uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="critical", access_log=False,
            loop="uvloop", http="httptools")
"""

SABIR = """
import sys
from sabir import Gateway, agent
@agent(name="echo", description="Repeats what it hears")
async def echo(turn):
    return turn.text
Gateway(echo, home=sys.argv[3]).run(port=int(sys.argv[1]), say=lambda line: None)
"""


def request(number: int) -> bytes:
    text = " ".join(WORDS[: 1 + number % len(WORDS)])
    message = {"messageId": uuid4().hex, "role": "ROLE_USER", "parts": [{"text": text}]}
    call = {"jsonrpc": "2.0", "id": number, "method": "SendMessage", "params": {"message": message}}
    body = json.dumps(call).encode()
    head = "POST /a2a HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nA2A-Version: 1.0\r\n"
    return head.encode() + b"Content-Length: %d\r\n\r\n" % len(body) + body


def measure(port: int, pid: int, connections: int, seconds: float) -> tuple[Result, float]:
    fresh = [request(number) for number in range(int(CALLS_PER_SECOND * seconds))]
    before = cpu_of(pid)
    result = uvloop.run(drive("127.0.0.1", port, fresh, connections, seconds))
    return result, (cpu_of(pid) - before) / max(1, result.requests)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seconds", type=float, default=4.0)
    options.add_argument("--connections", default="1,16")
    options.add_argument("--rounds", type=int, default=3)
    chosen = options.parse_args()
    home = tempfile.mkdtemp(prefix="sabir-bench-")
    scripts = {
        "a2a-sdk message": (BARE, ("message",)),
        "a2a-sdk task": (BARE, ("task",)),
        "sabir": (SABIR, ("task", home)),
    }
    try:
        with ExitStack() as stack:
            running = {name: stack.enter_context(server(sys.executable, s, *a)) for name, (s, a) in scripts.items()}
            for port, pid in running.values():
                measure(port, pid, 4, 1.0)  # warm up
            for count in (int(n) for n in chosen.connections.split(",")):
                show(count, running, chosen.rounds, chosen.seconds)
    finally:
        shutil.rmtree(home, ignore_errors=True)


def show(count: int, running: dict[str, tuple[int, int]], rounds: int, seconds: float) -> None:
    got: dict[str, list[tuple[Result, float]]] = {name: [] for name in running}
    for _ in range(rounds):
        for name, (port, pid) in running.items():
            got[name].append(measure(port, pid, count, seconds))
    cpus = {name: statistics.median(cpu for _, cpu in item) for name, item in got.items()}
    print(f"{count} connections{'':10} {'calls/s':>8} {'p50 ms':>8} {'p99 ms':>8} {'cpu µs/call':>12} {'× cpu':>18}")
    for name, entry in got.items():
        rate, p50, p99 = (
            statistics.median(getattr(result, what) for result, _ in entry) for what in ("rate", "p50", "p99")
        )
        ratios = "  ".join(f"{cpus[name] / cpus[base]:.2f}" for base in cpus if base != name and base != "sabir")
        raised = sum(result.failures for result, _ in entry)
        print(
            f"  {name:22} {rate:>8.0f} {p50 * 1e3:>8.2f} {p99 * 1e3:>8.2f} {cpus[name] * 1e6:>12.0f} {ratios:>18}"
            + (f"  {raised} wrong" if raised else ""),
            flush=True,
        )
    for base in ("a2a-sdk message", "a2a-sdk task"):
        ratio = cpus["sabir"] / cpus[base]
        print(f"  sabir / {base}: {ratio:.2f} ({'within' if ratio <= AIM else 'over'} {AIM})")


if __name__ == "__main__":
    asyncio.set_event_loop_policy(None)
    main()

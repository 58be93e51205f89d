"""One trivial MCP tool call: the bare SDK's server, Sabir's door, Sabir's three proxies for it, FastMCP's proxy.

    python bench/mcp_call.py [--seconds 1] [--connections 8] [--rounds 9] [--version 2025-11-25]

The three proxies are: ``gateway``, byte by byte at ``/mcp/{agent}``; ``messages``, the same with a filter configured
(one that changes nothing); ``exposed``, the server's tool at ``/mcp`` by ``expose``, a turn with record and audit.

All run at once, one worker each, and are loaded in turn, in many short rounds, because no machine is equally fast all
the time. Every call differs from the last: its id, its trace context, its text and length. The bare server answers from
memory; Sabir's door stores the turn and its audit entry in SQLite, and all of Sabir's variants have rights, audit and
trace on. Only the CPU of the process named is counted, not that of the server behind it. Prints the medians of the
rounds: calls per second, latency, CPU per call, and that CPU divided by the SDK server's in the same round, which is
what to compare between two commits. Two targets: the door within 1.3 times the bare server's CPU, and the gateway with
at least 10 times the calls per CPU second of FastMCP's proxy.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import random
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from urllib.request import Request, urlopen

import uvloop
from nlip_echo import WORDS
from processes import cpu_of, server
from venvs import python_with

DOOR_AIM, GATEWAY_AIM = 1.3, 10.0
CLIENT = {"name": "bench", "version": "1"}
VARIED = 5_000  # calls, each unlike the others
Call = tuple[bytes, bytes]  # what is sent, and what its answer must have in it

BARE = """
import sys, uvicorn
from mcp.server.lowlevel import Server
import mcp_types as types
SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
async def list_tools(ctx, params):
    return types.ListToolsResult(tools=[types.Tool(name="echo", description="Repeats", input_schema=SCHEMA)])
async def call_tool(ctx, params):
    return types.CallToolResult(content=[types.TextContent(type="text", text=params.arguments["text"])])
app = Server("bare", on_list_tools=list_tools, on_call_tool=call_tool).streamable_http_app()
uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="critical", access_log=False,
            loop="uvloop", http="httptools")
"""

SABIR = """
import sys
from sabir import Gateway, agent
from sabir.guard import Filters, Rights, Rule
from sabir.guard.filters.base import TextFilter
from sabir.protocols.mcp.peer.peer import McpPeer
@agent(name="echo", description="Repeats what it hears")
async def echo(turn):
    return turn.text
class Nothing(TextFilter):
    name = "nothing"
    ways = ("inbound", "outbound")
    def words(self, text):
        return text
behind = [McpPeer(sys.argv[3], name="behind")] if len(sys.argv) > 3 else []
rights = Rights((Rule(roles=("anonymous",), agents=("*",), tools=("echo",)),))
doors = {"mcp": {"expose": ["behind"]}} if behind else {}
filters = Filters((Nothing(),) if "filtered" in sys.argv else ())
gateway = Gateway(echo, *behind, home=sys.argv[2], rights=rights, doors=doors, filters=filters)
gateway.run(port=int(sys.argv[1]), say=lambda line: None)
"""

PROXY = """
import sys
from fastmcp.server import create_proxy
create_proxy(sys.argv[2]).run(transport="http", host="127.0.0.1", port=int(sys.argv[1]), path="/mcp",
                              show_banner=False, log_level="CRITICAL")
"""


@dataclass
class Target:
    name: str
    port: int
    pid: int
    path: str
    tool: str = "echo"
    got: list[tuple[float, float, float, float]] = field(default_factory=list)  # calls/s, p50, p99, cpu a call


def head(target: Target, body: bytes, more: dict[str, str]) -> bytes:
    lines = [f"POST {target.path} HTTP/1.1", f"Host: 127.0.0.1:{target.port}", "Content-Type: application/json"]
    lines += ["Accept: application/json, text/event-stream", f"Content-Length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in more.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode() + body


def prepared(target: Target, version: str, count: int) -> list[Call]:
    """This many calls, in one session if the version has them: no two have the same head or the same body."""
    chance = random.Random(7)
    headers, about = {"Mcp-Protocol-Version": version}, {}
    if version == "2026-07-28":
        headers |= {"Mcp-Method": "tools/call", "Mcp-Name": target.tool}
        reserved = "io.modelcontextprotocol/"
        about["_meta"] = {
            f"{reserved}protocolVersion": version,
            f"{reserved}clientInfo": CLIENT,
            f"{reserved}clientCapabilities": {},
        }
    else:
        headers["Mcp-Session-Id"] = session(target, version)
    calls = []
    for item_id in range(1, count + 1):
        text = " ".join(chance.choices(WORDS, k=chance.randint(1, 30)))
        params = {"name": target.tool, "arguments": {"text": text}, **about}
        call = {"jsonrpc": "2.0", "id": item_id, "method": "tools/call", "params": params}
        trace = f"00-{chance.getrandbits(128) or 1:032x}-{chance.getrandbits(64) or 1:016x}-01"
        calls.append((head(target, json.dumps(call).encode(), {**headers, "traceparent": trace}), text.encode()))
    return calls


def session(target: Target, version: str) -> str:
    def post(message: dict[str, object], item_id: str | None = None) -> str | None:
        headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        if item_id is not None:
            headers |= {"Mcp-Session-Id": item_id, "Mcp-Protocol-Version": version}
        url = f"http://127.0.0.1:{target.port}{target.path}"
        with urlopen(Request(url, json.dumps(message).encode(), headers), timeout=20) as response:
            response.read()
            return response.headers.get("mcp-session-id")

    params = {"protocolVersion": version, "capabilities": {}, "clientInfo": CLIENT}
    item_id = post({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}) or ""
    post({"jsonrpc": "2.0", "method": "notifications/initialized"}, item_id)
    return item_id


class Caller(asyncio.Protocol):
    """One keep-alive connection that calls again as soon as it has the answer, whole or in chunks."""

    def __init__(self, calls: Iterator[Call], end: float, times: list[float]) -> None:
        self.calls, self.end, self.times = calls, end, times
        self.failures = 0
        self.done = asyncio.get_running_loop().create_future()
        self._buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self._send()

    def _send(self) -> None:
        self._at = time.perf_counter()
        if self._at >= self.end:
            self.transport.close()
            self._finish()
        else:
            sent, self._expected = next(self.calls)
            self.transport.write(sent)  # type: ignore[attr-defined]

    def _finish(self) -> None:
        if not self.done.done():
            self.done.set_result(None)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        at = self._buffer.find(b"\r\n\r\n")
        if at < 0:
            return
        top = self._buffer[:at].lower()
        if b"transfer-encoding: chunked" in top:
            whole = self._buffer.endswith(b"\r\n0\r\n\r\n")
        else:
            whole = len(self._buffer) >= at + 4 + int(top.partition(b"content-length:")[2].split(b"\r\n", 1)[0])
        if whole:
            if not top.startswith(b"http/1.1 200") or self._expected not in self._buffer:
                self.failures += 1
            self._buffer = b""
            self.times.append(time.perf_counter() - self._at)
            self._send()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.done.done():
            self.failures += 1
            self._finish()


async def drive(port: int, calls: Iterator[Call], connections: int, seconds: float) -> tuple[list[float], float, int]:
    loop = asyncio.get_running_loop()
    times: list[float] = []
    began = time.perf_counter()
    callers = []
    for _ in range(connections):
        made = partial(Caller, calls, began + seconds, times)
        _, caller = await loop.create_connection(made, "127.0.0.1", port)
        callers.append(caller)
    await asyncio.gather(*(caller.done for caller in callers))
    return sorted(times), time.perf_counter() - began, sum(caller.failures for caller in callers)


def measure(target: Target, calls: Iterator[Call], connections: int, seconds: float) -> None:
    before = cpu_of(target.pid)
    times, took, raised = uvloop.run(drive(target.port, calls, connections, seconds))
    if raised or not times:
        raise SystemExit(f"{target.name}: {raised} wrong answers of {len(times)}")
    cpu = (cpu_of(target.pid) - before) / len(times)
    target.got.append((len(times) / took, statistics.median(times), times[int(len(times) * 0.99)], cpu))


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seconds", type=float, default=1.0)
    options.add_argument("--connections", type=int, default=8)
    options.add_argument("--rounds", type=int, default=9)
    options.add_argument("--version", choices=("2025-11-25", "2026-07-28"), default="2025-11-25")
    chosen = options.parse_args()
    proxy_python = str(python_with("fastmcp", "fastmcp>=4.1"))
    homes = [tempfile.mkdtemp(prefix="sabir-bench-") for _ in range(3)]
    try:
        with ExitStack() as stack:
            port, pid = stack.enter_context(server(sys.executable, BARE, path="/mcp"))
            url = f"http://127.0.0.1:{port}/mcp"
            door = stack.enter_context(server(sys.executable, SABIR, homes[0], path="/mcp"))
            front = stack.enter_context(server(sys.executable, SABIR, homes[1], url, path="/mcp"))
            filtered = stack.enter_context(server(sys.executable, SABIR, homes[2], url, "filtered", path="/mcp"))
            proxy = stack.enter_context(server(proxy_python, PROXY, url, path="/mcp"))
            targets = [
                Target("mcp SDK server", port, pid, "/mcp"),
                Target("sabir door", *door, "/mcp"),
                Target("sabir gateway", *front, "/mcp/behind"),
                Target("sabir messages", *filtered, "/mcp/behind"),
                Target("sabir exposed", *front, "/mcp", "behind-echo"),
                Target("FastMCP proxy", *proxy, "/mcp"),
            ]
            calls = {item.name: itertools.cycle(prepared(item, chosen.version, VARIED)) for item in targets}
            time.sleep(2.0)  # until the gateways know the tools of the server
            for target in targets:
                measure(target, calls[target.name], chosen.connections, 1.0)  # warm up
                target.got.clear()
            for _ in range(chosen.rounds):
                for target in targets:
                    measure(target, calls[target.name], chosen.connections, chosen.seconds)
        return show(targets, chosen.version, chosen.connections)
    finally:
        for home in homes:
            shutil.rmtree(home, ignore_errors=True)


def show(targets: list[Target], version: str, connections: int) -> int:
    cpu = {target.name: statistics.median(item[3] for item in target.got) for target in targets}
    print(f"MCP {version}, {connections} connections")
    print(f"  {'':16} {'calls/s':>8} {'p50 ms':>8} {'p99 ms':>8} {'cpu ms/call':>12} {'of the SDK':>12}")
    for target in targets:
        rate, p50, p99 = (statistics.median(item[at] for item in target.got) for at in range(3))
        spent = cpu[target.name]
        share = statistics.median(mine[3] / sdk[3] for mine, sdk in zip(target.got, targets[0].got, strict=True))
        shown = f"{rate:>8.0f} {p50 * 1e3:>8.2f} {p99 * 1e3:>8.2f} {spent * 1e3:>12.3f} {share:>12.3f}"
        print(f"  {target.name:16} {shown}")
    door = cpu["sabir door"] / cpu["mcp SDK server"]
    gateway = cpu["FastMCP proxy"] / cpu["sabir gateway"]
    print(f"  door / SDK server, CPU a call: {door:.2f} (aim: at most {DOOR_AIM})")
    print(f"  gateway / FastMCP proxy, calls per CPU second: {gateway:.1f} (aim: at least {GATEWAY_AIM:.0f})")
    return 0 if door <= DOOR_AIM and gateway >= GATEWAY_AIM else 1


if __name__ == "__main__":
    sys.exit(main())

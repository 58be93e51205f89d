"""NLIP echo over HTTP: nlip-server (PyPI, the reference) and Sabir side by side, one worker each.

    python bench/nlip_echo.py [--seconds 2] [--rounds 5] [--connections 1,16,64] [--same]

Four servers run at once: the reference, a bare uvicorn echo (raw ASGI and msgspec: the limit), Sabir with a stateless
echo, and Sabir with each turn durably recorded in SQLite. They take turns in every round, because a machine is not
equally fast all the time. Every request differs from the last in its trace context, length and content; ``--same`` adds
rows with identical requests. The median of the rounds is printed: requests per second, latency, server CPU per request,
the ratio of requests per second to the reference, and the share of the bare server's speed in CPU per request (1.00 is
as cheap as the bare server).
"""

from __future__ import annotations

import argparse
import asyncio
import random
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median

import uvloop
from load import Result, drive, post
from processes import cpu_of, server
from venvs import python_with

BODY = b'{"format":"text","subformat":"english","content":"Hello"}'
VARIED = 20_000  # requests, all different
WORDS = ("soup", "bread", "heron", "river", "museum", "bicycle", "lantern", "winter", "ticket", "harbour", "rain")

REFERENCE = """
import logging, sys, uvicorn
from nlip_server.echo import EchoApplication
from nlip_server.server import create_app
logging.disable(logging.CRITICAL)
uvicorn.run(create_app(EchoApplication()), host="127.0.0.1", port=int(sys.argv[1]), log_level="critical",
            access_log=False, loop="uvloop", http="httptools")
"""

BARE = """
import sys, msgspec, uvicorn
class Message(msgspec.Struct):
    format: str
    subformat: str
    content: str
decoder, encoder = msgspec.json.Decoder(Message), msgspec.json.Encoder()
async def app(scope, receive, send):
    if scope["type"] != "http":
        return
    body = b""
    while True:
        event = await receive()
        body += event.get("body", b"")
        if not event.get("more_body"):
            break
    answer = encoder.encode(decoder.decode(body)) if body else b"ok"
    await send({"type": "http.response.start", "status": 200, "headers": [
        (b"content-type", b"application/json"), (b"content-length", str(len(answer)).encode())]})
    await send({"type": "http.response.body", "body": answer})
uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="critical", access_log=False, loop="uvloop",
            http="httptools", lifespan="off")
"""

SABIR = """
import sys
from sabir import Gateway, agent
remembers = sys.argv[2] == "durable"
@agent(name="echo", description="Repeats what it hears", remembers=remembers)
async def echo(turn):
    return turn.text
Gateway(echo, home=sys.argv[3]).run(port=int(sys.argv[1]), say=lambda line: None)
"""


def varied(path: str) -> list[bytes]:
    """Requests as traced clients send them: no two heads are the same, and bodies differ in text and length."""
    chance = random.Random(7)
    requests = []
    for _ in range(VARIED):
        words = " ".join(chance.choices(WORDS, k=chance.randint(1, 60)))
        body = b'{"format":"text","subformat":"english","content":"%s"}' % words.encode()
        trace = f"traceparent: 00-{chance.getrandbits(128) or 1:032x}-{chance.getrandbits(64) or 1:016x}-01\r\n"
        requests.append(post(path, body, trace))
    return requests


def measure(port: int, pid: int, requests: Sequence[bytes], connections: int, seconds: float) -> tuple[Result, float]:
    uvloop.run(drive("127.0.0.1", port, requests, connections, min(0.5, seconds / 4)))  # warm up
    before = cpu_of(pid)
    result = uvloop.run(drive("127.0.0.1", port, requests, connections, seconds))
    return result, (cpu_of(pid) - before) / max(1, result.requests)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seconds", type=float, default=2.0)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--connections", default="1,16,64")
    options.add_argument("--same", action="store_true", help="also send the same bytes again and again")
    chosen = options.parse_args()
    counts = [int(n) for n in chosen.connections.split(",")]
    reference = python_with("nlip", "nlip-server==0.1.3", "nlip-sdk==0.1.3", "uvloop", "httptools")
    ours = Path(sys.executable)
    home = tempfile.mkdtemp(prefix="sabir-bench-")
    setups = {
        "nlip-server": (reference, REFERENCE, (), "/nlip/"),
        "bare uvicorn": (ours, BARE, (), "/nlip"),
        "sabir stateless": (ours, SABIR, ("stateless", f"{home}/stateless"), "/nlip"),
        "sabir durable": (ours, SABIR, ("durable", f"{home}/durable"), "/nlip"),
    }
    print(
        f"{'':16} {'conns':>5} {'req/s':>8} {'p50 ms':>8} {'p99 ms':>8} "
        f"{'cpu µs/req':>11} {'of bare':>8} {'× req/s':>8} {'(spread)':>12} {'p99 ratio':>9}"
    )
    try:
        with ExitStack() as running:
            up = {
                name: (*running.enter_context(server(python, script, *arguments)), path)
                for name, (python, script, arguments, path) in setups.items()
            }
            for count in counts:
                print(f"every request differs, {count} connections")
                table(up, varied, count, chosen.seconds, chosen.rounds)
                if chosen.same:
                    print(f"the same bytes again and again, {count} connections")
                    table(up, lambda path: [post(path, BODY)], count, chosen.seconds, chosen.rounds)
    finally:
        shutil.rmtree(home, ignore_errors=True)


def table(
    up: dict[str, tuple[int, int, str]],
    requests_for: Callable[[str], Sequence[bytes]],
    count: int,
    seconds: float,
    rounds: int,
) -> None:
    """Measure all servers at one number of connections, in turn, and print the medians."""
    seen: dict[str, list[tuple[Result, float]]] = {name: [] for name in up}
    requests = {name: requests_for(path) for name, (_, _, path) in up.items()}
    for _ in range(rounds):
        for name, (port, pid, _) in up.items():
            seen[name].append(measure(port, pid, requests[name], count, seconds))
    base = next(iter(seen.values()))
    bare = [cpu for _, cpu in seen["bare uvicorn"]]
    for name, measured in seen.items():
        ratios = sorted(mine.rate / theirs.rate for (mine, _), (theirs, _) in zip(measured, base, strict=True))
        waits = median(mine.p99 / theirs.p99 for (mine, _), (theirs, _) in zip(measured, base, strict=True))
        share = median(theirs / mine for (_, mine), theirs in zip(measured, bare, strict=True))
        raised = sum(result.failures for result, _ in measured)
        print(
            f"{name:16} {count:>5} {median(r.rate for r, _ in measured):>8.0f} "
            f"{median(r.p50 for r, _ in measured) * 1e3:>8.2f} {median(r.p99 for r, _ in measured) * 1e3:>8.2f} "
            f"{median(cpu for _, cpu in measured) * 1e6:>11.0f} {share:>8.2f} {median(ratios):>8.2f} "
            f"{f'({ratios[0]:.1f}–{ratios[-1]:.1f})':>12} {waits:>9.2f}" + (f"  {raised} wrong" if raised else ""),
            flush=True,
        )


if __name__ == "__main__":
    asyncio.set_event_loop_policy(None)
    main()

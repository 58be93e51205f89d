"""``sabir bench URL``: a small load test: requests per second, latencies and errors.

It measures client and server together, on one core: only compare runs on the same machine.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import sys
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from sabir.errors import ConfigError, SabirError
from sabir.guard.quotas.rates import is_loopback
from sabir.protocols.connect import kind_of, place_of_agent, speakers
from sabir.protocols.options import known_options
from sabir.protocols.peer import Peer

from .address import PROGRAM, address_of
from .ask import connection_options
from .failures import code_of
from .numbers import whole_number
from .printing import say, say_json
from .refusals import same_for_all
from .seconds import seconds

MAX_SECONDS: Final = 600.0
MAX_REQUESTS: Final = 1_000_000
MAX_CONNECTIONS: Final = 256


def add(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        "SABIR_URL is the default address; SABIR_TOKEN is the API key or token to send. Exit code 1: there were errors."
    )
    parser.add_argument("url", metavar="URL", nargs="?", help="address of the agent, e.g. http://127.0.0.1:8080")
    parser.add_argument("--text", default="Hello", help="what to say (default Hello)")
    parser.add_argument("--agent", metavar="NAME", help="the agent to ask (default: the gateway's default agent)")
    parser.add_argument("--protocol", choices=list(speakers("http")), help="the protocol (default: detected)")
    parser.add_argument(
        "--connections", type=whole_number, default=8, metavar="N", help="number of concurrent requests (default 8)"
    )
    parser.add_argument("--seconds", type=seconds, default=5.0, metavar="S", help="seconds to run (default 5)")
    parser.add_argument(
        "--requests", type=whole_number, metavar="N", help="stop after this many requests (default: no limit)"
    )
    parser.add_argument(
        "--remote", action="store_true", help="allow an address on another machine; ask its owner first"
    )
    parser.add_argument("--ca", metavar="FILE", help="trust this certificate (PEM)")
    parser.add_argument(
        "--timeout", type=seconds, default=30.0, metavar="S", help="seconds to wait for each answer (default 30)"
    )
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")


def run(arguments: argparse.Namespace) -> int:
    url = address_of(arguments.url)
    kind_of(url, arguments.protocol)  # rejects an unsupported scheme
    check(arguments, url)
    if arguments.agent:
        url = place_of_agent(url, arguments.agent, arguments.protocol)
    load = asyncio.run(_measure(arguments, url))
    figures = load.figures()
    if arguments.json:
        say_json(msgspec.json.encode({"url": url, **figures}))
    else:
        say(as_text(url, figures))
    return 1 if load.errors else 0


def check(arguments: argparse.Namespace, url: str) -> None:
    """Check that the load is bounded and the address allowed.

    Raises:
        ConfigError: it is not; says which flag.
    """
    bounds = (("connections", 1, MAX_CONNECTIONS), ("seconds", 0.1, MAX_SECONDS), ("requests", 1, MAX_REQUESTS))
    for name, least, limit in bounds:
        value = getattr(arguments, name)
        if value is not None and not (math.isfinite(value) and least <= value <= limit):
            raise ConfigError(f"--{name}: expected a number from {least:g} to {limit:,g}, not {value:g}")
    host = urlsplit(url).hostname or ""
    if not (arguments.remote or url.startswith(PROGRAM) or host == "localhost" or is_loopback(host)):
        raise ConfigError(f"{host} is another machine; add --remote if you have permission to test its speed")


class LoadTest:
    """One run: its requests, their latencies, and their errors."""

    def __init__(self, seconds: float, requests: int | None) -> None:
        self._seconds = seconds
        self._left = requests if requests is not None else MAX_REQUESTS
        self._began = time.perf_counter()
        self._ended = self._began
        self.times: list[float] = []
        self.errors: Counter[str] = Counter()

    def begin(self) -> None:
        self._began = self._ended = time.perf_counter()

    def next(self) -> bool:
        """Whether another request may be sent."""
        if self._left <= 0 or time.perf_counter() - self._began >= self._seconds:
            return False
        self._left -= 1
        return True

    async def ask(self, peer: Peer, text: str) -> None:
        """Send one request and record its outcome."""
        began = time.perf_counter()
        try:
            reply = await peer.ask(text)
        except SabirError as exc:
            self.errors[code_of(type(same_for_all(exc, peer.speaks, peer.address)))] += 1
        else:
            self.times.append(time.perf_counter() - began)
            if reply.is_error:
                self.errors["error_reply"] += 1
        self._ended = time.perf_counter()

    @property
    def done(self) -> int:
        return len(self.times) + sum(self.errors.values()) - self.errors.get("error_reply", 0)

    def figures(self) -> dict[str, Any]:
        """The figures of the run; latencies in milliseconds, of answered requests."""
        seconds = max(self._ended - self._began, 1e-9)
        times = sorted(self.times)
        return {
            "requests": self.done,
            "seconds": round(seconds, 3),
            "requests_per_second": round(self.done / seconds, 1),
            "p50_ms": quantile(times, 0.5),
            "p99_ms": quantile(times, 0.99),
            "max_ms": quantile(times, 1.0),
            "errors": dict(self.errors),
        }


def quantile(times: Sequence[float], share: float) -> float | None:
    """The given percentile of sorted times, in milliseconds; None without any."""
    if not times:
        return None
    return round(times[max(0, math.ceil(share * len(times)) - 1)] * 1000, 3)


async def _measure(arguments: argparse.Namespace, url: str) -> LoadTest:
    make = kind_of(url, arguments.protocol)
    plain = argparse.Namespace(**{**vars(arguments), "trace": False, "json": True})
    options = known_options(make, connection_options(plain, url))
    load = LoadTest(arguments.seconds, arguments.requests)
    async with AsyncExitStack() as stack:
        # One peer each, like separate callers: turns of one conversation would wait for each other.
        peers = [await stack.enter_async_context(make(url, **options)) for _ in range(arguments.connections)]
        try:
            await peers[0].ask(arguments.text)  # if nothing answers, that is an error, not a load test
        except SabirError as exc:
            raise same_for_all(exc, peers[0].speaks, peers[0].address) from None
        load.begin()
        showing = asyncio.create_task(_show(load, arguments.seconds)) if sys.stderr.isatty() else None
        await asyncio.gather(*(_keep_asking(load, peer, arguments.text) for peer in peers))
        if showing is not None:
            showing.cancel()
            print("\r\033[K", end="", file=sys.stderr, flush=True)
    return load


async def _keep_asking(load: LoadTest, peer: Peer, text: str) -> None:
    while load.next():
        await load.ask(peer, text)


async def _show(load: LoadTest, seconds: float) -> None:
    for second in range(math.ceil(seconds)):
        print(f"\r\033[K{second} of {seconds:g} s, {load.done} requests", end="", file=sys.stderr, flush=True)
        await asyncio.sleep(1)


def as_text(url: str, figures: dict[str, Any]) -> str:
    """The figures for people."""
    lines = [
        url,
        f"  {figures['requests']} requests in {figures['seconds']:.2f} s: {figures['requests_per_second']:,} a second",
    ]
    if figures["p50_ms"] is not None:
        lines.append(f"  p50 {figures['p50_ms']} ms, p99 {figures['p99_ms']} ms, slowest {figures['max_ms']} ms")
    errors = ", ".join(f"{count} {code}" for code, count in figures["errors"].items() if count)
    lines.append(f"  errors: {errors or 'none'}")
    return "\n".join(lines)

"""While one caller sends the worst input that is allowed, another one is still served (issue 11, D 15 and table 6).

The gateway is a process of its own. A flood comes from one address over 16 connections, each sending the next request
as soon as it has an answer; a polite caller at another address asks the same door now and then. The gateway is compared
with itself, quiet and flooded, in the same minute.

What is measured is how long the polite caller waits, but not longer than the gateway worked meanwhile: the time that
its event loop and its writer thread had on a processor (Linux counts it for each thread). So other programs on the
machine change little, and these tests run beside all others; only how long a gateway takes to stop is tried alone.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path

import pytest

import flood
from deadline import DEADLINE
from flood import DOORS, KINDS, FloodedDoor, Where
from free_ports import free_port

GATEWAY = """
import sys, threading
from pathlib import Path
from sabir import Gateway
from sabir.agents.echo import echo
from sabir.guard import Filters, Quotas
from sabir.guard.filters.html import Html
from sabir.guard.filters.injection import PromptInjection
from sabir.guard.filters.secrets import Inside, PersonalData, Secrets

port, home, has_filters = int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3] == "filters"
doors = {"a2a": {"grpc": {"port": int(sys.argv[4])}}, "nlip-amqp": {"url": sys.argv[5], "address": sys.argv[6]}}
prompt = "You are Vela, the concierge of Heron Harbour. Never discuss refunds with guests before noon."
filters = [PromptInjection("log", replies=True), Secrets(), PersonalData(), Inside(protected=[prompt]), Html()]

def ready(line):
    threads = [str(each.native_id) for each in threading.enumerate() if each.name in ("MainThread", "sabir-store")]
    (home / "threads.new").write_text(" ".join(threads))
    (home / "threads.new").rename(home / "threads")

# The default rates, said aloud: then callers on this machine are not spared them.
quotas = Quotas(rate_per_address=100.0, rate_per_caller=100.0)
filters = Filters(filters if has_filters else ())
Gateway(echo, home=home, quotas=quotas, filters=filters, doors=doors).run(port=port, say=ready)
"""
SECONDS = 0.6
QUIET = 0.005  # seconds; a quiet p99 below this is measured by the machine, not by the gateway
LIMIT = 10.0
TRIES = 4
FILTERED = "900 KB of text, five filters"
TABLE: dict[str, dict[str, str]] = {}
NUMBERS = count()


class GatewayProcess:
    """A gateway, and how long it has worked."""

    def __init__(self, home: Path, filters: str, broker: str, letters: str) -> None:
        self.where: Where = {"port": free_port(), "grpc": free_port(), "broker": broker, "letters": letters}
        port, *others = map(str, self.where.values())
        command = [sys.executable, "-c", GATEWAY, port, str(home), filters, *others]
        self.process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        self._home = home
        self._clocks: list[Path] = []

    def wait_until_it_answers(self) -> None:
        end = time.monotonic() + 120
        while not (self._home / "threads").exists():
            assert self.process.poll() is None and time.monotonic() < end, "the gateway did not start"
            time.sleep(0.05)
        threads = (self._home / "threads").read_text().split()
        paths = [Path(f"/proc/{self.process.pid}/task/{thread}/schedstat") for thread in threads]
        self._clocks = [path for path in paths if path.exists()]

    def worked(self) -> float:
        """Seconds; without end where the system does not count them."""
        if not self._clocks:
            return time.perf_counter()
        return sum(int(clock.read_text().split()[0]) for clock in self._clocks) / 1e9

    def rest(self) -> None:
        """Wait until it has dealt with the flood before."""
        end = time.monotonic() + DEADLINE
        while time.monotonic() < end:
            before = self.worked()
            time.sleep(0.1)
            if self.worked() - before < 0.01:
                return

    def stop(self) -> float:
        """How long it took to stop, without the time that its busiest thread waited for a processor."""
        began, waited = time.monotonic(), self._waited()
        self.process.send_signal(signal.SIGTERM)
        peak = 0.0
        while self.process.poll() is None:
            assert time.monotonic() < began + 120, "the gateway did not stop"
            peak = max([peak, *(after - waited.get(thread, 0.0) for thread, after in self._waited().items())])
            time.sleep(0.01)
        return time.monotonic() - began - peak

    def _waited(self) -> dict[str, float]:
        """Seconds that each thread could have run, but other programs did."""
        found = {}
        for path in Path(f"/proc/{self.process.pid}/task").glob("*/schedstat"):
            with suppress(OSError, ValueError, IndexError):  # the thread has just ended
                found[path.parent.name] = int(path.read_text().split()[1]) / 1e9
        return found

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


class Flooder:
    """The program that floods."""

    def __init__(self) -> None:
        command = [sys.executable, flood.__file__]
        env = {**os.environ, "PYTHONPATH": str(Path(flood.__file__).parent)}
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=env, text=True
        )

    def begin(self, where: Where, door: FloodedDoor, kind: str) -> None:
        self._say(json.dumps({"where": where, "door": door.name, "kind": kind, "address": new_address("1")}))

    def end(self) -> None:
        self._say("")

    def _say(self, line: str) -> None:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "ok\n"


@pytest.fixture(scope="module")
def flooder() -> Iterator[Flooder]:
    made = Flooder()
    yield made
    made.process.kill()
    made.process.communicate()


@pytest.fixture(scope="module", params=["no filters", "filters"])
def gateway(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, broker: str, prefix: str
) -> Iterator[GatewayProcess]:
    letters = f"{prefix}-{request.param.replace(' ', '-')}"
    made = GatewayProcess(tmp_path_factory.mktemp("home"), request.param, broker, letters)
    try:
        made.wait_until_it_answers()
        yield made
    finally:
        made.kill()


def new_address(group: str) -> str:
    number = next(NUMBERS)
    return f"127.{group}.{number // 250}.{1 + number % 250}"


async def p99(gateway: GatewayProcess, door: FloodedDoor) -> float:
    """Of a caller that asks about forty times a second, or as often as its door lets everybody ask beside a flood."""
    connection, waits = door.connection(gateway.where, new_address("2")), []
    end = time.perf_counter() + SECONDS
    try:
        while time.perf_counter() < end:
            sent = door.request("hello")
            worked, began = gateway.worked(), time.perf_counter()
            status = await connection.ask(sent)
            waited = time.perf_counter() - began
            waits.append(min(waited, gateway.worked() - worked))
            assert status.startswith(b"20"), status
            await asyncio.sleep(door.pause)
    finally:
        await connection.close()
    waits.sort()
    return waits[max(0, int(len(waits) * 0.99) - 1)]


def compare(
    gateway: GatewayProcess, flooder: Flooder, door: FloodedDoor, kind: str, row: str, quiet: float = 0
) -> float:
    """The quiet p99. The best of several tries counts, each beside a new look at the quiet gateway."""
    for _ in range(TRIES):
        gateway.rest()
        quiet = quiet or asyncio.run(p99(gateway, door))
        flooder.begin(gateway.where, door, kind)
        try:
            flooded = asyncio.run(p99(gateway, door))
        finally:
            flooder.end()
        TABLE.setdefault(row, {})[door.name] = f"{quiet * 1e3:.1f} → {flooded * 1e3:.1f} ms"
        if flooded < LIMIT * max(quiet, QUIET):
            return quiet
        quiet = 0
    pytest.fail(f"{row}: p99 {TABLE[row][door.name]}")


@pytest.mark.parametrize("gateway", ["no filters"], indirect=True)
@pytest.mark.parametrize("door", DOORS, ids=[door.name for door in DOORS])
def test_a_polite_caller_is_served_during_a_flood(gateway: GatewayProcess, flooder: Flooder, door: FloodedDoor) -> None:
    quiet = 0.0
    for kind in KINDS:
        quiet = compare(gateway, flooder, door, kind, kind, quiet)


@pytest.mark.parametrize("gateway", ["filters"], indirect=True)
@pytest.mark.parametrize("door", DOORS, ids=[door.name for door in DOORS])
def test_a_polite_caller_is_served_while_long_texts_are_filtered(
    gateway: GatewayProcess, flooder: Flooder, door: FloodedDoor
) -> None:
    compare(gateway, flooder, door, "900 KB of text", FILTERED)


@pytest.mark.quiet
@pytest.mark.parametrize("gateway", ["filters"], indirect=True)
def test_a_gateway_that_filters_long_texts_stops_in_time(gateway: GatewayProcess, flooder: Flooder) -> None:
    """Three of four did not stop within 20 seconds."""
    flooder.begin(gateway.where, DOORS[0], "900 KB of text")
    before = gateway.worked()
    while gateway.worked() - before < 0.2:
        time.sleep(0.05)
    took = gateway.stop()
    flooder.end()
    assert gateway.process.returncode == 0 and took < 15


def test_the_table_is_printed() -> None:
    names = [door.name for door in DOORS]
    print("\np99 of a polite caller, quiet and beside a flood")
    print("| flood | " + " | ".join(names) + " |")
    for row, cells in TABLE.items():
        print(f"| {row} | " + " | ".join(cells.get(name, "") for name in names) + " |")
    assert set(TABLE) == {*KINDS, FILTERED}

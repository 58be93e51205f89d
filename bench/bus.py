"""1 KB messages between agents: one way and question-answer, in process and over NATS, compared with SPADE.

SPADE runs in its own environment with its own XMPP server (``spade run``). All processes of both sides run throughout,
on the same event loop (uvloop); in each round the two take turns, block by block, and alternate who starts. The median
of the rounds is printed, with the ratios of single rounds. Over the network, sender and receiver are two processes, and
a question may take five seconds on either side. Our letters are stored by JetStream and acknowledged before ``send``
returns; SPADE's messages are not stored.

    python bench/bus.py [ROUNDS]        needs a NATS server with JetStream at 127.0.0.1:4222
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

sys.path.insert(0, str(Path(__file__).resolve().parent))

import uvloop
from processes import free_port
from venvs import python_with

from sabir.bus import Bus, Called, Letter, open_bus
from sabir.bus.nats import RETENTION, NatsBus

NATS = os.environ.get("SABIR_TEST_NATS", "nats://127.0.0.1:4222")
BODY = b"x" * 1024
SECONDS = 5.0  # for one answer
SENDERS = 64
BLOCKS = 3  # per round, alternating with the other side
HERE = Path(__file__).resolve()


class Kind(NamedTuple):
    """One row of the table: what is measured, how often on each side, and the target ratio."""

    name: str
    inside: bool
    askers: int  # 0: one way
    ours: int
    theirs: int
    wanted: float | None


KINDS = (
    Kind("in process, one way", True, 0, 50_000, 5_000, 1.0),
    Kind("in process, question-answer, 1 asker", True, 1, 2_000, 1_000, 1.0),
    Kind("in process, question-answer, 16 askers", True, 16, 4_000, 1_600, 1.0),
    Kind("NATS (kept) / XMPP, one way", False, 0, 20_000, 1_000, 5.0),
    Kind("NATS / XMPP, question-answer, 1 asker", False, 1, 1_000, 300, 5.0),
    Kind("NATS / XMPP, question-answer, 16 askers", False, 16, 3_200, 320, None),
)


def say(**result: object) -> None:
    print(json.dumps(result), flush=True)


# -- our side, in processes of its own ---------------------------------------------------------------


class Counting:
    """Counts letters until all have arrived."""

    def __init__(self) -> None:
        self.expect(0)

    def expect(self, count: int) -> None:
        self.ids: set[str] = set()
        self.expected = count
        self.done = asyncio.Event()

    async def __call__(self, letter: Letter) -> None:
        self.ids.add(letter.id)
        if len(self.ids) == self.expected:
            self.done.set()

    async def report(self) -> None:
        await self.done.wait()
        say(received=len(self.ids), at=time.time())


async def answer(called: Called) -> None:
    await called.send(called.body)


async def send_all(bus: Bus, count: int) -> dict[str, float]:
    """Many senders, each waiting until its letter is stored."""
    left = iter(range(count))

    async def sender() -> None:
        for _ in left:
            await bus.send(Letter("receiver", BODY))

    began = time.time()
    await asyncio.gather(*(sender() for _ in range(SENDERS)))
    return {"began": began}


async def ask_all(bus: Bus, askers: int, count: int) -> dict[str, float]:
    times: list[float] = []

    async def asker() -> None:
        for _ in range(count // askers):
            begun = time.perf_counter()
            async with bus.call("receiver", BODY, seconds=SECONDS) as call:
                async for _ in call:
                    pass
            times.append(time.perf_counter() - begun)

    begun = time.perf_counter()
    await asyncio.gather(*(asker() for _ in range(askers)))
    took = time.perf_counter() - begun
    # One asker by the median, on both sides: other work on the machine disturbs the mean.
    return {"per_second": 1 / statistics.median(times) if askers == 1 else len(times) / took}


async def work(role: str, address: str) -> None:
    bus = open_bus(address)
    await bus.open()
    counting = Counting()
    if role != "sender":
        await bus.receive("receiver", counting)
        await bus.serve("receiver", answer)
    say(ready=True)
    while words := (await asyncio.to_thread(sys.stdin.readline)).split():
        match words:
            case ["expect", count]:
                counting.expect(int(count))
                say(expecting=int(count))
                if role == "receiver":
                    await counting.report()
            case ["send", count]:
                say(**await send_all(bus, int(count)))
                if role == "inside":
                    await counting.report()
            case ["ask", askers, count]:
                say(**await ask_all(bus, int(askers), int(count)))
    await bus.close()


# -- both sides, from here ---------------------------------------------------------------------------


class Process:
    """A process that takes commands as lines, and answers with lines of JSON."""

    def __init__(self, *command: str) -> None:
        self._command = command
        self._process: asyncio.subprocess.Process | None = None

    async def __aenter__(self) -> Process:
        pipe = asyncio.subprocess.PIPE
        self._process = await asyncio.create_subprocess_exec(*self._command, stdin=pipe, stdout=pipe)
        await self.next_report()  # wait until it is ready
        return self

    async def __aexit__(self, *raised: object) -> None:
        assert self._process is not None and self._process.stdin is not None
        self._process.stdin.close()
        try:
            await asyncio.wait_for(self._process.wait(), 5)
        except TimeoutError:
            self._process.kill()
            await self._process.wait()

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    async def next_report(self) -> dict[str, Any]:
        assert self._process is not None and self._process.stdout is not None
        line = await asyncio.wait_for(self._process.stdout.readline(), 120)
        if not line:
            raise RuntimeError(f"{self._command[1]} ended early")
        found: dict[str, Any] = json.loads(line)
        return found

    async def do(self, *words: object) -> dict[str, Any]:
        assert self._process is not None and self._process.stdin is not None
        self._process.stdin.write(" ".join(map(str, words)).encode() + b"\n")
        return await self.next_report()


class Side(NamedTuple):
    """Sabir or SPADE: a sender and a receiver in one process, and in two."""

    inside: Process
    sender: Process
    receiver: Process
    server: int = 0  # the process group of a server between the two

    async def measured(self, kind: Kind, count: int) -> float:
        sender, receiver = (self.inside, self.inside) if kind.inside else (self.sender, self.receiver)
        if kind.askers:
            return float((await sender.do("ask", kind.askers, count))["per_second"])
        await receiver.do("expect", count)
        began = (await sender.do("send", count))["began"]
        received = await receiver.next_report()
        return float(received["received"] / (received["at"] - began))


@asynccontextmanager
async def sabir() -> AsyncIterator[Side]:
    address = f"{NATS}?prefix=bench{uuid4().hex[:8]}"
    command = (sys.executable, str(HERE))
    try:
        async with AsyncExitStack() as up:
            inside = await up.enter_async_context(Process(*command, "inside", "memory:"))
            receiver = await up.enter_async_context(Process(*command, "receiver", address))
            yield Side(inside, await up.enter_async_context(Process(*command, "sender", address)), receiver)
    finally:
        bus = NatsBus(address)
        await bus.open()
        for kind in RETENTION:
            await bus.remove(kind)
        await bus.close()


@asynccontextmanager
async def spade() -> AsyncIterator[Side]:
    python = str(python_with("spade", "spade==4.1.4", "greenlet"))
    ports = [str(free_port()) for _ in range(2)]
    command = (python, str(HERE.with_name("spade_bus.py")))
    with tempfile.TemporaryDirectory() as folder:
        server = await asyncio.create_subprocess_exec(
            str(Path(python).with_name("spade")),
            *("run", "--memory", "--host", "localhost", "--client_port", ports[0], "--server_port", ports[1]),
            cwd=folder,
            start_new_session=True,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        try:
            await _listens(int(ports[0]))
            async with AsyncExitStack() as up:
                inside = await up.enter_async_context(Process(*command, "inside", ports[0]))
                receiver = await up.enter_async_context(Process(*command, "receiver", ports[0]))
                sender = await up.enter_async_context(Process(*command, "sender", ports[0]))
                yield Side(inside, sender, receiver, server.pid)
        finally:
            os.killpg(server.pid, signal.SIGKILL)  # it has its own processes
            await server.wait()


async def _listens(port: int) -> None:
    end = time.monotonic() + 30
    while time.monotonic() < end:
        try:
            _, writer = await asyncio.open_connection("localhost", port)
        except OSError:
            await asyncio.sleep(0.1)
        else:
            writer.close()
            return
    raise RuntimeError("SPADE's XMPP server did not start")


# -- the table ------------------------------------------------------------------------------------


async def one_round(number: int, ours: Side, theirs: Side, kind: Kind) -> tuple[float, float]:
    """The median of each side over blocks that took turns."""
    sides = [(ours, kind.ours), (theirs, kind.theirs)]
    found: dict[Side, list[float]] = {ours: [], theirs: []}
    for _ in range(BLOCKS):
        for side, count in sides if number % 2 == 0 else reversed(sides):
            found[side].append(await side.measured(kind, count))
    return statistics.median(found[ours]), statistics.median(found[theirs])


def row(kind: Kind, rounds: list[tuple[float, float]]) -> bool:
    ours, theirs = (statistics.median(side) for side in zip(*rounds, strict=True))
    ratio, ratios = ours / theirs, sorted(one / other for one, other in rounds)
    good = kind.wanted is None or ratio >= kind.wanted
    goal = "" if kind.wanted is None else f"   wanted ≥ {kind.wanted:g}×: {'yes' if good else 'NO'}"
    print(f"{kind.name:<42} {ours:>10,.0f} {theirs:>10,.0f} {ratio:>7.1f}×  ({ratios[0]:.1f}-{ratios[-1]:.1f}){goal}")
    return good


async def main(rounds: int) -> int:
    measured: dict[Kind, list[tuple[float, float]]] = {kind: [] for kind in KINDS}
    async with sabir() as ours, spade() as theirs:
        for kind in KINDS:  # warm up
            await ours.measured(kind, kind.ours // 10)
            await theirs.measured(kind, kind.theirs // 10)
        for number in range(rounds):
            for kind in KINDS:
                measured[kind].append(await one_round(number, ours, theirs, kind))
    print(
        f"{'1 KB messages per second':<42} {'Sabir':>10} {'SPADE':>10} {'ratio':>8}  (of rounds)   median of {rounds}"
    )
    good = [row(kind, measured[kind]) for kind in KINDS]
    return 0 if all(good) else 1


if __name__ == "__main__":
    if len(sys.argv) == 3:
        uvloop.run(work(sys.argv[1], sys.argv[2]))
    else:
        raise SystemExit(uvloop.run(main(int(sys.argv[1]) if len(sys.argv) == 2 else 5)))

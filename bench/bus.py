"""1 KB messages between agents: one way and question-answer, in process and over NATS, beside SPADE.

SPADE runs in an environment of its own with its own XMPP server (``spade run``); both sides run here, one after the
other, in the same run. Over the network sender and receiver are two processes. Our letters are kept by JetStream and
acknowledged before ``send`` returns; SPADE's messages are kept nowhere.

    python bench/bus.py            needs a NATS server with JetStream at 127.0.0.1:4222
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any
from uuid import uuid4

sys.path.insert(0, str(Path(__file__).resolve().parent))

import uvloop
from venvs import python_with

from sabir.bus import Bus, Called, Letter, open_bus
from sabir.bus.nats import RETENTION, NatsBus

NATS = os.environ.get("SABIR_TEST_NATS", "nats://127.0.0.1:4222")
BODY = b"x" * 1024
PINGS = 1_000  # in a block
BLOCKS = 5
SENDERS = 64
HERE = Path(__file__).resolve()


def say(**result: object) -> None:
    print(json.dumps(result), flush=True)


async def answer(called: Called) -> None:
    await called.send(called.body)


class Counting:
    """Counts letters until all are there."""

    def __init__(self, expected: int) -> None:
        self.ids: set[str] = set()
        self.expected = expected
        self.done = asyncio.Event()

    async def __call__(self, letter: Letter) -> None:
        self.ids.add(letter.id)
        if len(self.ids) == self.expected:
            self.done.set()


async def send_all(bus: Bus, count: int) -> None:
    """Many senders, each waiting until its letter is kept."""
    left = iter(range(count))

    async def sender() -> None:
        for _ in left:
            await bus.send(Letter("receiver", BODY))

    await asyncio.gather(*(sender() for _ in range(SENDERS)))


async def ask_all(bus: Bus, count: int, askers: int) -> dict[str, float]:
    left, times = iter(range(count)), []

    async def asker() -> None:
        for _ in left:
            begun = time.perf_counter()
            async with bus.call("receiver", BODY) as call:
                async for _ in call:
                    pass
            times.append(time.perf_counter() - begun)

    begun = time.perf_counter()
    await asyncio.gather(*(asker() for _ in range(askers)))
    took = time.perf_counter() - begun
    # One asker by the median, on both sides: other work on the machine disturbs the mean.
    middle = statistics.median(times)
    return {"per_second": 1 / middle if askers == 1 else count / took, "p50_ms": middle * 1000}


async def ask_best(bus: Bus, askers: int) -> dict[str, float]:
    """The best of a few blocks, as on SPADE's side."""
    blocks = [await ask_all(bus, PINGS, askers) for _ in range(BLOCKS)]
    return max(blocks, key=lambda block: block["per_second"])


# -- ours -----------------------------------------------------------------------------------------


async def in_process(count: int) -> dict[str, Any]:
    bus = open_bus("memory:")
    await bus.open()
    counting = Counting(count)
    await bus.receive("receiver", counting)
    await bus.serve("receiver", answer)
    begun = time.perf_counter()
    await send_all(bus, count)
    await counting.done.wait()
    took = time.perf_counter() - begun
    result = {"one_way": count / took, "ask": await ask_best(bus, 1), "ask16": await ask_best(bus, 16)}
    await bus.close()
    return result


async def receiver(address: str, count: int) -> None:
    bus = open_bus(address)
    await bus.open()
    counting = Counting(count)
    await bus.receive("receiver", counting)
    await bus.serve("receiver", answer)
    say(ready=True)
    await counting.done.wait()
    say(received=len(counting.ids), at=time.time())
    await asyncio.to_thread(sys.stdin.readline)
    await bus.close()


async def sender(address: str, count: int) -> None:
    bus = open_bus(address)
    await bus.open()
    begun = time.time()
    await send_all(bus, count)
    say(began=begun)
    await asyncio.to_thread(sys.stdin.readline)
    say(ask=await ask_best(bus, 1), ask16=await ask_best(bus, 16))
    await bus.close()


# -- two processes, ours or SPADE's -----------------------------------------------------------------


class Process:
    """A process that tells what it does in lines of JSON."""

    def __init__(self, *command: str) -> None:
        self._command = command
        self._process: asyncio.subprocess.Process | None = None

    async def __aenter__(self) -> Process:
        pipe = asyncio.subprocess.PIPE
        self._process = await asyncio.create_subprocess_exec(*self._command, stdin=pipe, stdout=pipe)
        return self

    async def __aexit__(self, *wrong: object) -> None:
        assert self._process is not None
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()

    async def told(self) -> dict[str, Any]:
        assert self._process is not None and self._process.stdout is not None
        line = await asyncio.wait_for(self._process.stdout.readline(), 120)
        if not line:
            raise RuntimeError(f"{self._command[1]} ended early")
        found: dict[str, Any] = json.loads(line)
        return found

    def go_on(self) -> None:
        assert self._process is not None and self._process.stdin is not None
        self._process.stdin.write(b"\n")


async def between(count: int, receiving: Process, sending: Process) -> dict[str, Any]:
    async with receiving:
        await receiving.told()
        async with sending:
            began = (await sending.told())["began"]
            received = await receiving.told()
            assert received["received"] == count
            sending.go_on()
            return {"one_way": count / (received["at"] - began), **await sending.told()}


async def over_nats(count: int) -> dict[str, Any]:
    prefix = f"bench{uuid4().hex[:8]}"
    address = f"{NATS}?prefix={prefix}"
    command = (sys.executable, str(HERE))
    try:
        return await between(
            count,
            Process(*command, "receiver", address, str(count)),
            Process(*command, "sender", address, str(count)),
        )
    finally:
        bus = NatsBus(address)
        await bus.open()
        for kind in RETENTION:
            await bus.remove(kind)
        await bus.close()


async def spade(in_process_count: int, count: int) -> tuple[dict[str, Any], dict[str, Any]]:
    python = str(python_with("spade", "spade==4.1.4", "greenlet"))
    ports = [str(_free_port()) for _ in range(2)]
    script = str(HERE.with_name("spade_bus.py"))
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
            async with Process(python, script, "inprocess", str(in_process_count), ports[0]) as process:
                inside = await process.told()
            commands = [Process(python, script, role, str(count), ports[0]) for role in ("receiver", "sender")]
            return inside, await between(count, *commands)
        finally:
            os.killpg(server.pid, signal.SIGKILL)  # it has processes of its own
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


def _free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


# -- the table ------------------------------------------------------------------------------------


def row(what: str, ours: float, theirs: float, wanted: float | None) -> bool:
    ratio = ours / theirs
    goal = "" if wanted is None else f"   wanted ≥ {wanted:g}×: {'yes' if ratio >= wanted else 'NO'}"
    print(f"{what:<42} {ours:>10,.0f} {theirs:>10,.0f} {ratio:>7.1f}×{goal}")
    return wanted is None or ratio >= wanted


async def main(rounds: int) -> int:
    measured = []
    for _ in range(rounds):
        measured.append((await in_process(100_000), await over_nats(50_000), *await spade(10_000, 2_000)))
    inside, across, spade_inside, spade_across = (_best(side) for side in zip(*measured, strict=True))
    print(f"{'1 KB messages per second':<42} {'Sabir':>10} {'SPADE':>10} {'ratio':>8}   best of {rounds} rounds")
    good = [
        row("in process, one way", inside["one_way"], spade_inside["one_way"], 1.0),
        row("in process, question-answer, 16 askers", inside["ask16"], spade_inside["ask16"], 1.0),
        row("in process, question-answer, 1 asker", inside["ask"], spade_inside["ask"], 1.0),
        row("NATS (kept) / XMPP, one way", across["one_way"], spade_across["one_way"], 5.0),
        row("NATS / XMPP, question-answer, 16 askers", across["ask16"], spade_across["ask16"], 5.0),
        row("NATS / XMPP, question-answer, 1 asker", across["ask"], spade_across["ask"], None),
    ]
    print(f"question-answer p50: NATS {1000 / across['ask']:.2f} ms, XMPP {1000 / spade_across['ask']:.2f} ms")
    return 0 if all(good) else 1


def _best(side: tuple[dict[str, Any], ...]) -> dict[str, float]:
    """The best of each figure: what the machine gives when it is left alone."""
    flat = [{key: value["per_second"] if key != "one_way" else value for key, value in each.items()} for each in side]
    return {key: max(each[key] for each in flat) for key in flat[0]}


if __name__ == "__main__":
    if len(sys.argv) == 4:
        uvloop.run({"receiver": receiver, "sender": sender}[sys.argv[1]](sys.argv[2], int(sys.argv[3])))
    else:
        raise SystemExit(uvloop.run(main(int(sys.argv[1]) if len(sys.argv) == 2 else 3)))

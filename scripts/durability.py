"""kill -9 at a random moment: no acknowledged turn is lost, none is recorded twice.

    python scripts/durability.py --runs 200 [--seed N] [--durability power]

A real gateway process over real HTTP. In each run several clients talk, each a conversation of three turns
that belong together; at a random moment the gateway is killed; it is started again on the same state, and the
clients go on from where they stopped, a turn that was not answered under the same ``Idempotency-Key``. In the
end each conversation must hold exactly its three turns in order, each answered as it was told, and the audit
chain must be whole, with one line a turn.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import signal
import sys
import tempfile
import time
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx2
import msgspec

from sabir.stores.base import ChainedLine, chain
from sabir.stores.sqlite import SQLiteStore

CLIENTS, TURNS = 6, 3
START_SECONDS = 30.0


class Gateway:
    """A gateway process that can be killed and started again."""

    def __init__(self, home: Path, *options: str) -> None:
        self.home = home
        self.options = options
        self.port = 0
        self._process: asyncio.subprocess.Process | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def config(self) -> list[str]:
        """Doors that nobody here knocks at are off, because what they import makes each start slow."""
        file = self.home / "sabir.yaml"
        file.write_text("doors: {mcp: false, a2a: false, nlip-amqp: false}\nsites: []\n")
        return [str(file)]

    async def start(self) -> None:
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "sabir", "serve", *self.config(), "--port", str(self.port), "--home", str(self.home),
            "--log-level", "error", *self.options, stdout=asyncio.subprocess.PIPE, cwd=self.home,
        )  # fmt: skip
        assert self._process.stdout is not None
        async with asyncio.timeout(START_SECONDS):
            greeting = (await self._process.stdout.readline()).decode()
            if "listening on" not in greeting:
                raise RuntimeError(f"the gateway did not start: {greeting!r}")
            self.port = int(greeting.rstrip().rpartition(":")[2])
            await self._ready()

    async def _ready(self) -> None:
        async with httpx2.AsyncClient(verify=False) as http:
            while True:
                try:
                    if (await http.get(f"{self.url}/health/ready")).status_code == 200:
                        return
                except httpx2.TransportError:
                    await asyncio.sleep(0.01)

    async def kill(self, how: signal.Signals = signal.SIGKILL) -> None:
        if self._process is not None and self._process.returncode is None:
            os.kill(self._process.pid, how)
            await self._process.wait()
            self._process._transport.close()  # type: ignore[attr-defined]  # the pipe, which nobody reads any more


@dataclass
class Client:
    """One conversation: asks its turns in order, again under the same key until it is answered."""

    token: dict[str, Any] | None = None
    answered: list[str] = field(default_factory=list)
    questions: list[str] = field(default_factory=lambda: [f"{n} {uuid4().hex}" for n in range(TURNS)])
    keys: list[str] = field(default_factory=lambda: [uuid4().hex for _ in range(TURNS)])
    again: int = 0  # questions that had to be asked more than once

    async def talk(self, http: httpx2.AsyncClient, url: str) -> None:
        """Until all is answered, or the gateway goes away."""
        while len(self.answered) < TURNS:
            turn = len(self.answered)
            message: dict[str, Any] = {"format": "text", "subformat": "english", "content": self.questions[turn]}
            if self.token is not None:
                message["submessages"] = [self.token]
            try:
                reply = await http.post(
                    f"{url}/nlip/echo", json=message, headers={"idempotency-key": self.keys[turn]}, timeout=20
                )
            except httpx2.TransportError:
                self.again += 1
                return
            if reply.status_code != 200:
                raise AssertionError(f"HTTP {reply.status_code}: {reply.text[:200]}")
            said = reply.json()
            self.answered.append(said["content"])
            self.token = next(part for part in said["submessages"] if part["format"] == "token")


async def one_run(gateway: Gateway, moment: float) -> tuple[list[Client], float | None]:
    """Talk, kill, start again, talk on. Returns the clients, and how long the talk took if it was not cut short."""
    clients = [Client() for _ in range(CLIENTS)]
    took: float | None = None
    async with httpx2.AsyncClient(verify=False) as http:
        begun = time.perf_counter()

        async def talk() -> None:
            nonlocal took
            await asyncio.gather(*(client.talk(http, gateway.url) for client in clients))
            took = time.perf_counter() - begun

        talking = asyncio.create_task(talk())
        await asyncio.sleep(moment)
        await gateway.kill()
        await talking
    await gateway.start()
    async with httpx2.AsyncClient(verify=False) as http:
        await asyncio.gather(*(client.talk(http, gateway.url) for client in clients))
    return clients, None if any(client.again for client in clients) else took


async def verify(store: SQLiteStore, clients: list[Client], audited: dict[str, int]) -> None:
    """Each conversation holds its turns once and in order, as they were answered."""
    for client in clients:
        found = [await store.turn(await _turn_id(store, question)) for question in client.questions]
        turns = [turn for turn in found if turn is not None]
        assert len(turns) == TURNS, f"lost: {TURNS - len(turns)} of {TURNS} turns of {client.questions}"
        conversations = {turn.conversation for turn in turns}
        assert len(conversations) == 1, f"a conversation fell apart into {len(conversations)}"
        stored = await store.turns(turns[0].conversation, 100)
        assert [turn.asked.text for turn in stored] == client.questions, "turns are doubled or out of order"
        assert [turn.answered.text for turn in stored] == client.answered, "an answer is not the one that was told"
        row = await store.conversation(turns[0].conversation)
        assert row is not None and row.turns == TURNS
        for turn in stored:
            assert audited.get(turn.id) == 1, f"{audited.get(turn.id, 0)} audit lines for a turn"


async def _turn_id(store: SQLiteStore, question: str) -> str:
    rows = store._rows("SELECT id FROM turns WHERE instr(asked, ?) > 0", question.encode())
    assert len(rows) == 1, f"{question!r} is recorded {len(rows)} times"
    return str(rows[0][0])


async def audit_of(store: SQLiteStore, since: ChainedLine | None) -> tuple[dict[str, int], ChainedLine | None]:
    """How many lines each turn has, after checking the chain from a line on."""
    lines = [since] if since is not None else []
    while page := await store.audit_lines(lines[-1].number if lines else 0):
        lines += page
    for before, line in pairwise(lines):
        assert line.number == before.number + 1 and line.previous == before.hash, "the audit chain is broken"
    counts: dict[str, int] = {}
    for line in lines:
        assert line.hash == chain(line.previous, msgspec.json.encode(line.line)), "an audit line was changed"
        if line.line.kind == "turn":
            counts[line.line.turn] = counts.get(line.line.turn, 0) + 1
    return counts, lines[-1] if lines else None


async def run(runs: int, seed: int, durability: str) -> int:
    chance = random.Random(seed)
    interrupted = again = 0
    last: ChainedLine | None = None
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="sabir-durability-") as folder:
        gateway = Gateway(Path(folder), "--durability", durability)
        await gateway.start()
        store = SQLiteStore(Path(folder) / "sabir.db")
        await store.open()
        longest = 0.05
        try:
            for number in range(1, runs + 1):
                clients, took = await one_run(gateway, chance.uniform(0.0, longest))
                audited, last = await audit_of(store, last)
                await verify(store, clients, audited)
                # The kill shall fall into the talk, early as often as late.
                longest = min(longest * 1.05, 1.0) if took is None else 0.6 * longest + 0.4 * took
                tries = sum(client.again for client in clients)
                again += tries
                interrupted += bool(tries)
                if sys.stdout.isatty() or number % 20 == 0 or number == runs:
                    print(f"\r{number} of {runs} runs", end="" if sys.stdout.isatty() else "\n", flush=True)
        finally:
            await store.close()
            await gateway.kill()
    print(
        f"\n{runs} runs in {time.monotonic() - begun:.0f} s, seed {seed}: {runs * CLIENTS * TURNS} turns, "
        f"the kill fell into the talk in {interrupted} runs, {again} turns were asked again; "
        "none lost, none doubled, the audit chain is whole"
    )
    if runs >= 10 and interrupted < runs // 4:
        print("too few kills fell into a talk for this to prove anything", file=sys.stderr)
        return 1
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    parser.add_argument("--durability", choices=["process", "power"], default="process")
    given = parser.parse_args()
    try:
        return asyncio.run(run(given.runs, given.seed, given.durability))
    except AssertionError as wrong:
        print(f"\nseed {given.seed}: {wrong}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    raise SystemExit(main())

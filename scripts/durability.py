"""kill -9 at a random moment: no acknowledged turn is lost, none is recorded twice.

    python scripts/durability.py --runs 200 [--seed N] [--durability power]

A real gateway process over real HTTP. In each run several clients talk, each a conversation of three related turns; at
a random moment the gateway is killed and restarted on the same state, and the clients continue where they stopped,
repeating an unanswered turn under the same ``Idempotency-Key``. At the end each conversation must have exactly its
three turns in order, each with the answer that the client got, and the audit chain must be intact, with one entry per
turn.
"""

from __future__ import annotations

import asyncio
import random
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import httpx2
from killed import GatewayProcess, Talk, audit_of, enough_kills, once, options_of, outcome, show, stored_as_answered

from sabir.stores.base import ChainedLine
from sabir.stores.sqlite.store import SQLiteStore

CLIENTS, TURNS = 6, 3


def gateway_in(home: Path, *options: str) -> GatewayProcess:
    """Unused doors are off, because their imports make each start slow."""
    config = home / "sabir.yaml"
    config.write_text("doors: {mcp: false, a2a: false, nlip-amqp: false}\nsites: []\n")
    return GatewayProcess(config, "--home", str(home), *options)


@dataclass
class Client(Talk):
    """One conversation: asks its turns in order, repeating each under the same key until it is answered."""

    turns = TURNS
    again: int = 0  # questions that had to be repeated

    async def talk(self, http: httpx2.AsyncClient, url: str) -> None:
        """Run until all is answered, or the gateway goes away."""
        while len(self.answered) < TURNS:
            try:
                reply = await http.post(f"{url}/nlip/echo", **self.next_turn(), timeout=20)
            except httpx2.TransportError:
                self.again += 1
                return
            self.hears(reply)


async def one_run(gateway: GatewayProcess, moment: float) -> tuple[list[Client], float | None]:
    """Talk, kill, restart, continue. Returns the clients, and how long the talk took if it was not interrupted."""
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
    """Check that each conversation has its turns once and in order, with their answers."""
    for client in clients:
        found = [store._rows("SELECT id FROM turns WHERE instr(asked, ?) > 0", q.encode()) for q in client.questions]
        ids = [once(rows, question) for rows, question in zip(found, client.questions, strict=True)]
        await stored_as_answered(store, client, ids, audited)


async def run(runs: int, seed: int, durability: str) -> int:
    chance = random.Random(seed)
    interrupted = again = 0
    last: ChainedLine | None = None
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="sabir-durability-") as folder:
        gateway = gateway_in(Path(folder), "--durability", durability)
        await gateway.start()
        store = SQLiteStore(Path(folder) / "sabir.db")
        await store.open()
        longest = 0.05
        try:
            for number in range(1, runs + 1):
                clients, took = await one_run(gateway, chance.uniform(0.0, longest))
                audited, last = await audit_of(store, last)
                await verify(store, clients, audited)
                # The kill should happen during the talk, early as often as late.
                longest = min(longest * 1.05, 1.0) if took is None else 0.6 * longest + 0.4 * took
                tries = sum(client.again for client in clients)
                again += tries
                interrupted += bool(tries)
                show(number, runs, every=20)
        finally:
            await store.close()
            await gateway.kill()
    print(
        f"\n{runs} runs in {time.monotonic() - begun:.0f} s, seed {seed}: {runs * CLIENTS * TURNS} turns, "
        f"the kill came during a conversation in {interrupted} runs, {again} turns were asked again; "
        "none lost, none doubled, the audit chain is whole"
    )
    return enough_kills(interrupted, runs)


def main() -> int:
    parser = options_of(__doc__, runs=200)
    parser.add_argument("--durability", choices=["process", "power"], default="process")
    given = parser.parse_args()
    return outcome(run(given.runs, given.seed, given.durability), given.seed)


if __name__ == "__main__":
    raise SystemExit(main())

"""kill -9 of the receiver, the sender or the gateway of ACL messages: no acknowledged one is lost or done twice.

    python scripts/acl_durability.py --runs 200 [--seed N] [--on sqlite|cluster]

In each run a sender asks two agents: one in a separate process, with its inbox at the gateway, and one of the gateway.
At a random moment one of the processes is killed and restarted. Unacknowledged messages are sent again under the same
id. At the end every request must have exactly one acceptance and one result, on both sides and in the store; the
gateway's agent must have recorded one turn for each; and the audit chain must be intact.

``--on cluster`` has two gateways on one PostgreSQL and one NATS, of which either may be killed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import random
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

from cluster_durability import node, places
from killed import GatewayProcess, audit_of, enough_kills, options_of, outcome, show

from sabir.errors import PeerError
from sabir.protocols.acl.peer.link import Link
from sabir.protocols.acl.peer.messenger import AclConversation, Messenger
from sabir.protocols.acl.wire.envelope import Envelope, decode, envelope_of, stamp
from sabir.stores import Store, open_store
from sabir.stores.base import ChainedLine
from sabir.stores.letters import Letters

WORKER, SENDER, LOCAL = "worker", "sender", "echo"
REQUESTS = 3  # to each of the two agents
FINISH_SECONDS = 60.0


# -- the processes that are killed -----------------------------------------------------------------


async def work(url: str, folder: Path) -> None:
    """The receiver: does each task once, and reports it."""
    worker = Messenger(url, WORKER)

    @worker.on("TASK_REQUEST")
    async def task(conversation: AclConversation, message: Envelope) -> None:
        await conversation.say("TASK_ACCEPT", {"status": "accepted"})
        with suppress(FileExistsError):  # it was done before this process was killed
            (folder / message.message_id).open("x").close()
        await asyncio.sleep(random.uniform(0.0, 0.03))
        done = {"task_status": "success", "result_summary": f"did {message.message_id}", "result_details": {}}
        await conversation.say("INFORM_RESULT", done)

    async with worker:
        await _known(worker.link)
        print("ready", flush=True)
        await asyncio.Event().wait()


async def _known(link: Link) -> None:
    """Wait until the gateway knows this agent."""
    while True:
        with suppress(PeerError):
            await link.waiting(WORKER)
            return
        await asyncio.sleep(0.05)


class Journal:
    """What the sender has seen, line by line; it outlives the sender."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.acknowledged: set[str] = set()
        self.results: dict[str, dict[str, str]] = {}  # by request: the ids and texts of its results
        for line in path.read_text().splitlines() if path.exists() else ():
            with suppress(ValueError):  # cut off by the kill
                self._take(json.loads(line))

    def write(self, **entry: str) -> None:
        with self._path.open("a") as file:
            file.write(json.dumps(entry) + "\n")
        self._take(entry)

    def _take(self, entry: dict[str, str]) -> None:
        if entry["kind"] == "acknowledged":
            self.acknowledged.add(entry["id"])
        else:
            self.results.setdefault(entry["id"], {})[entry["message"]] = entry["text"]


async def send(urls: list[str], folder: Path) -> None:
    """The sender: takes requests to make, repeats each until it is acknowledged, and waits for the results."""
    journal = Journal(folder / "journal")
    links = [Link(url) for url in urls]
    reading = asyncio.create_task(_read(links, journal))
    print("ready", flush=True)
    while line := await asyncio.to_thread(sys.stdin.readline):
        requests = [pair.split("@") for pair in line.split()]
        await asyncio.gather(*(_request(links, journal, name, to) for name, to in requests))
        while any(name not in journal.results for name, _ in requests):
            await asyncio.sleep(0.005)
        print("done", flush=True)
    reading.cancel()


async def _request(links: list[Link], journal: Journal, name: str, to: str) -> None:
    given: dict[str, Any] = {
        "mcp_version": "0.1.0",
        "message_id": name,
        "performative": "TASK_REQUEST",
        "sender": {"agent_id": SENDER},
        "receiver": {"agent_id": to},
        "language": "application/json",
        "timestamp": stamp(time.time()),
        "payload": {"task_type": "ask", "task_description": name},
    }
    while name not in journal.acknowledged:
        try:
            await random.choice(links).post(envelope_of(given))
        except PeerError:
            await asyncio.sleep(0.05)
        else:
            journal.write(kind="acknowledged", id=name)


async def _read(links: list[Link], journal: Journal) -> None:
    for turn in range(sys.maxsize):
        link = links[turn % len(links)]
        with suppress(PeerError):
            async with aclosing(link.events(SENDER)) as events:
                async for number, data in events:
                    said = decode(data)
                    if said.performative not in ("TASK_ACCEPT", "INFORM_PROGRESS"):
                        text = str(said.payload.get("result_summary") or said.payload)
                        journal.write(kind="result", id=said.in_reply_to or "", message=said.message_id, text=text)
                    await link.acknowledge_numbers(SENDER, [number])
        await asyncio.sleep(0.05)


# -- the driver ------------------------------------------------------------------------------------


class Role:
    """A process of this script that can be killed and restarted."""

    def __init__(self, name: str, urls: Iterable[str], folder: Path) -> None:
        self.name = name
        self._command = [sys.executable, __file__, "--role", name, "--folder", str(folder), *urls]
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        pipe = asyncio.subprocess.PIPE
        self._process = await asyncio.create_subprocess_exec(*self._command, stdin=pipe, stdout=pipe)
        async with asyncio.timeout(FINISH_SECONDS):
            await self._line("ready")

    async def _line(self, expected: str) -> None:
        assert self._process is not None and self._process.stdout is not None
        line = (await self._process.stdout.readline()).decode().strip()
        if line != expected:
            raise ConnectionResetError(f"{self.name} ended")

    async def do(self, line: str) -> None:
        """Send it a line and wait until it is done.

        Raises:
            ConnectionResetError: it was killed in the meantime.
        """
        assert self._process is not None and self._process.stdin is not None
        self._process.stdin.write(line.encode() + b"\n")
        await self._line("done")

    async def kill(self) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()


class Setting:
    """The processes of a run, and the store that is checked afterwards."""

    def __init__(self, gateways: list[GatewayProcess], store: Store, folder: Path) -> None:
        self.gateways = gateways
        self.store = store
        self.folder = folder
        urls = [f"{gateway.url}/acl" for gateway in gateways]
        self.sender = Role(SENDER, urls, folder)
        self.worker = Role(WORKER, urls[-1:], folder)
        self.killed: dict[str, int] = {}

    async def run(self, moment: float, chance: random.Random) -> tuple[list[str], bool]:
        """One batch of requests with one kill; returns their ids, and whether the kill happened during it."""
        names = [f"{to}-{uuid4().hex}@{to}" for to in (WORKER, LOCAL) for _ in range(REQUESTS)]
        asking = asyncio.create_task(self._ask(names))
        await asyncio.sleep(moment)
        within = not asking.done()
        victim = chance.choice([self.sender, self.worker, *self.gateways])
        kind = victim.name if isinstance(victim, Role) else "gateway"
        self.killed[kind] = self.killed.get(kind, 0) + within
        await victim.kill()
        await victim.start()
        async with asyncio.timeout(FINISH_SECONDS):
            if not await asking:
                await self._ask(names)
        return [name.partition("@")[0] for name in names], within

    async def _ask(self, names: list[str]) -> bool:
        try:
            await self.sender.do(" ".join(names))
        except (ConnectionResetError, BrokenPipeError):
            return False
        return True

    async def verify(self, names: list[str]) -> None:
        """Each request was acknowledged, accepted once, done once, and its one result reached the sender."""
        journal = Journal(self.folder / "journal")
        assert isinstance(self.store, Letters)
        for name in names:
            assert name in journal.acknowledged, f"{name} was not acknowledged"
            results = journal.results.get(name, {})
            assert len(results) == 1, f"{name} has {len(results)} results: {results}"
            (text,) = results.values()
            assert name in text, f"the result of {name} is {text!r}"
            acts = [said.performative for said in await self.store.utterances(name)]
            for act in ("TASK_REQUEST", "TASK_ACCEPT", "INFORM_RESULT"):
                assert acts.count(act) == 1, f"{name}: {acts}"
            (row,) = await self.store.dialogues(conversation=name)
            assert row.state == "done", f"{name} is {row.state}"
            if name.startswith(WORKER):
                assert (self.folder / name).exists(), f"{name} was not done"


async def one_turn_each(store: Store, names: list[str]) -> None:
    for name in (name for name in names if name.startswith(LOCAL)):
        tasks = [task for task in await store.tasks(limit=1000) if task.detail.get("acl") == name]
        assert len(tasks) == 1, f"{name} is {len(tasks)} tasks"


CONFIG: dict[str, Any] = {"doors": {"mcp": False, "a2a": False, "nlip-amqp": False}, "sites": []}


@asynccontextmanager
async def on_sqlite(folder: Path) -> AsyncIterator[Setting]:
    gateway = node("one", folder, {**CONFIG, "agents": [{"id": LOCAL, "use": "sabir.agents.echo:echo"}]})
    async with _up([gateway], f"sqlite:///{folder}/one/sabir.db", folder) as setting:
        yield setting


@asynccontextmanager
async def on_cluster(folder: Path) -> AsyncIterator[Setting]:
    async with places() as (postgres, nats):
        shared = {
            **CONFIG,
            "store": postgres,
            "bus": nats,
            "secrets": [uuid4().hex + uuid4().hex],
            "tasks": {"lease": 1.5, "look": 0.2},
            "agents": [{"id": LOCAL, "use": "sabir.agents.echo:echo"}],
        }
        nodes = [node(name, folder, shared) for name in ("a", "b")]
        async with _up(nodes, postgres, folder) as setting:
            yield setting


@asynccontextmanager
async def _up(gateways: list[GatewayProcess], address: str, folder: Path) -> AsyncIterator[Setting]:
    async with AsyncExitStack() as exits:
        for gateway in gateways:
            exits.push_async_callback(gateway.kill)
        await asyncio.gather(*(gateway.start() for gateway in gateways))
        store = open_store(address)
        await store.open()
        exits.push_async_callback(store.close)
        setting = Setting(gateways, store, folder)
        for role in (setting.worker, setting.sender):
            exits.push_async_callback(role.kill)
            await role.start()
        yield setting


async def run(runs: int, seed: int, where: str) -> int:
    chance = random.Random(seed)
    begun, within, longest = time.monotonic(), 0, 0.3
    last: ChainedLine | None = None
    with tempfile.TemporaryDirectory(prefix="sabir-acl-") as name:
        async with {"sqlite": on_sqlite, "cluster": on_cluster}[where](Path(name)) as setting:
            for number in range(1, runs + 1):
                names, fell = await setting.run(chance.uniform(0.0, longest), chance)
                await setting.verify(names)
                await one_turn_each(setting.store, names)
                _, last = await audit_of(setting.store, last)
                within += fell
                # The kill should happen during the exchange, early as often as late.
                longest = min(longest * 1.1, 2.0) if fell else max(0.05, longest * 0.8)
                show(number, runs, every=20)
            killed = ", ".join(f"{kind} {count}" for kind, count in sorted(setting.killed.items()))
    print(
        f"\n{runs} runs on {where} in {time.monotonic() - begun:.0f} s, seed {seed}: {runs * REQUESTS * 2} requests; "
        f"the kill came during a conversation in {within} runs ({killed}); "
        "none lost, none done twice, the audit chain is whole"
    )
    return enough_kills(within, runs)


def main() -> int:
    parser = options_of(__doc__, runs=200)
    parser.add_argument("--on", choices=["sqlite", "cluster"], default="sqlite")
    parser.add_argument("--role", choices=[WORKER, SENDER], help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("urls", nargs="*", help=argparse.SUPPRESS)
    given = parser.parse_args()
    logging.basicConfig(level=logging.ERROR)  # the gateway is expected to be unavailable at times
    return outcome(part(given), given.seed)


async def part(given: argparse.Namespace) -> int:
    """What this process does: the whole check, or one of its roles."""
    if given.role == WORKER:
        await work(given.urls[0], given.folder)
    elif given.role == SENDER:
        await send(given.urls, given.folder)
    else:
        return await run(given.runs, given.seed, given.on)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

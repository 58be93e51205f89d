"""The same 1 KB TASK_REQUEST between two agents: ACL compared with SPADE and osBrain.

SPADE runs in its own environment. Over XMPP its sender, its receiver and its server (``spade run``) are three processes
and every message passes through the server; nothing is stored. Ours are checked against the table of conversations and
written in one commit with their state, timer and letter: in memory for the rows "with enforced conversations", in
SQLite for the durable ones. In process the plain bus is measured, too. All sides run the whole time and take turns.

Both sides send in the same ways, and each figure counts until the last message was handled:

- *pipelined*: a thousand messages are under way at a time. SPADE's ``send`` returns before the message has left the
  process, so its one sender never waits. What SPADE loses on the way is counted and shown.
- *with an audit entry*: the same, with what a gateway adds to its audit log for each message that arrives over a door.
- *confirmed*: 64 senders, each of which waits until its message is accepted. Ours is accepted when it is durable. SPADE
  has no acknowledgement, so its senders wait for the receiver's answer. The next row has answers on both sides.
- *request-reply*: the time of one request until its answer, by one asker.

    python bench/acl.py [ROUNDS]

The medians of the rounds are printed. On a busy machine compare CPU time, which other work changes least. The last rows
are ours alone: what a message costs with 10 and with 10,000 open conversations, and a search among 10,000 entries of
the directory.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent))

import msgspec
import uvloop
from venvs import python_with

from bus import Process, spade
from sabir.bus.base import Letter, Receiving
from sabir.bus.memory import MemoryBus
from sabir.bus.store import StoreBus
from sabir.cluster.directory import Directory, Entry, Template
from sabir.dialogues.service import Dialogues, answer_to, limits_for
from sabir.dialogues.settings import DialogueSettings
from sabir.ids import ordered_uuid
from sabir.protocols.acl.wire.envelope import Envelope, decode, encode, envelope_of
from sabir.server.server import GARBAGE, SWITCH_SECONDS
from sabir.stores import open_store
from sabir.stores.base import AuditLine
from sabir.stores.letters import Letters

HERE = Path(__file__).resolve()
SETTINGS = DialogueSettings(inbox_messages=1_000_000, sender_messages=1_000_000)
SENDERS = 64
PIPELINED = 1_000
ENTRIES = 10_000
ONE_WAY = 15_000  # messages per block, on both sides
ASKED = (400, 200)  # requests per block by one asker: ours and theirs
ANSWERED = (2_000, 640)  # and by 64 askers


FILLING = "x" * 623
REQUEST = envelope_of(
    {
        "mcp_version": "0.1.0",
        "message_id": "msg_1",
        "performative": "TASK_REQUEST",
        "sender": {"agent_id": "sender"},
        "receiver": {"agent_id": "receiver"},
        "language": "application/json",
        "ontology": "elizaos:ontology:code/general/refactor_request",
        "timestamp": "2026-01-01T00:00:00.000Z",
        "payload": {"task_type": "ask", "task_description": FILLING},
    }
)


def request() -> Envelope:
    """A TASK_REQUEST of 1 KB; all are different."""
    message_id = ordered_uuid()
    payload = {"task_type": "ask", "task_description": f"{message_id} {FILLING}"}
    return msgspec.structs.replace(REQUEST, message_id=message_id, payload=payload)


def audit_line(asked: Envelope) -> AuditLine:
    """What the door writes for each message."""
    detail = {"act": asked.performative}
    return AuditLine(time.time(), "message", "anna", "acl", "receiver", "ok", asked.message_id, "", detail)


# -- our side, in a process of its own ---------------------------------------------------------------


class Agents:
    """Two agents on one store: a sender and a receiver that answers each request."""

    def __init__(self, dialogues: Dialogues, bus: StoreBus) -> None:
        self._dialogues = dialogues
        self._bus = bus
        self._left = 0
        self._done = asyncio.Event()
        self._answers: dict[str, asyncio.Future[Envelope]] = {}
        self._answering = False

    async def open(self) -> None:
        await self._bus.receive("receiver", self._request, Receiving(width=SENDERS))
        await self._bus.receive("sender", self._reply, Receiving(width=SENDERS))

    async def _request(self, letter: Letter) -> None:
        envelope = decode(letter.body)
        if self._answering:
            result = {"task_status": "success", "result_summary": "done", "result_details": {}}
            await self._dialogues.post(answer_to(envelope, "INFORM_RESULT", result, sender="receiver"), "sender")
            return
        self._left -= 1
        if not self._left:
            self._done.set()

    async def _reply(self, letter: Letter) -> None:
        envelope = decode(letter.body)
        self._answers.pop(envelope.in_reply_to or "").set_result(envelope)

    async def send(self, count: int, senders: int = SENDERS, *, audited: bool = False) -> dict[str, float]:
        """Many senders, each waiting until its message is accepted; ends when the last is handled."""
        self._left, self._answering = count, False
        self._done.clear()
        left = iter(range(count))

        async def sender() -> None:
            for _ in left:
                asked = request()
                await self._dialogues.post(asked, "receiver", audit=audit_line(asked) if audited else None)

        began, used = time.perf_counter(), time.process_time()
        await asyncio.gather(*(sender() for _ in range(senders)))
        await self._done.wait()
        took = time.perf_counter() - began
        return {"per_second": count / took, "cpu": (time.process_time() - used) / count}

    async def ask(self, count: int, askers: int = 1) -> dict[str, float]:
        """Each asker makes one request after the other, until each has its result."""
        self._answering = True
        times: list[float] = []

        async def asker() -> None:
            for _ in range(count // askers):
                asked = request()
                answer = self._answers[asked.message_id] = asyncio.get_running_loop().create_future()
                begun = time.perf_counter()
                await self._dialogues.post(asked, "receiver")
                await answer
                times.append(time.perf_counter() - begun)

        began = time.perf_counter()
        await asyncio.gather(*(asker() for _ in range(askers)))
        took = time.perf_counter() - began
        return {"p50": statistics.median(times), "per_second": len(times) / took}

    async def open_conversations(self, count: int) -> None:
        """Conversations that wait for the reply of an absent agent."""
        for _ in range(count):
            await self._dialogues.post(request(), "absent")


async def send_letters(bus: MemoryBus, count: int) -> dict[str, float]:
    """The same messages over the bus in memory, without conversations, like the others."""
    left, done = count, asyncio.Event()

    async def handle(letter: Letter) -> None:
        nonlocal left
        decode(letter.body)
        left -= 1
        if not left:
            done.set()

    receiver = await bus.receive("receiver", handle, Receiving(width=SENDERS))
    began, used = time.perf_counter(), time.process_time()
    for _ in range(count):
        envelope = request()
        await bus.send(Letter("receiver", encode(envelope), envelope.message_id))
    await done.wait()
    took, cpu = time.perf_counter() - began, time.process_time() - used
    await receiver.stop()
    return {"per_second": count / took, "cpu": cpu / count}


@asynccontextmanager
async def agents(address: str) -> AsyncIterator[Agents]:
    store = open_store(address)
    await store.open()
    assert isinstance(store, Letters)
    bus = StoreBus(store, limits_for(SETTINGS))
    await bus.open()
    made = Agents(Dialogues(store, bus, SETTINGS), bus)
    await made.open()
    try:
        yield made
    finally:
        await bus.close()
        await store.close()


async def work(address: str) -> None:
    bus = MemoryBus()
    await bus.open()
    async with agents(address) as pair:
        gc.freeze()  # all three as `sabir serve` does
        gc.set_threshold(GARBAGE)
        sys.setswitchinterval(SWITCH_SECONDS)
        print(json.dumps({"ready": True}), flush=True)
        while words := (await asyncio.to_thread(sys.stdin.readline)).split():
            match words:
                case ["send", count, senders]:
                    print(json.dumps(await pair.send(int(count), int(senders))), flush=True)
                case ["audited", count, senders]:
                    print(json.dumps(await pair.send(int(count), int(senders), audited=True)), flush=True)
                case ["letters", count]:
                    print(json.dumps(await send_letters(bus, int(count))), flush=True)
                case ["ask", count, askers]:
                    print(json.dumps(await pair.ask(int(count), int(askers))), flush=True)
                case ["open", count]:
                    await pair.open_conversations(int(count))
                    print(json.dumps({}), flush=True)


# -- all sides, from here ----------------------------------------------------------------------------


class Sides(NamedTuple):
    """The systems that are measured."""

    memory: Process
    sqlite: Process
    spade_inside: Process
    spade_sender: Process
    spade_receiver: Process
    spade_server: int
    osbrain: Process | None


@asynccontextmanager
async def sides() -> AsyncIterator[Sides]:
    os.environ["BODY"] = encode(request()).decode()
    command = (sys.executable, str(HERE), "--work")
    async with AsyncExitStack() as up:
        folder = up.enter_context(tempfile.TemporaryDirectory())
        memory = await up.enter_async_context(Process(*command, "memory:"))
        sqlite = await up.enter_async_context(Process(*command, f"sqlite:///{folder}/sabir.db"))
        theirs = await up.enter_async_context(spade())
        yield Sides(memory, sqlite, theirs.inside, theirs.sender, theirs.receiver, theirs.server, await _osbrain(up))


async def _osbrain(up: AsyncExitStack) -> Process | None:
    try:
        python = await asyncio.to_thread(python_with, "osbrain", "osbrain==0.6.5")
        return await up.enter_async_context(OsBrain(str(python), str(HERE.with_name("osbrain_bus.py"))))
    except (OSError, RuntimeError, ValueError) as exc:
        print(f"osBrain does not run here: {exc}", file=sys.stderr)
        return None


class OsBrain(Process):
    """Its agents also print to standard output; only JSON is for us."""

    async def next_report(self) -> dict[str, Any]:
        while True:
            try:
                return await super().next_report()
            except json.JSONDecodeError:
                continue


async def spade_sends(sides: Sides, count: int, *, inside: bool) -> dict[str, float]:
    """Its rate, and the CPU seconds per message: of one process, or of sender, receiver and server."""
    sender, receiver = (
        (sides.spade_inside, sides.spade_inside) if inside else (sides.spade_sender, sides.spade_receiver)
    )
    used = 0.0 if inside else cpu_seconds(sides)
    await receiver.do("expect", count)
    began = (await sender.do("send", count))["began"]
    received = await receiver.next_report()
    cpu = received["cpu"] if inside else (cpu_seconds(sides) - used) / count
    rate = received["received"] / (received["at"] - began)
    return {"rate": rate, "cpu": cpu, "lost": count - received["received"]}


def cpu_seconds(sides: Sides) -> float:
    """The CPU used so far by SPADE's sender, receiver and XMPP server, which has its own processes."""
    used = 0
    for entry in Path("/proc").iterdir():
        with suppress(OSError):  # not a process, or one that has ended
            fields = (entry / "stat").read_text().rpartition(")")[2].split() if entry.name.isdigit() else []
            pids = (sides.spade_sender.pid, sides.spade_receiver.pid)
            if fields and (int(entry.name) in pids or int(fields[3]) == sides.spade_server):
                used += int(fields[11]) + int(fields[12])
    return used / os.sysconf("SC_CLK_TCK")


async def spade_asks(sides: Sides, count: int, askers: int, *, inside: bool) -> float:
    """Answers per second; for one asker by the median."""
    sender = sides.spade_inside if inside else sides.spade_sender
    return float((await sender.do("ask", askers, count))["per_second"])


async def block(sides: Sides) -> dict[str, float]:
    """Everybody once."""
    found: dict[str, float] = {}
    letters = await sides.memory.do("letters", ONE_WAY)
    found["bus rate"], found["bus cpu"] = letters["per_second"], letters["cpu"]
    for name, process in (("memory", sides.memory), ("sqlite", sides.sqlite)):
        for way, senders in (("pipelined", PIPELINED), ("confirmed", SENDERS)):
            sent = await process.do("send", ONE_WAY, senders)
            found[f"{name} {way}"], found[f"{name} {way} cpu"] = sent["per_second"], sent["cpu"]
        audited = await process.do("audited", ONE_WAY, PIPELINED)
        found[f"{name} audited"], found[f"{name} audited cpu"] = audited["per_second"], audited["cpu"]
        found[f"{name} p50"] = (await process.do("ask", ASKED[0], 1))["p50"]
        found[f"{name} answered"] = (await process.do("ask", ANSWERED[0], SENDERS))["per_second"]
    for where, inside in (("in process", True), ("XMPP", False)):
        theirs = await spade_sends(sides, ONE_WAY, inside=inside)
        found |= {f"SPADE {where} {what}": value for what, value in theirs.items()}
        found[f"SPADE {where} p50"] = 1 / await spade_asks(sides, ASKED[1], 1, inside=inside)
        found[f"SPADE {where} answered"] = await spade_asks(sides, ANSWERED[1], SENDERS, inside=inside)
    if sides.osbrain is not None:
        found["osBrain rate"] = (await sides.osbrain.do("send", ONE_WAY))["per_second"]
        found["osBrain p50"] = (await sides.osbrain.do("ask", ASKED[0]))["p50"]
    return found


ROWS = (
    # what, ours, theirs, unit, wanted ratio
    ("in process, not persisted, pipelined", "bus rate", "SPADE in process rate", "/s", 1.0),
    ("in process, not persisted, pipelined, CPU", "bus cpu", "SPADE in process cpu", "µs", None),
    ("the same with enforced conversations", "memory pipelined", "SPADE in process rate", "/s", None),
    ("the same with enforced conversations, CPU", "memory pipelined cpu", "SPADE in process cpu", "µs", None),
    ("durable (SQLite) / XMPP, pipelined", "sqlite pipelined", "SPADE XMPP rate", "/s", 5.0),
    ("durable (SQLite) / XMPP, pipelined, CPU", "sqlite pipelined cpu", "SPADE XMPP cpu", "µs", None),
    ("the same with an audit entry for each message", "sqlite audited", "SPADE XMPP rate", "/s", None),
    ("the same with an audit entry for each message, CPU", "sqlite audited cpu", "SPADE XMPP cpu", "µs", None),
    ("durable (SQLite) / XMPP, 64 senders, confirmed", "sqlite confirmed", "SPADE XMPP answered", "/s", 5.0),
    ("durable (SQLite) / XMPP, 64 senders, answered", "sqlite answered", "SPADE XMPP answered", "/s", None),
    ("in process, not persisted, request-reply p50", "memory p50", "SPADE in process p50", "ms", None),
    ("durable (SQLite) / XMPP, request-reply p50", "sqlite p50", "SPADE XMPP p50", "ms", 1.0),
    ("durable (SQLite) / osBrain (stores nothing)", "sqlite pipelined", "osBrain rate", "/s", None),
)


UNITS: dict[str, Callable[[float], str]] = {
    "/s": lambda value: f"{value:,.0f}/s",
    "ms": lambda value: f"{1000 * value:.2f} ms",
    "µs": lambda value: f"{1e6 * value:.0f} µs",
}


def show(rounds: list[dict[str, float]]) -> bool:
    print(f"{'1 KB TASK_REQUEST':<52} {'Sabir':>10} {'other':>10} {'better':>8}   median of {len(rounds)}")
    good = True
    for what, ours, theirs, unit, wanted in ROWS:
        if theirs not in rounds[0]:
            continue
        one, other = (statistics.median(found[name] for found in rounds) for name in (ours, theirs))
        ratio = one / other if unit == "/s" else other / one
        shown = [UNITS[unit](value) for value in (one, other)]
        goal = "" if wanted is None else f"   wanted ≥ {wanted:g}×: {'yes' if ratio >= wanted else 'NO'}"
        good = good and (wanted is None or ratio >= wanted)
        print(f"{what:<52} {shown[0]:>10} {shown[1]:>10} {ratio:>7.1f}×{goal}")
    lost = sum(int(found["SPADE XMPP lost"]) for found in rounds)
    print(f"SPADE lost {lost} of {len(rounds) * ONE_WAY:,} messages over XMPP (our rows end when all were handled)")
    return good


async def flat(*addresses: str) -> tuple[float, float]:
    """CPU seconds per message in a store with 10, and in another with 10,000 open conversations, alternating."""
    async with agents(addresses[0]) as with_few, agents(addresses[-1]) as with_many:
        await with_few.open_conversations(10)
        await with_many.open_conversations(10_000)
        pairs = (with_few, with_many)
        found = [[(await pair.send(2_000))["cpu"] for pair in pairs] for _ in range(4)]
    few, many = (min(costs) for costs in zip(*found, strict=True))
    return few, many


async def directory(address: str) -> float:
    """Milliseconds of a search among 10,000 entries, the median."""
    store = open_store(address)
    await store.open()
    try:
        book = Directory(store)
        entries = (Entry(f"agent-{n}", skills=(f"skill-{n % 500}", "python")) for n in range(ENTRIES))
        await asyncio.gather(*(book.register(entry, "bench", lease=86_400.0) for entry in entries))
        await book.search(Template(skills=("skill-1",)))  # builds the index
        times = []
        for n in range(200):
            begun = time.perf_counter()
            found = await book.search(Template(skills=(f"skill-{n}", "Python")))
            times.append(time.perf_counter() - begun)
            assert len(found) == ENTRIES // 500
        return 1000 * statistics.median(times)
    finally:
        await store.close()


async def main(rounds: int) -> int:
    async with sides() as up:
        await block(up)  # warm up
        measured = [await block(up) for _ in range(rounds)]
    good = show(measured)
    with tempfile.TemporaryDirectory() as folder:
        files = [f"sqlite:///{folder}/{name}.db" for name in ("few", "many")]
        for name, addresses in (("memory", ["memory:"]), ("SQLite", files)):
            few, many = await flat(*addresses)
            flat_enough = many / few <= 1.25
            good = good and flat_enough
            print(
                f"{name}: CPU per message with 10 / 10,000 open conversations: {few * 1e6:.0f} / {many * 1e6:.0f} µs, "
                f"{many / few:.2f}×   wanted ≤ 1.25×: {'yes' if flat_enough else 'NO'}"
            )
        took = await directory(f"sqlite:///{folder}/directory.db")
        good = good and took < 5.0
        print(
            f"directory of {ENTRIES:,} entries: a search takes {took:.2f} ms   "
            f"wanted < 5: {'yes' if took < 5.0 else 'NO'}"
        )
    return 0 if good else 1


if __name__ == "__main__":
    if sys.argv[1:2] == ["--work"]:
        uvloop.run(work(sys.argv[2]))
    else:
        raise SystemExit(uvloop.run(main(int(sys.argv[1]) if len(sys.argv) == 2 else 5)))

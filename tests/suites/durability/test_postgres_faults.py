"""PostgreSQL goes away under load: acknowledged work is kept, nothing is doubled, service resumes by itself."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from itertools import pairwise
from pathlib import Path
from uuid import uuid4

import asyncpg
import httpx2
import msgspec
import pytest

from conftest import Serve
from sabir import agent
from sabir.errors import StoreUnavailable
from sabir.exchange.request import TurnRequest
from sabir.gateway.gateway import Gateway
from sabir.guard import Credentials
from sabir.message import Message
from sabir.stores.base import AuditLine, ConversationRow, Record, TaskEvent, TurnEntry, chain
from sabir.stores.postgres.store import PostgresStore
from sabir.tasks import TaskSettings
from sabir.turn import Caller, PastTurn, Turn
from stores.private_postgres import PrivatePostgres


@pytest.fixture(scope="module")
def server() -> Iterator[PrivatePostgres]:
    private = PrivatePostgres()
    yield private
    private.remove()


@pytest.fixture
async def address(server: PrivatePostgres) -> AsyncIterator[str]:
    try:
        server.start()
    except AssertionError:
        pass  # a test before this one left it running
    name = f"fault_{uuid4().hex[:12]}"
    connection = await asyncpg.connect(server.address)
    await connection.execute(f"CREATE SCHEMA {name}")
    await connection.close()
    yield f"{server.address}?search_path={name}"


def entry(turn: str, conversation: str) -> TurnEntry:
    now = time.time()
    row = ConversationRow(conversation, "ada", now, now, now + 3600)
    past = PastTurn(turn, now, "echo", Message.text(turn), Message.text(f"say {turn}"), "ada", conversation)
    return TurnEntry(row, past, AuditLine(now, "turn", "ada", turn=turn, conversation=conversation), 1)


@pytest.mark.parametrize("mode", ["fast", "immediate"])
async def test_a_restart_under_load_loses_no_turn_and_doubles_none(
    server: PrivatePostgres, address: str, mode: str
) -> None:
    store = PostgresStore(address, patience=30.0)
    await store.open()
    recorded: list[str] = []
    counted = events = 0
    stopping = asyncio.Event()

    async def caller(conversation: str) -> None:
        nonlocal counted, events
        while not stopping.is_set():
            turn = uuid4().hex
            assert await store.record(entry(turn, conversation)) is True
            recorded.append(turn)
            await store.count("q", "turns", 1)
            counted += 1
            await store.add_task_event("t", TaskEvent(0, 0.0, "delta", {"turn": turn}))
            events += 1

    callers = [asyncio.create_task(caller(f"c{n}")) for n in range(16)]
    for _ in range(2):
        at = len(recorded)
        while len(recorded) < at + 100:  # the load is on, and comes back by itself
            await asyncio.sleep(0.01)
        await asyncio.to_thread(server.stop, mode)
        await asyncio.to_thread(server.start)
    at = len(recorded)
    while len(recorded) < at + 100:
        await asyncio.sleep(0.01)
    stopping.set()
    await asyncio.gather(*callers)  # no caller saw a failure

    stored = [turn.id for n in range(16) for turn in await store.turns(f"c{n}", 100_000)]
    assert sorted(stored) == sorted(recorded)
    rows = [await store.conversation(f"c{n}") for n in range(16)]
    assert sum(row.turns for row in rows if row) == len(recorded)
    # What is not idempotent by an id of its own is done once, too.
    value = await store.get("q", "turns")
    assert value is not None and float(value.value) == counted
    assert len(await store.task_events("t", limit=1_000_000)) == events
    lines = await store.audit_lines(limit=1_000_000)
    assert len(lines) == len(recorded)
    assert all(b.previous == a.hash and b.number == a.number + 1 for a, b in pairwise(lines))
    assert all(line.hash == chain(line.previous, msgspec.json.encode(line.line)) for line in lines)
    await store.close()


async def test_an_unavailable_server_is_reported_clearly_and_soon_and_its_return_is_noticed(
    server: PrivatePostgres, address: str
) -> None:
    store = PostgresStore(address, patience=0.5)
    await store.open()
    await store.record(entry("before", "c"))
    await asyncio.to_thread(server.stop)
    calls = (
        lambda: store.record(entry("lost", "c")),
        lambda: store.turn("before"),
        lambda: store.put(Record("s", "k", b"")),
        store.ping,
    )
    for call in calls:
        begun = time.monotonic()
        with pytest.raises(StoreUnavailable, match="the store is unavailable") as raised:
            await call()
        assert time.monotonic() - begun < 10.0
        assert "127.0.0.1" not in str(raised.value) and "postgres@" not in str(raised.value)
    await asyncio.to_thread(server.start)
    assert await store.record(entry("after", "c")) is True
    assert [turn.id for turn in await store.turns("c", 9) if turn.id != "lost"] == ["before", "after"]
    await store.close()


async def test_a_connection_that_breaks_between_commit_and_answer_does_not_double_the_batch(
    server: PrivatePostgres, address: str
) -> None:
    store = PostgresStore(address)
    await store.open()
    await store.count("q", "k", 1)
    writer = store._writer
    assert writer is not None
    send, broken = writer._send, 0

    async def send_and_break(values):  # type: ignore[no-untyped-def]
        nonlocal broken
        answer = await send(values)
        if not broken:
            broken += 1
            writer._let_go()
            raise ConnectionResetError("the answer was lost on its way")
        return answer

    writer._send = send_and_break  # type: ignore[method-assign]
    answers = await asyncio.gather(
        store.record(entry("a", "c")),
        store.record(entry("b", "c")),
        store.count("q", "k", 5),
        store.add_task_event("t", TaskEvent(0, 0.0, "delta", {})),
        store.audit(AuditLine(0.0, "key", "ada")),
    )
    assert broken == 1
    assert answers == [True, True, 6.0, 1, None]
    assert (await store.count("q", "k", 0), len(await store.audit_lines()), len(await store.turns("c", 9))) == (6, 3, 2)
    await store.close()


async def test_a_task_outlasts_an_outage_that_is_longer_than_its_lease(
    server: PrivatePostgres, address: str, tmp_path: Path
) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    @agent(name="worker")  # not repeatable: another node that took it over would have to fail it
    async def worker(turn: Turn) -> str:
        begun.set()
        await go_on.wait()
        return "done"

    settings = TaskSettings(lease=2.0, look=0.05)
    nodes = [Gateway(worker, home=tmp_path, store=address, tasks=settings) for _ in range(2)]
    for node in nodes:
        await node.start()
    caller = Caller(id="ada", kind="key", address="127.0.0.1")
    ask = TurnRequest(Message.text("go"), "nlip", credentials=Credentials(caller=caller))
    task = await nodes[0].tasks.submit(ask)
    await begun.wait()
    await asyncio.to_thread(server.stop)
    await asyncio.sleep(2.5)  # longer than the lease, which is what this is about
    await asyncio.to_thread(server.start)
    lease = (await nodes[1].tasks.find(task.id, caller)).lease
    while (await nodes[1].tasks.find(task.id, caller)).lease <= lease:
        await asyncio.sleep(0.05)  # it is renewed again
    go_on.set()
    done = await nodes[1].tasks.wait(task.id, caller, 10)
    assert (done.state, done.attempts, done.node) == ("completed", 1, nodes[0].node)
    for node in nodes:
        await node.stop()


@agent(name="echo")
async def echo(turn: Turn) -> str:
    return f"You said: {turn.text}"


async def test_a_gateway_rides_out_a_restart_and_keeps_what_it_answered(
    server: PrivatePostgres, address: str, serve: Serve, tmp_path: Path
) -> None:
    served = serve(Gateway(echo, home=tmp_path, store=address))
    answered: list[str] = []
    refused: list[int] = []
    stopping = asyncio.Event()

    async def client(http: httpx2.AsyncClient) -> None:
        while not stopping.is_set():
            text = uuid4().hex
            reply = await http.post(
                f"{served.url}/nlip", json={"format": "text", "subformat": "english", "content": text}, timeout=600
            )
            if reply.status_code == 200:
                answered.append(text)
            else:
                assert (reply.status_code, reply.json()["messagetype"]) == (503, "error"), reply.text
                assert "retry-after" in reply.headers
                refused.append(reply.status_code)

    async with httpx2.AsyncClient(verify=False) as http:
        clients = [asyncio.create_task(client(http)) for _ in range(8)]
        while len(answered) < 50:
            await asyncio.sleep(0.01)
        await asyncio.to_thread(server.stop)
        await asyncio.to_thread(server.start)
        at = len(answered)
        while len(answered) < at + 50:
            await asyncio.sleep(0.01)
        stopping.set()
        await asyncio.gather(*clients)

    connection = await asyncpg.connect(address)
    asked = [bytes(row[0]) for row in await connection.fetch("SELECT asked FROM turns")]
    await connection.close()
    stored = [msgspec.msgpack.decode(item, type=Message).text for item in asked]
    assert len(stored) == len(set(stored))
    assert set(answered) <= set(stored)

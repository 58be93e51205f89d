"""Audit lines of turns of which nothing else is kept: every one is written, many at once."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from deadline import DEADLINE
from sabir import Gateway, Message, Turn, agent
from sabir.errors import StoreUnavailable
from sabir.exchange.request import EventSink, TurnRequest
from sabir.guard import Credentials
from sabir.guard.audit.log import AuditBuffer, expand, export
from sabir.guard.audit.verify import verify
from sabir.stores.base import AuditLine
from sabir.stores.memory import MemoryStore


def turn(number: int) -> Turn:
    return Turn(Message.text("x"), id=str(number), agent="echo")


class Fickle(MemoryStore):
    """Unavailable as often as configured; counts its calls."""

    def __init__(self, away: int = 0) -> None:
        super().__init__()
        self.away, self.asked = away, 0

    async def audit(self, *lines: AuditLine) -> None:
        self.asked += 1
        if self.away:
            self.away -= 1
            raise StoreUnavailable("away")
        await super().audit(*lines)


async def turns_of(store: MemoryStore) -> list[str]:
    return [line.turn for audit_line in await store.audit_lines() for line in expand(audit_line.line)]


async def until_written(store: MemoryStore, count: int) -> None:
    async with asyncio.timeout(DEADLINE):
        while len(await turns_of(store)) < count:
            await asyncio.sleep(0.01)


async def opened(away: int = 0) -> Fickle:
    store = Fickle(away)
    await store.open()
    return store


async def test_lines_of_one_moment_are_written_together_and_in_order() -> None:
    store = await opened()
    notes = AuditBuffer(store, seconds=0.01)
    for number in range(50):
        notes.add(turn(number), "nlip-http", number)
    await until_written(store, 50)
    assert await turns_of(store) == [str(number) for number in range(50)]
    assert store.asked == 1


async def test_lines_wait_while_the_store_is_unavailable() -> None:
    store = await opened(away=3)
    notes = AuditBuffer(store, seconds=0.01)
    notes.add(turn(1), "nlip-http", 1)
    await asyncio.sleep(0.015)
    notes.add(turn(2), "nlip-http", 2)
    await until_written(store, 2)
    assert await turns_of(store) == ["1", "2"]


async def test_only_so_many_wait_and_the_rest_is_counted() -> None:
    store = await opened()
    notes = AuditBuffer(store, seconds=0.01, limit=3)
    for number in range(5):
        notes.add(turn(number), "nlip-http", number)
    await until_written(store, 4)
    (answer,) = await store.audit_lines()
    assert answer.line.kind == "turns" and answer.line.detail["left_out"] == 2
    assert [line.detail for line in expand(answer.line)] == [{"bytes": 0}, {"bytes": 1}, {"bytes": 2}, {"left_out": 2}]


async def test_very_many_turns_of_one_moment_are_written_as_several_lines() -> None:
    store = await opened()
    notes = AuditBuffer(store, seconds=0.01)
    for number in range(1200):
        notes.add(turn(number), "nlip-http", number)
    await until_written(store, 1200)
    assert await turns_of(store) == [str(number) for number in range(1200)]
    assert len(await store.audit_lines()) == 3


async def test_the_end_writes_what_is_still_there() -> None:
    store = await opened()
    notes = AuditBuffer(store, seconds=60)
    notes.add(turn(1), "nlip-http", 1)
    await notes.close()
    assert await turns_of(store) == ["1"]


async def test_each_turn_of_an_agent_that_remembers_nothing_leaves_its_line(tmp_path: Path) -> None:
    @agent(remembers=False)
    async def echo(turn: Turn) -> str:
        return turn.text

    async def nowhere(_: object) -> None: ...

    gateway = Gateway(echo, home=tmp_path / "home", store=f"sqlite:///{tmp_path / 'one.db'}")
    await gateway.start()
    ask = TurnRequest(Message.text("hello"), "nlip-http", None, Credentials("127.0.0.1"))
    for _ in range(3):
        await gateway.exchange.ask(ask, EventSink(nowhere))
    await gateway.guard.notes.close()
    lines = [json.loads(line) for line in [line async for line in export(gateway.store, redact=())]]
    assert [(item["kind"], item["caller"], item["agent"], item["detail"]) for item in lines] == [
        ("turn", "anonymous", "echo", {"bytes": 10})
    ] * 3
    assert len({item["turn"] for item in lines}) == 3
    assert [(item["number"], item["part"]) for item in lines] == [(1, 1), (1, 2), (1, 3)]
    assert (await verify(gateway.store)).whole
    await gateway.stop()

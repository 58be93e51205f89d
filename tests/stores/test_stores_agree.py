"""Any sequence of calls has the same results on SQLite, and on PostgreSQL, as on the store in memory."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Any

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sabir.message import Message
from sabir.stores import Store, open_store
from sabir.stores.base import ENDED, LIVE, AuditLine, ConversationRow, Record, TaskEvent, TaskRow, TurnEntry
from sabir.turn import PastTurn
from stores.places import schema

NOW = 4_000_000_000.0  # far ahead, so that nothing expires by the real clock

ids, owners, keys = (st.sampled_from(letters) for letters in ("abc", "xy", ("k", "k1", "ö")))
times = st.integers(0, 3).map(lambda n: NOW + n)
versions = st.none() | st.integers(0, 3)
leases = st.sampled_from([-1.0, 60.0, 7200.0])


def _row(item_id: str, owner: str, at: float) -> ConversationRow:
    return ConversationRow("c" + item_id, owner, at, at, at + 1, peer_token="p" + owner, agreed={"at": at})


def _entry(turn: str, item_id: str, owner: str, at: float, audited: bool) -> TurnEntry:
    past = PastTurn(turn, at, "echo", Message.text(turn), Message.text(item_id), owner, "c" + item_id)
    return TurnEntry(_row(item_id, owner, at), past, AuditLine(at, "turn", owner, turn=turn) if audited else None, 3)


def _task(item_id: str, owner: str, state: str, at: float) -> TaskRow:
    return TaskRow(
        item_id,
        owner,
        "echo" if owner == "x" else "other",
        state,
        at,
        at,
        at + 1,
        Message.text(item_id),
        node="n" + owner,
    )


nodes = owners.map(lambda owner: "n" + owner)
tasks = st.builds(_task, ids, owners, st.sampled_from(LIVE + ENDED), times)
records = st.builds(Record, ids, keys, st.binary(max_size=3), owners, st.sampled_from([0.0, 1.0, NOW]))
CALLS = st.one_of(
    st.tuples(st.just("record"), st.builds(_entry, ids, ids, owners, times, st.booleans())),
    st.tuples(st.just("agree"), st.builds(_row, ids, owners, times)),
    st.tuples(st.just("forget"), ids.map(lambda item_id: "c" + item_id)),
    st.tuples(st.just("sweep"), times),
    st.tuples(st.just("put_task"), tasks, versions, st.none() | leases),
    # Claimed for no time at all: a PostgreSQL that was started less than a lease ago holds back what others had.
    st.tuples(st.just("claim_task"), nodes, st.just(-1.0), st.sampled_from([("echo",), ("other", "echo")])),
    st.tuples(st.just("renew_tasks"), nodes, st.just(("a", "b")), leases),
    st.tuples(st.just("add_task_event"), ids, st.builds(TaskEvent, st.just(0), times, st.just("delta"), st.just({}))),
    st.tuples(st.just("audit"), st.builds(AuditLine, times, st.just("key"), owners)),
    st.tuples(st.just("audit_prune"), st.integers(0, 9)),
    st.tuples(st.just("put"), records, versions),
    st.tuples(st.just("delete"), ids, keys),
    st.tuples(st.just("count"), st.just("counters"), keys, st.sampled_from([1.0, -0.5])),
)
KEYWORDS = {"put_task": ("expect", "lease"), "put": ("expect",)}


async def _call(store: Store, call: tuple[Any, ...]) -> object:
    name, *given = call
    words = KEYWORDS.get(name, ())
    positional = given[: len(given) - len(words)]
    result = await getattr(store, name)(*positional, **dict(zip(words, given[len(positional) :], strict=True)))
    return msgspec.structs.replace(result, lease=0.0) if isinstance(result, TaskRow) else result


async def _everything(store: Store) -> list[object]:
    tasks = await store.tasks()
    return [
        [await store.conversation("c" + item_id) for item_id in "abc"],
        [await store.turns("c" + item_id, 9) for item_id in "abc"],
        [await store.turn(item_id) for item_id in "abc"],
        [sorted(row.id for row in await store.conversations(owner)) for owner in "xy"],
        sorted((msgspec.structs.replace(task, lease=0.0) for task in tasks), key=lambda task: task.id),
        [task.lease > 0 for task in sorted(tasks, key=lambda task: task.id)],
        [await store.count_tasks(owner) for owner in "xy"],
        await store.count_submitted(),
        [await store.task_events(item_id) for item_id in "abc"],
        await store.audit_lines(),
        await store.audit_head(),
        [await store.list(space) for space in "abc"],
        [float(record.value) for record in await store.list("counters")],
    ]


async def _agree(calls: list[tuple[Any, ...]], address: str) -> None:
    model, store = open_store("memory:"), open_store(address)
    await model.open()
    await store.open()
    try:
        for call in calls:
            assert await _call(store, call) == await _call(model, call), call[0]
        assert await _everything(store) == await _everything(model)
    finally:
        await store.close()


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(CALLS, max_size=25))
def test_sqlite_agrees_with_memory(calls: list[tuple[Any, ...]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(_agree(calls, f"sqlite:///{Path(folder)}/sabir.db"))


async def _on_postgres(calls: list[tuple[Any, ...]]) -> None:
    async with schema() as address:
        await _agree(calls, address)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(CALLS, max_size=25))
def test_postgres_agrees_with_memory(calls: list[tuple[Any, ...]]) -> None:
    asyncio.run(_on_postgres(calls))

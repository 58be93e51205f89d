"""What the guard keeps in a store, on every kind of store, with two nodes at it at the same time."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from sabir.errors import RateLimited, SabirError, Unauthenticated
from sabir.guard import Credentials, Quotas
from sabir.guard.audit.log import retain
from sabir.guard.audit.verify import verify
from sabir.guard.identity.api_keys import ApiKeys, KeyVerifier
from sabir.guard.identity.dpop import Dpop
from sabir.guard.quotas.daily import DailyUsage
from sabir.guard.quotas.reservations import Cap, Reservations
from sabir.stores import Store, open_store
from sabir.stores.base import AuditLine, Record
from sabir.stores.sqlite.store import SQLiteStore
from sabir.turn import Caller
from stores.places import schema

ALICE = Caller("key:a", "key")


@asynccontextmanager
async def opened(address: str) -> AsyncIterator[Store]:
    store = open_store(address)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


@pytest.fixture(params=["sqlite", "postgresql"])
async def nodes(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[tuple[Store, Store]]:
    """Two nodes on one store."""
    if request.param == "postgresql":
        async with schema() as place, opened(place) as one, opened(place) as two:
            yield one, two
    else:
        place = f"sqlite:///{tmp_path}/sabir.db"
        async with opened(place) as one, opened(place) as two:
            yield one, two


async def test_a_daily_quota_is_exact_when_two_nodes_count_at_once(nodes: tuple[Store, Store]) -> None:
    quotas = Quotas(daily_turns=30)
    counting = [DailyUsage(quotas, store) for store in nodes]

    async def begin(number: int) -> bool:
        try:
            await counting[number % 2].begin(ALICE)
            return True
        except RateLimited:
            return False

    assert sum(await asyncio.gather(*(begin(number) for number in range(100)))) == 30


def holding(nodes: tuple[Store, Store]) -> list[Reservations]:
    return [Reservations(store, "box", "all is taken") for store in nodes]


async def test_places_are_exact_when_two_nodes_give_them_at_once(nodes: tuple[Store, Store]) -> None:
    both, until = holding(nodes), time.time() + 60

    async def begin(number: int) -> bool:
        try:
            record = Record("place", str(number), b"")
            await both[number % 2].begin("ann", str(number), until, Cap(1000, 30), record)
            return True
        except RateLimited:
            return False

    begun = await asyncio.gather(*(begin(number) for number in range(100)))
    assert sum(begun) == 30
    stored = await nodes[0].list("place")
    assert sorted(int(item.key) for item in stored) == [number for number, is_begun in enumerate(begun) if is_begun]
    await both[0].begin("bob", "x", until, Cap(1000, 30), Record("place", "x", b""))  # others have their own


async def test_what_is_held_is_exact_when_two_nodes_take_it_at_once(nodes: tuple[Store, Store]) -> None:
    both, until, peak = holding(nodes), time.time() + 60, Cap(1000, 200)

    async def hold(number: int) -> int:
        try:
            return await both[number % 2].reserve("ann", str(number), until, peak, 70, least=20)
        except RateLimited:
            return 0

    held = await asyncio.gather(*(hold(number) for number in range(50)))
    assert (sum(held), held.count(70)) == (1000, 14)  # one has the rest, which is less than it wanted
    await both[0].commit("ann", str(held.index(70)), 10)
    assert await both[1].reserve("ann", "late", until, peak, 70, least=20) == 60
    with pytest.raises(RateLimited, match="all is taken"):
        await both[0].reserve("ann", "later", until, peak, 70, least=20)
    await both[1].end("ann", "late")
    assert await both[0].reserve("ann", "later", until, peak, 50, least=50) == 50


async def test_what_has_expired_is_no_longer_held(nodes: tuple[Store, Store]) -> None:
    both, now, peak = holding(nodes), time.time(), Cap(100, 2)
    await both[0].begin("ann", "gone", now - 1, peak, Record("place", "gone", b""))
    await both[0].reserve("ann", "gone", now - 1, peak, 100, least=100)
    await both[1].begin("ann", "one", now + 60, peak, Record("place", "one", b""))
    assert await both[1].reserve("ann", "one", now + 60, peak, 100, least=100) == 100
    with pytest.raises(RateLimited):
        await both[0].begin("ann", "two", now + 60, peak, Record("place", "two", b""))


async def test_a_proof_is_good_once_when_it_comes_to_two_nodes_at_once(nodes: tuple[Store, Store]) -> None:
    checking = [Dpop(store) for store in nodes]

    async def once(number: int) -> bool:
        try:
            await checking[number % 2].use_once("thumb", "the same id")
            return True
        except Unauthenticated:
            return False

    assert sum(await asyncio.gather(*(once(number) for number in range(20)))) == 1


async def test_a_key_made_on_one_node_is_known_and_revoked_on_the_other(nodes: tuple[Store, Store]) -> None:
    one, two = nodes
    key, text = await ApiKeys(one).add("alice", roles=("staff",))
    verifier = KeyVerifier(ApiKeys(two), seconds=0.0)
    presented = Credentials("192.0.2.1", f"Bearer {text}")
    caller = await verifier.verify(presented, ())
    assert caller is not None and caller.roles == {"staff"}
    await ApiKeys(one).revoke(key.id)
    with pytest.raises(Unauthenticated):
        await verifier.verify(presented, ())


async def test_the_chain_is_whole_when_two_nodes_write_it_and_after_retention(nodes: tuple[Store, Store]) -> None:
    now = time.time()
    old = [AuditLine(now - 40 * 86400, "turn", f"key:{n}", detail={"bytes": n, "größe": "ß"}) for n in range(20)]
    for line in old:
        await nodes[0].audit(line)
    await asyncio.gather(*(nodes[n % 2].audit(AuditLine(now, "turn", f"key:{n}")) for n in range(60)))
    verdict = await verify(nodes[1])
    assert (verdict.whole, verdict.lines) == (True, 80)
    assert await retain(nodes[0], 30.0) == 20
    after = await verify(nodes[1], anchor=verdict.anchor)
    assert (after.whole, after.first, after.lines) == (True, 21, 61)


class Slower:
    """A node that is about to tell what it removes, when the other one does the same, and more."""

    def __init__(self, store: Store, other: Store, now: float) -> None:
        self._store, self._other, self._now = store, other, now

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def audit(self, line: AuditLine) -> None:
        await retain(self._other, 30.0, now=self._now)
        await self._store.audit(line)


async def test_two_nodes_that_remove_old_lines_at_once_leave_a_chain_that_is_whole(nodes: tuple[Store, Store]) -> None:
    now = time.time()
    for n in range(6):
        await nodes[0].audit(AuditLine(now - 30 * 86400 + 10 * (n - 3), "turn", f"key:{n}"))
    await nodes[0].audit(AuditLine(now, "turn", "key:new"))
    slower: Any = Slower(nodes[0], nodes[1], now + 25)
    await retain(slower, 30.0, now=now)
    verdict = await verify(nodes[0])
    assert (verdict.broken, verdict.first) == ((), 7)


async def test_a_store_that_is_gone_lets_nobody_in_by_mistake(nodes: tuple[Store, Store]) -> None:
    """Fail closed: what cannot be checked is not believed, and what cannot be counted is not given."""
    _, text = await ApiKeys(nodes[0]).add("alice")
    await nodes[1].close()
    for refused in (
        KeyVerifier(ApiKeys(nodes[1])).verify(Credentials("192.0.2.1", f"Bearer {text}"), ()),
        DailyUsage(Quotas(daily_turns=1), nodes[1]).begin(ALICE),
        Dpop(nodes[1]).use_once("thumb", "id"),
    ):
        with pytest.raises(SabirError):
            await refused
    await nodes[1].open()


async def test_what_was_done_to_the_log_is_found_in_every_store(nodes: tuple[Store, Store]) -> None:
    for n in range(6):
        await nodes[0].audit(AuditLine(1000.0 + n, "turn", f"key:{n}"))
    for statement, found in (
        ("UPDATE audit SET at = at + 5 WHERE number = 3", "line 3: has another time beside it"),
        ("UPDATE audit SET at = at - 5 WHERE number = 3", None),
        ("DELETE FROM audit WHERE number > 4", "line 5: is gone (lines 5 to 6)"),
        ("DELETE FROM audit", "line 1: is gone (lines 1 to 6)"),
    ):
        await changed(nodes[0], statement)
        broken = [str(item) for item in (await verify(nodes[1])).broken]
        assert len(broken) == (found is not None) and (found is None or broken[0].startswith(found))
    await nodes[0].audit(AuditLine(2000.0, "turn", "key:7"))
    answer = [str(item) for item in (await verify(nodes[1])).broken]
    assert answer == ["line 7: the 6 lines before it are gone, and no policy did it"]


async def changed(store: Any, statement: str) -> None:
    """What somebody does to the tables, beside the gateway."""
    if isinstance(store, SQLiteStore):
        with sqlite3.connect(store.path) as connection:
            connection.execute(statement)
        connection.close()
    else:
        await store._execute(statement)

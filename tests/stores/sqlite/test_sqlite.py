"""What is SQLite's own: which index a question takes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest

from sabir.stores.base import ConversationRow
from sabir.stores.sql import owned
from sabir.stores.sqlite.store import SQLiteStore


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SQLiteStore]:
    store = SQLiteStore(tmp_path / "one.db")
    await store.open()
    yield store
    await store.close()


def plan(store: SQLiteStore, owner: str) -> str:
    condition = owned(owner).replace("$", "?")
    asked = f"EXPLAIN QUERY PLAN SELECT id FROM conversations WHERE {condition} ORDER BY touched DESC LIMIT 5"
    with closing(store.connect()) as connection:
        return " ".join(row[3] for row in connection.execute(asked, (owner,)))


async def test_the_conversations_of_a_known_caller_are_found_by_an_index(store: SQLiteStore) -> None:
    assert plan(store, "key:ann").endswith("INDEX conversations_by_owner (owner=?)")


async def test_anonymous_conversations_are_in_no_index_and_can_still_be_listed(store: SQLiteStore) -> None:
    assert "SCAN conversations" in plan(store, "anonymous")
    for item_id, owner in (("one", "anonymous"), ("two", "key:ann")):
        await store.agree(ConversationRow(item_id, owner, 1.0, 1.0, 9e9, agreed={"window": 1}))
    assert [row.id for row in await store.conversations("anonymous")] == ["one"]
    assert [row.id for row in await store.conversations("key:ann")] == ["two"]
    assert await store.count_conversations("anonymous") == await store.count_conversations("key:ann") == 1

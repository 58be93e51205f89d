"""Sessions, context tokens and turns of the design: in memory, and in every store."""

from __future__ import annotations

import gc
import tracemalloc
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from sabir.guard.seal import Seal
from sabir.massgen.nlip import state_manager
from sabir.massgen.nlip.schema import (
    NLIPControlField,
    NLIPFormatField,
    NLIPMessage,
    NLIPTokenField,
)
from sabir.massgen.nlip.state_manager import NLIPStateManager
from sabir.massgen.nlip.token_tracker import NLIPTokenTracker
from sabir.stores import open_store
from stores.places import schema


def message(words: str = "x", **control: Any) -> NLIPMessage:
    return NLIPMessage(
        format=NLIPFormatField(),
        control=NLIPControlField(message_type="notification", message_id="m", timestamp="t", **control),  # type: ignore[arg-type]
        token=NLIPTokenField(session_id="s"),
        content={"query": words},
    )


@pytest.fixture(params=["none", "memory", "sqlite", "postgresql"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    if request.param == "none":
        yield None
        return
    async with AsyncExitStack() as stack:
        places = {"memory": "memory:", "sqlite": f"sqlite:///{tmp_path / 's.db'}"}
        address = places.get(request.param) or await stack.enter_async_context(schema())
        made = open_store(address)
        await made.open()
        stack.push_async_callback(made.close)
        yield made


async def test_a_session_keeps_its_messages(store: Any) -> None:  # MW-28
    manager = NLIPStateManager(store=store)
    await manager.create_session("s", {"who": "ann"})
    await manager.update_session("s", message("one", authentication="secret"))
    await manager.update_session("s", message("two"))
    context = await manager.get_session_context("s")
    assert context is not None
    assert list(context) == ["created_at", "last_activity", "messages", "metadata", "state"]
    assert [item.content["query"] for item in context["messages"]] == ["one", "two"]
    assert context["messages"][0].control.authentication is None  # MW-10: never stored
    assert context["metadata"] == {"who": "ann"}
    assert context["created_at"].tzinfo is not None
    assert await manager.get_session_context("other") is None


async def test_a_session_and_a_context_are_found_by_another_node(store: Any) -> None:
    if store is None:
        return
    first, second = NLIPStateManager(store=store), NLIPStateManager(store=store)
    await first.update_session("s", message())
    await first.store_context_token("t", {"a": 1})
    assert await second.retrieve_context_token("t") == {"a": 1}
    assert await second.retrieve_context_token("u") is None
    await second.update_session("s", message())
    context = await first.get_session_context("s")
    assert context is not None
    assert len(context["messages"]) == 2


async def test_idle_sessions_are_cleaned_up(monkeypatch: pytest.MonkeyPatch, store: Any) -> None:
    at = datetime.now(UTC)
    monkeypatch.setattr(state_manager, "_now", lambda: at)
    manager = NLIPStateManager(store=store, timeout_hours=48)
    for name in ("a", "b", "c"):
        await manager.create_session(name)
    await manager.store_context_token("t", {})
    at += timedelta(hours=20)
    await manager.update_session("a", message())
    at += timedelta(hours=5)
    assert await manager.cleanup_expired_sessions() == 2
    assert await manager.get_session_context("a") is not None
    assert await manager.get_session_context("b") is None
    assert await manager.cleanup_expired_sessions(max_age_hours=1) == 1


async def test_a_session_ends_by_its_timeout(monkeypatch: pytest.MonkeyPatch) -> None:  # MW-54
    at = datetime.now(UTC)
    monkeypatch.setattr(state_manager, "_now", lambda: at)
    manager = NLIPStateManager(timeout_hours=2)
    await manager.create_session("s")
    await manager.store_context_token("t", {"a": 1})
    assert await manager.retrieve_context_token("t") == {"a": 1}
    at += timedelta(hours=3)
    assert await manager.get_session_context("s") is None
    assert await manager.retrieve_context_token("t") is None


async def test_cleaning_up_runs_in_the_background() -> None:
    manager = NLIPStateManager(cleanup_interval=3600)
    await manager.start()
    await manager.start()
    await manager.stop()
    await manager.stop()


def test_tokens_of_a_session() -> None:  # MW-29
    tracker = NLIPTokenTracker()
    token = tracker.create_session_token("ann", {"a": 1})
    assert token.session_id is not None
    assert token.session_id.startswith("ann_")
    assert token.conversation_turn == 0
    assert (tracker.create_session_token().session_id or "").startswith("nlip_")
    following = tracker.increment_turn(token)
    assert (token.conversation_turn, following.conversation_turn) == (0, 1)
    assert tracker.get_session_info(token.session_id) == {
        "context_token": token.context_token,
        "agent_id": "ann",
        "metadata": {"a": 1},
        "turn_count": 1,
    }
    assert tracker.get_session_from_context_token(token.context_token or "") == token.session_id
    assert tracker.get_session_info("other") is None


def test_a_context_token_opens_on_every_node_for_its_holder_only() -> None:  # MW-30
    key = b"k" * 32
    token = NLIPTokenTracker(seal=Seal(key), holder="ann").create_session_token()
    sealed = token.context_token or ""
    assert NLIPTokenTracker(seal=Seal(key), holder="ann").get_session_from_context_token(sealed) == token.session_id
    assert NLIPTokenTracker(seal=Seal(key), holder="bob").get_session_from_context_token(sealed) is None
    assert NLIPTokenTracker(holder="ann").get_session_from_context_token(sealed) is None
    assert NLIPTokenTracker(seal=Seal(key), holder="ann").get_session_from_context_token(f"{sealed[:-3]}AAA") is None


def test_tokens_expire_and_leave_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    tracker = NLIPTokenTracker(timeout_hours=1)
    token = tracker.create_session_token()
    now = 2_000_000_000.0
    monkeypatch.setattr("sabir.massgen.nlip.token_tracker.time.time", lambda: now)
    assert tracker.get_session_info(token.session_id or "") is None
    assert tracker.get_session_from_context_token(token.context_token or "") is None
    tracker.create_session_token()
    assert len(tracker._sessions) == 1


async def test_an_idle_session_takes_less_than_a_kilobyte() -> None:  # MW-23, MW-62
    manager, tracker, number = NLIPStateManager(), NLIPTokenTracker(), 2000
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for _ in range(number):
        token = tracker.create_session_token()
        await manager.create_session(token.session_id or "")
    del token
    gc.collect()
    used = (tracemalloc.get_traced_memory()[0] - before) / number
    tracemalloc.stop()
    assert used < 1024, used

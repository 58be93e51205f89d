"""Tasks that cannot be read or resumed, and other tasks, which must not be affected."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, cast

import msgspec
import pytest

from sabir.agent import agent
from sabir.errors import Conflict
from sabir.events import Fault, Progress, Question
from sabir.message import Message
from sabir.stores.base import TaskEvent, TaskRow
from sabir.stores.rows import LOST_TASK
from sabir.turn import Turn
from stores.places import by_hand

from .conftest import ADA, MakeNode, Node, Nodes, asked, until


@agent(name="echo", repeatable=True)
async def echo(turn: Turn) -> str:
    return f"You said: {turn.text}"


@agent(name="other")
async def other(turn: Turn) -> str:
    return "other"


@agent(name="wrong", repeatable=True)
async def invalid_events(turn: Turn) -> AsyncIterator[Any]:
    yield {"progress": Progress("step 1"), "note": Progress(0.5, 5), "fault": Fault(5, 7), "question": Question(5)}[
        turn.text
    ]
    yield "done"


@agent(name="asks")
async def asks(turn: Turn) -> str:
    return (await turn.ask("Which colour?")).text


def broken(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [message for message in caplog.messages if "broke" in message]


async def left(node: MakeNode, here: Node, task_id: str, state: str = "working", **fields: Any) -> TaskRow:
    """A task that nobody holds, with fields as they should never be stored."""
    now = asyncio.get_running_loop().time()
    detail = {"caller": {"id": "ada", "kind": "key"}}
    row = TaskRow(task_id, "ada", "echo", state, now, 2e9, 3e9, Message.text(task_id), detail=detail)
    await here.store.put_task(row, expect=0)
    body = msgspec.msgpack.encode({**msgspec.to_builtins(row), **fields})
    await by_hand(cast(Nodes, node).address, "UPDATE tasks SET body = $1 WHERE id = $2", body, task_id)
    return row


@pytest.mark.parametrize("case", ["progress", "note", "fault", "question"])
async def test_a_wrong_event_fails_its_task_and_the_worker_continues(
    node: MakeNode, case: str, caplog: pytest.LogCaptureFixture
) -> None:
    here = await node(invalid_events, echo)
    task = await here.tasks.submit(asked(case))
    done = await here.tasks.wait(task.id, ADA, 30)
    assert (done.state, done.fault_code) == ("failed", "failed")
    assert done.fault is not None and done.fault.startswith("wrong failed")
    assert (await here.tasks.wait((await here.tasks.submit(asked("hi", "echo"))).id, ADA, 30)).state == "completed"
    assert broken(caplog) == []


async def test_a_task_that_cannot_be_read_fails_with_a_reason_and_the_others_run(
    node: MakeNode, caplog: pytest.LogCaptureFixture
) -> None:
    here = await node(other)  # has no agent for them
    for task_id in ("one", "two", "three"):
        await left(node, here, task_id, **({"progress": "step 1"} if task_id == "two" else {}))
    there = await node(echo)
    for task_id, state in (("one", "completed"), ("three", "completed"), ("two", "failed")):
        assert (await there.tasks.wait(task_id, ADA, 30)).state == state
    two = await there.store.task("two")
    assert two is not None and (two.fault, two.unreadable, two.state) == (LOST_TASK, "", "failed")
    assert two.message.text == "two" and two.expires < 3e9
    assert [event.kind for event in await there.store.task_events("two")] == ["fault"]
    logged = [message for message in caplog.messages if "two" in message]
    assert logged == [
        "Task two cannot be read from the store and has failed: Expected `float | null`, got `str` - at `$.progress`"
    ]
    assert broken(caplog) == []


async def test_a_node_starts_where_the_one_of_its_name_left_a_task_that_cannot_be_read(node: MakeNode) -> None:
    here = await node(other, name="a node", lease=3.0)  # has no agent for it
    await left(node, here, "one", progress="step 1")
    here.die()
    here.lose_sign()
    again = await node(echo, name="a node", lease=3.0)
    assert (await until(lambda task: task.state == "failed", again, "one")).fault == LOST_TASK


async def test_finding_cancelling_answering_or_following_it_reports_the_failure(node: MakeNode) -> None:
    here = await node(other)
    for task_id in ("one", "two", "three", "four"):
        await left(node, here, task_id, "input-required", question={"text": 5})
    assert (await here.tasks.find("one", ADA)).fault == LOST_TASK
    with pytest.raises(Conflict, match="already ended"):
        await here.tasks.cancel("two", ADA)
    with pytest.raises(Conflict, match="does not wait for input"):
        await here.tasks.answer("three", ADA, Message.text("red"))
    assert [event.kind async for event in here.tasks.follow("four", ADA)] == ["fault"]
    assert await here.store.tasks(states=("input-required",)) == []


async def test_one_that_nobody_asks_for_is_set_aside_when_its_time_is_over(node: MakeNode) -> None:
    here = await node(other)
    await left(node, here, "one", "input-required", question={"text": 5})
    await by_hand(cast(Nodes, node).address, "UPDATE tasks SET expires = 1")
    tasks: Any = here.tasks
    await tasks.worker._expire()
    [task] = await here.store.tasks(states=("failed",))
    assert (task.id, task.unreadable) == ("one", "")


@pytest.mark.parametrize("detail", [{"caller": {"id": 5}}, {"caller": [], "hops": "x"}, {"caller": {}, "seen": 5}])
async def test_a_task_that_cannot_be_taken_up_fails_and_the_next_runs(
    node: MakeNode, detail: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    here = await node(other)
    await left(node, here, "one", detail=detail)
    await left(node, here, "two")
    there = await node(echo)
    assert (await there.tasks.wait("two", ADA, 30)).state == "completed"
    assert (await there.tasks.wait("one", ADA, 30)).fault == LOST_TASK
    assert "Task one cannot be resumed and has failed" in caplog.text
    assert broken(caplog) == []


async def test_events_with_invalid_content_are_reported_as_unreadable(node: MakeNode) -> None:
    here = await node(asks)
    task = await here.tasks.submit(asked("x"))
    await until(lambda row: row.state == "input-required", here, task.id)
    for kind, body in (("delta", {"part": 5}), ("question", {"text": 5}), ("answer", {"message": 5}), ("delta", {})):
        await here.store.add_task_event(task.id, TaskEvent(0, 1.0, kind, cast(dict[str, Any], body)))
    kinds = [event.kind async for event in here.tasks.follow(task.id, ADA)]
    assert kinds == ["question", *["unreadable"] * 4]

"""Stored tasks as A2A clients see them: the whole task, and its updates from a given event on."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Sequence
from typing import Final

import msgspec

from sabir.events import Question
from sabir.message import Message, Part
from sabir.protocols.a2a.wire.content import question_parts
from sabir.protocols.a2a.wire.tasks import (
    TaskView,
    Update,
    piece_update,
    progress_update,
    reply_updates,
    run_together,
    status_update,
)
from sabir.stores.base import TaskEvent, TaskRow
from sabir.tasks import FINAL, Tasks, part_of, read
from sabir.turn import Caller

from .nlweb_messages import NLWEB, with_body

_ALL_EVENTS: Final = 100_000


async def events_of(tasks: Tasks, task_id: str) -> list[TaskEvent]:
    return [read(event) for event in await tasks.store.task_events(task_id, 0, _ALL_EVENTS)]


def view_of(row: TaskRow, events: Sequence[TaskEvent]) -> TaskView:
    """A stored task with its events."""
    talk: list[tuple[bool, Message]] = []
    pieces: list[Part] = []
    for event in events:
        if event.kind == "delta":
            pieces.append(part_of(event.body))
        elif event.kind == "question":
            talk.append((True, Message.of(*question_parts(msgspec.convert(event.body, Question)))))
        elif event.kind == "answer" and "message" in event.body:
            talk.append((False, msgspec.convert(event.body["message"], Message).without_tokens()))
    view = TaskView(
        id=row.id,
        context=context_of(row),
        state=row.state,
        updated=row.updated,
        asked=row.message.without_tokens(),
        reply=row.reply,
        pieces=tuple(run_together(pieces)),
        question=msgspec.convert(row.question, Question) if row.question is not None else None,
        fault=row.fault or "",
        fault_code=row.fault_code if row.fault is not None else "",
        note=row.note,
        talk=tuple(talk),
        asked_id=str(row.detail.get("message", "")),
    )
    return with_body(view, row) if NLWEB in row.detail else view


def context_of(row: TaskRow) -> str:
    """The contextId of a task: as its client knows it, or the token of its conversation."""
    return str(row.detail.get("context") or row.conversation)


async def updates(
    tasks: Tasks, view: TaskView, caller: Caller, since: int, *, past_questions: bool = False
) -> AsyncGenerator[tuple[int, Update]]:
    """The updates of a task after event ``since``, each with the number of its last event.

    Ends with the task, or when the task asks something; with ``past_questions`` only with the task.
    """
    pieces = list(view.pieces)
    while True:
        async for event in tasks.follow(view.id, caller, since):
            since = event.number
            for update in _of_event(view, event, pieces):
                yield since, update
        row = await tasks.find(view.id, caller)
        view = msgspec.structs.replace(view_of(row, ()), pieces=tuple(pieces))
        for update in reply_updates(view):
            yield since, update
        yield since, status_update(view)
        if row.state in FINAL or not past_questions:
            return
        await tasks.answered(view.id, caller, len(row.answers))


def _of_event(view: TaskView, event: TaskEvent, pieces: list[Part]) -> Iterator[Update]:
    if event.kind == "delta":
        part = part_of(event.body)
        update = piece_update(view, part, pieces)
        pieces.append(part)
        if update is not None:
            yield update
    elif event.kind == "progress":
        now = msgspec.structs.replace(view, updated=event.at)
        yield progress_update(now, event.body.get("fraction"), str(event.body.get("note", "")))

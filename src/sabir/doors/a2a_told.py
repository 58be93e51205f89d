"""Stored tasks as the A2A wire tells them: the whole task, and what happens to it from a point on."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Final

import msgspec

from ..events import Question
from ..message import Message, Part
from ..stores.base import TaskEvent, TaskRow
from ..tasks import Tasks, part_of, read
from ..turn import Caller
from ..wire import a2a as wire

_ALL_EVENTS: Final = 100_000


async def events_of(tasks: Tasks, id: str) -> list[TaskEvent]:
    return [read(event) for event in await tasks.store.task_events(id, 0, _ALL_EVENTS)]


def told_of(row: TaskRow, events: Sequence[TaskEvent]) -> wire.Told:
    """A stored task with what happened to it."""
    talk: list[tuple[bool, Message]] = []
    pieces: list[Part] = []
    for event in events:
        if event.kind == "delta":
            pieces.append(part_of(event.body))
        elif event.kind == "question":
            talk.append((True, Message.of(*wire.question_parts(msgspec.convert(event.body, Question)))))
        elif event.kind == "answer" and "message" in event.body:
            talk.append((False, msgspec.convert(event.body["message"], Message).without_tokens()))
    return wire.Told(
        id=row.id,
        context=context_of(row),
        state=row.state,
        updated=row.updated,
        asked=row.message.without_tokens(),
        reply=row.reply,
        pieces=tuple(wire.run_together(pieces)),
        question=msgspec.convert(row.question, Question) if row.question is not None else None,
        fault=row.fault or "",
        fault_code=row.fault_code if row.fault is not None else "",
        note=row.note,
        talk=tuple(talk),
        asked_id=str(row.detail.get("message", "")),
    )


def context_of(row: TaskRow) -> str:
    """The contextId of a task: as its client knows it, or the token of its conversation."""
    return str(row.detail.get("context") or row.conversation)


async def updates(tasks: Tasks, told: wire.Told, caller: Caller, since: int) -> AsyncGenerator[tuple[int, wire.Update]]:
    """What happens to a task after event ``since``, until it has ended or asks something; each with the number of
    the last event it tells of."""
    pieces = list(told.pieces)
    async for event in tasks.follow(told.id, caller, since):
        since = event.number
        if event.kind == "delta":
            part = part_of(event.body)
            yield since, wire.piece_update(told, part, append=bool(pieces))
            pieces.append(part)
        elif event.kind == "progress":
            now = msgspec.structs.replace(told, updated=event.at)
            yield since, wire.progress_update(now, event.body.get("fraction"), str(event.body.get("note", "")))
    row = await tasks.find(told.id, caller)
    told = msgspec.structs.replace(told_of(row, ()), pieces=tuple(pieces))
    reply = wire.reply_update(told)
    if reply is not None:
        yield since, reply
    yield since, wire.status_update(told)

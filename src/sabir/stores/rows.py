"""Decodes table rows. An unreadable row stops nothing: its readable part is returned.

Whatever is stored there (through a bug, another version, or an edit by hand), the other rows are needed, and a node
must start.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar

import msgspec

from sabir.errors import Conflict
from sabir.events import Question
from sabir.message import Message
from sabir.packing import unpacker
from sabir.turn import PastTurn

from .base import ENDED, LIVE, ConversationRow, Record, TaskEvent, TaskRow

T = TypeVar("T")

logger = logging.getLogger("sabir")

CONVERSATION: Final = "id, owner, created, touched, expires, turns, bytes, agreed, peer_token, ended"
TURN: Final = "id, at, agent, asked, answered, speaker, conversation"
TASK: Final = "body, attempts, node, lease, version, id, owner, agent, state, conversation, created, updated, expires"

# What decoding raises for bytes that are damaged, hold something else, or are missing.
WRONG: Final = (msgspec.MsgspecError, ValueError, TypeError, LookupError, RecursionError)
LOST_TASK: Final = "the stored record of this task is unreadable"
LOST_WORDS: Final = "(This turn is unreadable.)"
UNREADABLE: Final = "unreadable"  # the kind of a task's event that cannot be read

_message = unpacker(Message).decode
_agreed = unpacker(dict[str, Any]).decode
_task = unpacker(TaskRow).decode
_event = unpacker(TaskEvent).decode
_anything: Callable[[bytes], Any] = unpacker(dict[Any, Any]).decode
_MAX_SHOWN: Final = 10_000
_logged: set[tuple[str, str, int]] = set()  # already logged; some are read every few seconds
_KEPT: Final = (("message", Message), ("door", str), ("detail", dict[str, Any]), ("fault", str))


Opened = Callable[[bytes], bytes]


def plainly(stored: bytes) -> bytes:
    """How an unencrypted column is read: as it is."""
    return stored


def task_of(row: Any, opened: Opened = plainly) -> TaskRow:
    """A task; an unreadable one counts as failed, and ``unreadable`` says why."""
    body, attempts, node, lease, version, *columns = row
    try:
        body = opened(body)
        task = check_task(body)
    except WRONG as exc:
        task = _left_of(body, str(exc), *columns)
    return msgspec.structs.replace(task, attempts=attempts, node=node, lease=lease, version=version)


def check_task(body: bytes) -> TaskRow:
    """The task in these bytes.

    Raises:
        ``WRONG``: it cannot be read.
    """
    task = _task(body)
    if task.state not in LIVE and task.state not in ENDED:
        raise ValueError(f"there is no state {task.state[:40]!r}")
    if task.question is not None:
        msgspec.convert(task.question, Question)
    return task


def _left_of(
    body: bytes,
    why: str,
    row_id: str,
    owner: str,
    agent: str,
    state: str,
    conversation: str,
    created: float,
    updated: float,
    expires: float,
) -> TaskRow:
    try:
        said = _anything(body)
    except WRONG:
        said = {}
    kept: dict[str, Any] = {"message": Message.text("")}
    for name, kind in _KEPT if isinstance(said, dict) else ():
        try:
            kept[name] = msgspec.convert(said[name], kind)
        except WRONG:
            continue
    return TaskRow(
        **{"fault": LOST_TASK, **kept},
        id=row_id,
        owner=owner,
        agent=agent,
        state=state if state in ENDED and state != "completed" else "failed",
        created=created,
        updated=updated,
        expires=expires,
        conversation=conversation,
        fault_code="failed",
        unreadable=why,
    )


def event_of(number: int, body: bytes, opened: Opened = plainly) -> TaskEvent:
    """An event of a task; an unreadable one keeps its number."""
    try:
        return msgspec.structs.replace(_event(opened(body)), number=number)
    except WRONG:
        return TaskEvent(number, 0.0, UNREADABLE, {})


def past_turn_of(row: Any, opened: Opened = plainly) -> PastTurn:
    """A turn; unreadable parts are replaced by a note."""
    row_id, at, agent, asked, answered, speaker, conversation = row
    said, reply = _words(asked, row_id, opened), _words(answered, row_id, opened)
    return PastTurn(row_id, at, agent, said, reply, speaker, conversation)


def _words(body: bytes, turn: str, opened: Opened) -> Message:
    try:
        return _message(opened(body))
    except WRONG as exc:
        logger.error("Turn %s cannot be read from the store: %s", turn, exc)
        return Message.text(LOST_WORDS)


def conversation_of(row: Any, opened: Opened = plainly) -> ConversationRow:
    """A conversation.

    Raises:
        Conflict: its agreements are unreadable. They could include anonymity, so it must not continue without them.
    """
    row_id, owner, created, touched, expires, turns, size, agreed, peer_token, ended = row
    try:
        known = _agreed(opened(agreed)) if agreed else {}
    except WRONG as exc:
        logger.error("Conversation %s cannot be read from the store: %s", row_id, exc)
        raise Conflict("the terms of this conversation are unreadable; start a new one") from None
    return ConversationRow(row_id, owner, created, touched, expires, turns, size, known, peer_token, bool(ended))


def conversations_of(rows: Iterable[Any], opened: Opened = plainly) -> list[ConversationRow]:
    """The readable ones."""
    found = []
    for row in rows:
        try:
            found.append(conversation_of(row, opened))
        except Conflict:  # already logged
            continue
    return found


def value_of(record: Record, decode: Callable[[bytes], T]) -> T | None:
    """The value of a record; None if it is unreadable, which is logged once."""
    try:
        return decode(record.value)
    except WRONG as exc:
        which = (record.space, record.key, record.version)
        if which not in _logged and len(_logged) < _MAX_SHOWN:
            _logged.add(which)
            logger.error("%s %s cannot be read from the store: %s", record.space, record.key, exc)
        return None

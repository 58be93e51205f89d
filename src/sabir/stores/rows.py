"""Rows as they are read from tables. One that cannot be read stops nobody: it is told as what is left of it.

Whatever was written there (by a fault of ours, another version, a hand in the tables), the others of its table are
wanted, and a node must start.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar

import msgspec

from ..errors import Conflict
from ..events import Question
from ..message import Message
from ..turn import PastTurn
from .base import ENDED, LIVE, ConversationRow, Record, TaskEvent, TaskRow

T = TypeVar("T")

logger = logging.getLogger("sabir")

CONVERSATION: Final = "id, owner, created, touched, expires, turns, bytes, agreed, peer_token, ended"
TURN: Final = "id, at, agent, asked, answered, speaker, conversation"
TASK: Final = "body, attempts, node, lease, version, id, owner, agent, state, conversation, created, updated, expires"

# What decoding raises, of bytes that are damaged, hold something else, or are none.
WRONG: Final = (msgspec.MsgspecError, ValueError, TypeError, LookupError, RecursionError)
LOST_TASK: Final = "what is stored of this task cannot be read any more"
LOST_WORDS: Final = "(What was said here cannot be read any more.)"
UNREADABLE: Final = "unreadable"  # the kind of an event of a task that cannot be read

_message = msgspec.msgpack.Decoder(Message).decode
_agreed = msgspec.msgpack.Decoder(dict[str, Any]).decode
_task = msgspec.msgpack.Decoder(TaskRow).decode
_event = msgspec.msgpack.Decoder(TaskEvent).decode
_MOST_TOLD: Final = 10_000
_told: set[tuple[str, str, int]] = set()  # records that the log was told of; some are looked at every few seconds
_KEPT: Final = (("message", Message), ("door", str), ("detail", dict[str, Any]), ("fault", str))


def task_of(row: Any) -> TaskRow:
    """A task; where it cannot be read it has failed, and ``unreadable`` says why."""
    body, attempts, node, lease, version, *columns = row
    try:
        task = check_task(body)
    except WRONG as wrong:
        task = _left_of(body, str(wrong), *columns)
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
    id: str,
    owner: str,
    agent: str,
    state: str,
    conversation: str,
    created: float,
    updated: float,
    expires: float,
) -> TaskRow:
    try:
        said = msgspec.msgpack.decode(body)
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
        id=id,
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


def event_of(number: int, body: bytes) -> TaskEvent:
    """An event of a task; one that cannot be read keeps its number."""
    try:
        return msgspec.structs.replace(_event(body), number=number)
    except WRONG:
        return TaskEvent(number, 0.0, UNREADABLE, {})


def past_turn_of(row: Any) -> PastTurn:
    """A turn; what cannot be read of it says so."""
    id, at, agent, asked, answered, speaker, conversation = row
    return PastTurn(id, at, agent, _words(asked, id), _words(answered, id), speaker, conversation)


def _words(body: bytes, turn: str) -> Message:
    try:
        return _message(body)
    except WRONG as wrong:
        logger.error("turn %s cannot be read from the store: %s", turn, wrong)
        return Message.text(LOST_WORDS)


def conversation_of(row: Any) -> ConversationRow:
    """A conversation.

    Raises:
        Conflict: what was agreed in it cannot be read. It could be anonymity, so it does not go on without.
    """
    id, owner, created, touched, expires, turns, size, agreed, peer_token, ended = row
    try:
        known = _agreed(agreed) if agreed else {}
    except WRONG as wrong:
        logger.error("conversation %s cannot be read from the store: %s", id, wrong)
        raise Conflict("what was agreed in this conversation cannot be read any more; begin a new one") from None
    return ConversationRow(id, owner, created, touched, expires, turns, size, known, peer_token, bool(ended))


def conversations_of(rows: Iterable[Any]) -> list[ConversationRow]:
    """Those that can be read."""
    found = []
    for row in rows:
        try:
            found.append(conversation_of(row))
        except Conflict:  # it is in the log
            continue
    return found


def value_of(record: Record, decode: Callable[[bytes], T]) -> T | None:
    """What a record holds; None if it cannot be read, which is told to the log once."""
    try:
        return decode(record.value)
    except WRONG as wrong:
        which = (record.space, record.key, record.version)
        if which not in _told and len(_told) < _MOST_TOLD:
            _told.add(which)
            logger.error("%s %s cannot be read from the store: %s", record.space, record.key, wrong)
        return None

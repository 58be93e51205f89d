"""The state machine of a task as a table, its settings, and what follows from a stored task alone."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from sabir.errors import Conflict
from sabir.events import Question
from sabir.exchange.idempotency import OTHER_MESSAGE
from sabir.exchange.request import TASK_KEY, TurnRequest, same_content, turn_id
from sabir.guard import Credentials
from sabir.message import Message, Part, token_kind
from sabir.stores.base import ENDED, LONGEST_LEASE, TaskEvent, TaskRow
from sabir.stores.rows import UNREADABLE, WRONG
from sabir.turn import ANONYMOUS, Caller, Conversation

# state → possible next states. A state without any is final.
TRANSITIONS: Final[Mapping[str, frozenset[str]]] = {
    "submitted": frozenset({"working", "completed", "failed", "cancelled", "expired"}),
    "working": frozenset({"working", "input-required", "completed", "failed", "cancelled", "expired"}),
    "input-required": frozenset({"working", "completed", "failed", "cancelled", "expired"}),
    **{state: frozenset() for state in ENDED},
}
FINAL: Final = frozenset(state for state, following in TRANSITIONS.items() if not following)
LIVE: Final = tuple(state for state in TRANSITIONS if state not in FINAL)
_UNGUESSABLE: Final = 22  # characters: 128 bits in base64. Anonymous callers share tasks with whoever knows the id


class TaskSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Time limits, retention, leases and number of tasks."""

    retention: float = 86400.0  # seconds that a task is kept after its last change
    turn_seconds: float = 3600.0  # time limit for the agent
    answer_seconds: float = 86400.0  # time limit for the answer to a question
    # Seconds without renewal after which a node is considered dead.
    lease: Annotated[float, Meta(gt=0, le=LONGEST_LEASE)] = 20.0
    look: Annotated[float, Meta(gt=0)] = 1.0  # seconds between two polls of the store for changes by other nodes
    running: int = 256  # concurrently on this node; more wait in the store for any node with room
    per_owner: int = 10_000  # open tasks
    attempts: int = 5  # after which a task that never ends is given up
    events: int = 10_000  # stored per task; further deltas are dropped, the reply never

    @property
    def silent(self) -> float:
        """Seconds without a renewal after which a node is dead if its store agrees. It renews at each poll."""
        return max(self.lease / 4, 4 * self.look)

    def __post_init__(self) -> None:
        if not 0 < self.look < self.lease <= LONGEST_LEASE:
            raise ValueError(f"tasks: look must be shorter than lease, and lease at most {LONGEST_LEASE:.0f} seconds")


def part_of(body: Mapping[str, Any]) -> Part:
    """The Part that a stored ``delta`` event holds."""
    return msgspec.convert(body["part"], Part)


def read(event: TaskEvent) -> TaskEvent:
    """The event, if it is readable; otherwise an event that says that it is not."""
    try:
        match event.kind:
            case "delta":
                part_of(event.body)
            case "question":
                msgspec.convert(event.body, Question)
            case "answer" if "message" in event.body:
                msgspec.convert(event.body["message"], Message)
        return event
    except WRONG:
        return TaskEvent(event.number, event.at, UNREADABLE, {})


def rests(task: TaskRow) -> bool:
    return task.state in FINAL or task.state == "input-required"


def key_of(task_id: str) -> str:
    """The idempotency key of a task's turn."""
    return f"{TASK_KEY}{task_id}"


def id_of(ask: TurnRequest, caller: Caller) -> str:
    """The id of a request's task: it cannot be guessed, and the same key gives the same id."""
    if ask.key is None or (caller.is_anonymous and len(ask.key) < _UNGUESSABLE):
        return secrets.token_hex(32)
    return hashlib.sha256(f"task\x00{ask.agent}\x00{ask.key_of(caller)}".encode()).hexdigest()


def ask_of(task: TaskRow, caller: Caller, seconds: float) -> TurnRequest:
    """The request to the exchange, the same for each run, so that each finds the turn of an earlier one."""
    return TurnRequest(
        task.message,
        task.door,
        task.agent,
        Credentials(caller.address, caller=caller),
        key=key_of(task.id),
        seconds=seconds,
        trace=task.detail.get("trace"),
        hops=task.detail.get("hops", 0),
        seen=tuple(task.detail.get("seen", ())),
        agreed=task.detail.get("agreed", {}),
    )


def turn_of(task: TaskRow, caller: Caller) -> str:
    """The id of the turn that a task's run records."""
    return turn_id(ask_of(task, caller, 0.0).key_of(caller))


def unnamed(caller: Caller, there: Conversation) -> Caller:
    """The caller as a task of this conversation may know it: in anonymous mode nothing stable is kept, not even its
    address."""
    return ANONYMOUS if there.agreed.get("anonymous") else caller


def repeated(task: TaskRow | None, ask: TurnRequest, message: Message, caller: Caller) -> TaskRow:
    """The task that the same key of the same caller started before; ``message`` is the request's, as it is stored.

    Raises:
        Conflict: the id is another task's, or the key was used for another message.
    """
    if task is None or ask.key is None or task.owner != caller.id:
        raise Conflict("there is a task of this id already")
    if not same_content(message, task.message):
        raise Conflict(OTHER_MESSAGE)
    return task


def without_secrets(message: Message) -> Message:
    """The message without credentials: the caller is known, and stored separately."""
    parts = message.parts
    kept = [p for p in parts if p.format != "token" or token_kind(p.subformat) != "authentication"]
    if len(kept) == len(parts):
        return message
    if kept and kept[0] == parts[0]:
        return msgspec.structs.replace(message, submessages=tuple(kept[1:]))
    return Message("text", "english", "", message.messagetype, submessages=tuple(kept), control=message.control)

"""The Store interface and its rows. One contract suite runs over every implementation.

A store keeps conversations and their turns, tasks and their events, the audit chain, and named
records of any kind (uploads, keys, directory entries, counters). What a call has returned from is
durable: it survives ``kill -9`` of this process. Writes of many turns may share one commit.

Every call may raise ``StoreUnavailable``; the work is then not done, or not known to be done, and may be
tried again: a turn is recorded once under its id however often it is handed in.

Text must be storable: a lone surrogate or, in PostgreSQL, a NUL is a ``ValueError``. Times are seconds since
the epoch. Leases are judged by the store's own clock, which all nodes share.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable
from typing import Any, Protocol, runtime_checkable

import msgspec

from sabir.message import Message
from sabir.turn import PastTurn


class ConversationRow(msgspec.Struct, frozen=True, omit_defaults=True):
    """A conversation, without its turns."""

    id: str
    owner: str
    created: float
    touched: float
    expires: float
    turns: int = 0
    bytes: int = 0
    agreed: dict[str, Any] = {}
    peer_token: str | None = None  # digest of the peer's own conversation token (D-16)
    ended: bool = False


class AuditLine(msgspec.Struct, frozen=True, omit_defaults=True):
    """One decision or turn. Holds names and numbers, never content, tokens or secrets."""

    at: float
    kind: str  # turn, refused, task, key, config, …
    caller: str
    door: str = ""
    agent: str = ""
    outcome: str = "ok"
    turn: str = ""
    conversation: str = ""
    detail: dict[str, Any] = {}


class ChainedLine(msgspec.Struct, frozen=True):
    """An audit line in its place: its number, the hash of the line before, and its own.

    ``written`` is the line byte by byte, as it was hashed; all that is believed of it is read from there. ``at`` is
    the copy of its time that stands beside it, for those who look into the tables.
    """

    number: int
    written: bytes
    previous: str
    hash: str
    at: float

    @property
    def line(self) -> AuditLine:
        """What it says; raises ``msgspec.MsgspecError`` where it was changed so that it says nothing."""
        return _line(self.written)


_line = msgspec.json.Decoder(AuditLine).decode

GENESIS = "0" * 64
ENDED = ("completed", "failed", "cancelled", "expired")  # states of a task that nothing follows
RUNNABLE = ("submitted", "working")
LIVE = (*RUNNABLE, "input-required")
# No lease is longer. One that seems so was written before the clock was set back, and holds nothing.
LONGEST_LEASE = 3600.0


def chain(previous: str, line: bytes) -> str:
    """The hash of an audit line: it covers the line and everything before it."""
    return hashlib.sha256(previous.encode() + line).hexdigest()


class TurnEntry(msgspec.Struct, frozen=True):
    """All that one answered turn writes, in one commit."""

    conversation: ConversationRow  # as it shall be created if it is new; else only touched and expires count
    turn: PastTurn
    audit: AuditLine | None = None
    size: int = 0  # bytes of context this turn adds


class TaskRow(msgspec.Struct, frozen=True, omit_defaults=True):
    """A turn that outlives its request. ``state`` is a word of ``sabir.tasks.TRANSITIONS``."""

    id: str
    owner: str
    agent: str
    state: str
    created: float
    updated: float
    expires: float
    message: Message
    door: str = ""
    conversation: str = ""
    progress: float | None = None
    note: str = ""
    reply: Message | None = None
    question: dict[str, Any] | None = None
    fault: str | None = None
    fault_code: str = ""
    detail: dict[str, Any] = {}
    priority: int = 0  # from 0 to 10: among those that wait, the higher goes first
    answers: tuple[Message, ...] = ()  # given so far to the agent's questions, in order
    # What follows is the store's: ``put_task`` leaves it as it is stored, once a task exists.
    attempts: int = 0  # how often a node has taken it up
    node: str = ""  # who holds the lease
    lease: float = 0.0  # until when
    version: int = 0  # grows with each put and each claim
    unreadable: str = ""  # why it cannot be read as it is stored; this is what is left of it, and it has failed


class TaskEvent(msgspec.Struct, frozen=True):
    """One event of a task, numbered from 1."""

    number: int
    at: float
    kind: str  # progress, delta, question, answer, reply, fault, state
    body: dict[str, Any]


class Record(msgspec.Struct, frozen=True):
    """A named value in a space. ``version`` grows by one with each change."""

    space: str
    key: str
    value: bytes
    owner: str = ""
    expires: float = 0.0  # 0: never
    version: int = 1


class Store(Protocol):
    """Where state lives."""

    schema: tuple[int, int]  # its number before it was opened, and now; 0 for a new store

    async def open(self) -> None:
        """Connect and bring the schema up to date."""

    async def close(self) -> None:
        """Write out what is pending and let go. Calls after this raise ``StoreUnavailable``."""

    async def ping(self) -> None:
        """Answer, or raise ``StoreUnavailable``: also where it can be read and not written (full disk, read-only)."""

    # -- conversations and turns ---------------------------------------------------------------

    async def conversation(self, conversation_id: str) -> ConversationRow | None: ...

    async def conversation_by_token(self, owner: str, peer_token: str) -> ConversationRow | None:
        """The owner's conversation that the peer names by a token of its own (its digest)."""

    async def conversations(self, owner: str, limit: int = 100) -> list[ConversationRow]:
        """The owner's conversations that are not ended, latest first."""

    async def count_conversations(self, owner: str) -> int: ...

    async def turns(self, conversation: str, last: int) -> tuple[PastTurn, ...]:
        """The last turns of a conversation, oldest first."""

    async def turn(self, turn_id: str) -> PastTurn | None: ...

    def record(self, entry: TurnEntry) -> Awaitable[bool]:
        """Record a turn and its audit line in one commit. False if a turn of this id was recorded before."""

    async def agree(self, conversation: ConversationRow) -> None:
        """Store what was negotiated (``agreed``), ``ended`` and ``expires``; creates the row if it is new."""

    async def forget(self, conversation: str) -> None:
        """Remove a conversation and its turns. What is said of them in the audit stays."""

    async def sweep(self, now: float) -> int:
        """Remove what has expired: conversations, ended tasks, records. Returns how many."""

    # -- tasks -----------------------------------------------------------------------------------

    async def put_task(self, task: TaskRow, *, expect: int | None = None, lease: float | None = None) -> bool:
        """Create or replace a task. With ``expect``, only if its stored version is this (0: absent); returns whether.

        A new task is held by ``task.node`` for ``lease`` seconds, if given; else anyone may claim it.
        """

    async def task(self, task_id: str) -> TaskRow | None: ...

    async def tasks(
        self, *, owner: str | None = None, states: tuple[str, ...] = (), conversation: str | None = None,
        limit: int = 100, before: float | None = None, expired: float | None = None,
    ) -> list[TaskRow]:  # fmt: skip
        """Tasks, latest update first; those updated before a time, those that expire by a time."""

    async def count_tasks(self, owner: str) -> int:
        """How many tasks of this owner have not ended."""

    async def count_submitted(self) -> int:
        """How many tasks, of whomever, have not begun."""

    async def claim_task(self, node: str, lease: float, agents: tuple[str, ...]) -> TaskRow | None:
        """Take a submitted or working task for one of these agents that nobody holds, for so many seconds.

        Of those that wait, the highest priority goes first, then the oldest.
        """

    async def renew_tasks(self, node: str, ids: tuple[str, ...], lease: float) -> dict[str, int]:
        """Hold these tasks for so many seconds from now; with 0 they are released, and anyone may claim them at once.

        Returns the version of each that has not ended and was still this node's.
        """

    async def add_task_event(self, task: str, event: TaskEvent) -> int:
        """Append an event; its number is set by the store and returned."""

    async def task_events(self, task: str, since: int = 0, limit: int = 1000) -> list[TaskEvent]:
        """Events with a number above ``since``, in order."""

    # -- audit -----------------------------------------------------------------------------------

    async def audit(self, line: AuditLine) -> None: ...

    async def audit_lines(self, since: int = 0, limit: int = 1000) -> list[ChainedLine]:
        """Lines with a number above ``since``, in order, as they stand (unverified)."""

    async def audit_head(self) -> tuple[int, str] | None:
        """Number and hash of the line that was written last, as the store keeps them beside the lines; (0, GENESIS)
        before the first. None if somebody has removed it."""

    async def audit_prune(self, through: int) -> int:
        """Remove the lines up to this number, but never the newest; the chain stays verifiable from what remains."""

    # -- records ---------------------------------------------------------------------------------

    async def put(self, record: Record, *, expect: int | None = None) -> bool:
        """Create or replace a record. With ``expect``, only if its stored version is this (0: absent); returns whether.

        An expired record is absent.
        """

    async def get(self, space: str, key: str) -> Record | None:
        """A record that has not expired."""

    async def list(self, space: str, *, prefix: str = "", owner: str | None = None, limit: int = 1000) -> list[Record]:
        """Records of a space in order of their keys, expired ones left out."""

    async def delete(self, space: str, key: str) -> bool: ...

    async def count(self, space: str, key: str, delta: float, *, expires: float = 0.0) -> float:
        """Add to a shared counter and return its new value; an expired one starts from zero."""


@runtime_checkable
class SeesNodes(Protocol):
    """A store that knows which of the nodes that share it are dead, before their leases have run out."""

    async def show_node(self, node: str) -> bool:
        """Let others see that this node lives, until the store is closed or the process ends.

        False if a living one has this name already.
        """

    async def free_tasks(self, node: str, lease: float, silent: float) -> dict[str, int]:
        """End the leases that dead nodes hold and have not renewed for ``silent`` seconds; how many of each node."""

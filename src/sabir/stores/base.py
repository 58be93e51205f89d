"""The Store interface and its rows. One contract suite runs over every implementation.

A store keeps conversations and their turns, tasks and their events, the audit chain, and named records of any kind
(uploads, keys, directory entries, counters). Once a call has returned, its write is durable: it survives ``kill -9`` of
this process. Writes of many turns may share one commit.

Every call may raise ``StoreUnavailable``; then the write was not done, or it is unknown whether it was, and the call
can be repeated: a turn is recorded once under its id however often it is submitted.

Text must be storable: writing a lone surrogate or, in PostgreSQL, a NUL raises ``ValueError``. Asking for such a text
finds nothing, because ids arrive from callers. Times are seconds since the epoch.
Leases use the store's own clock, which all nodes share.
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
    """An audit entry in the chain: its number, the hash of the previous entry, and its own.

    ``written`` is exactly the text that was hashed, and the only content to trust. ``at`` is a copy of its time, for
    people who look into the tables.
    """

    number: int
    written: bytes
    previous: str
    hash: str
    at: float

    @property
    def line(self) -> AuditLine:
        """The entry's content; raises ``msgspec.MsgspecError`` if it was changed and is no longer valid."""
        return _line(self.written)


_line = msgspec.json.Decoder(AuditLine).decode

GENESIS = "0" * 64
ENDED = ("completed", "failed", "cancelled", "expired")  # final states of a task
RUNNABLE = ("submitted", "working")
LIVE = (*RUNNABLE, "input-required")
# No lease is longer. One that seems so was written before the clock was set back, and counts as expired.
LONGEST_LEASE = 3600.0


def chain(previous: str, line: bytes) -> str:
    """The hash of an audit entry: it covers the entry and everything before it."""
    return hashlib.sha256(previous.encode() + line).hexdigest()


class TurnEntry(msgspec.Struct, frozen=True):
    """Everything that one answered turn writes, in one commit."""

    conversation: ConversationRow  # used to create it if it is new; otherwise only touched and expires count
    turn: PastTurn
    audit: AuditLine | None = None
    size: int = 0  # bytes of context that this turn adds


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
    priority: int = 0  # from 0 to 10: among queued tasks, higher goes first
    answers: tuple[Message, ...] = ()  # to the agent's questions so far, in order
    # The store manages the following; once a task exists, ``put_task`` leaves them unchanged.
    attempts: int = 0  # how often a node has claimed it
    node: str = ""  # holder of the lease
    lease: float = 0.0  # end of the lease
    version: int = 0  # incremented by each put and each claim
    unreadable: str = ""  # why the stored task cannot be read; it counts as failed, and this is what is left of it


class TaskEvent(msgspec.Struct, frozen=True):
    """One event of a task, numbered from 1."""

    number: int
    at: float
    kind: str  # progress, delta, question, answer, reply, fault, state
    body: dict[str, Any]


class Record(msgspec.Struct, frozen=True):
    """A named value in a space. ``version`` increases by one with each change."""

    space: str
    key: str
    value: bytes
    owner: str = ""
    expires: float = 0.0  # 0: never
    version: int = 1


class Store(Protocol):
    """Where state lives."""

    schema: tuple[int, int]  # schema version before it was opened, and now; 0 for a new store

    async def open(self) -> None:
        """Connect and bring the schema up to date."""

    async def close(self) -> None:
        """Flush pending writes and close. Later calls raise ``StoreUnavailable``."""

    async def ping(self) -> None:
        """Answer, or raise ``StoreUnavailable``: also if it is read-only or its disk is full."""

    # -- conversations and turns ---------------------------------------------------------------

    async def conversation(self, conversation_id: str) -> ConversationRow | None: ...

    async def conversation_by_token(self, owner: str, peer_token: str) -> ConversationRow | None:
        """The owner's conversation that the peer refers to by its own token (as a digest)."""

    async def conversations(self, owner: str, limit: int = 100) -> list[ConversationRow]:
        """The owner's conversations that have not ended, latest first."""

    async def count_conversations(self, owner: str) -> int: ...

    async def turns(self, conversation: str, last: int) -> tuple[PastTurn, ...]:
        """The last turns of a conversation, oldest first."""

    async def turn(self, turn_id: str) -> PastTurn | None: ...

    def record(self, entry: TurnEntry) -> Awaitable[bool]:
        """Record a turn and its audit entry in one commit. False if a turn with this id was recorded before."""

    async def agree(self, conversation: ConversationRow) -> None:
        """Store agreements (``agreed``), ``ended`` and ``expires``; creates the row if it is new."""

    async def forget(self, conversation: str) -> None:
        """Remove a conversation and its turns. Audit entries about them stay."""

    async def sweep(self, now: float) -> int:
        """Remove expired conversations, ended tasks and records. Returns how many."""

    # -- tasks -----------------------------------------------------------------------------------

    async def put_task(self, task: TaskRow, *, expect: int | None = None, lease: float | None = None) -> bool:
        """Create or replace a task. With ``expect``, only if its stored version matches (0: absent); returns whether it
        did.

        A new task is held by ``task.node`` for ``lease`` seconds, if given; otherwise anyone may claim it.
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
        """How many tasks, of all owners, have not started."""

    async def claim_task(self, node: str, lease: float, agents: tuple[str, ...]) -> TaskRow | None:
        """Claim a submitted or working task of one of these agents that nobody holds, for this many seconds.

        The highest priority goes first, then the oldest.
        """

    async def renew_tasks(self, node: str, ids: tuple[str, ...], lease: float) -> dict[str, int]:
        """Hold these tasks for this many seconds from now; 0 releases them, so that anyone may claim them.

        Returns the version of each that has not ended and is still held by this node.
        """

    async def add_task_event(self, task: str, event: TaskEvent) -> int:
        """Append an event; the store sets its number and returns it."""

    async def task_events(self, task: str, since: int = 0, limit: int = 1000) -> list[TaskEvent]:
        """Events with a number above ``since``, in order."""

    # -- audit -----------------------------------------------------------------------------------

    async def audit(self, line: AuditLine) -> None: ...

    async def audit_lines(self, since: int = 0, limit: int = 1000) -> list[ChainedLine]:
        """Entries with a number above ``since``, in order, as stored (unverified)."""

    async def audit_head(self) -> tuple[int, str] | None:
        """Number and hash of the last written entry, which the store keeps separately; (0, GENESIS) before the first,
        None if it was removed."""

    async def audit_prune(self, through: int) -> int:
        """Remove the entries up to this number, but never the newest; the rest of the chain stays verifiable."""

    # -- records ---------------------------------------------------------------------------------

    async def put(self, record: Record, *, expect: int | None = None) -> bool:
        """Create or replace a record. With ``expect``, only if its stored version matches (0: absent); returns whether
        it did.

        An expired record counts as absent.
        """

    async def get(self, space: str, key: str) -> Record | None:
        """A record that has not expired."""

    async def list(self, space: str, *, prefix: str = "", owner: str | None = None, limit: int = 1000) -> list[Record]:
        """Records of a space in key order, without expired ones."""

    async def delete(self, space: str, key: str) -> bool: ...

    async def count(self, space: str, key: str, delta: float, *, expires: float = 0.0) -> float:
        """Add to a shared counter and return its new value; an expired one restarts from zero."""


@runtime_checkable
class SeesNodes(Protocol):
    """A store that knows which of its nodes are dead before their leases expire."""

    async def show_node(self, node: str) -> bool:
        """Show other nodes that this one is alive, until the store is closed or the process ends.

        False if a live node already has this name.
        """

    async def free_tasks(self, node: str, lease: float, silent: float) -> dict[str, int]:
        """End the leases of dead nodes that were not renewed for ``silent`` seconds; returns how many per node."""

"""The tables of every SQL store, and a store seen as these tables, for copying."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol, TypeAlias

Row: TypeAlias = tuple[Any, ...]
PAGE: Final = 1000

# table → its columns, and how many of the first ones form its key.
TABLES: Final[Mapping[str, tuple[tuple[str, ...], int]]] = {
    "conversations": (
        ("id", "owner", "created", "touched", "expires", "turns", "bytes", "agreed", "peer_token", "ended"), 1,
    ),
    "turns": (("number", "id", "conversation", "at", "agent", "speaker", "asked", "answered"), 1),
    "audit": (("number", "at", "line", "previous", "hash"), 1),
    "tasks": (
        ("id", "owner", "agent", "state", "conversation", "created", "updated", "expires", "node", "lease", "body",
         "attempts", "version", "priority"), 1,
    ),
    "task_events": (("task", "number", "body"), 2),
    "records": (("space", "key", "value", "owner", "expires", "version"), 2),
    "letters": (
        ("number", "box", "id", "body", "at", "expires", "sender", "lane", "priority", "member", "deliveries",
         "holder", "lease"), 1,
    ),
    "dead_letters": (("number", "box", "body", "reason", "attempts", "at", "member"), 1),
    "dialogues": (
        ("conversation", "initiator", "participant", "protocol", "state", "opener", "created", "updated", "expires",
         "cancel", "timer", "due", "version", "detail"), 3,
    ),
    "utterances": (
        ("seq", "id", "sender", "receiver", "conversation", "initiator", "participant", "performative", "at",
         "expires", "body", "reply_with"), 1,
    ),
}  # fmt: skip
# The columns that hold contents, which may be encrypted. Counters among the records are numbers, and never are.
CONTENTS: Final[Mapping[str, tuple[str, ...]]] = {
    "conversations": ("agreed",),
    "turns": ("asked", "answered"),
    "tasks": ("body",),
    "task_events": ("body",),
    "records": ("value",),
    "letters": ("body",),
    "dead_letters": ("body",),
    "dialogues": ("detail",),
    "utterances": ("body",),
}
LAST_HASH: Final = "SELECT hash FROM audit ORDER BY number DESC LIMIT 1"
HEAD: Final = "SELECT number, hash FROM audit_head"


class Tables(Protocol):
    """A store as tables, within one transaction."""

    async def count(self, table: str) -> int: ...

    async def page(self, table: str, after: Row | None) -> list[Row]:
        """Rows after this key, in key order."""

    async def add(self, table: str, rows: list[Row]) -> None: ...

    async def last_hash(self) -> str | None:
        """The end of the audit chain."""

    async def head(self) -> Row | None:
        """The last written audit entry, which the store keeps separately."""

    async def settle(self, head: Row | None) -> None:
        """Set what the store needs to continue from these rows, as if it were the source."""


def page_sql(table: str, after: Row | None, mark: Callable[[int], str]) -> str:
    """The query that reads a page; ``mark`` writes its n-th parameter."""
    columns, width = TABLES[table]
    key = ", ".join(columns[:width])
    marks = ", ".join(mark(n) for n in range(1, width + 1))
    where = f"WHERE ({key}) > ({marks})" if after is not None else ""
    return f"SELECT {', '.join(columns)} FROM {table} {where} ORDER BY {key} LIMIT {PAGE}"

"""What stores in SQL databases read alike: one statement for both, with parameters as ``$1``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from time import time as now
from typing import Any, Final

from sabir.packing import pack
from sabir.turn import ANONYMOUS, PastTurn

from .base import ENDED, LIVE, RUNNABLE, ConversationRow, Record, TaskEvent, TaskRow
from .rows import CONVERSATION, TASK, TURN, conversation_of, conversations_of, event_of, past_turn_of, task_of

RECORD: Final = "space, key, value, owner, expires, version"
ENDED_STATES: Final = ",".join(f"'{state}'" for state in ENDED)
LIVE_STATES: Final = ",".join(f"'{state}'" for state in LIVE)
RUNNABLE_STATES: Final = ",".join(f"'{state}'" for state in RUNNABLE)
SWEPT_AT_ONCE: Final = 1000  # conversations and tasks in one transaction, so that a sweep blocks nobody


class SqlReads(ABC):
    """Conversations, turns, tasks and records, by key or by owner."""

    @abstractmethod
    async def _fetch(self, sql: str, *values: Any) -> Sequence[Any]:
        """The rows that a query finds: none if it asks for a value that the database cannot store."""

    async def _first(self, sql: str, *values: Any) -> Any:
        rows = await self._fetch(sql, *values)
        return rows[0] if rows else None

    def _pack(self, value: object) -> bytes:
        """A value as stored; an encrypting store seals it."""
        return pack(value)

    def _open(self, stored: bytes) -> bytes:
        return stored

    async def conversation(self, conversation_id: str) -> ConversationRow | None:
        row = await self._first(f"SELECT {CONVERSATION} FROM conversations WHERE id = $1", conversation_id)
        return conversation_of(row, self._open) if row else None

    async def conversation_by_token(self, owner: str, peer_token: str) -> ConversationRow | None:
        row = await self._first(
            f"SELECT {CONVERSATION} FROM conversations WHERE peer_token = $1 AND owner = $2 AND ended = 0"
            " ORDER BY touched DESC LIMIT 1",
            peer_token,
            owner,
        )
        return conversation_of(row, self._open) if row else None

    async def conversations(self, owner: str, limit: int = 100) -> list[ConversationRow]:
        rows = await self._fetch(
            f"SELECT {CONVERSATION} FROM conversations WHERE {owned(owner)} AND ended = 0"
            " ORDER BY touched DESC LIMIT $2",
            owner,
            limit,
        )
        return conversations_of(rows, self._open)

    async def count_conversations(self, owner: str) -> int:
        row = await self._first(f"SELECT count(*) FROM conversations WHERE {owned(owner)} AND ended = 0", owner)
        return int(row[0])

    async def turns(self, conversation: str, last: int) -> tuple[PastTurn, ...]:
        rows = await self._fetch(
            f"SELECT {TURN} FROM turns WHERE conversation = $1 ORDER BY number DESC LIMIT $2",
            conversation,
            max(0, last),
        )
        return tuple(past_turn_of(row, self._open) for row in reversed(rows))

    async def turn(self, turn_id: str) -> PastTurn | None:
        row = await self._first(f"SELECT {TURN} FROM turns WHERE id = $1", turn_id)
        return past_turn_of(row, self._open) if row else None

    async def task(self, task_id: str) -> TaskRow | None:
        row = await self._first(f"SELECT {TASK} FROM tasks WHERE id = $1", task_id)
        return task_of(row, self._open) if row else None

    async def tasks(
        self,
        *,
        owner: str | None = None,
        states: tuple[str, ...] = (),
        conversation: str | None = None,
        limit: int = 100,
        before: float | None = None,
        expired: float | None = None,
    ) -> list[TaskRow]:
        where: list[str] = ["1 = 1"]
        values: list[Any] = []
        for condition, value in (
            ("owner = ", owner),
            ("conversation = ", conversation),
            ("updated < ", before),
            ("expires <= ", expired),
        ):
            if value is not None:
                values.append(value)
                where.append(f"{condition}${len(values)}")
        if states:
            numbers = range(len(values) + 1, len(values) + len(states) + 1)
            where.append(f"state IN ({','.join(f'${number}' for number in numbers)})")
            values.extend(states)
        sql = f"SELECT {TASK} FROM tasks WHERE {' AND '.join(where)} ORDER BY updated DESC LIMIT ${len(values) + 1}"
        return [task_of(row, self._open) for row in await self._fetch(sql, *values, limit)]

    async def count_tasks(self, owner: str) -> int:
        row = await self._first(f"SELECT count(*) FROM tasks WHERE owner = $1 AND state IN ({LIVE_STATES})", owner)
        return int(row[0])

    async def count_submitted(self) -> int:
        sql = f"SELECT count(*) FROM tasks WHERE state IN ({RUNNABLE_STATES}) AND state = 'submitted'"
        return int((await self._first(sql))[0])

    async def task_events(self, task: str, since: int = 0, limit: int = 1000) -> list[TaskEvent]:
        rows = await self._fetch(
            "SELECT number, body FROM task_events WHERE task = $1 AND number > $2 ORDER BY number LIMIT $3",
            task,
            since,
            limit,
        )
        return [event_of(number, body, self._open) for number, body in rows]

    async def get(self, space: str, key: str) -> Record | None:
        row = await self._first(
            f"SELECT {RECORD} FROM records WHERE space = $1 AND key = $2 AND (expires = 0 OR expires > $3)",
            space,
            key,
            now(),
        )
        return Record(*row) if row else None


def owned(owner: str) -> str:
    """The condition that a row is this owner's, in the words of SQLite's index of known owners."""
    return "owner = $1" if owner == ANONYMOUS.id else "owner = $1 AND owner <> 'anonymous'"

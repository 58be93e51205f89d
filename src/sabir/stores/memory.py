"""A store in memory: for tests, and for gateways that must persist nothing."""

from __future__ import annotations

from collections import defaultdict
from time import time as now

import msgspec

from sabir.errors import StoreUnavailable
from sabir.turn import PastTurn

from .base import (
    ENDED,
    GENESIS,
    LONGEST_LEASE,
    RUNNABLE,
    AuditLine,
    ChainedLine,
    ConversationRow,
    Record,
    TaskEvent,
    TaskRow,
    TurnEntry,
    chain,
)
from .memory_letters import MemoryLetters


class MemoryStore(MemoryLetters):
    """Keeps everything in dictionaries; it is gone when the process ends."""

    def __init__(self) -> None:
        super().__init__()
        self.schema = (0, 0)
        self._conversations: dict[str, ConversationRow] = {}
        self._turns: dict[str, list[PastTurn]] = defaultdict(list)
        self._turn: dict[str, PastTurn] = {}
        self._tasks: dict[str, TaskRow] = {}
        self._events: dict[str, list[TaskEvent]] = defaultdict(list)
        self._audit: list[ChainedLine] = []
        self._records: dict[tuple[str, str], Record] = {}
        self._open = False

    async def open(self) -> None:
        self._open = True

    async def close(self) -> None:
        self._open = False

    async def ping(self) -> None:
        if not self._open:
            raise StoreUnavailable("the store is closed")

    # -- conversations and turns ---------------------------------------------------------------

    async def conversation(self, conversation_id: str) -> ConversationRow | None:
        await self.ping()
        return self._conversations.get(conversation_id)

    async def conversation_by_token(self, owner: str, peer_token: str) -> ConversationRow | None:
        await self.ping()
        rows = (
            row
            for row in self._conversations.values()
            if row.owner == owner and row.peer_token == peer_token and not row.ended
        )
        return max(rows, key=lambda row: row.touched, default=None)

    async def conversations(self, owner: str, limit: int = 100) -> list[ConversationRow]:
        await self.ping()
        rows = [row for row in self._conversations.values() if row.owner == owner and not row.ended]
        return sorted(rows, key=lambda row: -row.touched)[:limit]

    async def count_conversations(self, owner: str) -> int:
        await self.ping()
        return sum(row.owner == owner and not row.ended for row in self._conversations.values())

    async def turns(self, conversation: str, last: int) -> tuple[PastTurn, ...]:
        await self.ping()
        return tuple(self._turns[conversation][-last:]) if last > 0 and conversation in self._turns else ()

    async def turn(self, turn_id: str) -> PastTurn | None:
        await self.ping()
        return self._turn.get(turn_id)

    async def record(self, entry: TurnEntry) -> bool:
        await self.ping()
        if entry.turn.id in self._turn:
            return False
        if entry.audit is not None:
            await self.audit(entry.audit)  # first, because only this can fail
        row = entry.conversation
        known = self._conversations.get(row.id, msgspec.structs.replace(row, turns=0, bytes=0))
        self._conversations[row.id] = msgspec.structs.replace(
            known,
            touched=row.touched,
            expires=row.expires,
            turns=known.turns + 1,
            bytes=known.bytes + entry.size,
        )
        self._turn[entry.turn.id] = entry.turn
        self._turns[row.id].append(entry.turn)
        return True

    async def agree(self, conversation: ConversationRow) -> None:
        await self.ping()
        known = self._conversations.get(conversation.id)
        if known is not None:
            conversation = msgspec.structs.replace(
                known, agreed=conversation.agreed, ended=conversation.ended, expires=conversation.expires
            )
        self._conversations[conversation.id] = conversation

    async def forget(self, conversation: str) -> None:
        await self.ping()
        self._conversations.pop(conversation, None)
        for turn in self._turns.pop(conversation, ()):
            self._turn.pop(turn.id, None)

    async def sweep(self, now: float) -> int:
        await self.ping()
        old = [row.id for row in self._conversations.values() if row.expires <= now]
        for row_id in old:
            await self.forget(row_id)
        tasks = [t.id for t in self._tasks.values() if t.expires <= now and t.state in ENDED]
        for row_id in tasks:
            del self._tasks[row_id]
            self._events.pop(row_id, None)
        spent = [key for key, record in self._records.items() if 0 < record.expires <= now]
        for key in spent:
            del self._records[key]
        return len(old) + len(tasks) + len(spent) + self.sweep_letters(now)

    # -- tasks -----------------------------------------------------------------------------------

    async def put_task(self, task: TaskRow, *, expect: int | None = None, lease: float | None = None) -> bool:
        await self.ping()
        known = self._tasks.get(task.id)
        version = known.version if known else 0
        if expect is not None and expect != version:
            return False
        if known:
            held = {"node": known.node, "lease": known.lease, "attempts": known.attempts}
        elif lease is not None:
            held = {"lease": now() + lease, "attempts": 1}
        else:
            held = {"node": "", "lease": 0.0, "attempts": 0}
        self._tasks[task.id] = msgspec.structs.replace(task, version=version + 1, **held)
        return True

    async def task(self, task_id: str) -> TaskRow | None:
        await self.ping()
        return self._tasks.get(task_id)

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
        await self.ping()
        rows = [
            task
            for task in self._tasks.values()
            if (owner is None or task.owner == owner)
            and (not states or task.state in states)
            and (conversation is None or task.conversation == conversation)
            and (before is None or task.updated < before)
            and (expired is None or task.expires <= expired)
        ]
        return sorted(rows, key=lambda task: -task.updated)[:limit]

    async def count_tasks(self, owner: str) -> int:
        await self.ping()
        return sum(task.owner == owner and task.state not in ENDED for task in self._tasks.values())

    async def count_submitted(self) -> int:
        await self.ping()
        return sum(task.state == "submitted" for task in self._tasks.values())

    async def claim_task(self, node: str, lease: float, agents: tuple[str, ...]) -> TaskRow | None:
        await self.ping()
        at = now()
        for task in sorted(self._tasks.values(), key=lambda task: (-task.priority, task.created, task.id)):
            held = at < task.lease <= at + LONGEST_LEASE
            if task.state in RUNNABLE and task.agent in agents and not held:
                claimed = self._tasks[task.id] = msgspec.structs.replace(
                    task, node=node, lease=at + lease, attempts=task.attempts + 1, version=task.version + 1
                )
                return claimed
        return None

    async def renew_tasks(self, node: str, ids: tuple[str, ...], lease: float) -> dict[str, int]:
        await self.ping()
        held: dict[str, int] = {}
        for row_id in ids:
            task = self._tasks.get(row_id)
            if task is not None and task.node == node and task.state not in ENDED:
                holder = {"lease": now() + lease} if lease > 0 else {"node": "", "lease": 0.0}
                self._tasks[row_id] = msgspec.structs.replace(task, **holder)
                held[row_id] = task.version
        return held

    async def add_task_event(self, task: str, event: TaskEvent) -> int:
        await self.ping()
        number = len(self._events[task]) + 1
        self._events[task].append(msgspec.structs.replace(event, number=number))
        return number

    async def task_events(self, task: str, since: int = 0, limit: int = 1000) -> list[TaskEvent]:
        await self.ping()
        return self._events[task][since : since + limit] if task in self._events else []

    # -- audit -----------------------------------------------------------------------------------

    async def audit(self, line: AuditLine) -> None:
        await self.ping()
        last = self._audit[-1] if self._audit else None
        previous = last.hash if last else GENESIS
        number = last.number + 1 if last else 1
        written = msgspec.json.encode(line)
        self._audit.append(ChainedLine(number, written, previous, chain(previous, written), line.at))

    async def audit_lines(self, since: int = 0, limit: int = 1000) -> list[ChainedLine]:
        await self.ping()
        return [line for line in self._audit if line.number > since][:limit]

    async def audit_head(self) -> tuple[int, str] | None:
        await self.ping()
        return (self._audit[-1].number, self._audit[-1].hash) if self._audit else (0, GENESIS)

    async def audit_prune(self, through: int) -> int:
        await self.ping()
        # The newest entry always stays, so that the chain continues from it.
        removed = sum(line.number <= through for line in self._audit[:-1])
        del self._audit[:removed]
        return removed

    # -- records ---------------------------------------------------------------------------------

    async def put(self, record: Record, *, expect: int | None = None) -> bool:
        await self.ping()
        known = await self.get(record.space, record.key)
        version = known.version if known else 0
        if expect is not None and expect != version:
            return False
        self._records[record.space, record.key] = msgspec.structs.replace(record, version=version + 1)
        return True

    async def get(self, space: str, key: str) -> Record | None:
        await self.ping()
        record = self._records.get((space, key))
        return None if record is None or self._spent(record) else record

    async def list(self, space: str, *, prefix: str = "", owner: str | None = None, limit: int = 1000) -> list[Record]:
        await self.ping()
        found = [
            record
            for record in self._records.values()
            if record.space == space
            and record.key.startswith(prefix)
            and (owner is None or record.owner == owner)
            and not self._spent(record)
        ]
        return sorted(found, key=lambda record: record.key)[:limit]

    async def delete(self, space: str, key: str) -> bool:
        await self.ping()
        return self._records.pop((space, key), None) is not None

    async def count(self, space: str, key: str, delta: float, *, expires: float = 0.0) -> float:
        record = await self.get(space, key)
        value = (float(record.value) if record else 0.0) + delta
        await self.put(Record(space, key, repr(value).encode(), expires=record.expires if record else expires))
        return value

    @staticmethod
    def _spent(record: Record) -> bool:
        return 0 < record.expires <= now()

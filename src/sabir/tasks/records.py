"""Stored tasks: state changes by the table, events, and notification of waiters."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from typing import Any, Final

import msgspec

from sabir.aio import Changes
from sabir.errors import Conflict, StoreUnavailable
from sabir.stores.base import AuditLine, Store, TaskEvent, TaskRow

from .states import TRANSITIONS

logger = logging.getLogger("sabir")


ANY: Final = ""  # in place of a task's id: any task
BEGAN: Final = "began"  # in the detail of a task: start of the work that its progress refers to


class Ledger:
    """Changes tasks, each change by version, and notifies waiters."""

    def __init__(self, store: Store, retention: float, put: Callable[[str, int], None]) -> None:
        self._store = store
        self._retention = retention
        self._was_put = put  # called for each change made here, with the task and its new version
        self._changes = Changes()

    async def add_event(self, task_id: str, kind: str, body: dict[str, Any]) -> None:
        await self._store.add_task_event(task_id, TaskEvent(0, time.time(), kind, body))
        self.notify(task_id)

    async def move(self, task_id: str, state: str, *, by: str | None = None, **changes: Any) -> TaskRow | None:
        """Change a task's state, if the table allows it; with a node, only while that node holds it."""
        while True:
            task = await self._store.task(task_id)
            if task is None or state not in TRANSITIONS[task.state] or (by is not None and task.node != by):
                return None
            changed = await self.put(task, state, **changes)
            if changed is not None:
                return changed

    async def put(self, task: TaskRow, state: str, **changes: Any) -> TaskRow | None:
        """The task with these changes; None if somebody else changed it since it was read."""
        now = time.time()
        changed = msgspec.structs.replace(task, state=state, updated=now, expires=now + self._retention, **changes)
        if not await self._store.put_task(changed, expect=task.version):
            return None
        self._was_put(task.id, task.version + 1)
        self.notify(task.id)
        return msgspec.structs.replace(changed, version=task.version + 1)

    async def keep_detail(self, task: TaskRow, detail: dict[str, Any]) -> None:
        """Store a door's data about a task; its state stays.

        Raises:
            Conflict: somebody else has changed it since it was read.
        """
        if await self.put(task, task.state, detail={**task.detail, **detail}) is None:
            raise Conflict("the task was changed concurrently; read it again")

    async def set_aside(self, task: TaskRow) -> None:
        """Store a task with an unreadable row as failed, and log it once."""
        now = time.time()
        left = msgspec.structs.replace(task, updated=now, expires=now + self._retention, unreadable="")
        if await self._store.put_task(left, expect=task.version):  # otherwise another node was first
            logger.error("Task %s cannot be read from the store and has failed: %s", task.id, task.unreadable)
            await self.add_event(task.id, "fault", {"reason": task.fault, "code": task.fault_code})
            await self.audit(task, "failed", task.owner)

    async def audit(self, task: TaskRow, outcome: str, caller: str) -> None:
        with suppress(StoreUnavailable):
            await self._store.audit(AuditLine(time.time(), "task", caller, task.door, task.agent, outcome, task.id))

    # -- who waits for changes ------------------------------------------------------------------------

    def watch(self, task_id: str = ANY) -> AbstractContextManager[asyncio.Event]:
        """An event that is set when the task, or any task, changes here."""
        return self._changes.watch(task_id)

    def notify(self, task_id: str) -> None:
        self._changes.notify(task_id)
        self._changes.notify(ANY)

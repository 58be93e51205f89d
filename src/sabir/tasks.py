"""Tasks: turns that outlive their request.

NLIP ``respond-async``, an NLWeb promise, an A2A task, an MCP task and an ACL task are all this one
thing: one state machine, one table. A task is stored before it is acknowledged; its events are numbered,
so that whoever comes back reads on from where it stopped; it is found only by its owner.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final
from uuid import uuid4

import msgspec

from .errors import Cancelled, Conflict, NotFound, SabirError
from .events import Delta, Event, Fault, Progress, Question, Reply
from .exchange import Exchange
from .guard import Credentials
from .line import Ask, Line
from .message import Message, Part
from .stores.base import Store, TaskEvent, TaskRow
from .turn import Caller

# state → what may follow it. A state with nothing behind it is an end.
TRANSITIONS: Final[Mapping[str, frozenset[str]]] = {
    "submitted": frozenset({"working", "completed", "failed", "cancelled", "expired"}),
    "working": frozenset({"working", "submitted", "input-required", "completed", "failed", "cancelled", "expired"}),
    "input-required": frozenset({"working", "completed", "failed", "cancelled", "expired"}),
    "completed": frozenset(),
    "failed": frozenset(),
    "cancelled": frozenset(),
    "expired": frozenset(),
}
FINAL: Final = frozenset(state for state, following in TRANSITIONS.items() if not following)
LIVE: Final = tuple(state for state in TRANSITIONS if state not in FINAL)


class Tasks:
    """Submits, runs, follows and cancels tasks."""

    def __init__(
        self,
        exchange: Exchange,
        store: Store,
        *,
        node: str = "",
        retention: float = 86400.0,
        turn_seconds: float = 3600.0,
    ) -> None:
        self.exchange = exchange
        self.store = store
        self.node = node or uuid4().hex[:8]
        self.retention = retention
        self.turn_seconds = turn_seconds
        self._running: dict[str, asyncio.Task[None]] = {}
        self._lines: dict[str, Line] = {}
        self._changed: dict[str, asyncio.Event] = {}

    # -- for doors --------------------------------------------------------------------------------

    async def submit(self, ask: Ask, *, detail: dict[str, Any] | None = None, id: str | None = None) -> TaskRow:
        """Accept a turn to be answered later. It is stored when this returns.

        Raises:
            SabirError: the guard refuses the caller.
        """
        caller = await self.exchange.guard.admit(ask.credentials, ask.message.tokens)
        self.exchange.guard.rights.check(caller, agent=ask.agent or self.exchange.default, door=ask.door)
        now = time.time()
        task = TaskRow(
            id=id or uuid4().hex + uuid4().hex,
            owner=caller.id,
            agent=ask.agent or self.exchange.default,
            state="submitted",
            created=now,
            updated=now,
            expires=now + self.retention,
            message=ask.message,
            door=ask.door,
            node=self.node,
            detail={**(detail or {}), "caller": msgspec.to_builtins(caller)},
        )
        await self.store.put_task(task, expect=0, lease=60.0)
        self._start(task, ask, caller)
        return task

    async def find(self, id: str, caller: Caller) -> TaskRow:
        """The caller's task.

        Raises:
            NotFound: there is none of this id, or it is not the caller's (the answer is the same).
        """
        task = await self.store.task(id)
        if task is None or task.owner != caller.id:
            raise NotFound("there is no such task")
        return task

    async def wait(self, id: str, caller: Caller, seconds: float) -> TaskRow:
        """The task once it has ended or waits for input, or as it is when the time is over."""
        end = time.monotonic() + seconds
        while True:
            changed = self._changed.setdefault(id, asyncio.Event())
            changed.clear()
            task = await self.find(id, caller)
            left = end - time.monotonic()
            if task.state in FINAL or task.state == "input-required" or left <= 0:
                return task
            try:
                # A task on another node tells nothing here, so look again now and then.
                await asyncio.wait_for(changed.wait(), min(left, 1.0 if id not in self._running else left))
            except TimeoutError:
                continue

    async def follow(self, id: str, caller: Caller, since: int = 0) -> AsyncIterator[TaskEvent]:
        """Events above ``since`` as they come, until the task has ended or waits for input."""
        while True:
            changed = self._changed.setdefault(id, asyncio.Event())
            changed.clear()
            task = await self.find(id, caller)
            for event in await self.store.task_events(id, since):
                since = event.number
                yield event
            if task.state in FINAL or task.state == "input-required":
                return
            try:
                await asyncio.wait_for(changed.wait(), 1.0)
            except TimeoutError:
                continue

    async def cancel(self, id: str, caller: Caller) -> TaskRow:
        """End a task; its agent is told.

        Raises:
            Conflict: it has ended already.
        """
        task = await self.find(id, caller)
        if task.state in FINAL:
            raise Conflict(f"the task has ended already ({task.state})")
        await self._move(id, "cancelled", fault="cancelled by its owner", fault_code="cancelled")
        running = self._running.get(id)
        if running is not None:
            running.cancel()
        return await self.find(id, caller)

    async def answer(self, id: str, caller: Caller, message: Message) -> TaskRow:
        """Answer the question that a task waits on.

        Raises:
            Conflict: it does not wait for input.
        """
        task = await self.find(id, caller)
        line = self._lines.get(id)
        if task.state != "input-required" or line is None:
            raise Conflict(f"the task does not wait for input ({task.state})")
        await self._move(id, "working", question=None)
        line.answer(message.without_tokens())
        return await self.find(id, caller)

    async def close(self) -> None:
        """Stop what runs here; another node, or this one after its restart, takes it up."""
        for running in list(self._running.values()):
            running.cancel()
        await asyncio.gather(*self._running.values(), return_exceptions=True)

    # -- running ----------------------------------------------------------------------------------

    def _start(self, task: TaskRow, ask: Ask, caller: Caller) -> None:
        running = asyncio.create_task(self._run(task, ask, caller), name=f"task {task.id[:8]}")
        self._running[task.id] = running
        running.add_done_callback(lambda _: self._gone(task.id))

    def _gone(self, id: str) -> None:
        self._running.pop(id, None)
        self._lines.pop(id, None)
        self._tell(id)

    async def _run(self, task: TaskRow, ask: Ask, caller: Caller) -> None:
        line = self._lines[task.id] = Line(lambda event: self._note(task.id, event))
        if not await self._move(task.id, "working"):
            return
        ask.credentials = Credentials(caller=caller, address=caller.address)
        ask.seconds = self.turn_seconds
        ask.key = f"task:{task.id}"  # a second run after a crash finds the recorded reply
        try:
            await self.exchange.ask(ask, line)
        except SabirError as wrong:
            fault = Fault.of(wrong)
            state = "cancelled" if isinstance(wrong, Cancelled) else "failed"
            await self._event(task.id, "fault", {"reason": fault.reason, "code": fault.code})
            await self._move(task.id, state, fault=fault.reason, fault_code=fault.code)

    async def _note(self, id: str, event: Event) -> None:
        """One event of a task's turn, as it is stored."""
        match event:
            case Delta(part):
                await self._event(id, "delta", {"part": msgspec.to_builtins(part, builtin_types=(bytes,))})
            case Progress(fraction, note):
                await self._event(id, "progress", {"fraction": fraction, "note": note})
                await self._move(id, "working", progress=fraction, note=note)
            case Question():
                asked = msgspec.to_builtins(event)
                await self._event(id, "question", asked)
                await self._move(id, "input-required", question=asked)
            case Reply(message):
                conversation = next((p.content for p in reversed(message.tokens)), "")
                await self._event(id, "reply", {})
                await self._move(
                    id,
                    "completed",
                    reply=message,
                    progress=1.0,
                    conversation=conversation if isinstance(conversation, str) else "",
                )
            case Fault(reason, code):
                await self._event(id, "fault", {"reason": reason, "code": code})
                await self._move(id, "failed", fault=reason, fault_code=code)

    async def _event(self, id: str, kind: str, body: dict[str, Any]) -> None:
        await self.store.add_task_event(id, TaskEvent(0, time.time(), kind, body))
        self._tell(id)

    async def _move(self, id: str, state: str, **changes: Any) -> bool:
        """Change a task's state, if the table allows it from where it is."""
        done = False
        while not done:
            task = await self.store.task(id)
            if task is None or state not in TRANSITIONS[task.state]:
                return False
            now = time.time()
            moved = msgspec.structs.replace(task, state=state, updated=now, expires=now + self.retention, **changes)
            done = await self.store.put_task(moved, expect=task.version)
        self._tell(id)
        return True

    def _tell(self, id: str) -> None:
        changed = self._changed.get(id)
        if changed is not None:
            changed.set()
            if id not in self._running:
                self._changed.pop(id, None)


def part_of(body: Mapping[str, Any]) -> Part:
    """The Part that a stored ``delta`` event holds."""
    return msgspec.convert(body["part"], Part)

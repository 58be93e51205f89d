"""The callers' side of tasks: submit, find, wait for, follow, answer and cancel them. ``worker.py`` runs them."""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, suppress
from typing import Any, Final
from uuid import uuid4

import msgspec

from sabir.aio import until
from sabir.errors import Conflict, NotFound, RateLimited, SabirError, ShuttingDown, StoreUnavailable
from sabir.events import Event, Progress
from sabir.exchange.conversations import KIND, Tokens
from sabir.exchange.exchange import Exchange
from sabir.exchange.request import EventSink, TurnRequest
from sabir.exchange.turns import with_agreed
from sabir.ids import ordered_id
from sabir.message import Message, token_kind
from sabir.stores.base import Store, TaskEvent, TaskRow
from sabir.turn import Caller, Conversation

from .run import Run
from .states import FINAL, LIVE, TaskSettings, id_of, read, repeated, rests, unnamed, without_secrets
from .worker import MAX_PAGES, TaskWorker

_PAGE: Final = 1000  # events read at once
_WITHIN: Final = "within"  # the conversation's id, in a task's detail; its token is in ``conversation``


async def _unheard(event: Event) -> None:
    return None


class Tasks:
    """What doors do with tasks; the node's ``worker`` runs them."""

    def __init__(
        self, exchange: Exchange, store: Store, *, node: str = "", settings: TaskSettings | None = None
    ) -> None:
        self.exchange = exchange
        self.store = store
        self.node = node or uuid4().hex
        self.settings = settings or TaskSettings()
        self.worker = TaskWorker(exchange, store, self.node, self.settings)
        self._ledger = self.worker.ledger
        self.keep_detail = self._ledger.keep_detail
        self.open, self.start, self.close = self.worker.open, self.worker.start, self.worker.close
        exchange.timer.cancel_tasks = self.cancel_in

    @property
    def running(self) -> int:
        """How many tasks this node works on now."""
        return len(self.worker.runs)

    @property
    def free(self) -> int:
        """How many more tasks this node can run now."""
        return self.settings.running - self.running

    async def submit(
        self, ask: TurnRequest, *, detail: dict[str, Any] | None = None, task_id: str | None = None
    ) -> TaskRow:
        """Accept a turn to be answered later. It is stored when this returns.

        A repeated ``ask.key`` of the same caller is the same task.

        Raises:
            SabirError: the guard rejects the caller.
            PolicyRequired: a policy must be accepted first; then nothing of the message is stored.
            NotFound: there is no such agent.
            RateLimited: the caller has too many open tasks.
            Conflict: the id is another task's.
        """
        if self.worker.is_closing:
            raise ShuttingDown
        agent, line = ask.agent or self.exchange.default, EventSink(_unheard)
        try:
            caller = await self.exchange.guard.admit(ask.credentials, ask.message.tokens, line)
            self.exchange.guard.rights.find(self.exchange.agents, caller, ask.agent, ask.door, self.exchange.default)
            there = await self._admitted(ask, caller, agent)
            stored = await self.storable(ask.message, caller)
        except SabirError as exc:
            await self.exchange.audit(ask, exc, line)
            raise
        task_id = task_id or id_of(ask, caller)
        again = await self.store.task(task_id)
        if again is None:
            await self._check_room(caller)
            caller = unnamed(caller, there)
            message = self._kept(stored, caller, agent)
            within = self.exchange.conversations.sort(message.tokens, caller).conversation or there.id
            task = self._new(ask, message, caller, agent, {**(detail or {}), _WITHIN: within}, task_id, there)
            room = self.worker.has_room
            if await self.store.put_task(task, expect=0, lease=self.settings.lease if room else None):
                if room:
                    self.worker.begin(msgspec.structs.replace(task, version=1), caller)
                return task
            again = await self.store.task(task_id)  # another request was first
        return repeated(again, ask, stored, caller)

    async def adopt(
        self,
        ask: TurnRequest,
        line: EventSink,
        turn: asyncio.Task[None],
        *,
        task_id: str,
        detail: dict[str, Any],
        last: Progress,
    ) -> TaskRow:
        """Turn an admitted, running turn into a task: its further events belong to the task, not to its door.

        ``ask.key`` must be ``key_of(id)``, so that another node can find the turn. Stored when this returns.

        Raises:
            RateLimited: the caller has too many open tasks; the turn is cancelled.
        """
        caller = line.caller
        assert caller is not None
        stored: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        run = Run(task_id, caller, line, 1, deque(), deque())

        async def note(event: Event) -> None:
            await stored
            await self.worker.note(run, event)

        line.send = note
        try:
            await self._check_room(caller)
            there = line.turn.conversation if line.turn is not None else Conversation("")
            caller, detail = unnamed(caller, there), {**detail, _WITHIN: there.id}
            message = await self.storable(ask.message, caller)
            task = self._new(ask, message, caller, ask.agent or self.exchange.default, detail, task_id, there)
            task = msgspec.structs.replace(task, state="working", progress=last.fraction, note=last.note)
            await self.store.put_task(task, expect=0, lease=self.settings.lease)
        except SabirError:
            turn.cancel()
            raise
        line.extend(self.settings.turn_seconds)
        self.worker.keep(run, ask, turn)
        stored.set_result(None)
        return task

    async def _admitted(self, ask: TurnRequest, caller: Caller, agent: str) -> Conversation:
        """The conversation of the request, if data may flow in it."""
        exchange = self.exchange
        there = await exchange.conversations.agreed_in(exchange.conversations.sort(ask.message.tokens, caller), caller)
        there = with_agreed(there, ask)
        if not ask.message.is_control:
            exchange.agreements.admit(exchange.agents[agent].card, there.agreed, caller)
        return there

    async def _check_room(self, caller: Caller) -> None:
        if await self.store.count_tasks(caller.id) >= self.settings.per_owner:
            raise RateLimited(f"at most {self.settings.per_owner} tasks at a time", retry_after=60.0)

    async def storable(self, message: Message, caller: Caller) -> Message:
        """The message to store: without credentials, and as the filters let it through.

        Raises:
            SabirError: a filter rejects it.
        """
        kept = without_secrets(message)
        filters = self.exchange.guard.filters
        return await filters.inbound(kept, caller) if filters.filters else kept

    def _new(
        self,
        ask: TurnRequest,
        message: Message,
        caller: Caller,
        agent: str,
        detail: dict[str, Any],
        task_id: str,
        there: Conversation,
    ) -> TaskRow:
        now = time.time()
        again = {"caller": msgspec.to_builtins(caller), "hops": ask.hops, "seen": list(ask.seen)}
        again["trace"] = None if there.agreed.get("anonymous") else ask.trace
        if ask.agreed:
            again["agreed"] = ask.agreed
        return TaskRow(
            id=task_id,
            owner=caller.id,
            agent=agent,
            state="submitted",
            created=now,
            updated=now,
            expires=now + self.settings.retention,
            message=message,
            door=ask.door,
            priority=ask.priority,
            node=self.node,
            detail={**detail, **again},
        )

    def _kept(self, message: Message, caller: Caller, agent: str) -> Message:
        """The request, in a conversation that a second run finds, too."""
        named = any(token_kind(part.subformat) == KIND for part in message.tokens)
        if named or not self.exchange.agents[agent].card.remembers:
            return message
        return message.with_part(self.exchange.conversations.token(ordered_id(), caller, Tokens(message.tokens)))

    async def find(self, task_id: str, caller: Caller) -> TaskRow:
        """The caller's task.

        Raises:
            NotFound: there is no task with this id, or it is not the caller's (the error is the same).
        """
        task = await self.store.task(task_id)
        if task is None or task.owner != caller.id:
            raise NotFound("task not found", is_hidden=task is not None)
        if task.unreadable:
            await self._ledger.set_aside(task)
        return task

    async def wait(self, task_id: str, caller: Caller, seconds: float) -> TaskRow:
        """The task once it has ended or waits for input, or its state when the time is over."""
        return await self._when(rests, task_id, caller, time.monotonic() + seconds)

    async def answered(self, task_id: str, caller: Caller, answers: int) -> TaskRow:
        """The task once it has more than this many answers, or has ended."""
        return await self._when(
            lambda task: task.state in FINAL or len(task.answers) > answers, task_id, caller, math.inf
        )

    async def _when(self, is_there: Callable[[TaskRow], bool], task_id: str, caller: Caller, end: float) -> TaskRow:
        with self._ledger.watch(task_id) as changed:
            while True:
                changed.clear()
                task = await self.find(task_id, caller)
                left = end - time.monotonic()
                if is_there(task) or left <= 0:
                    return task
                await until(changed, min(left, self.settings.look))

    def changes(self) -> AbstractContextManager[asyncio.Event]:
        """An event that is set when any task changes on this node."""
        return self._ledger.watch()

    async def follow(self, task_id: str, caller: Caller, since: int = 0) -> AsyncIterator[TaskEvent]:
        """Events above ``since`` as they arrive, until the task has ended or waits for input."""
        with self._ledger.watch(task_id) as changed:
            while True:
                changed.clear()
                task = await self.find(task_id, caller)
                page = await self.store.task_events(task_id, since, _PAGE)
                for event in page:
                    since = event.number
                    yield read(event)
                if len(page) == _PAGE:
                    continue
                if rests(task):
                    return
                await until(changed, self.settings.look)

    async def cancel(self, task_id: str, caller: Caller) -> TaskRow:
        """Cancel a task and its agent, on whichever node it runs.

        Raises:
            NotFound: there is no task with this id, or it is not the caller's.
            Conflict: it has already ended.
        """
        task = await self.find(task_id, caller)
        ended = await self._ledger.move(task_id, "cancelled", fault="cancelled by its owner", fault_code="cancelled")
        if ended is None:
            state = (await self.find(task_id, caller)).state
            raise Conflict(f"the task has already ended ({state})")
        run = self.worker.runs.get(task_id)
        if run is not None:
            run.stop()
        await self._ledger.audit(task, "cancelled", caller.id)
        return ended

    async def cancel_in(self, conversation: str, caller: Caller) -> int:
        """Cancel the caller's tasks in a conversation, on whichever node they are; returns how many there were."""
        taken = 0
        async for task in self._within(conversation, caller, LIVE):
            with suppress(Conflict, NotFound):  # it has ended in the meantime
                await self.cancel(task.id, caller)
                taken += 1
        return taken

    async def erase(self, conversation: str, caller: Caller) -> int:
        """Remove the caller's tasks of a conversation with their contents; returns how many."""
        await self.cancel_in(conversation, caller)
        now, erased = time.time(), 0
        async for task in self._within(conversation, caller, ()):
            over = msgspec.structs.replace(task, message=Message.text(""), reply=None, expires=now)
            erased += await self.store.put_task(over, expect=task.version)
        if erased:
            await self.store.sweep(now)
        return erased

    async def _within(self, conversation: str, caller: Caller, states: tuple[str, ...]) -> AsyncIterator[TaskRow]:
        """The caller's tasks in a conversation, except those of control messages."""
        before = None
        for _ in range(MAX_PAGES):
            page = await self.store.tasks(owner=caller.id, states=states, before=before)
            if not page:
                return
            before = page[-1].updated
            for task in page:
                if task.detail.get(_WITHIN) == conversation and not task.message.is_control:
                    yield task

    async def answer(self, task_id: str, caller: Caller, message: Message) -> TaskRow:
        """Answer the question that a task waits on. The answer is stored when this returns.

        Raises:
            NotFound: there is no task with this id, or it is not the caller's.
            Conflict: it does not wait for input, or its turn died with its node and cannot be repeated.
        """
        said = message.without_tokens()
        task = await self.find(task_id, caller)
        if task.state != "input-required":
            raise Conflict(f"the task does not wait for input ({task.state})")
        answers = (*task.answers, said)
        changed = await self._ledger.put(task, "working", question=None, answers=answers)
        if changed is None:
            raise Conflict("the task was answered by somebody else at the same time")
        await self._ledger.add_event(task_id, "answer", {"message": msgspec.to_builtins(said, builtin_types=(bytes,))})
        run = self.worker.runs.get(task_id)
        if run is not None:
            run.give(answers)
            return changed
        with suppress(StoreUnavailable):
            await self.worker.take_up_free()  # if its node has died, another must claim it
            now = await self.store.task(task_id)
            if now is not None and now.state == "failed" and now.attempts > task.attempts:
                raise Conflict(now.fault or "the task has failed")
        return changed

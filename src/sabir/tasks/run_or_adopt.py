"""Answer now, or become a task: shared by every door whose protocol has something like tasks.

A turn runs beside its request. If it settles in time (it replies, fails, or asks back), the request is answered with
that. Otherwise ``sabir.tasks`` adopts it while it runs, and the request is answered with the task. Either way, nothing
is acknowledged before it is stored.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import msgspec

from sabir.errors import Cancelled, SabirError, ShuttingDown
from sabir.events import Event, Fault, Progress, Question, Reply
from sabir.exchange.request import EventSink, TurnRequest
from sabir.guard import Credentials
from sabir.ids import random_hex
from sabir.message import Message
from sabir.stores.base import TaskRow
from sabir.turn import Caller, Conversation

from .states import key_of, unnamed, without_secrets
from .tasks import Tasks

Send = Callable[[Event], Awaitable[None]]


def new_task_id() -> str:
    """An id that nobody can guess."""
    return random_hex(64)


async def authenticate(tasks: Tasks, ask: TurnRequest) -> Caller:
    """The caller of a request. A proof may be valid only once, so the request carries the caller from now on.

    Raises:
        Unauthenticated: invalid credentials.
    """
    caller = await tasks.exchange.guard.identity.caller(ask.credentials, ())
    ask.credentials = Credentials(caller.address, caller=caller)
    return caller


class RunningTurn:
    """A turn beside its request. The request must have a caller, because only a known caller's turn can become a
    task."""

    def __init__(self, tasks: Tasks, ask: TurnRequest, send: Send, *, task_id: str | None = None) -> None:
        self.id = task_id or new_task_id()
        self.ask = ask
        self.line = EventSink(self._event, ask.credentials.caller)
        self.began = time.time()
        self.task: asyncio.Task[None] | None = None
        self.is_adopted = False
        self._is_settled = False
        self._waiting: list[asyncio.Future[None]] = []
        self._tasks = tasks
        self._send = send
        self._progress = Progress()

    def make_findable(self) -> None:
        """Prepare the request so that, if its turn becomes a task and the node dies, the next node finds the same turn.

        A request with its own key is left unchanged: for an anonymous caller, the message is part of the key.
        """
        if self.ask.key is not None:
            return
        self.ask.key = key_of(self.id)
        caller = self.ask.credentials.caller
        if not self.ask.message.tokens and caller is not None:
            self.ask.begin(self._tasks.exchange.conversations.begin(caller))

    def start(self, running: Coroutine[Any, Any, None] | None = None) -> asyncio.Task[None]:
        """Run the turn, or the coroutine that runs it."""
        coroutine = running or self._tasks.exchange.ask(self.ask, self.line)
        self.task = asyncio.create_task(coroutine, name=f"turn {self.id[:8]}")
        self.task.add_done_callback(self._over)
        return self.task

    def _over(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled():
            task.exception()  # raised to the waiter; here it only counts as retrieved
        self.settle()

    def settle(self) -> None:
        """Mark that there is something to answer the request with."""
        self._is_settled = True
        for waiter in self._waiting:
            _wake(waiter)

    def unsettle(self) -> None:
        """The turn continues: another request waits for it now."""
        self._is_settled = False

    async def _event(self, event: Event) -> None:
        if self.is_adopted:  # a turn that an earlier request started was moved to this sink
            return await self.line.send(event)
        if isinstance(event, Progress):
            self._progress = event
        await self._send(event)

    async def wait(self, seconds: float | None, *others: asyncio.Future[Any]) -> bool:
        """Whether the turn settles within this time, and before one of the others is done."""
        if self._is_settled:
            return True
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[None] = loop.create_future()
        self._waiting.append(waiter)
        timer = loop.call_later(seconds, _wake, waiter) if seconds is not None else None
        try:
            if others:
                await asyncio.wait({waiter, *others}, return_when=asyncio.FIRST_COMPLETED)
            else:
                await waiter  # a fifth of the cost of asyncio.wait
        finally:
            self._waiting.remove(waiter)
            if timer is not None:
                timer.cancel()
        return self._is_settled

    async def adopt(self, detail: dict[str, Any]) -> TaskRow:
        """Turn it into a task. Stored when this returns.

        Raises:
            RateLimited: the caller has too many open tasks; the turn is cancelled.
        """
        assert self.task is not None
        self.is_adopted = True
        return await self._tasks.adopt(
            self.ask, self.line, self.task, task_id=self.id, detail=detail, last=self._progress
        )

    async def result(self) -> None:
        """Raise the turn's error, if it has failed. A turn that asked back has not ended.

        Raises:
            SabirError: rejected or failed.
        """
        if self.task is None or not self.task.done():
            return
        if self.task.cancelled():
            raise ShuttingDown
        await self.task

    def cancel(self, reason: str = "its request was cancelled") -> None:
        if self.task is not None:
            self.task.cancel(reason)


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


async def run_or_adopt(run: RunningTurn, seconds: float, detail: dict[str, Any]) -> TaskRow | None:
    """Wait for a started turn; None once it has settled, or the task that it has become.

    Raises:
        RateLimited: it would become a task, and the caller has too many.
    """
    try:
        return None if await run.wait(seconds) else await run.adopt(detail)
    except asyncio.CancelledError:
        run.cancel()
        raise


class StoredTurn:
    """A turn that is a task in any case: most end before anybody could ask for their state, and take a single write.

    A turn that takes longer, asks something or streams is adopted.
    """

    def __init__(self, tasks: Tasks, ask: TurnRequest, task_id: str, detail: dict[str, Any]) -> None:
        self._tasks = tasks
        self._detail = detail
        self._reply: Message | None = None
        self._adopting: asyncio.Task[TaskRow] | None = None
        ask.key = key_of(task_id)
        self._run = RunningTurn(tasks, ask, self._event, task_id=task_id)
        self._run.start()

    async def row(self, patience: float, seconds: float) -> TaskRow:
        """The task once it has ended or asks something, or its state after ``seconds``; after ``patience`` others can
        see it.

        Raises:
            SabirError: rejected before an agent was asked.
        """
        if not await self._run.wait(patience) and self._reply is None:
            await self._adopt()
        if self._adopting is None:
            return await self._ended()
        await self._adopting
        caller = self._run.line.caller
        assert caller is not None
        return await self._tasks.wait(self._run.id, caller, seconds)

    async def _event(self, event: Event) -> None:
        if isinstance(event, Reply):
            self._reply = event.message
            return
        await self._adopt()
        await self._run.line.send(event)  # which belongs to the task by now

    async def _adopt(self) -> None:
        if self._adopting is None:
            self._adopting = asyncio.ensure_future(self._run.adopt(self._detail))
        await asyncio.shield(self._adopting)
        self._run.settle()

    async def _ended(self) -> TaskRow:
        """The outcome of the turn, as an ended task."""
        await self._run.wait(None)
        try:
            await self._run.result()
        except SabirError as exc:
            if self._run.line.turn is None:
                raise
            fault = Fault.of(exc)
            state = "cancelled" if isinstance(exc, Cancelled) else "failed"
            return await self._stored(state=state, fault=fault.reason, fault_code=fault.code)
        assert self._reply is not None
        token = next((part.content for part in reversed(self._reply.tokens)), "")
        return await self._stored(
            state="completed",
            reply=self._reply,
            progress=1.0,
            conversation=token if isinstance(token, str) else "",
        )

    async def _stored(self, **end: Any) -> TaskRow:
        now, run, tasks = time.time(), self._run, self._tasks
        caller = run.line.caller
        assert caller is not None
        there = run.line.turn.conversation if run.line.turn is not None else Conversation("")
        try:
            message = await tasks.storable(run.ask.message, caller)
        except SabirError:  # a filter has rejected it, and its content is not stored
            message = Message("text", "english", "", submessages=tuple(run.ask.message.tokens))
            message = without_secrets(message)
        row = TaskRow(
            id=run.id,
            owner=unnamed(caller, there).id,
            agent=run.ask.agent or tasks.exchange.default,
            created=run.began,
            updated=now,
            expires=now + tasks.settings.retention,
            message=message,
            door=run.ask.door,
            node=tasks.node,
            detail={**self._detail, "caller": msgspec.to_builtins(unnamed(caller, there))},
            **end,
        )
        if await tasks.store.put_task(row, expect=0):
            return row
        return await tasks.find(run.id, caller)  # a duplicate message; the other was first


def is_final(event: Event) -> bool:
    """Whether a request can be answered with this event."""
    return isinstance(event, Reply | Question)

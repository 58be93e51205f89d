"""Answers that come at once: a turn whose client waits is stored as a task when it has ended, in one write.

Most turns end before anybody could ask how they are. One that takes longer, asks something or speaks ahead of its
answer is adopted by ``sabir.tasks`` where it stands. Nothing is acknowledged before it is stored, either way.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any, Final

import msgspec

from ..errors import Cancelled, SabirError
from ..events import Event, Fault, Progress, Reply
from ..line import Ask, Line
from ..message import Message
from ..stores.base import TaskRow
from ..tasks import Tasks, key_of

PATIENCE: Final = 0.25  # seconds; a turn that takes longer becomes a task that others can see
_NOTHING: Final = Progress()


class Quick:
    """One turn, on its way to being a task."""

    def __init__(self, tasks: Tasks, ask: Ask, id: str, detail: dict[str, Any]) -> None:
        self._tasks = tasks
        self._id = id
        self._detail = detail
        self._reply: Message | None = None
        self._adopted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._adopting: asyncio.Task[TaskRow] | None = None
        self._line = Line(self._event)
        ask.key = key_of(id)
        self._ask = ask
        self._began = time.time()
        self._turn = asyncio.create_task(tasks.exchange.ask(ask, self._line), name=f"a2a {id[:8]}")
        self._turn.add_done_callback(lambda turn: turn.cancelled() or turn.exception())  # told by whoever waits

    async def row(self, seconds: float) -> TaskRow:
        """The task once it has ended or asks something, or as it is when the time is over. It is stored.

        Raises:
            SabirError: refused, before an agent was asked.
        """
        await asyncio.wait({self._turn, self._adopted}, timeout=PATIENCE, return_when=asyncio.FIRST_COMPLETED)
        if not self._turn.done() and self._reply is None:
            await self._adopt()
        if self._adopting is not None:
            await self._adopting
            assert self._line.caller is not None
            return await self._tasks.wait(self._id, self._line.caller, seconds)
        return await self._ended()

    async def _event(self, event: Event) -> None:
        if isinstance(event, Reply):
            self._reply = event.message
            return
        await self._adopt()
        await self._line.send(event)  # which is the task's by now

    async def _adopt(self) -> None:
        if self._adopting is None:
            adopting = self._tasks.adopt(
                self._ask, self._line, self._turn, id=self._id, detail=self._detail, last=_NOTHING
            )
            self._adopting = asyncio.ensure_future(adopting)
        await asyncio.shield(self._adopting)
        if not self._adopted.done():
            self._adopted.set_result(None)

    async def _ended(self) -> TaskRow:
        """What the turn came to, as a task that has ended."""
        try:
            await self._turn
        except SabirError as wrong:
            if self._line.turn is None:
                raise
            fault = Fault.of(wrong)
            state = "cancelled" if isinstance(wrong, Cancelled) else "failed"
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
        now, caller, tasks = time.time(), self._line.caller, self._tasks
        assert caller is not None
        row = TaskRow(
            id=self._id,
            owner=caller.id,
            agent=self._ask.agent or tasks.exchange.default,
            created=self._began,
            updated=now,
            expires=now + tasks.settings.retention,
            message=self._ask.message,
            door=self._ask.door,
            node=tasks.node,
            detail={**self._detail, "caller": msgspec.to_builtins(caller)},
            **end,
        )
        if await tasks.store.put_task(row, expect=0):
            return row
        return await tasks.find(self._id, caller)  # the same message came twice, and the other was first

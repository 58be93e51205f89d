"""A task while a node runs it."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field

from sabir.errors import Cancelled
from sabir.exchange.request import EventSink
from sabir.message import Message
from sabir.turn import Caller


@dataclass(slots=True, eq=False)
class Run:
    """A task while this node runs it."""

    id: str
    caller: Caller
    line: EventSink
    version: int
    answers: deque[Message]  # given before, for an agent that is called again
    repeated: deque[tuple[str, bytes]]  # events of an earlier attempt, which are not stored twice
    known: int = 0  # answers that this run has seen
    events: int = 0
    ended: bool = False
    coroutine: asyncio.Task[None] | None = field(default=None, repr=False)

    def stop(self) -> None:
        if self.coroutine is not None:
            self.coroutine.cancel()

    def give(self, answers: tuple[Message, ...]) -> None:
        """Give the agent those answers of its task that it does not have yet."""
        new, self.known = answers[self.known :], max(self.known, len(answers))
        for message in new:
            with suppress(Cancelled):  # it no longer waits
                self.line.answer(message)

"""Suspended turns that wait for the answer to a question, by conversation.

The answer may arrive at any node. Each node holds its own suspended turns; with several nodes, ``elsewhere`` knows
which node holds a turn and forwards the answer to it.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

from sabir.errors import Cancelled, ShuttingDown
from sabir.message import CONTROL, Message

from .request import EventSink, Waiting


class ClusterRouter(Protocol):
    """The other nodes."""

    async def note(self, conversation: str, seconds: float) -> None:
        """Announce that a turn of this conversation waits here, for at most this long."""

    async def forget(self, conversation: str) -> None:
        """Withdraw the announcement."""

    async def cancel(self, conversation: str) -> bool:
        """Cancel the question of a conversation, on any node; returns whether there was one."""

    async def bring(self, conversation: str, message: Message, sink: EventSink, agent: str | None) -> bool:
        """Forward an answer to the node whose turn waits for it, and send the outcome to the sink.

        False if no turn of this conversation is waiting.
        """


class SuspendedTurns:
    """The turns suspended on this node, and access to those on others."""

    __slots__ = ("_closed", "_here", "elsewhere")

    def __init__(self) -> None:
        self._here: dict[str, list[Waiting]] = {}  # oldest first: answers arrive in the order of the questions
        self._closed = False
        self.elsewhere: ClusterRouter | None = None

    def __len__(self) -> int:
        """How many turns are suspended here."""
        return sum(map(len, self._here.values()))

    def __bool__(self) -> bool:
        """Whether any turn might be waiting."""
        return bool(self._here) or self.elsewhere is not None

    def has(self, conversation: str | None) -> bool:
        """Whether a turn of this conversation waits on this node."""
        return conversation in self._here

    def may(self, conversation: str | None) -> bool:
        """Whether a turn of this conversation might be waiting; a cheap first check."""
        return conversation in self._here or (self.elsewhere is not None and conversation is not None)

    def check_open(self) -> None:
        """Checked before a question is asked.

        Raises:
            ShuttingDown: the gateway would stop before the answer arrives.
        """
        if self._closed:
            raise ShuttingDown

    async def begin(self, conversation: str, seconds: float, agent: str = "", *, confirms: bool = False) -> Waiting:
        """Register a suspended turn of this conversation; if it ``confirms``, only yes or no answers it."""
        waiting = Waiting(agent, confirms=confirms)
        self._here.setdefault(conversation, []).append(waiting)
        if self.elsewhere is not None:
            await self.elsewhere.note(conversation, seconds)
        return waiting

    async def end(self, conversation: str, waiting: Waiting) -> None:
        """Remove it, answered or not."""
        if waiting in (there := self._here.get(conversation, [])):
            there.remove(waiting)
        if not there:
            self._here.pop(conversation, None)
        if self.elsewhere is not None and conversation not in self._here:
            await self.elsewhere.forget(conversation)

    async def bring(
        self, conversation: str | None, message: Message, sink: EventSink, agent: str | None = None
    ) -> bool:
        """Hand a message to the turn that waits for it, and wait until that turn ends or asks again.

        If the message names an ``agent``, only a question of that agent matches. False if no turn waits for it.
        """
        if conversation is None or await self.bring_here(conversation, message, sink, agent):
            return conversation is not None
        return self.elsewhere is not None and await self.elsewhere.bring(conversation, message, sink, agent)

    async def bring_here(self, conversation: str, message: Message, sink: EventSink, agent: str | None = None) -> bool:
        """The same, for turns on this node only."""
        waits = [item for item in self._here.get(conversation, ()) if not item.answer.done()]
        for wait in waits:
            # Only the next message can answer a control question: a later "yes" may mean something else.
            if wait.confirms and not wait.is_answered_by(message):
                wait.answer.set_exception(Cancelled("the question was not answered"))
        waiting = next((wait for wait in waits if not wait.answer.done() and wait.is_answered_by(message, agent)), None)
        if waiting is None:
            return False
        sink.ended = asyncio.get_running_loop().create_future()
        waiting.answer.set_result((message.with_type(CONTROL) if waiting.confirms else message, sink))
        await sink.ended
        return True

    def cancel(self, conversation: str) -> bool:
        """Cancel the suspended turns of a conversation on this node; returns whether there were any."""
        waits = [waiting for waiting in self._here.pop(conversation, ()) if not waiting.answer.done()]
        for waiting in waits:
            waiting.answer.set_exception(Cancelled("the request was cancelled"))
        return bool(waits)

    async def cancel_in(self, conversation: str) -> bool:
        """The same, on any node."""
        if self.cancel(conversation):
            return True
        return self.elsewhere is not None and await self.elsewhere.cancel(conversation)

    def close(self) -> None:
        """Cancel all questions, and reject new ones."""
        self._closed = True
        for conversation in list(self._here):
            self.cancel(conversation)

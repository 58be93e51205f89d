"""Turns that have asked back and wait for the answer, by their conversations; and those that must not run twice.

The answer may come to any node. Each node holds the turns that wait on it; where there are several nodes,
``elsewhere`` tells them which node that is and brings an answer there.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

from .errors import Cancelled, ShuttingDown
from .events import Question
from .line import Line, Waiting
from .message import Message


class Elsewhere(Protocol):
    """The other nodes."""

    async def note(self, conversation: str, seconds: float) -> None:
        """Let them know that a turn of this conversation waits here, at most so long."""

    async def forget(self, conversation: str) -> None:
        """It waits no longer."""

    async def cancel(self, conversation: str) -> bool:
        """Take back the question that the conversation waits on, on whatever node; says whether there was one."""

    async def bring(self, conversation: str, message: Message, line: Line) -> bool:
        """Hand an answer to the node whose turn waits for it, and send what comes of it down the line.

        False if no turn of this conversation waits anywhere.
        """


class Waits:
    """The turns that wait here, and the way to the others."""

    __slots__ = ("_closed", "_here", "elsewhere")

    def __init__(self) -> None:
        self._here: dict[str, list[Waiting]] = {}  # oldest first: answers come in the order of the questions
        self._closed = False
        self.elsewhere: Elsewhere | None = None

    def __len__(self) -> int:
        """How many turns wait here."""
        return sum(map(len, self._here.values()))

    def __bool__(self) -> bool:
        """Whether any turn may be waiting at all."""
        return bool(self._here) or self.elsewhere is not None

    def may(self, conversation: str | None) -> bool:
        """Whether a turn of this conversation may be waiting; a cheap first look."""
        return conversation in self._here or (self.elsewhere is not None and conversation is not None)

    def check_open(self) -> None:
        """Asked before a question is.

        Raises:
            ShuttingDown: nobody would be here to take the answer.
        """
        if self._closed:
            raise ShuttingDown("the gateway is stopping; try again in a moment", retry_after=5.0)

    async def begin(self, conversation: str, seconds: float) -> Waiting:
        """A turn of this conversation waits here from now on."""
        waiting = Waiting()
        self._here.setdefault(conversation, []).append(waiting)
        if self.elsewhere is not None:
            await self.elsewhere.note(conversation, seconds)
        return waiting

    async def end(self, conversation: str, waiting: Waiting) -> None:
        """It waits no longer, whether or not it was answered."""
        if waiting in (there := self._here.get(conversation, [])):
            there.remove(waiting)
        if not there:
            self._here.pop(conversation, None)
        if self.elsewhere is not None and conversation not in self._here:
            await self.elsewhere.forget(conversation)

    async def bring(self, conversation: str | None, message: Message, line: Line) -> bool:
        """Hand a message to the turn that waits for it, and stay until that turn ends or asks again.

        False if none waits for it.
        """
        if conversation is None or await self.bring_here(conversation, message, line):
            return conversation is not None
        return self.elsewhere is not None and await self.elsewhere.bring(conversation, message, line)

    async def bring_here(self, conversation: str, message: Message, line: Line) -> bool:
        """The same for turns of this node alone."""
        waiting = next((each for each in self._here.get(conversation, ()) if not each.answer.done()), None)
        if waiting is None:
            return False
        line.ended = asyncio.get_running_loop().create_future()
        waiting.answer.set_result((message, line))
        await line.ended
        return True

    def cancel(self, conversation: str) -> bool:
        """Take back what a conversation waits on; says whether there was anything here."""
        open = [waiting for waiting in self._here.pop(conversation, ()) if not waiting.answer.done()]
        for waiting in open:
            waiting.answer.set_exception(Cancelled("the question was taken back"))
        return bool(open)

    async def take_back(self, conversation: str) -> bool:
        """The same on whatever node it waits."""
        if self.cancel(conversation):
            return True
        return self.elsewhere is not None and await self.elsewhere.cancel(conversation)

    def close(self) -> None:
        """Take back all questions, and let no more be asked."""
        self._closed = True
        for conversation in list(self._here):
            self.cancel(conversation)


class Keyed:
    """Turns under way that have an idempotency key, by their ids: the same key again does not run them twice."""

    __slots__ = ("_running",)

    def __init__(self) -> None:
        self._running: dict[str, asyncio.Future[tuple[Question, str] | None]] = {}

    def __contains__(self, id: str | None) -> bool:
        """Whether such a turn is under way: the same again is a repetition, and no answer to what it asks."""
        return id in self._running

    async def enter(self, id: str) -> tuple[Question, str] | None:
        """Begin such a turn, once no other of this id runs; or the question it waits on, with its conversation."""
        while (running := self._running.get(id)) is not None:
            asked = await asyncio.shield(running)
            if asked is not None:
                return asked
        self._running[id] = asyncio.get_running_loop().create_future()
        return None

    def asks(self, id: str, question: Question, conversation: str) -> None:
        """The turn asks back: whoever repeats its request is asked the same, and does not wait for ever."""
        running = self._running.get(id)
        if running is not None and not running.done():
            running.set_result((question, conversation))

    def goes_on(self, id: str) -> None:
        """It has its answer."""
        if id in self._running:
            self._running[id] = asyncio.get_running_loop().create_future()

    def leave(self, id: str) -> None:
        running = self._running.pop(id)
        if not running.done():
            running.set_result(None)

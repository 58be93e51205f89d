"""Turns that have asked back and wait for the answer, by their conversations.

The answer may come to any node. Each node holds the turns that wait on it; where there are several nodes,
``elsewhere`` tells them which node that is and brings an answer there.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

from .errors import Cancelled
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

    __slots__ = ("_here", "elsewhere")

    def __init__(self) -> None:
        self._here: dict[str, Waiting] = {}
        self.elsewhere: Elsewhere | None = None

    def may(self, conversation: str | None) -> bool:
        """Whether a turn of this conversation may be waiting; a cheap first look."""
        return conversation in self._here or (self.elsewhere is not None and conversation is not None)

    async def begin(self, conversation: str, seconds: float) -> Waiting:
        """A turn of this conversation waits here from now on."""
        waiting = self._here[conversation] = Waiting()
        if self.elsewhere is not None:
            await self.elsewhere.note(conversation, seconds)
        return waiting

    async def end(self, conversation: str, waiting: Waiting) -> None:
        """It waits no longer, whether or not it was answered."""
        if self._here.get(conversation) is waiting:
            del self._here[conversation]
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
        waiting = self._here.pop(conversation, None)
        if waiting is None or waiting.answer.done():
            return False
        line.ended = asyncio.get_running_loop().create_future()
        waiting.answer.set_result((message, line))
        await line.ended
        return True

    def cancel(self, conversation: str) -> bool:
        """Take back the question that a conversation waits on; says whether there was one here."""
        waiting = self._here.pop(conversation, None)
        if waiting is None or waiting.answer.done():
            return False
        waiting.answer.set_exception(Cancelled("the question was taken back"))
        return True

    async def take_back(self, conversation: str) -> bool:
        """The same on whatever node it waits."""
        if self.cancel(conversation):
            return True
        return self.elsewhere is not None and await self.elsewhere.cancel(conversation)

    def cancel_all(self) -> None:
        for conversation in list(self._here):
            self.cancel(conversation)

"""Idempotency keys: a repeated key does not run a turn twice."""

from __future__ import annotations

import asyncio
from typing import Final

from sabir.errors import Conflict
from sabir.events import Question
from sabir.guard import Filters
from sabir.guard.agreements import WITHHELD
from sabir.message import Message
from sabir.stores.base import Store
from sabir.turn import Caller, PastTurn

from .request import TASK_KEY, TurnRequest, same_content

OTHER_MESSAGE: Final = "this idempotency key was used for another message; use a new key for each message"


class IdempotentTurns:
    """Running turns that have an idempotency key, by turn id."""

    __slots__ = ("_running",)

    def __init__(self) -> None:
        self._running: dict[str, asyncio.Future[tuple[Question, str] | None]] = {}

    def __contains__(self, turn_id: str | None) -> bool:
        """Whether a turn with this id is running; then the request is a repeat, not an answer to its question."""
        return turn_id in self._running

    async def enter(self, turn_id: str) -> tuple[Question, str] | None:
        """Start a turn once no other with this id is running; or return the question it waits on, with its
        conversation.
        """
        while (running := self._running.get(turn_id)) is not None:
            asked = await asyncio.shield(running)
            if asked is not None:
                return asked
        self._running[turn_id] = asyncio.get_running_loop().create_future()
        return None

    def asks(self, turn_id: str, question: Question, conversation: str) -> None:
        """The turn asks a question: a repeated request gets the same question instead of waiting."""
        running = self._running.get(turn_id)
        if running is not None and not running.done():
            running.set_result((question, conversation))

    def resume_turn(self, turn_id: str) -> None:
        """Mark the question as answered."""
        if turn_id in self._running:
            self._running[turn_id] = asyncio.get_running_loop().create_future()

    def leave(self, turn_id: str) -> None:
        running = self._running.pop(turn_id)
        if not running.done():
            running.set_result(None)


async def check_same_message(store: Store, filters: Filters, past: PastTurn, ask: TurnRequest, caller: Caller) -> None:
    """Check that a repeated key comes with the same message as before, if that was recorded.

    Raises:
        Conflict: the message differs.
    """
    if ask.key is None or ask.key.startswith(TASK_KEY):
        return  # a task's own key; secrets may have been removed from its message since
    first = await store.turn(f"{past.id}?1") or past  # a turn that asked back ends with the answer it got
    if first.asked == Message.text(WITHHELD):
        return  # contents are not kept, by agreement
    message = ask.message.without_tokens()
    if filters.filters:
        message = await filters.inbound(message, caller)
    if not same_content(first.asked, message):
        raise Conflict(OTHER_MESSAGE)

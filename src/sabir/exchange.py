"""The exchange: the middle that every door calls. Read this file first.

    guard (who, how much, allowed?) → conversation (find, lock, load) → agent(turn) → events
        → filters → record (turn and audit line, one commit) → echo of tokens → the door

A door hands in an ``Ask`` and a ``Line``; the exchange sends events down the line as they come and ends
with one ``Reply`` or ``Fault``. What is refused before an agent ran is raised as a ``SabirError`` that
the door tells in its protocol's own words.

A turn runs in the coroutine of the request that began it. If its agent asks back where the protocol has
no back channel, the door answers that request with the question; the turn stays suspended, and goes on
when a later request with the same conversation token brings the answer: its line is moved to the new door.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import msgspec

from .agent import Agent
from .conversations import Conversations, Held, Tokens
from .errors import (
    Cancelled,
    DeadlineExceeded,
    NotFound,
    SabirError,
    ShuttingDown,
    StoreUnavailable,
    TurnFailed,
)
from .events import Delta, Fault, Question, Reply
from .guard import Guard
from .line import Ask, Line, Waiting
from .message import CONTROL, Message, Part
from .stores.base import AuditLine, Store, TurnEntry
from .turn import Caller, Conversation, PastTurn, Turn

logger = logging.getLogger("sabir")


@dataclass(slots=True)
class Exchange:
    """guard → conversation → agent → record."""

    agents: Mapping[str, Agent]
    default: str
    store: Store
    guard: Guard
    conversations: Conversations
    concierge: Agent | None = None  # answers control messages for the gateway
    attachments: Any = None
    running: int = 0
    closing: bool = False
    _waiting: dict[str, Waiting] = field(default_factory=dict)
    _keys: dict[str, asyncio.Future[None]] = field(default_factory=dict)
    _idle: asyncio.Event = field(default_factory=asyncio.Event)

    async def ask(self, ask: Ask, line: Line) -> None:
        """Answer one Ask down its line.

        Raises:
            SabirError: refused, or failed, before or instead of a Reply.
        """
        if self.closing:
            raise ShuttingDown("the gateway is stopping; try again in a moment", retry_after=5.0)
        self.running += 1
        try:
            caller = line.caller = await self.guard.admit(ask.credentials, ask.message.tokens)
            agent = self._agent(ask, caller)
            tokens = self.conversations.sort(ask.message, caller)
            if agent.card.remembers:
                await self._in_conversation(ask, line, agent, caller, tokens)
            else:
                line.tokens = tokens.echo
                turn = self._turn(ask, agent, caller, Conversation(""), line)
                await line.send(Reply(_addressed(await self._run(agent, turn, line), ask.message, line.tokens)))
        except SabirError as wrong:
            await self._audit(ask, line, wrong)
            if line.moved is None:
                raise
            line.end(wrong)
        finally:
            line.end()
            self.running -= 1
            if not self.running:
                self._idle.set()

    def _agent(self, ask: Ask, caller: Caller) -> Agent:
        name = ask.agent or self.default
        agent = self.agents.get(name)
        if agent is None:
            raise NotFound(f"there is no agent {name[:64]!r} here")
        self.guard.rights.check(caller, agent=name, door=ask.door)
        return self.concierge if self.concierge is not None and ask.message.is_control else agent

    # -- conversation -----------------------------------------------------------------------------

    async def _in_conversation(self, ask: Ask, line: Line, agent: Agent, caller: Caller, tokens: Tokens) -> None:
        if tokens.conversation in self._waiting and not ask.message.is_control:
            return await self._bring_answer(ask, line, tokens)
        key = f"{caller.id}\x00{ask.key}" if ask.key is not None else None
        if key is not None and await self._replayed(key, ask, line, caller, tokens):
            return None
        try:
            async with self.conversations.hold(tokens, caller) as held:
                self._tie(line, held.row.id, caller, tokens)
                turn = self._turn(ask, agent, caller, held.conversation, line, key)
                turn.ask_back = lambda question: self._ask_back(question, line, held, ask)
                reply = await self._run(agent, turn, line)
                await self._record(turn, ask, held, line.asked or turn.message, reply)
            await line.send(Reply(_addressed(reply, ask.message, line.tokens)))
        finally:
            if key is not None and (done := self._keys.pop(key, None)) is not None:
                done.set_result(None)

    def _tie(self, line: Line, conversation: str, caller: Caller, tokens: Tokens) -> None:
        line.conversation = self.conversations.token(conversation, caller, tokens)
        line.tokens = (*tokens.echo, line.conversation)

    async def _replayed(self, key: str, ask: Ask, line: Line, caller: Caller, tokens: Tokens) -> bool:
        """The same key again: the recorded reply is given again, and the agent is not called twice."""
        while (running := self._keys.get(key)) is not None:
            await asyncio.shield(running)
        past = await self.store.turn(turn_id(key))
        if past is None:
            self._keys[key] = asyncio.get_running_loop().create_future()
            return False
        self._tie(line, past.conversation, caller, tokens)
        await line.send(Reply(_addressed(past.answered, ask.message, line.tokens)))
        return True

    async def _record(self, turn: Turn, ask: Ask, held: Held, asked: Message, answered: Message) -> None:
        now = time.time()
        caller, id = turn.caller, f"{turn.id}?{turn.questions}" if turn.waits else turn.id
        size = _size(asked) + _size(answered)
        row = msgspec.structs.replace(held.row, touched=now, expires=self.conversations.expiry(caller, now))
        audit = AuditLine(now, "turn", caller.id, ask.door, turn.agent, "ok", id, row.id, {"bytes": size})
        past = PastTurn(id, now, turn.agent, asked, answered, caller.name or caller.id, row.id)
        await self.store.record(TurnEntry(row, past, audit, size))

    async def _audit(self, ask: Ask, line: Line, wrong: SabirError) -> None:
        """A refusal or failure leaves a line too; a store that is down must not hide the reason."""
        caller = line.caller.id if line.caller is not None else "unknown"
        turn = line.turn.id if line.turn is not None else ""
        kind = "failed" if line.turn is not None else "refused"
        with suppress(StoreUnavailable):
            await self.store.audit(
                AuditLine(time.time(), kind, caller, ask.door, ask.agent or self.default, type(wrong).__name__, turn)
            )

    # -- agent ------------------------------------------------------------------------------------

    def _turn(
        self,
        ask: Ask,
        agent: Agent,
        caller: Caller,
        conversation: Conversation,
        line: Line,
        key: str | None = None,
    ) -> Turn:
        turn = line.turn = Turn(
            message=ask.message.without_tokens(),
            conversation=conversation,
            caller=caller,
            deadline=time.monotonic() + (self.guard.quotas.turn_seconds if ask.seconds is None else ask.seconds),
            id=uuid4().hex if key is None else turn_id(key),
            agent=agent.card.name,
            hops=ask.hops,
            seen=(*ask.seen, agent.card.name),
            trace=ask.trace,
            door=ask.door,
            attachments=self.attachments,
        )
        line.asked = turn.message
        return turn

    async def _run(self, agent: Agent, turn: Turn, line: Line) -> Message:
        """Call the agent; send its pieces down the line; return what it said in the end."""
        filters = self.guard.filters
        if filters.filters:
            turn.message = line.asked = await filters.inbound(turn.message, turn.caller)
        unread = agent.card.cannot_read(turn.message)
        if unread is not None:
            return Message("text", "english", unread)
        try:
            async with asyncio.timeout(turn.remaining) as line.timer:
                async for event in agent(turn):
                    if isinstance(event, Reply):
                        said = event.message.without_tokens()
                        return await filters.outbound(said, turn.caller) if filters.filters else said
                    if isinstance(event, Fault):
                        raise event.error()
                    if isinstance(event, Delta) and filters.filters:
                        event = Delta((await filters.outbound(Message.of(event.part), turn.caller)).first)
                    await line.send(event)
        except TimeoutError:
            raise DeadlineExceeded(f"{turn.agent} did not answer in time") from None
        except SabirError:
            raise
        except Exception:
            # Whatever an agent raises is its own affair: the caller learns that it failed, the log learns why.
            logger.exception("agent %s failed in turn %s", turn.agent, turn.id)
            raise TurnFailed(f"{turn.agent} failed; the operator's log says why (turn {turn.id})") from None
        raise TurnFailed(f"{turn.agent} ended without a reply")

    # -- asking back ------------------------------------------------------------------------------

    async def _ask_back(self, question: Question, line: Line, held: Held, ask: Ask) -> Message:
        """Suspend the turn on a question: the conversation is free meanwhile, the request may end."""
        turn, quotas, id = line.turn, self.guard.quotas, held.row.id
        assert turn is not None
        turn.questions += 1
        turn.waits = True
        await self._record(turn, ask, held, line.asked or turn.message, Message.text(question.text))
        waiting = self._waiting[id] = line.waiting = Waiting()
        held.let_go()
        line.extend(quotas.answer_seconds)
        try:
            await line.send(question)
            line.end()
            answer, bringing = await waiting.answer
        finally:
            line.waiting, turn.waits = None, False
            if self._waiting.get(id) is waiting:
                del self._waiting[id]
        await held.take()
        line.extend(quotas.turn_seconds)
        line.asked = answer
        if bringing is not None:
            line.move(bringing)
        return answer

    async def _bring_answer(self, ask: Ask, line: Line, tokens: Tokens) -> None:
        """Hand this message to the turn that waits for it, and stay until that turn ends or asks again."""
        waiting = self._waiting.pop(tokens.conversation or "")
        line.tokens = (*tokens.echo, *((tokens.own,) if tokens.own is not None else ()))
        line.conversation = tokens.own
        line.ended = asyncio.get_running_loop().create_future()
        waiting.answer.set_result((ask.message.without_tokens(), line))
        await line.ended

    def cancel_waiting(self, conversation: str) -> bool:
        """Take back the question that a conversation waits on; says whether there was one."""
        waiting = self._waiting.pop(conversation, None)
        if waiting is None or waiting.answer.done():
            return False
        waiting.answer.set_exception(Cancelled("the question was taken back"))
        return True

    async def close(self, seconds: float) -> bool:
        """Let running turns finish, take no new ones. False if some were still running in the end."""
        self.closing = True
        for conversation in list(self._waiting):
            self.cancel_waiting(conversation)
        self._idle.clear()
        if self.running:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._idle.wait(), seconds)
        return not self.running


def turn_id(key: str) -> str:
    """The turn id that belongs to a caller's idempotency key."""
    return hashlib.sha256(key.encode()).hexdigest()[:32]


def _addressed(reply: Message, asked: Message, tokens: tuple[Part, ...]) -> Message:
    """The reply as it goes back: every token of the request, then our own (CORE-6.2), control as control (CORE-6.3)."""
    if asked.is_control:
        control = True if asked.control is not None else None  # the flag only to those who use it (D-19)
        reply = msgspec.structs.replace(reply, messagetype=CONTROL, control=control)
    elif reply.is_control:
        reply = msgspec.structs.replace(reply, messagetype=None, control=None)
    return reply.with_parts(tokens)


def _size(message: Message) -> int:
    content = message.content
    size = len(content) if isinstance(content, str | bytes) else 64
    for part in message.submessages:
        size += len(part.content) if isinstance(part.content, str | bytes) else 64
    return size

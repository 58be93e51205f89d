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
import time
from collections.abc import Awaitable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from .agent import Agent
from .conversations import Conversations, Held, Tokens
from .errors import Forbidden, SabirError, ShuttingDown, StoreUnavailable, TurnFailed, Unauthenticated
from .events import Fault, Question, Reply, check
from .guard import Guard, size_of
from .guard.agreements import Agreements, kept, takes_back
from .guard.audit import told_line, turn_line
from .line import Ask, Line, turn_id
from .message import Message
from .observe import Observer
from .overseer import Overseer
from .randomness import counted_id
from .stores.base import Store, TurnEntry
from .turn import MAX_HOPS, NOWHERE, Caller, Conversation, PastTurn, Turn, nobody_to_ask
from .waits import Keyed, Waits


@dataclass(slots=True)
class Exchange:
    """guard → conversation → agent → record."""

    agents: Mapping[str, Agent]
    default: str
    store: Store
    guard: Guard
    conversations: Conversations
    concierge: Agent | None = None  # answers control messages for the gateway
    observer: Observer | None = None
    attachments: Any = None  # sabir.uploads.Uploads
    agreements: Agreements = field(default_factory=Agreements)
    running: int = 0
    closing: bool = False
    waits: Waits = field(default_factory=Waits)
    keyed: Keyed = field(default_factory=Keyed)
    overseer: Overseer = field(default_factory=Overseer)

    def ask(self, ask: Ask, line: Line) -> Coroutine[Any, Any, None]:
        """Answer one Ask down its line.

        Raises (when awaited):
            SabirError: refused, or failed, before or instead of a Reply.
        """
        asking = self._ask(ask, line)
        return asking if self.observer is None else self.observer.watched(asking, ask, line, self._known(ask))

    async def _ask(self, ask: Ask, line: Line) -> None:
        if self.closing:
            raise ShuttingDown("the gateway is stopping; try again in a moment", retry_after=5.0)
        self.running += 1
        try:
            said = ask.credentials, ask.message.tokens
            caller = line.caller = self.guard.stranger(*said) or await self.guard.admit(*said, line)
            tokens = self.conversations.sort(said[1], caller)
            if ask.hops > MAX_HOPS:
                raise TurnFailed(f"the question passed {MAX_HOPS} agents; a loop is likely")
            ours = self._ours(ask)
            agent = self._agent(ask, caller) if ours is None else await self._control(ours, ask, caller, tokens)
            if agent.card.remembers and ask.conversation is None:
                await self._in_conversation(ask, line, agent, caller, tokens)
            else:
                line.tokens = tokens.echo if tokens.own is None else (*tokens.echo, tokens.own)
                there = ask.conversation or (await self.conversations.agreed_in(tokens, caller) if tokens else NOWHERE)
                turn = self._turn(ask, agent, caller, there, line)
                turn.ask_back = ask.ask_back or turn.ask_back
                reply = await self._run(agent, turn, line)
                if ask.conversation is None:  # else the node that holds it tells
                    self.guard.notes.add(turn, ask.door, size_of(turn.message) + size_of(reply))
                await line.send(Reply(line.addressed(reply, ask.message)))
        except Exception as raised:
            wrong = raised if isinstance(raised, SabirError) else line.unforeseen(raised)
            if ask.conversation is None:  # else the node that was asked tells
                await self.audit(ask, wrong, line)
            if line.moved is None:
                raise wrong from None
            line.end(wrong)
        finally:
            line.end()
            self.running -= 1
            if self.closing and not self.running:
                self.overseer.idle.set()

    def _agent(self, ask: Ask, caller: Caller) -> Agent:
        agent = self.guard.rights.find(self.agents, caller, ask.agent, ask.door, self.default)
        self.guard.rates.check_agent(ask.agent or self.default)
        return self.concierge if self.concierge is not None and ask.message.is_control else agent

    def _ours(self, ask: Ask) -> Agent | None:
        return self.concierge if ask.agent is None and ask.message.is_control else None

    async def _control(self, concierge: Agent, ask: Ask, caller: Caller, tokens: Tokens) -> Agent:
        """Control that names no agent: for who may use one of them; in a conversation, for its owner in any case."""
        try:
            self.guard.rights.check_any(caller, self.agents, ask.door)
        except (Forbidden, Unauthenticated):
            if not (await self.conversations.agreed_in(tokens, caller)).id:
                raise
        self.guard.rates.check_agent(concierge.card.name)
        return concierge

    def _known(self, ask: Ask) -> str:
        if (ours := self._ours(ask)) is not None:
            return ours.card.name
        name = self.default if ask.agent is None else ask.agent
        return name if name in self.agents or not name else "unknown"  # a name from the wire is content

    # -- conversation -----------------------------------------------------------------------------

    async def _in_conversation(self, ask: Ask, line: Line, agent: Agent, caller: Caller, tokens: Tokens) -> None:
        id = turn_id(ask.key_of(caller)) if ask.key is not None else None
        where = tokens.conversation
        if where is None and tokens.echo and self.waits:
            where = (await self.conversations.agreed_in(tokens, caller)).id or None
        if where is not None and self.waits.may(where) and not ask.message.is_control and id not in self.keyed:
            self._tie(line, where, caller, tokens)
            if await self.waits.bring(where, ask.message.without_tokens(), line):
                return
        if ask.message.is_control and takes_back(ask.message):
            where = tokens.conversation or (await self.conversations.agreed_in(tokens, caller)).id
            await self.overseer.take_back(where, caller)
        if id is not None and (asked := await self.keyed.enter(id)) is not None:
            self._tie(line, asked[1], caller, tokens)
            await line.send(asked[0])
            return
        try:
            if id is not None and (past := await self.store.turn(id)) is not None:
                await self._repeat(past, ask, line, caller, tokens)
                return
            async with self.conversations.hold(tokens, caller) as held:
                self._tie(line, held.row.id, caller, tokens)
                turn = self._turn(ask, agent, caller, held.conversation, line, id)
                turn.ask_back = lambda question: self._ask_back(question, line, held, ask)
                reply = await self._run(agent, turn, line)
                if not await self._record(turn, ask, held, line.asked or turn.message, reply):
                    past = await self.store.turn(turn.id)
                    if past is not None:  # the same key on another node was quicker: its answer is the answer
                        await self._repeat(past, ask, line, caller, tokens)
                        return
            line.tokens = (*line.tokens, *turn.issued)
            await line.send(Reply(line.addressed(reply, ask.message)))
        finally:
            if line.turn is not None:
                line.turn.ask_back = nobody_to_ask  # or the two would hold each other until garbage is collected
            if id is not None:
                self.keyed.leave(id)

    def _tie(self, line: Line, conversation: str, caller: Caller, tokens: Tokens) -> None:
        line.conversation = self.conversations.token(conversation, caller, tokens)
        line.tokens = (*tokens.echo, line.conversation)

    async def _repeat(self, past: PastTurn, ask: Ask, line: Line, caller: Caller, tokens: Tokens) -> None:
        """The same key again: the recorded reply is given again, and the agent is not called twice."""
        self._tie(line, past.conversation, caller, tokens)
        await line.send(Reply(line.addressed(past.answered, ask.message)))

    def _record(self, turn: Turn, ask: Ask, held: Held, asked: Message, answered: Message) -> Awaitable[bool]:
        now = time.time()
        caller, id = turn.caller, f"{turn.id}?{turn.questions}" if turn.waits else turn.id
        size = size_of(asked) + size_of(answered)
        row = self.conversations.touched(held.row, caller, now)
        audit = turn_line(turn, ask.door, size, id, row.id)
        past = PastTurn(id, now, turn.agent, asked, answered, caller.name or caller.id, row.id)
        return self.store.record(TurnEntry(row, kept(past, held.conversation.agreed), audit, size))

    async def audit(self, ask: Ask, wrong: SabirError, line: Line | None = None, caller: Caller | None = None) -> None:
        """A refusal or failure leaves a line too, and one only; a store that is down must not hide the reason."""
        if wrong.audited:
            return
        wrong.audited, turn = True, line.turn if line is not None else None
        told = told_line(wrong, ask.door, self._known(ask), caller or (line.caller if line is not None else None), turn)
        if (admitted := self.guard.trail.admit(told, ask.credentials.address)) is not None:
            with suppress(StoreUnavailable):
                await self.store.audit(admitted)

    # -- agent ------------------------------------------------------------------------------------

    def _turn(
        self, ask: Ask, agent: Agent, caller: Caller, conversation: Conversation, line: Line, id: str | None = None
    ) -> Turn:
        turn = line.turn = Turn(
            message=ask.message.without_tokens(),
            conversation=conversation,
            caller=caller,
            deadline=time.monotonic() + (self.guard.quotas.turn_seconds if ask.seconds is None else ask.seconds),
            id=counted_id() if id is None else id,
            agent=agent.card.name,
            hops=ask.hops,
            seen=(*ask.seen, agent.card.name),
            trace=ask.trace,
            door=ask.door,
            attachments=self.attachments and self.attachments.of(conversation.id, caller),
            permit=self.guard.permit(caller, ask.agent or self.default, ask.door),
            meter=self.guard.meter(caller, ask.meter),
        )
        line.asked = turn.message
        return turn

    def _run(self, agent: Agent, turn: Turn, line: Line) -> Coroutine[Any, Any, Message]:
        return self._counted(agent, turn, line) if self.guard.counts else self._answer(agent, turn, line)

    async def _counted(self, agent: Agent, turn: Turn, line: Line) -> Message:
        async with self.guard.counted(turn, control=agent is self.concierge) as account:
            reply = await self._answer(agent, turn, line)
            account.size += size_of(reply)
        return reply

    async def _answer(self, agent: Agent, turn: Turn, line: Line) -> Message:
        """Call the agent; send its pieces down the line; return what it said in the end."""
        filters = self.guard.filters
        self.overseer.enter(line)
        try:
            if filters.filters:
                turn.message = line.asked = await filters.inbound(turn.message, turn.caller)
            unread = agent.card.cannot_read(turn.message)
            if unread is not None:
                return Message("text", "english", unread)
            events = self.agreements.bind(agent, turn)
            async for event in filters.passing(events, turn.caller) if filters.filters else events:
                check(event)
                if isinstance(event, Reply):
                    return event.message.without_tokens()
                if isinstance(event, Fault):
                    raise event.error()
                await line.send(event)
        except asyncio.CancelledError:
            if not line.late or (task := asyncio.current_task()) is None or task.uncancel():
                raise
            raise line.why_ended(turn.agent) from None
        except SabirError:
            raise
        except Exception as raised:
            raise line.failed(raised) from None  # an agent's own affair: the log learns why, the caller that it did
        finally:
            self.overseer.leave(line)
        raise TurnFailed(f"{turn.agent} ended without a reply")

    # -- asking back ------------------------------------------------------------------------------

    async def _ask_back(self, question: Question, line: Line, held: Held, ask: Ask) -> Message:
        """Suspend the turn on a question: the conversation is free meanwhile, the request may end."""
        turn, quotas, filters, id = line.turn, self.guard.quotas, self.guard.filters, held.row.id
        assert turn is not None
        self.waits.check_open()
        question = await filters.question(question, turn.caller)
        turn.questions, turn.waits = turn.questions + 1, True
        await self._record(turn, ask, held, line.asked or turn.message, Message.text(question.text))
        waiting = line.waiting = await self.waits.begin(id, quotas.answer_seconds)
        held.let_go()
        line.extend(quotas.answer_seconds)
        self.keyed.asks(turn.id, question, id)
        try:
            await line.send(question)
            line.end()
            answer, bringing = await waiting.answer
        finally:
            self.keyed.goes_on(turn.id)
            line.waiting, turn.waits = None, False
            await self.waits.end(id, waiting)
        if bringing is not None:
            line.move(bringing)  # first: whatever goes wrong from now on is told to who brought the answer
        await held.take()
        line.extend(quotas.turn_seconds if ask.seconds is None else ask.seconds)
        answer = line.asked = await filters.inbound(answer, turn.caller)
        return answer

    async def close(self, seconds: float) -> bool:
        """Let running turns finish, take no new ones; end those that take longer. False if some run still."""
        self.closing = True
        self.waits.close()
        await self.overseer.see_out(seconds, lambda: not self.running)
        return not self.running

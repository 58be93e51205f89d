"""The exchange: the middle that every door calls. Read this file first.

    guard (who, how much, allowed?) → conversation (find, lock, load) → agent(turn) → events
        → filters → record (turn and audit entry, one commit) → echo of tokens → the door

A door hands in a ``TurnRequest`` and an ``EventSink``; the exchange sends events to the sink as they come and ends with
one ``Reply`` or ``Fault``. A request rejected before its agent ran raises a ``SabirError``.

A turn runs in the coroutine of its request. If its agent asks back where the protocol has no back channel, the door
answers with the question; the turn stays suspended until a later request with its token brings the answer.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from sabir.agent import Agent
from sabir.errors import Forbidden, Refused, SabirError, ShuttingDown, StoreUnavailable, Unauthenticated
from sabir.events import Reply
from sabir.guard import Guard, size_of
from sabir.guard.agreements import Agreements, kept
from sabir.guard.assent import takes_back
from sabir.guard.audit.log import failure_entry, turn_entry
from sabir.message import Message
from sabir.observe.timeline import Timelines
from sabir.observe.traces import Observer
from sabir.stores.base import Store, TurnEntry
from sabir.turn import (
    MAX_HOPS,
    NO_CONVERSATION,
    NO_JOURNAL,
    Caller,
    Journal,
    PastTurn,
    Turn,
    no_back_channel,
)

from .asking_back import ask_back
from .conversations import Conversations, Held, Tokens
from .deadlines import TurnTimer
from .idempotency import IdempotentTurns, check_same_message
from .request import EventSink, TurnRequest, turn_id
from .run import answer_of
from .siblings import ExchangeSiblings
from .suspended import SuspendedTurns
from .timed import timed
from .turns import HoldsUploads, new_turn


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
    attachments: HoldsUploads | None = None
    agreements: Agreements = field(default_factory=Agreements)
    running: int = 0
    closing: bool = False
    waits: SuspendedTurns = field(default_factory=SuspendedTurns)
    keyed: IdempotentTurns = field(default_factory=IdempotentTurns)
    timer: TurnTimer = field(default_factory=TurnTimer)
    timelines: Timelines = field(default_factory=Timelines)
    journal: Journal = NO_JOURNAL
    infer: Callable[[Message], Message] | None = None  # marks unlabelled control messages as control
    siblings: ExchangeSiblings = field(init=False)

    def __post_init__(self) -> None:
        self.siblings = ExchangeSiblings(self)

    def ask(self, ask: TurnRequest, sink: EventSink) -> Coroutine[Any, Any, None]:
        """Answer one request; its events go to the sink. Awaiting it returns a Reply or raises a ``SabirError``."""
        asking = self._ask(ask, sink)
        if ask.trace is not None:
            asking = timed(asking, sink, self.timelines, ask.door, ask.trace)
        return asking if self.observer is None else self.observer.watched(asking, ask, sink, self._known(ask))

    async def _ask(self, ask: TurnRequest, sink: EventSink) -> None:
        if self.closing:
            raise ShuttingDown
        self.running += 1
        try:
            caller = await self._admit(ask, sink)
            tokens = ask.begun or self.conversations.sort(ask.message.tokens, caller)
            if self.infer is not None and not self.waits.has(tokens.conversation):  # else it is an answer
                ask.message = self.infer(ask.message)
            agent = await self._authorise(ask, caller, tokens)
            if agent.card.remembers and ask.conversation is None and not ask.stateless:
                await self._in_conversation(ask, sink, agent, caller, tokens)
            else:
                await self._by_itself(ask, sink, agent, caller, tokens)
        except Exception as exc:
            error = exc if isinstance(exc, SabirError) else sink.unforeseen(exc)
            if ask.conversation is None:  # otherwise the asking node writes the audit entry
                await self.audit(ask, error, sink)
            if sink.moved is None:
                raise error from None
            sink.end(error)
        finally:
            sink.end()
            self.running -= 1
            if self.closing and not self.running:
                self.timer.idle.set()

    # -- guard ------------------------------------------------------------------------------------

    async def _admit(self, ask: TurnRequest, sink: EventSink) -> Caller:
        said = ask.credentials, ask.message.tokens
        caller = sink.caller = self.guard.stranger(*said) or await self.guard.admit(*said, sink)
        if ask.hops > MAX_HOPS:
            raise Refused(f"the question passed {MAX_HOPS} agents; a loop is likely")
        return caller

    async def _authorise(self, ask: TurnRequest, caller: Caller, tokens: Tokens) -> Agent:
        """The agent that answers, if this caller may use it."""
        if (concierge := self._ours(ask)) is not None:
            return await self._control(concierge, ask, caller, tokens)
        agent = self.guard.rights.find(self.agents, caller, ask.agent, ask.door, self.default)
        self.guard.rates.check_agent(ask.agent or self.default)
        return self.concierge if self.concierge is not None and ask.message.is_control else agent

    def _ours(self, ask: TurnRequest) -> Agent | None:
        return self.concierge if ask.agent is None and ask.message.is_control else None

    async def _control(self, concierge: Agent, ask: TurnRequest, caller: Caller, tokens: Tokens) -> Agent:
        """Control messages to the gateway itself: for callers with access to any agent, and a conversation's owner."""
        try:
            self.guard.rights.check_any(caller, self.agents, ask.door)
        except (Forbidden, Unauthenticated):
            if not (await self.conversations.agreed_in(tokens, caller)).id:
                raise
        self.guard.rates.check_agent(concierge.card.name)
        return concierge

    def _known(self, ask: TurnRequest) -> str:
        if (ours := self._ours(ask)) is not None:
            return ours.card.name
        name = self.default if ask.agent is None else ask.agent
        # an unknown name from the wire is content and is not logged
        return name if name in self.agents or not name else "unknown"

    # -- conversation -----------------------------------------------------------------------------

    async def _in_conversation(
        self, ask: TurnRequest, sink: EventSink, agent: Agent, caller: Caller, tokens: Tokens
    ) -> None:
        keyed_id = turn_id(ask.key_of(caller)) if ask.key is not None else None
        if self.waits and await self._answers_a_question(ask, sink, caller, tokens, keyed_id):
            return
        if ask.message.is_control and takes_back(ask.message):
            await self.timer.cancel_in(await self.conversations.find(tokens, caller) or "", caller)
        if keyed_id is None:
            await self._converse(ask, sink, agent, caller, tokens)
            return
        if (asked := await self.keyed.enter(keyed_id)) is not None:  # the same key: the turn is waiting for an answer
            self._tie(sink, asked[1], caller, tokens)
            await sink.send(asked[0])
            return
        try:
            if ask.is_first(caller) or not await self._repeated(keyed_id, ask, sink, caller, tokens):
                await self._converse(ask, sink, agent, caller, tokens, keyed_id)
        finally:
            self.keyed.leave(keyed_id)

    async def _answers_a_question(
        self, ask: TurnRequest, sink: EventSink, caller: Caller, tokens: Tokens, keyed_id: str | None
    ) -> bool:
        """Hand the message to the suspended turn of this conversation; False if no turn is waiting."""
        where = await self.conversations.find(tokens, caller)
        if where is None or not self.waits.may(where) or keyed_id in self.keyed:
            return False
        self._tie(sink, where, caller, tokens)
        return await self.waits.bring(where, ask.message.without_tokens(), sink, ask.agent)

    async def _converse(
        self,
        ask: TurnRequest,
        sink: EventSink,
        agent: Agent,
        caller: Caller,
        tokens: Tokens,
        keyed_id: str | None = None,
    ) -> None:
        """Hold the conversation, run the agent, record the turn, and send the reply."""
        sink.timeline.stage("conversation")
        try:
            async with self.conversations.hold(tokens, caller) as held:
                self._tie(sink, held.row.id, caller, tokens)
                turn = new_turn(self, ask, agent, caller, held.conversation, sink, keyed_id)
                turn.ask_back = lambda question: ask_back(self, question, sink, held, ask)
                reply = await self._run(agent, turn, sink)
                sink.timeline.stage("record")
                recorded = await self.record(turn, ask, held, sink.asked or turn.message, reply)
                if not recorded and await self._repeated(turn.id, ask, sink, caller, tokens):
                    return  # another node answered the same key first; its answer counts
            sink.tokens = (*sink.tokens, *turn.issued)
            await sink.send(Reply(sink.addressed(reply, ask.message)))
        finally:
            if sink.turn is not None:
                sink.turn.ask_back = no_back_channel  # break the reference cycle, so that both are freed at once

    async def _by_itself(self, ask: TurnRequest, sink: EventSink, agent: Agent, caller: Caller, tokens: Tokens) -> None:
        """A turn that is not recorded here: the agent is stateless, or another node holds the conversation."""
        sink.tokens = tokens.echo if tokens.own is None else (*tokens.echo, tokens.own)
        there = ask.conversation or (await self.conversations.agreed_in(tokens, caller) if tokens else NO_CONVERSATION)
        turn = new_turn(self, ask, agent, caller, there, sink)
        turn.ask_back = ask.ask_back or turn.ask_back
        reply = await self._run(agent, turn, sink)
        if ask.conversation is None:
            self.guard.notes.add(turn, ask.door, size_of(turn.message) + size_of(reply))
        await sink.send(Reply(sink.addressed(reply, ask.message)))

    def _tie(self, sink: EventSink, conversation: str, caller: Caller, tokens: Tokens) -> None:
        sink.conversation = self.conversations.token(conversation, caller, tokens)
        sink.tokens = (*tokens.echo, sink.conversation)

    async def _repeated(self, keyed_id: str, ask: TurnRequest, sink: EventSink, caller: Caller, tokens: Tokens) -> bool:
        """Send the recorded reply again if this turn already ran; the agent is not called twice."""
        if (past := await self.store.turn(keyed_id)) is None:
            return False
        await check_same_message(self.store, self.guard.filters, past, ask, caller)
        self._tie(sink, past.conversation, caller, tokens)
        await sink.send(Reply(sink.addressed(past.answered, ask.message)))
        return True

    def record(
        self, turn: Turn, ask: TurnRequest, held: Held, asked: Message, answered: Message, entry: str = ""
    ) -> Awaitable[bool]:
        """Store the turn and its audit entry in one commit; False if this turn was already recorded."""
        now = time.time()
        caller = turn.caller
        entry_id = entry or turn.id
        size = size_of(asked) + size_of(answered)
        row = self.conversations.touched(held.row, caller, now)
        audit = turn_entry(turn, ask.door, size, entry_id, row.id)
        past = PastTurn(entry_id, now, turn.agent, asked, answered, caller.name or caller.id, row.id)
        return self.store.record(TurnEntry(row, kept(past, held.conversation.agreed), audit, size))

    async def audit(
        self, ask: TurnRequest, exc: SabirError, sink: EventSink | None = None, caller: Caller | None = None
    ) -> None:
        """Write one audit entry for a rejected or failed request; a store outage must not hide the original error."""
        if exc.audited:
            return
        exc.audited = True
        entry = failure_entry(exc, ask.door, self._known(ask), caller, sink)
        if (admitted := self.guard.trail.admit(entry, ask.credentials.address)) is not None:
            with suppress(StoreUnavailable):
                await self.store.audit(admitted)

    # -- agent ------------------------------------------------------------------------------------

    async def _run(self, agent: Agent, turn: Turn, sink: EventSink) -> Message:
        """Run the agent within the caller's quotas, if any apply."""
        if not self.guard.counts:
            return await answer_of(agent, turn, sink, self)
        async with self.guard.counted(turn, control=agent is self.concierge) as account:
            reply = await answer_of(agent, turn, sink, self)
            account.size += size_of(reply)
        return reply

    async def close(self, seconds: float) -> bool:
        """Let running turns finish, accept no new ones, and cancel the slow ones. False if some are still running."""
        self.closing = True
        self.waits.close()
        await self.timer.drain(seconds, lambda: not self.running)
        return not self.running

"""``Ensemble``: several agents answer the same question, see each other's answers, vote, and the winner presents.

    Ensemble([alice, bob, carol])

Members are any Agents: language models, functions, and remote agents over any protocol. They work in parallel. Every
event is written to the journal of the turn, so that a panel that was killed resumes where it stopped, and no answer
is paid for twice.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Final

import msgspec

from sabir.agent import Agent, reply_of, why_not_anonymous
from sabir.aio import Closing, cancel_and_wait
from sabir.card import Card, required_policies
from sabir.errors import ConfigError, SabirError, TurnFailed
from sabir.events import Delta, Event, Fault, Progress, Question, Reply
from sabir.message import Message, json_part, text_part
from sabir.turn import Journal, Turn

from .meter import MemberMeter
from .options import EnsembleOptions
from .state import (
    MemberAnswered,
    MemberFailed,
    MemberInterrupted,
    MemberVoted,
    PanelEnded,
    PanelEvent,
    PanelState,
)
from .step import LABEL, Decision, NewAnswer, decide, depth_of, final_brief

logger = logging.getLogger("sabir")

OUTCOME: Final = LABEL  # label of the part with the outcome
_EVENTS: Final = msgspec.json.Decoder(PanelEvent)
CONSENSUS: Final = "all members have voted"


async def panel_events(journal: Journal, turn: str) -> list[PanelEvent]:
    """What happened in the panel of a turn, in order: who answered, voted or failed, when, and at what cost."""
    return [_EVENTS.decode(entry) for entry in await journal.entries(turn)]


class Ensemble:
    """A panel of agents as one Agent."""

    def __init__(
        self,
        members: Sequence[Agent],
        *,
        name: str = "ensemble",
        description: str = "",
        options: EnsembleOptions | None = None,
    ) -> None:
        """Raises:
        ConfigError: it has no members, or two have the same name.
        """
        names = [member.card.name for member in members]
        if not members or len(set(names)) != len(names):
            raise ConfigError("an ensemble needs members with unique names")
        words = description or f"{len(names)} agents answer, vote, and one presents the result"
        skills = tuple({skill.id: skill for member in members for skill in member.card.skills}.values())
        cards = [member.card for member in members]
        self.card = Card(name, words, skills=skills, policies=required_policies(cards), repeatable=True)
        self.members = tuple(members)
        self.options = options or EnsembleOptions()

    async def propose_anonymous(self, conversation: str) -> str | None:
        """Agree to anonymity only if every member that forwards questions does (PAPER-ANON)."""
        return await why_not_anonymous(self.members, conversation)

    async def __call__(self, turn: Turn, /) -> AsyncIterator[Event]:
        panel = _Panel(self, turn)
        yield Progress(note=f"Asking {', '.join(member.card.name for member in self.members)}")
        async with aclosing(panel.vote()) as events:
            async for event in events:
                yield event
        async with aclosing(panel.present()) as events:
            async for event in events:
                yield event


class _Panel:
    """One question before the panel."""

    def __init__(self, ensemble: Ensemble, turn: Turn) -> None:
        self._members = ensemble.members
        self._options = ensemble.options
        self._turn = turn
        self._state = PanelState(len(ensemble.members), depth_of(turn.message))
        self._asking = asyncio.Lock()  # the caller is asked one question at a time
        self._began = time.monotonic()
        self._running: dict[asyncio.Task[Decision], tuple[int, int]] = {}  # the member, and how many answers it saw
        self._used: dict[int, tuple[int, float]] = {}  # tokens and cost of the running step, by member

    # -- voting -----------------------------------------------------------------------------------

    async def vote(self) -> AsyncGenerator[Event, None]:
        """Run steps until all have voted or a limit is reached."""
        for past in await panel_events(self._turn.journal, self._turn.id):
            self._state = self._state.apply(past)
        if self._state.ended is not None:
            return
        try:
            while (limit := self._limit()) is None and not self._state.is_decided and self._state.live:
                self._start_steps()
                if not self._running:
                    limit = "every member has taken all its steps"
                    break
                for event in await self._next():
                    await self._note(event)
                    yield Progress(note=self._words(event))
                    if isinstance(event, MemberAnswered) and self._options.interrupt:
                        await self._interrupt(event.member)
        finally:
            await cancel_and_wait(self._running)
        await self._decide(limit)

    def _start_steps(self) -> None:
        busy = {member for member, _ in self._running.values()}
        for member in self._state.live:
            if member in busy or self._state.has_voted(member):
                continue
            if self._state.stepped(member) >= self._options.steps:
                continue
            task = asyncio.create_task(self._step(member, self._state), name=f"ensemble {self._state.alias(member)}")
            self._running[task] = member, len(self._state.answers)

    async def _step(self, member: int, state: PanelState) -> Decision:
        options = self._options
        choices = frozenset(state.newest())
        if not options.vote_for_self:
            choices -= {member}
        may_answer = state.given(member) < options.answers
        agent = self._members[member]
        async with asyncio.timeout(min(options.step_seconds, self._turn.remaining)):
            return await decide(
                agent,
                lambda to, message: self._asked(member, to, message),
                self._turn,
                state,
                member,
                may_answer=may_answer,
                choices=choices,
                in_words=options.coordinate_via_nlip,
            )

    async def _asked(self, member: int, agent: Agent, message: Message) -> Message:
        """Run a member on a message in a sub-turn, and count what it uses."""
        sub = self._sub(message, agent)
        sub.id = (
            f"{self._turn.id}.{self._state.alias(member)}.{self._state.stepped(member)}"  # the same again after a crash
        )
        try:
            with self._turn.timeline.span("agent", agent.card.name):
                if self._options.coordinate_via_nlip:
                    return await self._turn.siblings.dispatch(agent.card.name, sub)
                return (await reply_of(agent(sub))).without_tokens()
        finally:
            tokens, cost = self._used.get(member, (0, 0.0))
            self._used[member] = tokens + sub.meter.tokens, cost + sub.meter.cost

    def _sub(self, message: Message, agent: Agent) -> Turn:
        sub = self._turn.sub(message, agent, history=True)
        whole = sub.ask_back

        async def ask_back(question: Question) -> Message:
            async with self._asking:
                return await whole(question)

        sub.ask_back = ask_back
        sub.meter = MemberMeter(whole=self._turn.meter)
        return sub

    async def _next(self) -> list[PanelEvent]:
        """The outcomes of the steps that ended next; empty if the time is up first."""
        left = self._options.seconds - (time.monotonic() - self._began) if self._options.seconds else None
        patience = self._turn.remaining if left is None else min(left, self._turn.remaining)
        done, _ = await asyncio.wait(self._running, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
        # Members that saw least come first, so that a vote never counts for answers it has not seen.
        return [self._event(task) for task in sorted(done, key=lambda task: self._running[task])]

    def _event(self, task: asyncio.Task[Decision]) -> PanelEvent:
        member, seen = self._running.pop(task)
        at = time.time()
        tokens, cost = self._used.pop(member, (0, 0.0))
        exc = task.exception()
        if exc is not None:
            return MemberFailed(member, self._failure(member, exc), at, tokens, cost)
        decision = task.result()
        if isinstance(decision, NewAnswer):
            return MemberAnswered(member, decision.content, at, tokens, cost)
        return MemberVoted(member, decision.choice, decision.reason, seen, at, tokens, cost)

    def _failure(self, member: int, exc: BaseException) -> str:
        """Why a member dropped out. The reason of a crash is only in the log."""
        if isinstance(exc, TimeoutError):
            return "no answer in time"
        if isinstance(exc, SabirError):
            return str(exc)
        if not isinstance(exc, Exception):
            raise exc
        logger.error("Member %s of an ensemble failed", self._name(member), exc_info=exc)
        return "an internal error"

    async def _interrupt(self, author: int) -> None:
        """Cancel the steps of members that have not seen the newest answer; they start over."""
        behind = [task for task, (_, seen) in self._running.items() if seen < len(self._state.answers)]
        for task in behind:
            member, _ = self._running[task]
            if task.done():
                continue  # its outcome is handled next; a vote that saw too little does not count
            del self._running[task]
            await cancel_and_wait([task])
            tokens, cost = self._used.pop(member, (0, 0.0))
            await self._note(MemberInterrupted(member, time.time(), tokens, cost))

    async def _note(self, event: PanelEvent) -> None:
        """Journal an event before acting on it."""
        await self._turn.journal.append(self._turn.id, msgspec.json.encode(event))
        self._state = self._state.apply(event)

    def _limit(self) -> str | None:
        """Which limit has been reached."""
        options, state = self._options, self._state
        if options.seconds and time.monotonic() - self._began >= options.seconds:
            return f"the time of {options.seconds:g} s is up"
        if self._turn.remaining <= 0:
            return "the time of the turn is up"
        if options.tokens and state.tokens >= options.tokens:
            return f"the budget of {options.tokens} tokens is used up"
        if options.cost and state.cost >= options.cost:
            return f"the budget of ${options.cost:g} is used up"
        if self._turn.meter.is_used_up:
            return "the budget of the turn is used up"
        return None

    async def _decide(self, limit: str | None) -> None:
        winner = self._state.winner()
        if winner is None:
            reasons = "; ".join(f"{self._name(member)}: {reason}" for member, reason in self._state.failed)
            raise TurnFailed(f"no member has answered ({reasons or limit or 'no member is left'})")
        reason = CONSENSUS if self._state.is_decided else limit or "no member is left"
        await self._note(PanelEnded(reason, winner, time.time()))

    # -- presenting -------------------------------------------------------------------------------

    async def present(self) -> AsyncGenerator[Event, None]:
        """The final answer, streamed in the winner's words; its earlier answer if it cannot present it."""
        ended = self._state.ended
        assert ended is not None
        answer = self._state.newest()[ended.winner].content
        if not self._options.present or len(self._state.newest()) == 1:
            yield Delta(text_part(answer))
            yield Reply(self._reply(answer))
            return
        agent = self._members[ended.winner]
        sub = self._sub(final_brief(self._turn.message, self._state, ended.winner), agent)
        said: list[str] = []
        try:
            async with Closing(agent(sub)) as events:
                async for event in events:
                    if isinstance(event, Reply):
                        yield Reply(self._reply(event.message.text or answer, event.message))
                        return
                    if isinstance(event, Fault):
                        break
                    if isinstance(event, Delta):
                        said.append(event.part.content if event.part.format == "text" else "")
                        yield event
        except SabirError:
            pass  # the panel has decided; its answer is not lost because the winner failed
        except Exception:
            logger.exception("Member %s of an ensemble failed", self._name(ended.winner))
        rest = answer if not said else f"\n\n{answer}"
        yield Delta(text_part(rest))
        yield Reply(self._reply("".join(said) + rest))

    def _reply(self, text: str, message: Message | None = None) -> Message:
        files = [part for part in message.parts if part.format == "binary"] if message is not None else []
        return Message.of(text_part(text), *files, json_part(self.outcome(), label=OUTCOME))

    def outcome(self) -> Mapping[str, Any]:
        """How the panel reached its answer, as data."""
        state, ended = self._state, self._state.ended
        assert ended is not None
        return {
            "winner": self._name(ended.winner),
            "ended": ended.reason,
            "votes": {self._name(voter): self._name(choice) for voter, choice, _ in state.votes},
            "answers": {self._name(member): state.given(member) for member in range(state.members)},
            "failed": {self._name(member): reason for member, reason in state.failed},
            "tokens": state.tokens,
            "cost": state.cost,
        }

    def _name(self, member: int) -> str:
        return self._members[member].card.name

    def _words(self, event: PanelEvent) -> str:
        match event:
            case MemberAnswered():
                return f"{self._name(event.member)} has answered"
            case MemberVoted():
                return f"{self._name(event.member)} votes for {self._name(event.choice)}"
            case MemberFailed():
                return f"{self._name(event.member)} failed: {event.reason}"
            case MemberInterrupted():
                return f"{self._name(event.member)} starts over"
            case PanelEnded():
                return event.reason

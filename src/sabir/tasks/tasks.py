"""Tasks: submits, runs, follows, answers and cancels them."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter, deque
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any, Final
from uuid import uuid4

import msgspec

from ..conversations import KIND, Tokens
from ..ending import end
from ..errors import Conflict, NotFound, SabirError, ShuttingDown, StoreUnavailable, TooMany, TurnFailed
from ..events import Delta, Event, Fault, Progress, Question, Reply
from ..exchange import Exchange
from ..line import Ask, Line, turn_id
from ..message import Message, token_kind
from ..stores.base import SeesNodes, Store, TaskEvent, TaskRow
from ..stores.clock import CautiousClock
from ..stores.rows import LOST_TASK, WRONG
from ..stores.sqlite import SQLiteStore
from ..turn import Caller, Conversation
from . import handover
from .ledger import Ledger, until
from .run import Run
from .signs import Sign
from .states import LIVE, TaskSettings, ask_of, id_of, read, rests, turn_of, unnamed, without_secrets

logger = logging.getLogger("sabir")

_pack: Final = msgspec.msgpack.encode
_PAGE: Final = 1000  # events read at once
_LOOK_FOR_EXPIRED: Final = 30.0  # seconds between two looks
_REFUSALS: Final = 100  # times that a rate or cap may send an accepted task away before it fails
_WITHIN: Final = "within"  # the conversation's id, in a task's detail; its token is in ``conversation``
_MOST_PAGES: Final = 1000  # of a caller's tasks that are looked through
_LONGEST_DELAY: Final = 60.0  # seconds; a quota that is full for longer fails it


async def _unheard(event: Event) -> None:
    return None


class Tasks:
    """Submits, runs, follows and cancels tasks."""

    def __init__(
        self, exchange: Exchange, store: Store, *, node: str = "", settings: TaskSettings | None = None
    ) -> None:
        self.exchange = exchange
        self.store = store
        self.node = node or uuid4().hex
        self.settings = settings or TaskSettings()
        self._runs: dict[str, Run] = {}
        self._now = CautiousClock()
        self._ledger = Ledger(store, self.settings.retention, self._was_put)
        self._wake = asyncio.Event()
        self._taking = asyncio.Lock()
        self._holding = asyncio.Lock()  # leases are renewed or let go of, not both at once
        self._sign = Sign(None, self.node)
        self._closing = self._opened = False
        self._worker: asyncio.Task[None] | None = None
        exchange.overseer.take_tasks_back = self.take_back

    async def open(self) -> None:
        """Let others see that this node lives, and free what it held when it died, before it holds anything new."""
        self._closing, self._opened = False, True
        # One machine has a SQLite store, so that a look there says who is alive.
        folder = self.store.path.parent / "nodes" if isinstance(self.store, SQLiteStore) else None
        self._sign = Sign(folder, self.node)
        self._sign.show()
        gone, alone = self._sign.gone(), not self._sign.taken
        if isinstance(self.store, SeesNodes) and (alone := await self.store.show_node(self.node)):
            gone |= {self.node}  # nobody of this name lives: what is held under it was left by one that died
        if not alone:
            handover.namesake(self.node)
        await self._let_go(gone)

    async def start(self) -> None:
        """Begin to take up tasks that nobody holds."""
        if not self._opened:
            await self.open()
        self._worker = asyncio.create_task(self._work(), name="tasks")
        self._worker.add_done_callback(self._worker_gone)

    async def close(self) -> None:
        """Stop what runs here; another node, or this one after its restart, takes it up."""
        self._closing, self._opened = True, False
        if self._worker is not None:
            # What was asked of the store is let finish: cut off, it could still be done, after we have let go.
            async with self._taking, self._holding:
                self._worker.cancel()
        left = tuple(self._runs)
        await end([self._worker, *(run.coroutine for run in self._runs.values())])
        if left:
            with suppress(StoreUnavailable):
                await self.store.renew_tasks(self.node, left, 0.0)
        self._sign.take_away()

    async def _let_go(self, gone: frozenset[str]) -> None:
        """Free what nodes held that died, so that nobody waits until their leases run out."""
        before, left = None, Counter[str]()
        for _ in range(_MOST_PAGES if gone else 0):
            page = await self.store.tasks(states=LIVE, limit=_PAGE, before=before)
            if not page:
                break
            before = page[-1].updated
            for task in page:
                if task.node in gone:
                    left[task.node] += task.lease > time.time()  # else it had let go of it
                    await self.store.renew_tasks(task.node, (task.id,), 0.0)
        handover.dead(left)
        self._sign.forget(gone)

    # -- for doors --------------------------------------------------------------------------------

    @property
    def running(self) -> int:
        """How many tasks this node works on now."""
        return len(self._runs)

    async def submit(self, ask: Ask, *, detail: dict[str, Any] | None = None, id: str | None = None) -> TaskRow:
        """Accept a turn to be answered later. It is stored when this returns.

        The same ``ask.key`` of the same caller again is the same task.

        Raises:
            SabirError: the guard refuses the caller.
            PolicyRequired: a policy must be accepted first; nothing of the message is stored then.
            NotFound: there is no such agent.
            TooMany: the caller has too many tasks that have not ended.
            Conflict: the id is another task's.
        """
        if self.exchange.closing or self._closing:
            raise ShuttingDown("the gateway is stopping; try again in a moment", retry_after=5.0)
        agent, line = ask.agent or self.exchange.default, Line(_unheard)
        try:
            caller = await self.exchange.guard.admit(ask.credentials, ask.message.tokens, line)
            self.exchange.guard.rights.find(self.exchange.agents, caller, ask.agent, ask.door, self.exchange.default)
            there = await self._admitted(ask, caller, agent)
        except SabirError as wrong:
            await self.exchange.audit(ask, wrong, line)
            raise
        id = id or id_of(ask, caller)
        again = await self.store.task(id)
        if again is None:
            await self._check_room(caller)
            caller = unnamed(caller, there)
            message = self._kept(without_secrets(ask.message), caller, agent)
            within = self.exchange.conversations.sort(message.tokens, caller).conversation or there.id
            task = self._new(ask, caller, agent, {**(detail or {}), _WITHIN: within}, id, there)
            task = msgspec.structs.replace(task, message=message)
            room = len(self._runs) < self.settings.running
            if await self.store.put_task(task, expect=0, lease=self.settings.lease if room else None):
                if room:
                    self._start(msgspec.structs.replace(task, version=1), caller)
                return task
            again = await self.store.task(id)  # another request was first
        if again is None or ask.key is None or again.owner != caller.id:
            raise Conflict("there is a task of this id already")
        return again

    async def adopt(
        self, ask: Ask, line: Line, turn: asyncio.Task[None], *, id: str, detail: dict[str, Any], last: Progress
    ) -> TaskRow:
        """Make a task of an admitted turn that is under way: what it says from now on is the task's, not its door's.

        ``ask.key`` shall be ``key_of(id)``, so that who takes the task up finds the turn. Stored when this returns.

        Raises:
            TooMany: the caller has too many tasks that have not ended; the turn is cancelled then.
        """
        caller = line.caller
        assert caller is not None
        stored: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        run = Run(id, caller, line, 1, deque(), deque())

        async def note(event: Event) -> None:
            await stored
            await self._note(run, event)

        line.send = note
        try:
            await self._check_room(caller)
            there = line.turn.conversation if line.turn is not None else Conversation("")
            caller, detail = unnamed(caller, there), {**detail, _WITHIN: there.id}
            task = self._new(ask, caller, ask.agent or self.exchange.default, detail, id, there)
            task = msgspec.structs.replace(task, state="working", progress=last.fraction, note=last.note)
            await self.store.put_task(task, expect=0, lease=self.settings.lease)
        except SabirError:
            turn.cancel()
            raise
        line.extend(self.settings.turn_seconds)
        self._runs[id] = run
        run.coroutine = asyncio.create_task(self._run(run, ask, turn), name=f"task {id[:8]}")
        run.coroutine.add_done_callback(lambda done: self._gone(run, done))
        stored.set_result(None)
        return task

    async def _admitted(self, ask: Ask, caller: Caller, agent: str) -> Conversation:
        """The conversation that the Ask belongs to, if data may flow in it."""
        exchange = self.exchange
        there = await exchange.conversations.agreed_in(exchange.conversations.sort(ask.message.tokens, caller), caller)
        if not ask.message.is_control:
            exchange.agreements.admit(exchange.agents[agent].card, there.agreed, caller)
        return there

    async def _check_room(self, caller: Caller) -> None:
        if await self.store.count_tasks(caller.id) >= self.settings.per_owner:
            raise TooMany(f"at most {self.settings.per_owner} tasks at a time", retry_after=60.0)

    def _new(
        self, ask: Ask, caller: Caller, agent: str, detail: dict[str, Any], id: str, there: Conversation
    ) -> TaskRow:
        now = time.time()
        again = {"caller": msgspec.to_builtins(caller), "hops": ask.hops, "seen": list(ask.seen)}
        again["trace"] = None if there.agreed.get("anonymous") else ask.trace
        return TaskRow(
            id=id,
            owner=caller.id,
            agent=agent,
            state="submitted",
            created=now,
            updated=now,
            expires=now + self.settings.retention,
            message=without_secrets(ask.message),
            door=ask.door,
            node=self.node,
            detail={**detail, **again},
        )

    def _kept(self, message: Message, caller: Caller, agent: str) -> Message:
        """What is asked, in a conversation that a second run finds too."""
        named = any(token_kind(part.subformat) == KIND for part in message.tokens)
        if named or not self.exchange.agents[agent].card.remembers:
            return message
        return message.with_part(self.exchange.conversations.token(uuid4().hex, caller, Tokens(message.tokens)))

    async def find(self, id: str, caller: Caller) -> TaskRow:
        """The caller's task.

        Raises:
            NotFound: there is none of this id, or it is not the caller's (the answer is the same).
        """
        task = await self.store.task(id)
        if task is None or task.owner != caller.id:
            raise NotFound("there is no such task")
        if task.unreadable:
            await self._ledger.set_aside(task)
        return task

    async def wait(self, id: str, caller: Caller, seconds: float) -> TaskRow:
        """The task once it has ended or waits for input, or as it is when the time is over."""
        end = time.monotonic() + seconds
        with self._ledger.watch(id) as changed:
            while True:
                changed.clear()
                task = await self.find(id, caller)
                left = end - time.monotonic()
                if rests(task) or left <= 0:
                    return task
                await until(changed, min(left, self.settings.look))

    async def follow(self, id: str, caller: Caller, since: int = 0) -> AsyncIterator[TaskEvent]:
        """Events above ``since`` as they come, until the task has ended or waits for input."""
        with self._ledger.watch(id) as changed:
            while True:
                changed.clear()
                task = await self.find(id, caller)
                page = await self.store.task_events(id, since, _PAGE)
                for event in page:
                    since = event.number
                    yield read(event)
                if len(page) == _PAGE:
                    continue
                if rests(task):
                    return
                await until(changed, self.settings.look)

    async def cancel(self, id: str, caller: Caller) -> TaskRow:
        """End a task; its agent is told, on whichever node it runs.

        Raises:
            NotFound: there is none of this id, or it is not the caller's.
            Conflict: it has ended already.
        """
        task = await self.find(id, caller)
        ended = await self._ledger.move(id, "cancelled", fault="cancelled by its owner", fault_code="cancelled")
        if ended is None:
            state = (await self.find(id, caller)).state
            raise Conflict(f"the task has ended already ({state})")
        run = self._runs.get(id)
        if run is not None:
            run.stop()
        await self._ledger.audit(task, "cancelled", caller.id)
        return ended

    async def take_back(self, conversation: str, caller: Caller) -> int:
        """Cancel the caller's tasks in a conversation, on whichever node they are; says how many there were."""
        taken = 0
        async for task in self._within(conversation, caller, LIVE):
            with suppress(Conflict, NotFound):  # it has ended meanwhile
                await self.cancel(task.id, caller)
                taken += 1
        return taken

    async def erase(self, conversation: str, caller: Caller) -> int:
        """Remove the caller's tasks of a conversation, what was asked and answered in them too; says how many."""
        await self.take_back(conversation, caller)
        now, erased = time.time(), 0
        async for task in self._within(conversation, caller, ()):
            over = msgspec.structs.replace(task, message=Message.text(""), reply=None, expires=now)
            erased += await self.store.put_task(over, expect=task.version)
        if erased:
            await self.store.sweep(now)
        return erased

    async def _within(self, conversation: str, caller: Caller, states: tuple[str, ...]) -> AsyncIterator[TaskRow]:
        """The caller's tasks in a conversation, those of control messages left out."""
        before = None
        for _ in range(_MOST_PAGES):
            page = await self.store.tasks(owner=caller.id, states=states, before=before)
            if not page:
                return
            before = page[-1].updated
            for task in page:
                if task.detail.get(_WITHIN) == conversation and not task.message.is_control:
                    yield task

    async def answer(self, id: str, caller: Caller, message: Message) -> TaskRow:
        """Answer the question that a task waits on. The answer is stored when this returns.

        Raises:
            NotFound: there is none of this id, or it is not the caller's.
            Conflict: it does not wait for input, or what waited is gone with its node and cannot be repeated.
        """
        said = message.without_tokens()
        task = await self.find(id, caller)
        if task.state != "input-required":
            raise Conflict(f"the task does not wait for input ({task.state})")
        answers = (*task.answers, said)
        changed = await self._ledger.put(task, "working", question=None, answers=answers)
        if changed is None:
            raise Conflict("the task was answered by somebody else at the same time")
        await self._ledger.add_event(id, "answer", {"message": msgspec.to_builtins(said, builtin_types=(bytes,))})
        run = self._runs.get(id)
        if run is not None:
            run.give(answers)
            return changed
        with suppress(StoreUnavailable):
            await self._take_up()  # if its node has died, somebody must
            now = await self.store.task(id)
            if now is not None and now.state == "failed" and now.attempts > task.attempts:
                raise Conflict(now.fault or "the task has failed")
        return changed

    # -- the worker -------------------------------------------------------------------------------

    async def _work(self, after: float = 0.0) -> None:
        looked = 0.0
        await asyncio.sleep(after)
        while True:
            self._wake.clear()
            try:
                await self._renew()
                if isinstance(self.store, SeesNodes):
                    handover.dead(await self.store.free_tasks(self.node, self.settings.lease, self.settings.silent))
                await self._take_up()
                if time.monotonic() - looked > _LOOK_FOR_EXPIRED:
                    looked = time.monotonic()
                    await self._expire()
            except StoreUnavailable as away:
                if not away.detail:  # else the store has told the log
                    logger.warning("tasks wait for the store: %s", away)
            await until(self._wake, self.settings.look)

    def _worker_gone(self, worker: asyncio.Task[None]) -> None:
        """Whatever the worker stumbled over, leases must be renewed, or others would run the same work again."""
        if self._closing or worker.cancelled():
            return
        logger.error("the worker of tasks broke, and is started again", exc_info=worker.exception())
        self._worker = asyncio.create_task(self._work(self.settings.look), name="tasks")
        self._worker.add_done_callback(self._worker_gone)

    async def _renew(self) -> None:
        """Keep what runs here, and notice what other nodes did to it: cancelled, answered, taken over."""
        async with self._holding:
            runs = dict(self._runs)
            if not runs:
                return
            held = await self.store.renew_tasks(self.node, tuple(runs), self.settings.lease)
        for id, run in runs.items():
            if run.ended:
                continue
            if id not in held:
                run.stop()
            elif held[id] != run.version:
                await self._catch_up(run)

    async def _catch_up(self, run: Run) -> None:
        task = await self.store.task(run.id)
        if task is None:
            return run.stop()
        run.version = task.version
        run.give(task.answers)

    async def _take_up(self) -> None:
        async with self._taking:
            with handover.taken_up() as again:
                await self._take_up_free(again)

    async def _take_up_free(self, again: list[str]) -> None:
        while len(self._runs) < self.settings.running and not (self._closing or self.exchange.closing):
            task = await self.store.claim_task(self.node, self.settings.lease, tuple(self.exchange.agents))
            if task is None:
                return
            if (mine := self._runs.get(task.id)) is not None:  # its lease ran out while this process stood still
                mine.version = task.version
                continue
            if task.unreadable:
                await self._ledger.set_aside(task)
                continue
            try:
                caller = msgspec.convert(task.detail.get("caller", {}), Caller)
                reason = await self._hopeless(task, caller)
                if reason is None:
                    await self._start_again(task, caller)
                    if task.attempts > 1:
                        again.append(task.id)
            except WRONG as wrong:
                logger.error("task %s cannot be taken up and has failed: %s", task.id, wrong)
                reason = LOST_TASK
            if reason is not None:
                await self._fail(task, reason)

    async def _hopeless(self, task: TaskRow, caller: Caller) -> str | None:
        """Why a task cannot be run again; None if it can."""
        agent = self.exchange.agents.get(task.agent)
        if task.attempts > self.settings.attempts:
            return f"{task.agent} was started {task.attempts - 1} times and never finished"
        harmless = task.state == "submitted" or agent is None or agent.card.repeatable
        if not harmless and await self.store.turn(turn_of(task, caller)) is None:
            return (
                f"{task.agent} was at work when its node stopped, and it is not repeatable, so it was not started again"
            )
        return None

    async def _start_again(self, task: TaskRow, caller: Caller) -> None:
        events = await self.store.task_events(task.id, 0, self.settings.events) if task.state != "submitted" else []
        told = deque((e.kind, _pack(e.body)) for e in events if e.kind in ("delta", "progress", "question"))
        self._start(task, caller, told)

    async def _expire(self) -> None:
        for task in await self.store.tasks(states=LIVE, expired=self._now()):
            if task.unreadable:
                await self._ledger.set_aside(task)
            elif task.id not in self._runs:
                reason = (
                    "it was not finished in time" if task.question is None else "its question was not answered in time"
                )
                if await self._ledger.move(task.id, "expired", fault=reason, fault_code="deadline"):
                    await self._ledger.audit(task, "expired", task.owner)

    async def _fail(self, task: TaskRow, reason: str) -> None:
        await self._ledger.add_event(task.id, "fault", {"reason": reason, "code": "failed"})
        await self._ledger.move(task.id, "failed", by=self.node, fault=reason, fault_code="failed")
        await self._ledger.audit(task, "failed", task.owner)

    # -- one run ----------------------------------------------------------------------------------

    def _start(self, task: TaskRow, caller: Caller, told: deque[tuple[str, bytes]] | None = None) -> None:
        run = Run(
            task.id,
            caller,
            Line(lambda event: self._note(run, event)),
            task.version,
            deque(task.answers),
            told if told is not None else deque(),
            known=len(task.answers),
        )
        ask = ask_of(task, caller, self.settings.turn_seconds)
        self._runs[task.id] = run
        run.coroutine = asyncio.create_task(self._run(run, ask), name=f"task {task.id[:8]}")
        run.coroutine.add_done_callback(lambda done: self._gone(run, done))

    def _was_put(self, id: str, version: int) -> None:
        run = self._runs.get(id)
        if run is not None:
            run.version = version

    def _gone(self, run: Run, done: asyncio.Task[None]) -> None:
        if not done.cancelled() and done.exception() is not None:
            logger.error("task %s broke", run.id[:8], exc_info=done.exception())
        if self._runs.get(run.id) is run:
            del self._runs[run.id]
        self._ledger.tell(run.id)
        self._wake.set()  # there is room for another one

    async def _run(self, run: Run, ask: Ask, turn: asyncio.Task[None] | None = None) -> None:
        try:
            if turn is not None or await self._ledger.move(run.id, "working", by=self.node) is not None:
                await self._ask(run, ask, turn)
        except StoreUnavailable as away:
            logger.warning("task %s is left until the store answers: %s", run.id[:8], away)
        except SabirError as wrong:
            with suppress(StoreUnavailable):  # then its lease runs out
                if self._closing or self.exchange.closing:
                    # What waited was told to stop; it goes on elsewhere, or here after the restart.
                    async with self._holding:
                        await self.store.renew_tasks(self.node, (run.id,), 0.0)
                        self._runs.pop(run.id, None)
                else:
                    await self._ended_badly(run, Fault.of(wrong))

    async def _ask(self, run: Run, ask: Ask, turn: asyncio.Task[None] | None) -> None:
        for left in reversed(range(_REFUSALS)):
            try:
                await (self.exchange.ask(ask, run.line) if turn is None else turn)
                break
            except TooMany as busy:  # it was accepted; a rate or a cap only delays it
                if turn is not None or run.events or not left or busy.retry_after > _LONGEST_DELAY:
                    raise
                await asyncio.sleep(busy.retry_after)
        if run.ended:
            return
        # Its question was answered in the conversation and not through the task, so the reply went there.
        past = await self.store.turn(turn_id(ask.key_of(run.caller)))
        if past is None:
            raise TurnFailed(f"{ask.agent} ended without a reply")
        await self._completed(run, past.answered)

    async def _note(self, run: Run, event: Event) -> None:
        """One event of a task's turn, as it is stored."""
        match event:
            case Delta(part):
                await self._event(run, "delta", {"part": msgspec.to_builtins(part, builtin_types=(bytes,))})
            case Progress(fraction, note):
                await self._event(run, "progress", {"fraction": fraction, "note": note})
                await self._ledger.move(run.id, "working", by=self.node, progress=fraction, note=note)
            case Question():
                await self._asked(run, event)
            case Reply(message):
                await self._completed(run, message)
            case Fault():
                await self._ended_badly(run, event)

    async def _asked(self, run: Run, question: Question) -> None:
        asked = msgspec.to_builtins(question)
        await self._event(run, "question", asked)
        if run.answers:  # the agent was called again, and asks what it has been told before
            run.line.answer(run.answers.popleft())
            return
        run.line.extend(self.settings.answer_seconds)
        await self._ledger.move(run.id, "input-required", by=self.node, question=asked)

    async def _completed(self, run: Run, message: Message) -> None:
        token = next((part.content for part in reversed(message.tokens)), "")
        await self._event(run, "reply", {})
        run.ended = True
        await self._ledger.move(
            run.id,
            "completed",
            by=self.node,
            reply=without_secrets(message),
            progress=1.0,
            question=None,
            conversation=token if isinstance(token, str) else "",
        )

    async def _ended_badly(self, run: Run, fault: Fault) -> None:
        state = "cancelled" if fault.code == "cancelled" else "failed"
        await self._event(run, "fault", {"reason": fault.reason, "code": fault.code})
        run.ended = True
        await self._ledger.move(run.id, state, by=self.node, fault=fault.reason, fault_code=fault.code)

    # -- what is stored -----------------------------------------------------------------------------

    async def _event(self, run: Run, kind: str, body: dict[str, Any]) -> None:
        if run.told:
            if run.told[0] == (kind, _pack(body)):
                run.told.popleft()  # an earlier attempt has stored the same
                return
            run.told.clear()
        run.events += 1
        if run.events <= self.settings.events or kind not in ("delta", "progress"):
            await self._ledger.add_event(run.id, kind, body)

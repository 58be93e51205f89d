"""The worker's side of tasks: holds leases, runs turns, stores their events, and claims what other nodes left
behind."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Final

import msgspec

from sabir.aio import cancel_and_wait, until
from sabir.errors import RateLimited, SabirError, StoreUnavailable, TurnFailed
from sabir.events import Delta, Event, Fault, Progress, Question, Reply
from sabir.exchange.exchange import Exchange
from sabir.exchange.request import EventSink, TurnRequest, turn_id
from sabir.message import Message
from sabir.packing import pack
from sabir.stores.base import SeesNodes, Store, TaskRow
from sabir.stores.clock import CautiousClock
from sabir.stores.rows import LOST_TASK, WRONG
from sabir.stores.sqlite.store import SQLiteStore
from sabir.turn import Caller

from .liveness import Sign
from .records import BEGAN, Ledger
from .run import Run
from .states import LIVE, TaskSettings, ask_of, turn_of, without_secrets

logger = logging.getLogger("sabir")

MAX_PAGES: Final = 1000  # of tasks that are read
_PAGE: Final = 1000  # tasks read at once
_LOOK_FOR_EXPIRED: Final = 30.0  # seconds between two checks
_REFUSALS: Final = 100  # how often a rate or cap may delay an accepted task before it fails
_LONGEST_DELAY: Final = 60.0  # seconds; a quota that is exhausted for longer fails it
_NAMED: Final = 5  # tasks that the log names; beyond that only a count


class TaskWorker:
    """The tasks that this node runs."""

    def __init__(self, exchange: Exchange, store: Store, node: str, settings: TaskSettings) -> None:
        self.exchange = exchange
        self.store = store
        self.node = node
        self.settings = settings
        self.runs: dict[str, Run] = {}
        self.ledger = Ledger(store, settings.retention, self._was_put)
        self._now = CautiousClock()
        self._wake = asyncio.Event()
        self._taking = asyncio.Lock()
        self._holding = asyncio.Lock()  # leases are renewed or released, not both at once
        self._sign = Sign(None, self.node)
        self._closing = self._opened = False
        self._loop: asyncio.Task[None] | None = None

    @property
    def is_closing(self) -> bool:
        return self._closing or self.exchange.closing

    @property
    def has_room(self) -> bool:
        """Whether one more task may run here now."""
        return len(self.runs) < self.settings.running

    async def open(self) -> None:
        """Show that this node is alive, and release what it held when it died, before it claims anything new."""
        self._closing, self._opened = False, True
        # A SQLite store belongs to one machine, so its lock files show which nodes are alive.
        folder = self.store.path.parent / "nodes" if isinstance(self.store, SQLiteStore) else None
        self._sign = Sign(folder, self.node)
        self._sign.show()
        gone, alone = self._sign.gone(), not self._sign.taken
        if isinstance(self.store, SeesNodes) and (alone := await self.store.show_node(self.node)):
            gone |= {self.node}  # no live node has this name: its tasks were left by one that died
        if not alone:
            logger.warning("Another process also runs as node %s; give each its own name (node: …)", self.node)
        await self._let_go(gone)

    async def start(self) -> None:
        """Start claiming tasks that no node holds."""
        if not self._opened:
            await self.open()
        self._loop = asyncio.create_task(self._work(), name="tasks")
        self._loop.add_done_callback(self._worker_gone)

    async def close(self) -> None:
        """Stop what runs here; another node, or this one after its restart, continues it."""
        self._closing, self._opened = True, False
        if self._loop is not None:
            # Let pending store calls finish: cut off, they could still be applied after we have released the tasks.
            async with self._taking, self._holding:
                self._loop.cancel()
        left = tuple(self.runs)
        await cancel_and_wait([self._loop, *(run.coroutine for run in self.runs.values())])
        if left:
            with suppress(StoreUnavailable):
                await self.store.renew_tasks(self.node, left, 0.0)
        self._sign.take_away()

    async def _let_go(self, gone: frozenset[str]) -> None:
        """Release the tasks of dead nodes, so that no caller waits for their leases to expire."""
        before, left = None, Counter[str]()
        for _ in range(MAX_PAGES if gone else 0):
            page = await self.store.tasks(states=LIVE, limit=_PAGE, before=before)
            if not page:
                break
            before = page[-1].updated
            for task in page:
                if task.node in gone:
                    left[task.node] += task.lease > time.time()  # otherwise it had released it
                    await self.store.renew_tasks(task.node, (task.id,), 0.0)
        _log_dead(left)
        self._sign.forget(gone)

    # -- leases -----------------------------------------------------------------------------------

    async def _work(self, after: float = 0.0) -> None:
        looked = 0.0
        await asyncio.sleep(after)
        while True:
            self._wake.clear()
            try:
                await self._renew()
                if isinstance(self.store, SeesNodes):
                    _log_dead(await self.store.free_tasks(self.node, self.settings.lease, self.settings.silent))
                await self.take_up_free()
                if time.monotonic() - looked > _LOOK_FOR_EXPIRED:
                    looked = time.monotonic()
                    await self._expire()
            except StoreUnavailable as exc:
                if not exc.detail:  # otherwise the store has logged it
                    logger.warning("Tasks are waiting for the store: %s", exc)
            await until(self._wake, self.settings.look)

    def _worker_gone(self, worker: asyncio.Task[None]) -> None:
        """Keep the worker running after any error: leases must be renewed, or others would repeat the work."""
        if self._closing or worker.cancelled():
            return
        logger.error("The task worker failed and was restarted", exc_info=worker.exception())
        self._loop = asyncio.create_task(self._work(self.settings.look), name="tasks")
        self._loop.add_done_callback(self._worker_gone)

    async def _renew(self) -> None:
        """Renew what runs here, and notice what other nodes did to it: cancelled, answered, claimed."""
        async with self._holding:
            runs = dict(self.runs)
            if not runs:
                return
            held = await self.store.renew_tasks(self.node, tuple(runs), self.settings.lease)
        for task_id, run in runs.items():
            if run.ended:
                continue
            if task_id not in held:
                run.stop()
            elif held[task_id] != run.version:
                await self._catch_up(run)

    async def _catch_up(self, run: Run) -> None:
        task = await self.store.task(run.id)
        if task is None:
            return run.stop()
        run.version = task.version
        run.give(task.answers)

    async def take_up_free(self) -> None:
        """Run tasks that no node holds, as many as there is room for."""
        async with self._taking:
            with _log_taken_up() as again:
                await self._claim_free(again)

    async def _claim_free(self, again: list[str]) -> None:
        while self.has_room and not self.is_closing:
            task = await self.store.claim_task(self.node, self.settings.lease, tuple(self.exchange.agents))
            if task is None:
                return
            if (mine := self.runs.get(task.id)) is not None:  # its lease expired while this process was stopped
                mine.version = task.version
                continue
            if task.unreadable:
                await self.ledger.set_aside(task)
                continue
            try:
                caller = msgspec.convert(task.detail.get("caller", {}), Caller)
                reason = await self._hopeless(task, caller)
                if reason is None:
                    await self._start_again(task, caller)
                    if task.attempts > 1:
                        again.append(task.id)
            except WRONG as exc:
                logger.error("Task %s cannot be resumed and has failed: %s", task.id, exc)
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
            return f"{task.agent} was running when its node stopped; it is not repeatable, so it was not restarted"
        return None

    async def _start_again(self, task: TaskRow, caller: Caller) -> None:
        events = await self.store.task_events(task.id, 0, self.settings.events) if task.state != "submitted" else []
        stored = deque((e.kind, pack(e.body)) for e in events if e.kind in ("delta", "progress", "question"))
        if task.attempts > 1 and task.state == "working":
            # It starts again: the remaining time is estimated from now, without the time when no node worked on it.
            detail = {**task.detail, BEGAN: self._now()}
            task = await self.ledger.move(task.id, "working", by=self.node, progress=None, detail=detail) or task
        self.begin(task, caller, stored)

    async def _expire(self) -> None:
        for task in await self.store.tasks(states=LIVE, expired=self._now()):
            if task.unreadable:
                await self.ledger.set_aside(task)
            elif task.id not in self.runs:
                reason = (
                    "it was not finished in time" if task.question is None else "its question was not answered in time"
                )
                if await self.ledger.move(task.id, "expired", fault=reason, fault_code="deadline"):
                    await self.ledger.audit(task, "expired", task.owner)

    async def _fail(self, task: TaskRow, reason: str) -> None:
        await self.ledger.add_event(task.id, "fault", {"reason": reason, "code": "failed"})
        await self.ledger.move(task.id, "failed", by=self.node, fault=reason, fault_code="failed")
        await self.ledger.audit(task, "failed", task.owner)

    # -- one run ----------------------------------------------------------------------------------

    def begin(self, task: TaskRow, caller: Caller, stored: deque[tuple[str, bytes]] | None = None) -> None:
        """Run a stored task that this node holds."""
        run = Run(
            task.id,
            caller,
            EventSink(lambda event: self.note(run, event)),
            task.version,
            deque(task.answers),
            stored if stored is not None else deque(),
            known=len(task.answers),
        )
        ask = ask_of(task, caller, self.settings.turn_seconds)
        self.keep(run, ask)

    def keep(self, run: Run, ask: TurnRequest, turn: asyncio.Task[None] | None = None) -> None:
        """Run a task here, or follow its turn if that is already running."""
        self.runs[run.id] = run
        run.coroutine = asyncio.create_task(self._run(run, ask, turn), name=f"task {run.id[:8]}")
        run.coroutine.add_done_callback(lambda done: self._gone(run, done))

    def _was_put(self, task_id: str, version: int) -> None:
        run = self.runs.get(task_id)
        if run is not None:
            run.version = version

    def _gone(self, run: Run, done: asyncio.Task[None]) -> None:
        if not done.cancelled() and done.exception() is not None:
            logger.error("task %s broke", run.id[:8], exc_info=done.exception())
        if self.runs.get(run.id) is run:
            del self.runs[run.id]
        self.ledger.notify(run.id)
        self._wake.set()  # there is room for another one

    async def _run(self, run: Run, ask: TurnRequest, turn: asyncio.Task[None] | None = None) -> None:
        try:
            if turn is not None or await self.ledger.move(run.id, "working", by=self.node) is not None:
                await self._ask(run, ask, turn)
        except StoreUnavailable as exc:
            logger.warning("Task %s is paused until the store answers: %s", run.id[:8], exc)
        except SabirError as exc:
            with suppress(StoreUnavailable):  # then its lease expires
                if self.is_closing:
                    # A waiting turn was stopped; it continues elsewhere, or here after the restart.
                    async with self._holding:
                        await self.store.renew_tasks(self.node, (run.id,), 0.0)
                        self.runs.pop(run.id, None)
                else:
                    await self._ended_badly(run, Fault.of(exc))

    async def _ask(self, run: Run, ask: TurnRequest, turn: asyncio.Task[None] | None) -> None:
        for left in reversed(range(_REFUSALS)):
            try:
                await (self.exchange.ask(ask, run.line) if turn is None else turn)
                break
            except RateLimited as busy:  # it was accepted; a rate or cap only delays it
                if turn is not None or run.events or not left or busy.retry_after > _LONGEST_DELAY:
                    raise
                await asyncio.sleep(busy.retry_after)
        if run.ended:
            return
        # Its question was answered in the conversation, not through the task, so the reply went there.
        past = await self.store.turn(turn_id(ask.key_of(run.caller)))
        if past is None:
            raise TurnFailed(f"{ask.agent} ended without a reply")
        await self._completed(run, past.answered)

    async def note(self, run: Run, event: Event) -> None:
        """One event of a task's turn, as stored."""
        match event:
            case Delta(part):
                await self._event(run, "delta", {"part": msgspec.to_builtins(part, builtin_types=(bytes,))})
            case Progress(fraction, note):
                await self._event(run, "progress", {"fraction": fraction, "note": note})
                await self.ledger.move(run.id, "working", by=self.node, progress=fraction, note=note)
            case Question():
                await self._asked(run, event)
            case Reply(message):
                await self._completed(run, message)
            case Fault():
                await self._ended_badly(run, event)

    async def _asked(self, run: Run, question: Question) -> None:
        asked = msgspec.to_builtins(question)
        await self._event(run, "question", asked)
        if run.answers:  # the agent was called again, and repeats an earlier question
            run.line.answer(run.answers.popleft())
            return
        run.line.extend(self.settings.answer_seconds)
        await self.ledger.move(run.id, "input-required", by=self.node, question=asked)

    async def _completed(self, run: Run, message: Message) -> None:
        token = next((part.content for part in reversed(message.tokens)), "")
        await self._event(run, "reply", {})
        run.ended = True
        await self.ledger.move(
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
        await self.ledger.move(run.id, state, by=self.node, fault=fault.reason, fault_code=fault.code)

    # -- what is stored -----------------------------------------------------------------------------

    async def _event(self, run: Run, kind: str, body: dict[str, Any]) -> None:
        if run.repeated:
            if run.repeated[0] == (kind, pack(body)):
                run.repeated.popleft()  # an earlier attempt has stored the same
                return
            run.repeated.clear()
        run.events += 1
        if run.events <= self.settings.events or kind not in ("delta", "progress"):
            await self.ledger.add_event(run.id, kind, body)


def _log_dead(left: Mapping[str, int]) -> None:
    for node, count in ((node, count) for node, count in left.items() if count):
        logger.warning("Node %s has died; releasing %s that it held", node, _several(count))


@contextmanager
def _log_taken_up() -> Iterator[list[str]]:
    """Collects the ids of tasks that resume here, and logs them."""
    ids: list[str] = []
    try:
        yield ids
    finally:
        if ids:
            named = ", ".join(task_id[:8] for task_id in ids[:_NAMED]) + (", …" if len(ids) > _NAMED else "")
            logger.info("%s from another node, or from before a restart, resumed here: %s", _several(len(ids)), named)


def _several(count: int) -> str:
    return f"{count} task{'' if count == 1 else 's'}"

"""One writer thread that puts the writes of many callers into one SQLite transaction.

A caller submits a job and awaits it. The thread takes all waiting jobs, runs them in one transaction, commits, and only
then resolves the futures. So each commit is shared by all turns that arrived during the previous commit, and a
resolved future means a durable write.

Large jobs are committed one at a time, each with all waiting small jobs, so a caller with a short message waits for at
most one large row of others.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from itertools import groupby
from typing import Any, TypeAlias

import msgspec

from sabir.errors import StoreUnavailable

logger = logging.getLogger("sabir.store")

Job: TypeAlias = Any  # a function of the connection, or a value of a type that has a bulk writer
Bulk: TypeAlias = Callable[[sqlite3.Connection, list[Any]], list[Any]]
AtOnce: TypeAlias = Callable[[sqlite3.Connection, list[Any]], list[Any] | None]
Group: TypeAlias = list[tuple[Job, asyncio.Future[Any]]]
MAX_GROUP = 512
AT_ONCE = 256  # jobs that are handed over before the end of a loop pass
LARGE = 64 * 1024  # bytes from which a job is committed separately from other large ones
# About how many bytes the log grows by a commit and by each of its jobs, besides their content (measured).
_COMMIT_BYTES = 32 * 1024
_JOB_BYTES = 3 * 1024
# What a job can raise besides SQLite's own errors: text that is not UTF-8, numbers that are too big, an invalid body.
_JOB_ERRORS = (sqlite3.Error, ValueError, TypeError, OverflowError, msgspec.MsgspecError)


class GroupCommit:
    """Runs jobs on one connection in one thread, many per transaction.

    A job is a function of the connection, or a value whose type is a key of ``bulks``: neighbours of one type are
    written by one call of its bulk writer, because each statement costs a switch between threads. If a job of a group
    fails, the group is rolled back and its jobs run again, each in its own transaction, so that only the faulty one
    fails.
    """

    def __init__(
        self,
        bulks: Mapping[type, Bulk],
        committed: Callable[[int], object] = lambda size: None,
        *,
        at_once: AtOnce = lambda connection, jobs: None,
    ) -> None:
        """``committed`` is called in the writer thread after each commit, with the approximate number of bytes
        written. ``at_once`` writes and commits a whole group, or nothing, if it returns None."""
        self._bulks = bulks
        self._at_once = at_once
        self._committed = committed
        self._gathering: Group = []  # of this pass of the event loop; handed over at its end
        self._waiting: Group = []
        self._large: deque[tuple[Job, asyncio.Future[Any]]] = deque()
        self._bytes = 0  # of the jobs submitted since the last commit
        self._wake = threading.Lock()  # held while the writer is idle; half the cost of a semaphore
        self._lock = threading.Lock()
        self._idle = True
        self._closing = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self.groups = 0
        self.jobs = 0
        self.wrote_at = 0.0  # monotonic time of the last commit
        self.failed_at: float | None = None  # of the last failed commit, if none has succeeded since

    @property
    def waiting(self) -> int:
        return len(self._gathering) + len(self._waiting) + len(self._large)

    def start(self, connection: sqlite3.Connection) -> None:
        """Start writing through this connection; the thread owns it from now on."""
        self._loop = asyncio.get_running_loop()
        self._closing = False
        self._wake.acquire(blocking=False)
        self._thread = threading.Thread(target=self._run, args=(connection,), name="sabir-store", daemon=True)
        self._thread.start()

    async def stop(self) -> None:
        """Finish what was submitted, then end the thread."""
        self._hand_over()
        self._closing = True
        self._wake_writer()
        if self._thread is not None:
            await asyncio.get_running_loop().run_in_executor(None, self._thread.join)

    def submit(self, job: Job, size: int = 0, *, in_order: bool = False) -> asyncio.Future[Any]:
        """Submit a job of about this many bytes. The future resolves after its commit.

        The jobs of one pass of the event loop are handed over together, and with those of the next passes as long as
        each brings more: a thread woken for the first would commit it alone, and take the GIL from those that are still
        to come. A single job waits for one pass that brings nothing. A large job may be committed after jobs submitted
        later, unless it must stay ``in_order``.
        """
        if self._loop is None or self._closing:
            raise StoreUnavailable("the store is closed")
        future = self._loop.create_future()
        self._bytes += size
        if size >= LARGE and not in_order:
            with self._lock:
                self._large.append((job, future))
            self._wake_writer()
            return future
        if not self._gathering:
            self._loop.call_soon(self._gather, 0)
        self._gathering.append((job, future))
        if len(self._gathering) >= AT_ONCE:
            self._hand_over()  # the writer works on these while more are coming
        return future

    def _gather(self, before: int) -> None:
        """Hand over what was gathered, unless the writer is idle and more keeps coming."""
        count = len(self._gathering)
        if self._idle and before < count < MAX_GROUP and self._loop is not None:
            self._loop.call_soon(self._gather, count)
        else:
            self._hand_over()

    def _hand_over(self) -> None:
        gathered, self._gathering = self._gathering, []
        if not gathered:
            return
        with self._lock:
            self._waiting += gathered
        self._wake_writer()

    def _wake_writer(self) -> None:
        with self._lock:
            wake, self._idle = self._idle, False
        if wake:
            self._wake.release()

    # -- in the thread --------------------------------------------------------------------------

    def _run(self, connection: sqlite3.Connection) -> None:
        group: Group = []
        try:
            while True:
                with self._lock:
                    group, self._waiting = self._waiting[:MAX_GROUP], self._waiting[MAX_GROUP:]
                    if self._large:
                        group.append(self._large.popleft())
                    self._idle = not group
                if group:
                    self._commit(connection, group)
                elif self._closing:
                    return
                else:
                    self._wake.acquire()
        finally:
            # If an unexpected error ended the thread, nobody must wait for it forever.
            self._closing = True
            connection.close()
            stopped = StoreUnavailable("the store has stopped; the log says why")
            left = (*group, *self._waiting, *self._large, *self._gathering)
            self._soon(_fail, list(left), stopped)

    def _commit(self, connection: sqlite3.Connection, group: Group) -> None:
        self.groups += 1
        self.jobs += len(group)
        try:
            results = self._at_once(connection, [job for job, _ in group])
            if results is None:
                connection.execute("BEGIN IMMEDIATE")
                results = self._results(connection, group)
                connection.execute("COMMIT")
            self._wrote(len(group))
            self._soon(_resolve, group, results)
        except _JOB_ERRORS as exc:
            _roll_back(connection)
            if len(group) == 1:
                if isinstance(exc, sqlite3.OperationalError):
                    self._failed(exc)
                self._soon(_fail, group, _store_error(exc))
            else:
                for one in group:
                    self._commit(connection, [one])

    def _wrote(self, jobs: int) -> None:
        size, self._bytes = self._bytes, 0
        self._committed(size + _COMMIT_BYTES + jobs * _JOB_BYTES)
        self.wrote_at = time.monotonic()
        if self.failed_at is not None:
            self.failed_at = None
            logger.info("The store can write again")

    def _failed(self, exc: sqlite3.Error) -> None:
        if self.failed_at is None:
            logger.error("The store cannot write: %s", exc)
        self.failed_at = time.monotonic()

    def _soon(self, finish: Callable[[Group, Any], None], group: Group, outcome: object) -> None:
        """Give the callers their outcome, in their thread."""
        assert self._loop is not None
        try:
            self._loop.call_soon_threadsafe(finish, group, outcome)
        except RuntimeError:  # the loop is closed: nobody is waiting
            return

    def _results(self, connection: sqlite3.Connection, group: Group) -> list[Any]:
        results: list[Any] = []
        for kind, jobs in groupby((job for job, _ in group), key=type):
            bulk = self._bulks.get(kind)
            if bulk is not None:
                results += bulk(connection, list(jobs))
            else:
                results += [job(connection) for job in jobs]
        return results


def _roll_back(connection: sqlite3.Connection) -> None:
    try:
        connection.execute("ROLLBACK")
    except sqlite3.Error:
        pass  # SQLite has already rolled back, e.g. on a full disk


def _store_error(exc: Exception) -> Exception:
    if isinstance(exc, sqlite3.Error):
        return StoreUnavailable(f"the store cannot write now ({exc})")
    return exc


def _resolve(group: Group, results: list[Any]) -> None:
    for (_, future), result in zip(group, results, strict=True):
        if not future.done():
            future.set_result(result)


def _fail(group: Group, exc: Exception) -> None:
    for _, future in group:
        if not future.done():
            future.set_exception(exc)

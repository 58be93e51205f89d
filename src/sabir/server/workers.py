"""Several worker processes on one socket: started, restarted when they die, stopped together.

uvicorn's own supervisor starts workers by import string in new interpreters. A gateway is an object built here,
together with its agents, so its workers are forked.
"""

from __future__ import annotations

import logging
import os
import select
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Final

logger = logging.getLogger("sabir")

RESTART_AFTER_SECONDS: Final = 30.0  # a worker that dies later than this did start
READY_POLL_SECONDS: Final = 0.1  # between two checks whether a worker died before it answered
SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
START_FAILED: Final = 3  # the exit code of a worker whose application did not start

Ready = Callable[[], object]
ServeOne = Callable[[Ready, int], int]  # serves in this process until stopped; gets the id of the parent process


class ReadyPipe:
    """Which workers answer: each writes its number to a pipe that the parent reads."""

    def __init__(self, workers: int, ready: Ready) -> None:
        self._missing = set(range(workers))
        self._ready = ready
        self._reading, self._writing = os.pipe()

    def report(self, number: int) -> None:
        """Called in a worker once it answers; not needed for restarted ones."""
        if self._missing:
            os.write(self._writing, number.to_bytes(4))

    def wait(self) -> tuple[int, int]:
        """Wait for the next worker to end, and return its status. Calls ``ready`` when the last one has answered."""
        while self._missing:
            if select.select([self._reading], [], [], READY_POLL_SECONDS)[0]:
                self._missing.discard(int.from_bytes(os.read(self._reading, 4)))
                if not self._missing:
                    with suppress(BrokenPipeError):
                        self._ready()
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid:
                return pid, status
        return os.wait()


class Workers:
    """The processes of one gateway. ``run`` returns when all have ended."""

    def __init__(self, count: int, serve_one: ServeOne, ready: Ready) -> None:
        self._count = count
        self._serve_one = serve_one
        self._pipe = ReadyPipe(count, ready)
        self._children: dict[int, tuple[int, float]] = {}  # by process id: worker number and start time
        self._parent = os.getpid()
        self._failures = 0
        self._stopping = False

    def run(self) -> int:
        """Start the workers, restart those that die, and pass signals on; returns the exit code."""
        for sig in SIGNALS:
            signal.signal(sig, self._stop)
        for number in range(self._count):
            self._start(number)
        while self._children:
            try:
                pid, status = self._pipe.wait()
            except InterruptedError:
                continue
            self._ended(pid, os.waitstatus_to_exitcode(status))
        return START_FAILED if self._gave_up else 0

    @property
    def _gave_up(self) -> bool:
        return self._failures > self._count

    def _start(self, number: int) -> None:
        # Block signals between the fork and its handlers, so that none is lost on the new worker.
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        if not self._stopping:
            pid = os.fork()
            if pid == 0:
                self._work(number)
            self._children[pid] = number, time.monotonic()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)

    def _work(self, number: int) -> None:
        """The main function of the new process; it never returns."""
        code = START_FAILED
        try:
            for sig in SIGNALS:
                signal.signal(sig, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
            code = self._serve_one(lambda: self._pipe.report(number), self._parent)
        except KeyboardInterrupt:
            code = 0
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)

    def _stop(self, sig: int, _: FrameType | None) -> None:
        self._stopping = True
        for pid in list(self._children):
            with suppress(ProcessLookupError):  # it has just ended by itself
                os.kill(pid, signal.SIGTERM)

    def _ended(self, pid: int, code: int) -> None:
        child = self._children.pop(pid, None)
        if child is None or self._stopping:
            return
        number, began = child
        if time.monotonic() - began > RESTART_AFTER_SECONDS:
            self._failures = 0  # it had started well
        self._failures += code == START_FAILED
        if self._gave_up:
            self._stop(signal.SIGTERM, None)
            return
        logger.error("Worker %s ended with code %s; restarting it", number, code)
        self._start(number)

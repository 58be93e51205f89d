"""Checkpoints: a thread that copies the write-ahead log into the database file.

SQLite does this within a commit once its log is long enough, and every turn then waits for it: about half a second for
64 MB. A passive checkpoint on another connection blocks neither readers nor the writer. The writer's own checkpoint
stays as a safety net and finds little to do.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from typing import Final

CHECKPOINT_BYTES: Final = 32 * 1024 * 1024  # written since the last checkpoint


class Checkpointer:
    """One thread with its own connection."""

    def __init__(self, connect: Callable[[], sqlite3.Connection]) -> None:
        self._connect = connect
        self._bytes = 0
        self._wake = threading.Event()
        self._closing = False
        self._thread: threading.Thread | None = None
        self.checkpoints = 0

    def start(self) -> None:
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="sabir-checkpoints", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread; waits for a running checkpoint."""
        self._closing = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def committed(self, size: int) -> None:
        """Count what the writer has committed; called in its thread."""
        self._bytes += size
        if self._bytes >= CHECKPOINT_BYTES:
            self._bytes = 0
            self._wake.set()

    def _run(self) -> None:
        try:
            connection = self._connect()
        except sqlite3.Error:
            return  # the writer has the same problem, and reports it
        try:
            while True:
                self._wake.wait()
                self._wake.clear()
                if self._closing:
                    return
                self._checkpoint(connection)
        finally:
            connection.close()

    def _checkpoint(self, connection: sqlite3.Connection) -> None:
        try:
            connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
            self.checkpoints += 1
        except sqlite3.Error:
            pass  # e.g. a full disk: the log keeps everything, and the writer reports failed writes

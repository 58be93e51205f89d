"""Liveness: which nodes on this machine are alive, known at once instead of after a lease has expired.

Each node keeps a file locked beside the SQLite store that it shares with the others. The kernel releases the lock when
the process ends, however it ends, so a file that can be locked belongs to a dead node. Without such a file nothing is
known, and leases decide.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final
from urllib.parse import quote, unquote

from sabir.private_files import own_folder

if sys.platform != "win32":  # leases decide there
    import fcntl


NODES: Final = "nodes"  # the folder of the lock files, beside the store


class Sign:
    """The lock file of this node, and a view of those of the other nodes; empty without a folder."""

    def __init__(self, folder: Path | None, node: str) -> None:
        self._folder = folder if sys.platform != "win32" else None
        self._node = node
        self._held: int | None = None
        self._lived = False  # whether a node of this name died before
        self.taken = False  # whether a live process has the same name

    def show(self) -> None:
        """Show other nodes that this one is alive."""
        if self._folder is not None:
            with suppress(OSError):  # then leases decide
                own_folder(self._folder)
                self._held = self._made(self._path(self._node))

    def _made(self, path: Path) -> int:
        """The locked file. It is renamed after locking, so that no other node finds it unlocked."""
        hidden = path.with_name(f".{path.name}.{os.getpid()}")
        file = _locked(hidden, os.O_CREAT)
        try:
            if path.exists():  # a file with our name; if its process is alive, it stays, and we have none
                os.close(_locked(path))
                path.unlink()
                self._lived = True
            os.link(hidden, path)
        except OSError as exc:
            os.close(file)
            self.taken = isinstance(exc, BlockingIOError)
            raise
        finally:
            hidden.unlink()
        return file

    def take_away(self) -> None:
        """Remove our lock file, once this node has released everything."""
        if self._held is not None:
            self._remove(self._node)
            os.close(self._held)
            self._held = None

    def gone(self) -> frozenset[str]:
        """The nodes that died and left their lock files; this one too, if it ran before."""
        if self._folder is None or self._held is None:
            return frozenset()
        found = set()
        with suppress(OSError):
            for path in self._folder.iterdir():
                with suppress(OSError):
                    if not path.name.startswith("."):
                        os.close(_locked(path))
                        found.add(unquote(path.name))
        return frozenset(found - {self._node} | ({self._node} if self._lived else set()))

    def forget(self, gone: frozenset[str]) -> None:
        """Remove the lock files of these nodes."""
        self._lived = False
        for node in gone - {self._node}:
            self._remove(node)

    def _remove(self, node: str) -> None:
        with suppress(OSError):
            self._path(node).unlink()

    def _path(self, node: str) -> Path:
        assert self._folder is not None
        return self._folder / quote(node, safe="")


def living(folder: Path) -> frozenset[str]:
    """The nodes with lock files in this folder, as seen by a process that is not one of them."""
    found = set()
    with suppress(OSError):
        for path in folder.iterdir() if sys.platform != "win32" else ():
            try:
                os.close(_locked(path))
            except BlockingIOError:
                found.add(unquote(path.name))
    return frozenset(found)


def _locked(path: Path, flags: int = 0) -> int:
    """The file, locked by this process.

    Raises:
        OSError: a live process has it, or it cannot be opened.
    """
    file = os.open(path, os.O_RDWR | flags, 0o600)
    try:
        if sys.platform != "win32":
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(file)
        raise
    return file

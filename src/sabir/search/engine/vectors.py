"""Vectors in one file (usearch, half precision): nearest neighbours, exact among few, kept across crashes.

The file is a cache: a vector's key identifies the content it was computed from, so missing ones are computed again and
obsolete ones are never found. One process writes it, holding a lock; others read it and notice when it was replaced.
"""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Collection, Iterable, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import IO, Any, Final

import numpy as np
from numpy.typing import NDArray

from sabir.errors import MissingExtra

from .embed import Vectors

try:
    # Imported before usearch on purpose: after it, onnxruntime 1.31 crashes the process (usearch 2.26).
    import onnxruntime  # type: ignore[import-untyped]  # noqa: F401
    from usearch.index import Index
except ImportError as missing:
    raise MissingExtra("the vector index", "search") from missing

EXPANSION: Final = 160  # candidates considered; bench/search.py prints the resulting recall


class VectorFile:
    """The vectors of one index, by key."""

    def __init__(self, directory: Path | None, space: str, size: int) -> None:
        self.size = size
        # The name includes the vector space, so that vectors of another model are not even opened.
        space = blake2b(f"{space}:{size}".encode(), digest_size=6).hexdigest()
        self._path = directory / f"vectors-{space}.usearch" if directory else None
        self._lock = threading.RLock()
        self._owner: IO[bytes] | None = None
        self._closed = False
        self._seen: tuple[int, int] | None = None
        self._index: Any = self._new()  # usearch's types are incomplete
        self.keys: set[int] = set()
        self.changed = False
        self._read()

    def __len__(self) -> int:
        return len(self.keys)

    def own(self) -> bool:
        """Become the writer; False while another process is, and after closing."""
        with self._lock:  # a thread left behind by a cancelled task may get here during or after closing
            if self._closed:
                return False
            if self._path is None or self._owner is not None:
                return True
            handle = open(self._path.with_suffix(".lock"), "ab")  # noqa: SIM115 - held as long as the lock
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                handle.close()
                return False
            self._owner = handle
            self.refresh()
            return True

    def refresh(self) -> bool:
        """Reload the file if another process replaced it."""
        if self._path is None or self.changed or self._stamp() == self._seen:
            return False
        return self._read()

    def add(self, keys: Sequence[int], vectors: Vectors) -> None:
        with self._lock:
            new = [at for at, key in enumerate(keys) if key not in self.keys]
            if new:
                self._index.add(np.array([keys[at] for at in new], np.uint64), vectors[new])
                self.keys.update(keys[at] for at in new)
                self.changed = True

    def keep_only(self, keys: Collection[int]) -> None:
        """Drop the vectors of removed items."""
        with self._lock:
            gone = self.keys.difference(keys)
            for key in gone:
                self._index.remove(key)
            self.keys -= gone
            self.changed = self.changed or bool(gone)

    def nearest(self, vector: Vectors, count: int) -> dict[int, float]:
        """The keys with the highest cosine."""
        with self._lock:
            if not self.keys or count <= 0:
                return {}
            if self._index.expansion_search != max(EXPANSION, count):
                self._index.expansion_search = max(EXPANSION, count)
            found = self._index.search(vector, min(count, len(self.keys)))
        pairs = zip(found.keys.tolist(), found.distances.tolist(), strict=True)
        return {key: 1.0 - distance for key, distance in pairs if key in self.keys}

    def cosines(self, vector: Vectors, keys: Iterable[int]) -> dict[int, float]:
        """The cosine of each of these keys that has a vector; exact."""
        known = [key for key in keys if key in self.keys]
        if not known:
            return {}
        with self._lock:
            rows: NDArray[np.float32] = np.asarray(self._index.get(np.array(known, np.uint64)), np.float32)
        return dict(zip(known, (rows @ vector).tolist(), strict=True))

    def save(self) -> None:
        """Replace the file atomically."""
        if self._path is None or not self.changed or not self.own():
            return
        with self._lock:
            scratch = self._path.with_suffix(".new")
            self._index.save(str(scratch))
            with open(scratch, "rb") as written:
                os.fsync(written.fileno())
            os.replace(scratch, self._path)
            self._seen, self.changed = self._stamp(), False

    def close(self) -> None:
        with self._lock:
            self.save()
            self._closed = True
            if self._owner is not None:
                self._owner.close()
                self._owner = None

    def _new(self) -> Any:
        return Index(ndim=self.size, metric="cos", dtype="f16", connectivity=16, expansion_add=128)

    def _stamp(self) -> tuple[int, int] | None:
        try:
            found = os.stat(self._path) if self._path else None
        except FileNotFoundError:
            return None
        return (found.st_mtime_ns, found.st_ino) if found else None

    def _read(self) -> bool:
        """Load the file if it exists and is intact; otherwise start empty."""
        stamp = self._stamp()
        if stamp is None:
            return False
        with self._lock:
            self._seen = stamp
            index = self._new()
            try:
                index.load(str(self._path))
            except (OSError, RuntimeError, ValueError):
                return False
            self._index = index
            self.keys = set(np.asarray(index.keys).tolist())
        return True

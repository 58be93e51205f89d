"""Random bytes and ids, taken from the operating system many at a time.

A system call for each id costs a switch between threads besides, because it lets go of the interpreter.
"""

from __future__ import annotations

import os
import time
from typing import Final

_BATCH: Final = 8192
_pool = b""
_used = _BATCH


def random_bytes(count: int) -> bytes:
    """Unpredictable bytes; none is ever given twice."""
    global _pool, _used
    if _used + count > len(_pool):
        _pool, _used = os.urandom(max(_BATCH, count)), 0
    taken = _pool[_used : _used + count]
    _used += count
    return taken


def new_id() -> str:
    """128 unpredictable bits, in hexadecimal."""
    return random_bytes(16).hex()


def ordered_id() -> str:
    """An id whose first half is the time, so that what is stored together stands together; 80 bits are random.

    Random ids alone touch another page of an index with every row, and each touched page is written.
    """
    return time.time_ns().to_bytes(8, "big")[:6].hex() + random_bytes(10).hex()


def _empty() -> None:
    global _pool, _used
    _pool, _used = b"", 0


os.register_at_fork(after_in_child=_empty)  # a child must not give what its parent gives

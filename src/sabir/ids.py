"""Random bytes and ids, taken from the operating system many at a time.

A system call for each id costs a switch between threads besides, because it lets go of the interpreter.
"""

from __future__ import annotations

import itertools
import os
import time
from typing import Final

_BATCH: Final = 8192
_AHEAD: Final = 32  # ids made at a time
_ordered: list[str] = []
_bytes = b""
_taken = 0
_pool = ""  # in hexadecimal
_used = 2 * _BATCH


def random_bytes(count: int) -> bytes:
    """Unpredictable bytes; none is ever given twice."""
    global _bytes, _taken
    end = _taken + count
    if end > len(_bytes):
        _bytes, _taken, end = os.urandom(max(_BATCH, count)), 0, count
    given = _bytes[_taken:end]
    _taken = end
    return given


def random_hex(digits: int) -> str:
    """Unpredictable hexadecimal digits."""
    global _pool, _used
    end = _used + digits
    if end > len(_pool):
        _pool, _used, end = os.urandom(max(_BATCH, digits)).hex(), 0, digits
    taken = _pool[_used:end]
    _used = end
    return taken


def new_id() -> str:
    """128 unpredictable bits, in hexadecimal."""
    return random_hex(32)


def ordered_id() -> str:
    """An id that begins with the time, so that what is stored together stands together; 72 bits are random.

    Random ids alone touch another page of an index with every row, and each touched page is written.
    """
    if not _ordered:
        begin, digits = f"{time.time_ns() >> 16:012x}", random_hex(18 * _AHEAD)
        _ordered.extend(f"{begin}{n:02x}{digits[18 * n : 18 * n + 18]}" for n in reversed(range(_AHEAD)))
    return _ordered.pop()


def ordered_uuid() -> str:
    """A UUID that begins with the time (version 7 of RFC 9562), for the same reason; 74 bits are random."""
    at, digits = f"{time.time_ns() // 1_000_000:012x}", random_hex(19)
    variant = "89ab"[int(digits[3], 16) & 3]
    return f"{at[:8]}-{at[8:]}-7{digits[:3]}-{variant}{digits[4:7]}-{digits[7:]}"


_counted = itertools.count()
_begin = ""


def counted_id() -> str:
    """An id that is unique among all processes, in the order of time, and easy to guess: for what is not secret."""
    global _begin
    if not _begin:
        _begin = f"{time.time_ns() >> 16:012x}{random_hex(12)}"
    return f"{_begin}{next(_counted):08x}"


def _empty() -> None:
    global _bytes, _taken, _pool, _used, _begin
    _bytes, _taken, _pool, _used = b"", 0, "", 0
    _ordered.clear()
    _begin = ""


os.register_at_fork(after_in_child=_empty)  # a child must not give what its parent gives

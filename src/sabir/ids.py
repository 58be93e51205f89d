"""Random bytes and ids, taken from the operating system in batches.

A system call for each id also costs a thread switch, because it releases the GIL.
"""

from __future__ import annotations

import itertools
import os
import time
from typing import Final

_BATCH: Final = 8192
_AHEAD: Final = 32  # ids generated at a time
_ordered: list[str] = []
_bytes = b""
_taken = 0
_pool = ""  # in hexadecimal
_used = 2 * _BATCH
_at, _head = -1, ""  # the last millisecond of an ordered UUID, and how these begin
_VARIANTS: Final = {f"{n:x}": "89ab"[n & 3] for n in range(16)}


def random_bytes(count: int) -> bytes:
    """Unpredictable bytes, never repeated."""
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
    """An id that starts with the time, so that related rows are stored together; 72 bits are random.

    Purely random ids touch another index page with every row, and each touched page is written.
    """
    if not _ordered:
        begin, digits = f"{time.time_ns() >> 16:012x}", random_hex(18 * _AHEAD)
        _ordered.extend(f"{begin}{n:02x}{digits[18 * n : 18 * n + 18]}" for n in reversed(range(_AHEAD)))
    return _ordered.pop()


def ordered_uuid() -> str:
    """A UUID that starts with the time (version 7 of RFC 9562), for the same reason; 74 bits are random."""
    global _at, _head
    at, digits = time.time_ns() // 1_000_000, random_hex(19)
    if at != _at:
        shown = f"{at:012x}"
        _at, _head = at, f"{shown[:8]}-{shown[8:]}-7"
    return f"{_head}{digits[:3]}-{_VARIANTS[digits[3]]}{digits[4:7]}-{digits[7:]}"


_counted = itertools.count()
_begin = ""


def counted_id() -> str:
    """An id that is unique among all processes, ordered by time, and easy to guess: not for secrets."""
    global _begin
    if not _begin:
        _begin = f"{time.time_ns() >> 16:012x}{random_hex(12)}"
    return f"{_begin}{next(_counted):08x}"


def _empty() -> None:
    global _bytes, _taken, _pool, _used, _begin
    _bytes, _taken, _pool, _used = b"", 0, "", 0
    _ordered.clear()
    _begin = ""


os.register_at_fork(after_in_child=_empty)  # a child must not repeat its parent's ids

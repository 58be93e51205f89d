"""Riding out a PostgreSQL that is away for a moment: which errors mean that, and how long to try again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

import asyncpg

from ..errors import StoreUnavailable

Result = TypeVar("Result")
Call = Callable[[], Awaitable[Result]]
ERRORS = (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)
# SQLSTATE classes that pass: connection, transaction rolled back (deadlock), resources, shutdown, I/O;
# 25006 is a server that has become a standby, 23505 two nodes that made the same row at once.
_PASSING = ("08", "40", "53", "57", "58", "25006", "23505")
_FIRST_WAIT, _LONGEST_WAIT = 0.01, 1.0


def passes(wrong: Exception) -> bool:
    """Whether the same call may succeed in a moment."""
    if isinstance(wrong, asyncpg.PostgresError):
        return str(wrong.sqlstate or "08").startswith(_PASSING)
    return not isinstance(wrong, asyncpg.DataError)


def told(wrong: Exception) -> Exception:
    """The error as the Store contract has it. Holds no address and no value."""
    if isinstance(wrong, asyncpg.DataError):
        return ValueError("text or number that PostgreSQL cannot store")
    if isinstance(wrong, asyncpg.PostgresError) and str(wrong.sqlstate).startswith("22"):
        return ValueError(f"a value that PostgreSQL cannot store ({type(wrong).__name__})")
    return StoreUnavailable(f"PostgreSQL does not answer as it should ({type(wrong).__name__})")


class Outage:
    """Tries calls again while the server is away, for as long as ``patience`` seconds.

    Once it has been away for longer, a call is tried once and fails at once, so that nobody queues up
    behind a server that stays away; the first success ends the outage.
    """

    def __init__(self, patience: float) -> None:
        self.patience = patience
        self.since: float | None = None

    async def ride_out(self, call: Call[Result]) -> tuple[Result, bool]:
        """The call's result, and whether it took more than one try.

        Raises:
            StoreUnavailable: the server stayed away.
            ValueError: it cannot store what it was given.
        """
        wait, end = _FIRST_WAIT, 0.0
        while True:
            try:
                result = await call()
            except ERRORS as wrong:
                if not passes(wrong):
                    raise told(wrong) from wrong
                now = time.monotonic()
                self.since = self.since or now
                end = end or now + self.patience
                if now + wait > min(end, self.since + self.patience):
                    raise told(wrong) from wrong
                await asyncio.sleep(wait)
                wait = min(wait * 2, _LONGEST_WAIT)
            else:
                self.since = None
                return result, end > 0

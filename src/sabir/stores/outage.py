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
_ONE_TRY = 3.0  # seconds for a try when the server is known to be away; enough to connect to one that is back


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
    behind a server that stays away; the first success ends the outage. A server that takes what it is given and
    does not answer is away, too: each try has its time, ``seconds``, which the call is to keep.
    """

    def __init__(self, patience: float) -> None:
        self.patience = patience
        self.since: float | None = None

    @property
    def seconds(self) -> float:
        """How long the try that begins now may take."""
        now = time.monotonic()
        return max((self.since or now) + self.patience - now, min(_ONE_TRY, self.patience))

    async def ride_out(self, call: Call[Result]) -> tuple[Result, bool]:
        """The call's result, and whether it took more than one try.

        Raises:
            StoreUnavailable: the server stayed away.
            ValueError: it cannot store what it was given.
        """
        wait, again, first = _FIRST_WAIT, False, time.monotonic()
        while True:
            begun = time.monotonic()
            try:
                result = await call()
            except ERRORS as wrong:
                if not passes(wrong):
                    raise told(wrong) from wrong
                self.since = min(self.since or begun, begun)
                if time.monotonic() + wait > min(first, self.since) + self.patience:
                    raise told(wrong) from wrong
                again = True
                await asyncio.sleep(wait)
                wait = min(wait * 2, _LONGEST_WAIT)
            else:
                self.since = None
                return result, again

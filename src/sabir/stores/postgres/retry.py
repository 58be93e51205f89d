"""Riding out a short outage of PostgreSQL: which errors mean one, how long to try again, what to report.

Callers learn that the store is unavailable, and nothing of what or where it is; its operator reads in the log, or in
the output of the command, where it should be and what is wrong.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import ssl
import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar
from urllib.parse import parse_qs, unquote, urlsplit

import asyncpg

from sabir.errors import ConfigError, StoreUnavailable

logger = logging.getLogger("sabir.store")

Result = TypeVar("Result")
Call = Callable[[], Awaitable[Result]]
ERRORS = (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)
# SQLSTATE classes that pass: connection, transaction rolled back (deadlock), resources, shutdown, I/O;
# 25006 is a server that has become a standby, 23505 two nodes that made the same row at once.
_PASSING = ("08", "40", "53", "57", "58", "25006", "23505")
_FIRST_WAIT, _LONGEST_WAIT = 0.01, 1.0
_ONE_TRY = 3.0  # seconds for a try during an outage; enough to connect to a server that is back
_NOTICED = 1.0  # seconds after which an outage is logged; before, it was a moment
_TOLD_AGAIN = 60.0  # seconds until it is logged once more

# What is wrong, in words; the first that fits. Of the server's own words only those of its log-in are shown: they name
# a user, a database or a host, and never a value.
_STATES: Final = (
    ("28P01", "the password is wrong, or the user does not exist"),
    ("28", "the log-in is refused"),
    ("3D000", "database not found"),
    ("42501", "the user has no right to do this"),
    ("53300", "it has no connection left"),
    ("53100", "its disk is full"),
    ("57P03", "it is starting or stopping"),
    ("57", "it is stopping"),
    ("25006", "it is a standby, which takes no writes"),
    ("08", "the connection was lost"),
)
_KINDS: Final[tuple[tuple[type[Exception], str], ...]] = (
    (ConnectionRefusedError, "connection refused"),
    (socket.gaierror, "host not found"),
    (TimeoutError, "no answer in time"),
    (ssl.SSLError, "TLS failed"),
    (FileNotFoundError, "connection refused"),
    (asyncpg.exceptions.ClientConfigurationError, "its address cannot be read"),
    (OSError, "the connection was lost"),
    (asyncpg.InterfaceError, "the connection was lost"),
)
_SETUP: Final = ("28", "3D000")  # what waiting does not mend


def where(address: str) -> str:
    """A PostgreSQL address for people: host, port and database; no user, no password."""
    url = urlsplit(address)
    options = parse_qs(url.query)
    hosts = unquote(url.netloc.rpartition("@")[2]) or options.get("host", [os.environ.get("PGHOST", "localhost")])[-1]
    port = options.get("port", [os.environ.get("PGPORT", "5432")])[-1]
    named = [item if _has_port(item) else f"{item}:{port}" for item in hosts.split(",")]
    user = url.username or options.get("user", [os.environ.get("PGUSER", "")])[-1]
    database = unquote(url.path.lstrip("/")) or options.get("database", [os.environ.get("PGDATABASE", user)])[-1]
    return f"PostgreSQL at {', '.join(named)}" + (f", database {database}" if database else "")


def _has_port(host: str) -> bool:
    return host.rpartition("]")[2].rpartition(":")[1] == ":"


def words(exc: Exception) -> str:
    """What is wrong, in words."""
    if isinstance(exc, asyncpg.PostgresError) and exc.sqlstate:
        state = str(exc.sqlstate)
        found = next((text for start, text in _STATES if state.startswith(start)), "")
        return f"{found} ({exc})" if state == "28000" else found or f"it says {type(exc).__name__} ({state})"
    return next((text for kind, text in _KINDS if isinstance(exc, kind)), type(exc).__name__)


def passes(exc: Exception) -> bool:
    """Whether the same call may succeed in a moment."""
    if isinstance(exc, asyncpg.PostgresError):
        return str(exc.sqlstate or "08").startswith(_PASSING)
    return not isinstance(exc, asyncpg.DataError)


def translate(exc: Exception, place: str) -> Exception:
    """The error as the Store contract has it. Its text holds no address and no value."""
    if isinstance(exc, asyncpg.DataError):
        return ValueError("text or number that PostgreSQL cannot store")
    if isinstance(exc, asyncpg.PostgresError) and str(exc.sqlstate).startswith("22"):
        return ValueError(f"a value that PostgreSQL cannot store ({type(exc).__name__})")
    return StoreUnavailable("the store is unavailable; retry shortly", detail=f"{place}: {words(exc)}")


def refused(exc: Exception, place: str) -> Exception:
    """The same at the start, where what waiting does not mend is a mistake in the configuration."""
    if isinstance(exc, asyncpg.PostgresError) and str(exc.sqlstate).startswith(_SETUP):
        return ConfigError(f"store: {place}: {words(exc)}")
    return translate(exc, place)


class Outage:
    """Tries calls again during an outage, for as long as ``patience`` seconds.

    Once the outage is longer, a call is tried once and fails at once, so that nobody queues up
    behind a dead server; the first success ends the outage. A server that takes what it is given and
    does not answer is unavailable, too: each try has its time, ``seconds``, which the call is to keep.
    """

    def __init__(self, patience: float, place: str = "PostgreSQL") -> None:
        self.patience = patience
        self.place = place
        self.since: float | None = None
        self._said_at: float | None = None  # when it was logged last
        self._said = False  # of this outage

    @property
    def seconds(self) -> float:
        """How long the try that begins now may take."""
        now = time.monotonic()
        return max((self.since or now) + self.patience - now, min(_ONE_TRY, self.patience))

    async def ride_out(self, call: Call[Result]) -> tuple[Result, bool]:
        """The call's result, and whether it took more than one try.

        Raises:
            StoreUnavailable: the server stayed unavailable.
            ValueError: it cannot store what it was given.
        """
        wait, again, first = _FIRST_WAIT, False, time.monotonic()
        while True:
            begun = time.monotonic()
            try:
                result = await call()
            except ERRORS as exc:
                if not passes(exc):
                    raise self.failed(exc, begun) from exc
                self.since = min(self.since or begun, begun)
                if time.monotonic() + wait > min(first, self.since) + self.patience:
                    raise self.failed(exc, begun) from exc
                if time.monotonic() - self.since >= _NOTICED:
                    self._say(exc)
                again = True
                await asyncio.sleep(wait)
                wait = min(wait * 2, _LONGEST_WAIT)
            else:
                self.over()
                return result, again

    def failed(self, exc: Exception, begun: float, *, given_up: bool = True) -> Exception:
        """A call that has failed: noted, logged unless it was only a moment, and as its caller gets it."""
        translated = translate(exc, self.place)
        if isinstance(translated, StoreUnavailable):
            self.since = min(self.since or begun, begun)
            if given_up or time.monotonic() - self.since >= _NOTICED:
                self._say(exc)
        return translated

    def over(self) -> None:
        """The server answers."""
        began, self.since = self.since, None
        if self._said and began is not None:
            self._said = False
            logger.info("%s is back, after %.1f s", self.place, time.monotonic() - began)

    def _say(self, exc: Exception) -> None:
        now = time.monotonic()
        if self._said_at is None or now - self._said_at >= _TOLD_AGAIN:
            self._said_at, self._said = now, True
            logger.warning("%s is unavailable: %s", self.place, words(exc))

"""Survives short outages of PostgreSQL: which errors mean one, how long to retry, what to report.

Callers learn only that the store is unavailable; the operator finds the address and the cause in the log, or in the
output of the command.
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
# SQLSTATE classes that are transient: connection, transaction rolled back (deadlock), resources, shutdown, I/O; 25006
# is a server that has become a standby, 23505 two nodes that created the same row at once.
_PASSING = ("08", "40", "53", "57", "58", "25006", "23505")
_FIRST_WAIT, _LONGEST_WAIT = 0.01, 1.0
_ONE_TRY = 3.0  # seconds for a try during an outage; enough to connect to a server that has recovered
_NOTICED = 1.0  # seconds after which an outage is logged; shorter ones are ignored
_TOLD_AGAIN = 60.0  # seconds until it is logged again

# Errors in words; the first match counts. Only the server's login messages are quoted: they name a user, a database or
# a host, and never a value.
_STATES: Final = (
    ("28P01", "the password is wrong, or the user does not exist"),
    ("28", "the login was refused"),
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
_SETUP: Final = ("28", "3D000")  # what waiting does not fix


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
    """The error in words."""
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
    """The error as the Store contract defines it. Its text has no address and no value."""
    if isinstance(exc, asyncpg.DataError):
        return ValueError("text or number that PostgreSQL cannot store")
    if isinstance(exc, asyncpg.PostgresError) and str(exc.sqlstate).startswith("22"):
        return ValueError(f"a value that PostgreSQL cannot store ({type(exc).__name__})")
    return StoreUnavailable("the store is unavailable; retry shortly", detail=f"{place}: {words(exc)}")


def refused(exc: Exception, place: str) -> Exception:
    """The same at the start, where an error that waiting does not fix is a configuration error."""
    if isinstance(exc, asyncpg.PostgresError) and str(exc.sqlstate).startswith(_SETUP):
        return ConfigError(f"store: {place}: {words(exc)}")
    return translate(exc, place)


class Outage:
    """Retries calls during an outage, for up to ``patience`` seconds.

    Once the outage is longer, a call is tried once and fails at once, so that nobody queues behind a dead server; the
    first success ends the outage. A server that accepts requests and does not answer is unavailable, too: each try is
    limited to ``seconds``, which the call must observe.
    """

    def __init__(self, patience: float, place: str = "PostgreSQL") -> None:
        self.patience = patience
        self.place = place
        self.since: float | None = None
        self._said_at: float | None = None  # when it was last logged
        self._said = False  # whether this outage was logged

    @property
    def seconds(self) -> float:
        """The time limit of a try that starts now."""
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
        """Note a failed call, log it unless the outage is short, and return the error for its caller."""
        translated = translate(exc, self.place)
        if isinstance(translated, StoreUnavailable):
            self.since = min(self.since or begun, begun)
            if given_up or time.monotonic() - self.since >= _NOTICED:
                self._say(exc)
        return translated

    def over(self) -> None:
        """Note that the server answers."""
        began, self.since = self.since, None
        if self._said and began is not None:
            self._said = False
            logger.info("%s available again after %.1f s", self.place, time.monotonic() - began)

    def _say(self, exc: Exception) -> None:
        now = time.monotonic()
        if self._said_at is None or now - self._said_at >= _TOLD_AGAIN:
            self._said_at, self._said = now, True
            logger.warning("%s is unavailable: %s", self.place, words(exc))

"""A circuit breaker per peer: a peer that keeps failing is not called for a while, then tried by one call.

closed → (enough failures in a row) → open → (the pause is over) → half-open → closed, or open again for twice
as long.

What counts is whether the peer works, not what it answers. These are failures: no connection, no answer in time, an
unreadable answer, or one in which the peer reports that it does not work (``PeerRefused.broken``). Everything else is
an answer, including an error about this question; otherwise one caller with a bad question could block the peer for
all. Errors on our own side say nothing about the peer.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sabir.errors import PeerError, PeerRefused, PeerUnavailable
from sabir.events import Event, Fault, Question, Reply


class Breaker:
    """Counts the failures of one peer."""

    __slots__ = ("_clock", "_failures", "_longest", "_opened", "_pause", "_probing", "_trip", "_wait", "peer")

    def __init__(
        self,
        peer: str,
        *,
        trip: int = 5,
        pause: float = 5.0,
        longest: float = 300.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.peer = peer
        self._trip = trip
        self._pause = self._wait = pause
        self._longest = longest
        self._clock = clock
        self._failures = 0
        self._opened: float | None = None
        self._probing = False

    @property
    def state(self) -> str:
        if self._opened is None:
            return "closed"
        return "half-open" if self._probing or self._clock() - self._opened >= self._wait else "open"

    @contextmanager
    def call(self) -> Iterator[GuardedCall]:
        """Guard one call to the peer; report its outcome to the yielded object.

        A call that is cancelled before a response counts as nothing, and so do errors on our own side.

        Raises:
            PeerUnavailable: the breaker is open, and the peer is not called.
        """
        calling = GuardedCall(self, self._enter())
        try:
            yield calling
        except PeerRefused as no:
            calling.failed() if no.broken else calling.answered()
            raise
        except (PeerError, OSError, TimeoutError):
            calling.failed()
            raise
        except BaseException:
            calling.gave_up()
            raise
        calling.answered()

    def _enter(self) -> bool:
        if self._opened is None:
            return False
        left = self._opened + self._wait - self._clock()
        if left > 0 or self._probing:
            raise PeerUnavailable(self.peer, f"it failed {self._failures} times; next try in {max(left, 1.0):.0f} s")
        self._probing = True
        return True

    def succeeded(self) -> None:
        """The peer is available again."""
        self._failures, self._opened, self._probing, self._wait = 0, None, False, self._pause

    def failed(self, probe: bool = False) -> None:
        self._failures += 1
        if probe:
            self._wait = min(self._wait * 2, self._longest)
            self._probing = False
        if probe or (self._opened is None and self._failures >= self._trip):
            self._opened = self._clock()

    def showed_life(self) -> None:
        """The trial call got a response, so other calls need not wait for its end. Only a complete answer resets the
        count, so that a peer which always breaks off is paused again."""
        self._opened, self._probing = None, False

    def gave_up(self) -> None:
        """The trial call was inconclusive; the next call is the trial."""
        self._probing = False


class GuardedCall:
    """One call: its first outcome counts, later ones are ignored."""

    __slots__ = ("_breaker", "_ended", "_probe", "_tries")

    def __init__(self, breaker: Breaker, probe: bool) -> None:
        self._breaker = breaker
        self._probe = probe  # whether it is the trial call
        self._tries = probe  # and other calls still wait for it
        self._ended = False

    def received(self, event: Event) -> None:
        """Report an event from the peer. A question counts as an answer; a delta or progress as a sign of life."""
        if isinstance(event, Fault) and event.code == "unavailable":
            self.failed()
        elif isinstance(event, Reply | Fault | Question):
            self.answered()
        else:
            self.alive()

    def alive(self) -> None:
        if self._tries:
            self._tries = False
            self._breaker.showed_life()

    def answered(self) -> None:
        if not self._ended:
            self._ended, self._tries = True, False
            self._breaker.succeeded()

    def failed(self) -> None:
        if not self._ended:
            self._ended, self._tries = True, False
            self._breaker.failed(self._probe)

    def gave_up(self) -> None:
        if self._tries:
            self._tries = False
            self._breaker.gave_up()

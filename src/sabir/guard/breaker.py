"""A circuit breaker per peer: who keeps failing is left alone for a while, and tried again by one call.

closed → (enough failures in a row) → open → (the pause is over) → half-open → closed, or open again for twice
as long.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ..errors import BadInput, PeerRefused, PeerUnavailable, Refused, SabirError


class Breaker:
    """Counts the failures of one peer. One per address; see ``Breakers``."""

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
    def call(self) -> Iterator[None]:
        """Stand around one call to the peer.

        What the peer refuses is an answer, unless it says that it failed; other errors and time-outs that leave the
        block count as failures. A call that is cancelled counts as nothing.

        Raises:
            PeerUnavailable: the breaker is open, and the peer is not called.
        """
        probe = self._enter()
        try:
            yield
        except (Refused, BadInput):
            self.succeeded()
            raise
        except PeerRefused as no:
            self.failed() if isinstance(no.status, int) and no.status >= 500 else self.succeeded()
            raise
        except (SabirError, OSError, TimeoutError):
            self.failed()
            raise
        except BaseException:
            if probe:
                self._probing = False
            raise
        self.succeeded()

    def _enter(self) -> bool:
        if self._opened is None:
            return False
        left = self._opened + self._wait - self._clock()
        if left > 0 or self._probing:
            raise PeerUnavailable(self.peer, f"it failed {self._failures} times; tried again in {max(left, 1.0):.0f} s")
        self._probing = True
        return True

    def succeeded(self) -> None:
        self._failures, self._opened, self._probing, self._wait = 0, None, False, self._pause

    def failed(self) -> None:
        self._failures += 1
        if self._probing:
            self._wait = min(self._wait * 2, self._longest)
        if self._probing or (self._opened is None and self._failures >= self._trip):
            self._opened = self._clock()
        self._probing = False


class Breakers:
    """The breaker of each peer, by address. The ones unused for longest are forgotten first."""

    def __init__(
        self,
        *,
        trip: int = 5,
        pause: float = 5.0,
        longest: float = 300.0,
        most: int = 10_000,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._trip = trip
        self._pause = pause
        self._longest = longest
        self._clock = clock
        self._most = most
        self._peers: OrderedDict[str, Breaker] = OrderedDict()

    def of(self, peer: str) -> Breaker:
        found = self._peers.get(peer)
        if found is None:
            found = self._peers[peer] = Breaker(
                peer, trip=self._trip, pause=self._pause, longest=self._longest, clock=self._clock
            )
            if len(self._peers) > self._most:
                self._peers.popitem(last=False)
        self._peers.move_to_end(peer)
        return found

    def states(self) -> dict[str, str]:
        """Peers that are not closed, for reports and metrics."""
        return {name: breaker.state for name, breaker in self._peers.items() if breaker.state != "closed"}

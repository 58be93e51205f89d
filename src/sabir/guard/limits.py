"""How much: token buckets per caller and address, and the quotas of a conversation."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from ipaddress import ip_address

import msgspec

from ..errors import TooMany
from ..turn import Caller


class Quotas(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Limits on what callers use; all configurable. None: the default, which spares this machine itself."""

    rate_per_caller: float | None = None  # requests a second; default 100, none for loopback
    rate_per_address: float | None = None
    burst: float = 200.0
    conversations: int | None = None  # open ones per caller; default 100,000, none for loopback
    context_bytes: int = 8 * 1024 * 1024  # stored per conversation
    context_turns: int = 20  # given to an agent
    conversation_seconds: float = 30 * 86400.0  # idle life of a known caller's conversation
    anonymous_seconds: float = 86400.0
    turn_seconds: float = 120.0
    answer_seconds: float = 600.0  # how long a question waits for its answer
    concurrent_per_caller: int = 0  # 0: no cap


DEFAULT_RATE = 100.0
DEFAULT_CONVERSATIONS = 100_000


class Buckets:
    """Token buckets by key. The least recently used are forgotten first, so memory is bounded."""

    def __init__(
        self, rate: float, burst: float, *, most: int = 100_000, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.rate = rate
        self.burst = burst
        self._most = most
        self._clock = clock
        self._levels: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, key: str, amount: float = 1.0) -> float:
        """Take from the bucket; returns 0, or the seconds until there is enough again."""
        now = self._clock()
        level, at = self._levels.get(key, (self.burst, now))
        level = min(self.burst, level + (now - at) * self.rate)
        if level < amount:
            self._levels[key] = (level, now)
            return (amount - level) / self.rate
        self._levels[key] = (level - amount, now)
        self._levels.move_to_end(key)
        if len(self._levels) > self._most:
            self._levels.popitem(last=False)
        return 0.0

    def left(self, key: str) -> float:
        level, at = self._levels.get(key, (self.burst, self._clock()))
        return min(self.burst, level + (self._clock() - at) * self.rate)


class Rates:
    """Requests per second of each caller and each address."""

    def __init__(self, quotas: Quotas) -> None:
        self._spare_loopback = quotas.rate_per_caller is None and quotas.rate_per_address is None
        burst = quotas.burst
        self._callers = Buckets(DEFAULT_RATE if quotas.rate_per_caller is None else quotas.rate_per_caller, burst)
        self._addresses = Buckets(DEFAULT_RATE if quotas.rate_per_address is None else quotas.rate_per_address, burst)

    def check(self, caller: Caller) -> None:
        """Raises:
        TooMany: over the rate; says when to come back.
        """
        address = caller.address
        if self._spare_loopback and is_loopback(address):
            return
        wait = self._addresses.take(address) if address else 0.0
        if not wait and not caller.is_anonymous:
            wait = self._callers.take(caller.id)
        if wait:
            raise TooMany("too many requests; slow down", retry_after=wait)


_LOOPBACK = frozenset({"127.0.0.1", "::1", ""})


def is_loopback(address: str) -> bool:
    if address in _LOOPBACK:
        return True
    try:
        return ip_address(address).is_loopback
    except ValueError:
        return False


def most_conversations(quotas: Quotas, caller: Caller) -> int | None:
    """How many open conversations a caller may have; None is any number."""
    if quotas.conversations is not None:
        return quotas.conversations
    return None if is_loopback(caller.address) else DEFAULT_CONVERSATIONS

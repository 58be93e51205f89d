"""Rates and limits: token buckets per caller, address and agent, concurrency slots, limits of a conversation.

These are counted in this process; N nodes allow N times as much. Limits that must be exact across nodes are counted in
the store: see ``daily``.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import lru_cache
from ipaddress import IPv6Address, IPv6Network, ip_address
from typing import Annotated

import msgspec

from sabir.errors import RateLimited
from sabir.turn import Caller

Rate = Annotated[float, msgspec.Meta(gt=0)]


class Quotas(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Limits on what callers use, all configurable. None: the default, which exempts this machine."""

    rate_per_caller: Rate | None = None  # requests a second; default 100, none for loopback
    rate_per_address: Rate | None = None
    rate_per_agent: Rate | None = None  # None: no limit
    burst: Annotated[float, msgspec.Meta(ge=1)] = 200.0
    conversations: int | None = None  # open ones per caller; default 100,000, no limit for loopback
    context_bytes: int = 8 * 1024 * 1024  # stored per conversation
    context_turns: int = 20  # passed to an agent
    conversation_seconds: float = 30 * 86400.0  # idle lifetime of a known caller's conversation
    anonymous_seconds: float = 86400.0
    turn_seconds: float = 120.0
    answer_seconds: float = 600.0  # how long a question waits for its answer
    concurrent_per_caller: int = 0  # concurrent turns; 0: no cap
    concurrent_per_agent: int = 0
    daily_turns: int = 0  # per caller and day (UTC), exact across nodes; 0: no quota
    daily_bytes: int = 0
    daily_tokens: int = 0  # of language models
    daily_cost: float = 0.0  # in the currency of the models' prices
    turn_calls: int = 0  # model and tool calls within one turn, over all its agents; 0: no budget
    turn_tokens: int = 0
    turn_cost: float = 0.0


DEFAULT_RATE = 100.0
DEFAULT_CONVERSATIONS = 100_000


class Buckets:
    """Token buckets by key. The least recently used are dropped first, so memory is bounded."""

    def __init__(
        self, rate: float, burst: float, *, limit: int = 100_000, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.rate = rate
        self.burst = burst
        self._limit = limit
        self._clock = clock
        self._levels: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._paid: dict[str, int] = {}  # requests that ``spend`` has already taken

    def take(self, key: str, amount: float = 1.0) -> float:
        """Take from the bucket; returns 0, or the seconds until there is enough again."""
        if self._paid and (paid := self._paid.pop(key, 0)):
            if paid > 1:
                self._paid[key] = paid - 1
            return 0.0
        now = self._clock()
        level, at = self._levels.get(key, (self.burst, now))
        level = min(self.burst, level + (now - at) * self.rate)
        if level < amount:
            self._set(key, level, now)
            return (amount - level) / self.rate
        self._set(key, level - amount, now)
        return 0.0

    def spend(self, key: str, amount: float) -> None:
        """Take more for a costly request, on credit if need be, including the request itself.

        The credit is limited to one burst, so that a caller who has used it up waits for a limited time.
        """
        self._set(key, max(-self.burst, self._level(key) - amount - 1.0), self._clock())
        self._paid[key] = self._paid.get(key, 0) + 1
        if len(self._paid) > self._limit:
            del self._paid[next(iter(self._paid))]

    def __contains__(self, key: str) -> bool:
        return key in self._levels

    def begin(self, key: str) -> None:
        """An empty bucket that fills from now on; others start full."""
        self._set(key, 0.0, self._clock())

    def left(self, key: str) -> float:
        """What can be taken now."""
        return max(0.0, self._level(key))

    def wait(self, key: str) -> float:
        """The seconds until one can be taken; 0 if it can be taken now."""
        return max(0.0, (1.0 - self._level(key)) / self.rate)

    def _set(self, key: str, level: float, now: float) -> None:
        self._levels[key] = (level, now)
        self._levels.move_to_end(key)
        if len(self._levels) > self._limit:
            self._levels.popitem(last=False)

    def _level(self, key: str) -> float:
        level, at = self._levels.get(key, (self.burst, self._clock()))
        return min(self.burst, level + (self._clock() - at) * self.rate)


class Shares:
    """Callers from one address that differ only in unverified claims: they share one rate.

    Its burst is twice the normal one, and the second half is for names that stay within their share: a quarter of the
    rate per name, an eighth for all new names together. So a flooding caller gets what it would have alone without
    using up what others need, and making up a name for each request gains nothing.
    """

    def __init__(self, rate: float, burst: float, clock: Callable[[], float]) -> None:
        self.all = Buckets(rate, 2 * burst, clock=clock)
        self._known = Buckets(rate / 4, max(1.0, burst / 4), limit=10_000, clock=clock)
        self._new = Buckets(rate / 8, max(1.0, burst / 8), clock=clock)

    def take(self, place: str, name: str) -> float:
        """Returns 0, or the seconds until there is enough again."""
        plenty, key = self._has_plenty(place), _share_key(place, name)
        if key in self._known:
            wait = self._known.take(key)
            wait = 0.0 if plenty else wait
        else:
            wait = 0.0 if plenty else self._new.take(place)
            if not wait:  # rejected names are not remembered, or made-up names would push out the others
                self._known.begin(key)
        return wait or self.all.take(place)

    def wait(self, place: str, name: str) -> float:
        """The seconds until one can be taken; 0 if it can be now."""
        if self._has_plenty(place):
            return 0.0
        key = _share_key(place, name)
        own = self._known.wait(key) if key in self._known else self._new.wait(place)
        return max(own, self.all.wait(place))

    def spend(self, place: str, name: str, amount: float) -> None:
        """Take more for a request that is costly: from its share, and from what all share only what is plenty."""
        key = _share_key(place, name)
        if key in self._known:  # so that one new name cannot use up the share of all new names
            self._known.spend(key, amount)
        left = self.all.left(place) - self.all.burst / 2
        if left > 0:
            self.all.take(place, min(left, amount))

    def _has_plenty(self, place: str) -> bool:
        return self.all.left(place) > self.all.burst / 2


def _share_key(place: str, name: str) -> str:
    return f"{place} {hashlib.sha256(name.encode('utf-8', 'replace')).hexdigest()}"


class Remaining(msgspec.Struct, frozen=True):
    """What is left of one limit: ``reset`` is the seconds until it is full again."""

    name: str
    limit: float
    remaining: float
    reset: float
    window: int = 0  # seconds that the limit covers; 0: refilled continuously
    unit: str = ""  # what is counted; empty: requests
    scale: int = 1  # values are integers; money is in millionths

    def headers(self) -> list[tuple[bytes, bytes]]:
        return [(b"ratelimit-policy", self.policy.encode()), (b"ratelimit", self.header.encode())]

    @property
    def plain(self) -> dict[str, str | float]:
        """In words, for control answers."""
        return {"name": self.name, "limit": self.limit, "remaining": self.remaining, "reset": self.reset}

    @property
    def policy(self) -> str:
        window, unit = f";w={self.window}" if self.window else "", f';qu="{self.unit}"' if self.unit else ""
        return f'"{self.name}";q={math.floor(self.limit * self.scale)}{unit}{window}'

    @property
    def header(self) -> str:
        left = max(0, math.floor(self.remaining * self.scale))
        return f'"{self.name}";r={left};t={max(1, math.ceil(self.reset))}'


def limit_headers(limits: Sequence[Remaining]) -> list[tuple[bytes, bytes]]:
    """``RateLimit`` and ``RateLimit-Policy``, as draft-ietf-httpapi-ratelimit-headers writes them."""
    if not limits:
        return []
    policies, left = ", ".join(limit.policy for limit in limits), ", ".join(limit.header for limit in limits)
    return [(b"ratelimit-policy", policies.encode()), (b"ratelimit", left.encode())]


class Rates:
    """Requests per second of each caller, each address and each agent."""

    def __init__(
        self, quotas: Quotas, *, behind_proxy: bool = False, clock: Callable[[], float] = time.monotonic
    ) -> None:
        # Behind a proxy that does not report client addresses, everybody appears to be this machine.
        spared = quotas.rate_per_caller is None and quotas.rate_per_address is None
        self._spare_loopback = spared and not behind_proxy
        caller, address, agent = quotas.rate_per_caller, quotas.rate_per_address, quotas.rate_per_agent
        self._callers = Buckets(DEFAULT_RATE if caller is None else caller, quotas.burst, clock=clock)
        self._addresses = Buckets(DEFAULT_RATE if address is None else address, quotas.burst, clock=clock)
        self._shares = Shares(self._addresses.rate, quotas.burst, clock)
        self._agents = None if agent is None else Buckets(agent, quotas.burst, clock=clock)

    def check(self, caller: Caller) -> None:
        """Both of the following; for doors that know the caller from the start.

        Raises:
            RateLimited: over the rate; says when to retry.
        """
        self.check_address(caller.address)
        self.check_caller(caller)

    def check_open(self, address: str, sender: str | None = None) -> None:
        """Check the rate before a message is read, so that a flood costs little; charges nothing. ``sender`` is as in
        ``check_share``.

        Raises:
            RateLimited: this address has used up its rate; says when to retry.
        """
        if sender is not None:
            _within(self._shares.wait(rate_limit_key(address), sender))
        elif address and not (self._spare_loopback and (address in _LOOPBACK or is_loopback(address))):
            _within(self._addresses.wait(rate_limit_key(address)))

    def check_address(self, address: str) -> None:
        """Charge the address, before authentication.

        Raises:
            RateLimited: over the rate; says when to retry.
        """
        if address and not (self._spare_loopback and (address in _LOOPBACK or is_loopback(address))):
            _within(self._addresses.take(rate_limit_key(address)))

    def check_share(self, address: str, name: str) -> None:
        """Charge an address that stands for many callers who cannot prove which of them they are.

        Raises:
            RateLimited: over the rate of all, or over the share of this name; says when to retry.
        """
        _within(self._shares.take(rate_limit_key(address), name))

    def check_caller(self, caller: Caller) -> None:
        """Raises:
        RateLimited: over the rate; says when to retry.
        """
        # An agent's calls on behalf of a caller were counted where that caller came in, perhaps on another node.
        if not caller.is_anonymous and not caller.is_counted_elsewhere and not self.spares(caller.address):
            _within(self._callers.take(caller.id))

    def spend(self, address: str, caller: Caller | None, amount: float, sender: str | None = None) -> None:
        """Charge a costly request as more than one, to its address and its caller."""
        if self.spares(address) or not address:
            return
        if sender is not None:
            self._shares.spend(rate_limit_key(address), sender, amount)
            return
        self._addresses.spend(rate_limit_key(address), amount)
        if caller is not None and not caller.is_anonymous:
            self._callers.spend(caller.id, amount)

    def check_agent(self, name: str) -> None:
        """Raises:
        RateLimited: this agent gets too many requests, from all callers together.
        """
        if self._agents is not None:
            _within(self._agents.take(name))

    def remaining(self, caller: Caller) -> Remaining | None:
        """What is left for a caller; None if nothing is counted."""
        if self._spare_loopback and is_loopback(caller.address):
            return None
        place = rate_limit_key(caller.address)
        buckets, key = (self._addresses, place) if caller.is_anonymous else (self._callers, caller.id)
        if caller.is_anonymous and place in self._shares.all:
            buckets = self._shares.all
        left = buckets.left(key)
        return Remaining("requests", buckets.burst, left, (buckets.burst - left) / buckets.rate)

    def spares(self, address: str) -> bool:
        """Whether callers from this address are not metered: this machine, unless a rate was configured."""
        return self._spare_loopback and is_loopback(address)


def _within(wait: float) -> None:
    if wait:
        raise RateLimited("too many requests; slow down", retry_after=wait)


class ConcurrencyCaps:
    """How many turns of a caller, and of an agent, run concurrently. A suspended turn keeps its slot."""

    def __init__(self, quotas: Quotas) -> None:
        self._caps = (quotas.concurrent_per_caller, quotas.concurrent_per_agent)
        self.capped = any(self._caps)
        self._taken: dict[str, int] = {}

    def take(self, caller: Caller, agent: str, account: str = "") -> tuple[str, ...]:
        """Take a slot, on this account or the caller's own; release it with ``free``.

        Raises:
            RateLimited: all slots are taken.
        """
        holders = (f"c{account or holder_of(caller)}", f"a{agent}")
        keys = tuple(key for key, cap in zip(holders, self._caps, strict=True) if cap > 0)
        for key, cap in zip(keys, (cap for cap in self._caps if cap > 0), strict=True):
            if self._taken.get(key, 0) >= cap:
                raise RateLimited(f"at most {cap} turns at the same time", retry_after=1.0)
        for key in keys:
            self._taken[key] = self._taken.get(key, 0) + 1
        return keys

    def free(self, keys: tuple[str, ...]) -> None:
        for key in keys:
            left = self._taken[key] - 1
            if left:
                self._taken[key] = left
            else:
                del self._taken[key]


def holder_of(caller: Caller) -> str:
    """The account to charge: a known caller's own, otherwise the address; an agent's is its caller's."""
    if caller.kind == "agent" and caller.on_behalf_of:
        return caller.on_behalf_of
    return f"anonymous@{rate_limit_key(caller.address)}" if caller.is_anonymous else caller.id


@lru_cache(maxsize=10_000)
def rate_limit_key(address: str) -> str:
    """The rate-limit key of an address: itself; in IPv6 its network, because one household has 2^64 addresses."""
    if ":" not in address:
        return address
    try:
        found = IPv6Address(address.partition("%")[0])
    except ValueError:
        return address
    return str(found.ipv4_mapped or IPv6Network((found, 64), strict=False))


_LOOPBACK = frozenset({"127.0.0.1", "::1", ""})


def is_loopback(address: str) -> bool:
    if address in _LOOPBACK:
        return True
    try:
        return ip_address(address).is_loopback
    except ValueError:
        return False


def max_conversations(quotas: Quotas, caller: Caller) -> int | None:
    """How many open conversations a caller may have; None: no limit."""
    if quotas.conversations is not None:
        return quotas.conversations
    return None if is_loopback(caller.address) else DEFAULT_CONVERSATIONS

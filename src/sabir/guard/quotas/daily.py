"""Daily quotas, counted in the store, so that they are exact across nodes.

A turn is counted before it runs; bytes, model tokens and cost after it has ended. So the last turn of a day may exceed
a quota, and the next is rejected. A caller over a quota is rejected from memory until the day ends: a flood costs
nothing.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final

from sabir.errors import RateLimited, StoreUnavailable
from sabir.message import Message
from sabir.stores.base import Store
from sabir.turn import Caller, Meter

from .rates import ConcurrencyCaps, Quotas, Remaining, holder_of

SPACE: Final = "usage"
DAY: Final = 86400.0
KINDS: Final = ("turns", "bytes", "tokens", "cost")
UNITS: Final = {"bytes": ("content-bytes", 1), "tokens": ("tokens", 1), "cost": ("cost-millionths", 1_000_000)}
RECENT: Final = 1.0  # seconds for which a count is reused without reading the store
_REMEMBERED: Final = 100_000


class DailyUsage:
    """Daily quotas, and what is left of them."""

    def __init__(self, quotas: Quotas, store: Store | None = None, clock: Callable[[], float] = time.time) -> None:
        limits = {kind: float(getattr(quotas, f"daily_{kind}")) for kind in KINDS}
        self._limits: Mapping[str, float] = {kind: limit for kind, limit in limits.items() if limit > 0}
        self._store = store
        self._clock = clock
        self._over: OrderedDict[str, tuple[float, str]] = OrderedDict()
        self._seen: OrderedDict[str, tuple[float, dict[str, float]]] = OrderedDict()  # by account: time and usage

    @property
    def counted(self) -> bool:
        return self._store is not None and bool(self._limits)

    async def begin(self, caller: Caller) -> None:
        """Count one turn.

        Raises:
            RateLimited: today's quota is used up; ``retry_after`` is the time until tomorrow.
        """
        holder, now = holder_of(caller), self._clock()
        known = self._over.get(holder)
        if known is not None and now < known[0]:
            raise self._used_up(known[1], known[0] - now)
        for kind, limit in self._limits.items():
            used = await self._count(holder, kind, 1.0 if kind == "turns" else 0.0)
            if used > limit or (kind != "turns" and used >= limit):
                self._over[holder] = (_midnight(now), kind)
                if len(self._over) > _REMEMBERED:
                    self._over.popitem(last=False)
                raise self._used_up(kind, _midnight(now) - now)

    async def spend(self, caller: Caller, size: int, meter: Meter) -> None:
        """Add what a turn has used, except what another node has already added."""
        spent = {"bytes": float(size), "tokens": float(meter.own_tokens), "cost": meter.own_cost}
        for kind, amount in spent.items():
            if amount and kind in self._limits:
                await self._count(meter.account or holder_of(caller), kind, amount)

    async def left(self, caller: Caller, *, recently: bool = False) -> list[Remaining]:
        """What is left of each quota; with ``recently``, a slightly old value is enough."""
        now, holder = self._clock(), holder_of(caller)
        used = self._recent(holder, now) if recently else {}
        for kind in self._limits:
            if kind not in used:
                used[kind] = await self._count(holder, kind, 0.0)
        return [
            Remaining(
                f"daily-{kind}",
                limit,
                max(0.0, limit - used[kind]),
                _midnight(now) - now,
                int(DAY),
                *UNITS.get(kind, ()),
            )
            for kind, limit in self._limits.items()
        ]

    def _recent(self, holder: str, now: float) -> dict[str, float]:
        at, used = self._seen.get(holder, (0.0, {}))
        over = self._over.get(holder)  # a caller over its quota stays so for the day, and costs no further lookup
        if int(at // DAY) == int(now // DAY) and (now - at < RECENT or (over is not None and now < over[0])):
            return dict(used)
        return {}

    async def _count(self, holder: str, kind: str, amount: float) -> float:
        assert self._store is not None
        now = self._clock()
        # Kept beyond its day, so that a slow clock does not restart it.
        used = await self._store.count(
            SPACE, f"{int(now // DAY)}:{kind}:{holder}", amount, expires=_midnight(now) + 3600.0
        )
        self._seen[holder] = now, {**self._recent(holder, now), kind: used}
        self._seen.move_to_end(holder)
        if len(self._seen) > _REMEMBERED:
            self._seen.popitem(last=False)
        return used

    def _used_up(self, kind: str, seconds: float) -> RateLimited:
        return RateLimited(f"the quota of {self._limits[kind]:g} {kind} a day is used up", retry_after=seconds)


def _midnight(now: float) -> float:
    return (now // DAY + 1) * DAY


class Counted:
    """Context manager around one turn: takes its slot, counts it, and adds what it used."""

    __slots__ = ("_agent", "_caller", "_control", "_handed_on", "_meter", "_places", "_taken", "_usage", "size")

    def __init__(
        self,
        places: ConcurrencyCaps,
        usage: DailyUsage,
        caller: Caller,
        agent: str,
        meter: Meter,
        size: int,
        control: bool = False,
    ) -> None:
        self._places = places
        self._usage = usage
        self._caller = caller
        self._agent = agent
        self._meter = meter
        self._taken: tuple[str, ...] = ()
        self._handed_on = caller.is_counted_elsewhere  # the turn, and its bytes
        self._control = control  # counted but never rejected: a caller over its quota may ask when it is renewed
        self.size = size

    async def __aenter__(self) -> Counted:
        if self._places.capped:
            self._taken = self._places.take(self._caller, self._agent, self._meter.account)
        if self._usage.counted and not self._handed_on:
            try:
                await self._usage.begin(self._caller)
            except BaseException as exc:
                if self._control and isinstance(exc, RateLimited):
                    return self
                self._places.free(self._taken)
                raise
        return self

    async def __aexit__(self, *exc: object) -> None:
        if self._taken:
            self._places.free(self._taken)
        if self._usage.counted:
            # Also if the turn was cancelled: what it used counts. A store outage must not hide its answer.
            with suppress(StoreUnavailable):
                await asyncio.shield(self._usage.spend(self._caller, 0 if self._handed_on else self.size, self._meter))


def size_of(message: Message) -> int:
    """The approximate size of a message in bytes, without encoding it."""
    content = message.content
    size = len(content) if isinstance(content, str | bytes) else 64
    for part in message.submessages:
        size += len(part.content) if isinstance(part.content, str | bytes) else 64
    return size

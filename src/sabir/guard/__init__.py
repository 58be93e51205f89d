"""The guard: authentication, limits and rights of callers."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol, TypeVar

from sabir.errors import StoreUnavailable
from sabir.message import Part
from sabir.turn import Caller, Meter, Permit, Turn, allow_all

from .audit.log import AuditBuffer, AuditSettings, AuditThrottle
from .filters.base import Filter, Filters
from .identity.callers import Authenticator, Credentials, Verifier, no_credentials, stranger_at
from .quotas.daily import Counted, DailyUsage, size_of
from .quotas.rates import ConcurrencyCaps, Quotas, Rates, Remaining, holder_of, limit_headers
from .rights import Rights, Rule
from .seal import Seal, keys_from

__all__ = [
    "AuditSettings",
    "Authenticator",
    "Credentials",
    "DailyUsage",
    "Filter",
    "Filters",
    "Guard",
    "Quotas",
    "Rates",
    "Remaining",
    "Rights",
    "Rule",
    "Seal",
    "Verifier",
    "keys_from",
    "size_of",
]

Number = TypeVar("Number", int, float)


class Known(Protocol):
    """Where the caller is recorded: an ``EventSink``, or a door's ``Admission``."""

    caller: Caller | None


@dataclass(slots=True)
class Guard:
    """Every hook that may refuse a request, in the order in which they run."""

    seal: Seal
    quotas: Quotas = field(default_factory=Quotas)
    identity: Authenticator = field(default_factory=Authenticator)
    rights: Rights = field(default_factory=Rights)
    filters: Filters = field(default_factory=Filters)
    usage: DailyUsage = None  # type: ignore[assignment]  # made of the quotas, without a store to count in
    trail: AuditThrottle = field(default_factory=AuditThrottle)
    notes: AuditBuffer = field(default_factory=AuditBuffer)
    rates: Rates = None  # type: ignore[assignment]  # made of the quotas
    places: ConcurrencyCaps = None  # type: ignore[assignment]  # made of the quotas
    counts: bool = field(init=False)  # whether anything is counted per turn

    def __post_init__(self) -> None:
        self.usage = self.usage or DailyUsage(self.quotas)
        self.rates = self.rates or Rates(self.quotas)
        self.places = self.places or ConcurrencyCaps(self.quotas)
        self.counts = self.places.capped or self.usage.counted

    def with_hooks(self, identity: Authenticator | None, rights: Rights | None, filters: Filters | None) -> Guard:
        """A copy of this guard with the given hooks in place of its own."""
        self.identity = identity or self.identity
        self.rights = rights or self.rights
        self.filters = filters or self.filters
        return self

    async def admit(self, credentials: Credentials, tokens: tuple[Part, ...], at: Known | None = None) -> Caller:
        """Authenticate a request and charge it to its caller; ``at`` gets the caller as soon as it is known.

        Raises:
            Unauthenticated: invalid credentials.
            RateLimited: over the rate.
        """
        if at is not None:
            at.caller = credentials.caller
        if credentials.sender is None:
            self.rates.check_address(credentials.address)
        else:
            self.rates.check_share(credentials.address, credentials.sender)
        caller = await self.identity.caller(credentials, tokens)
        if at is not None:
            at.caller = caller
        self.rates.check_caller(caller)
        return caller

    def stranger(self, credentials: Credentials, tokens: tuple[Part, ...]) -> Caller | None:
        """The fast path of ``admit`` for requests without credentials, for which no verifier has to run.

        Raises:
            RateLimited: over the rate.
        """
        address = credentials.address
        if tokens or not self.identity.anonymous or credentials is not no_credentials(address):
            return None
        self.rates.check_address(address)
        return stranger_at(address)

    def permit(self, caller: Caller, agent: str, door: str) -> Permit:
        """The check that runs before each tool call: whether this caller may make it."""
        return partial(self.rights.check, caller, agent=agent, door=door) if self.rights.rules else allow_all

    def meter(self, caller: Caller | None = None, before: Meter | None = None) -> Meter:
        """The meter of one turn, with its budget; ``before`` is the meter of the node that forwarded the turn."""
        quotas, account = self.quotas, holder_of(caller) if self.counts and caller is not None else ""
        if before is None:
            return Meter(quotas.turn_calls, quotas.turn_tokens, quotas.turn_cost, account=account)
        return Meter(
            _stricter(quotas.turn_calls, before.max_calls),
            _stricter(quotas.turn_tokens, before.max_tokens),
            _stricter(quotas.turn_cost, before.max_cost),
            before.calls,
            before.tokens,
            before.cost,
            before.account or account,
        )

    def counted(self, turn: Turn, *, control: bool = False) -> Counted:
        """Context manager around a turn: takes a concurrency slot, and charges its caller's quotas.

        Raises:
            RateLimited: on entering; no slot is free, or a quota is used up.
        """
        size = size_of(turn.message)
        return Counted(self.places, self.usage, turn.caller, turn.agent, turn.meter, size, control)

    async def remaining(self, caller: Caller) -> list[Remaining]:
        """What a caller has left of each limit; for headers and control answers."""
        rate = self.rates.remaining(caller)
        today = await self.usage.left(caller) if self.usage.counted else []
        return [*([rate] if rate is not None else []), *today]

    def spares(self, address: str) -> bool:
        """Whether callers from this address are not metered, so that there is nothing to report."""
        return not self.usage.counted and self.rates.spares(address)

    async def headers(self, caller: Caller) -> list[tuple[bytes, bytes]]:
        """The same, for every HTTP response; daily quotas may be a moment old, and are left out if the store is
        down."""
        rate = self.rates.remaining(caller)
        if not self.usage.counted:
            return [] if rate is None else rate.headers()
        with suppress(StoreUnavailable):
            today = await self.usage.left(caller, recently=True)
            return limit_headers(today if rate is None else [rate, *today])
        return [] if rate is None else rate.headers()


def _stricter(one: Number, other: Number) -> Number:
    """The lower of two budgets; 0 means no limit."""
    return min(one, other) if one and other else one or other

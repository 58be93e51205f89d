"""What the gateway remembers of callers is bounded, however many addresses and names they make up."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest

from guard_clock import Clock
from sabir.errors import RateLimited, SabirError
from sabir.exchange import conversations as exchange_conversations
from sabir.exchange.conversations import Conversations, Tokens
from sabir.exchange.idempotency import IdempotentTurns
from sabir.guard import Credentials, Quotas, Seal, agreements
from sabir.guard.agreements import Agreements
from sabir.guard.audit.log import AuditThrottle
from sabir.guard.identity import api_keys, callers
from sabir.guard.identity.api_keys import ApiKeys, KeyVerifier
from sabir.guard.identity.callers import Authenticator
from sabir.guard.quotas import daily
from sabir.guard.quotas.daily import DailyUsage
from sabir.guard.quotas.rates import Buckets, ConcurrencyCaps, Rates
from sabir.http import heavy
from sabir.http.heavy import Heavy
from sabir.stores.base import AuditLine
from sabir.stores.memory import MemoryStore
from sabir.turn import Caller

LIMIT = 20
NAMES = 10 * LIMIT
Use = Callable[[int], Awaitable[object]]


def address(number: int) -> str:
    return f"198.51.{number // 250}.{number % 250}"


def caller(number: int) -> Caller:
    return Caller(f"key:{number}", "key", address=address(number))


class Paced:
    """A metered client."""

    def __init__(self, number: int) -> None:
        self.paced_as = address(number)

    def check_running(self) -> None:
        return None

    def charge_cost(self, cost: int) -> None:
        return None


def of_buckets(use: Callable[[Buckets, str], object], clock: Clock) -> tuple[Any, Use]:
    made = Buckets(1.0, 5.0, limit=LIMIT, clock=clock)

    async def once(number: int) -> None:
        use(made, address(number))

    return made, once


def of_rates(clock: Clock) -> tuple[Any, Use]:
    """Made with the usual limits, which are lowered afterwards."""
    rates = Rates(Quotas(rate_per_caller=1.0, rate_per_address=1.0, burst=3.0), clock=clock)
    for table in (rates._callers, rates._addresses, rates._shares.all, rates._shares._known, rates._shares._new):
        table._limit = LIMIT

    async def once(number: int) -> None:
        rates.spend(address(number), caller(number), 50.0)
        rates.spend("", None, 50.0)
        with suppress(RateLimited):
            rates.check_share(address(number), f"name {number}")
        rates.spend(address(number), None, 50.0, sender=f"name {number}")
        with suppress(RateLimited):
            rates.check(caller(number))

    return rates, once


def of_logins(clock: Clock, store: MemoryStore) -> tuple[Any, Use]:
    verifier = KeyVerifier(ApiKeys(store))
    made = Authenticator([verifier], mistakes=Buckets(0.2, 1.0, limit=LIMIT, clock=clock), clock=clock)

    async def once(number: int) -> None:
        key = Credentials(address(number), headers={"x-api-key": f"{api_keys.PREFIX}{number}_secret"})
        with suppress(SabirError):
            await made.caller(key)

    return (made, verifier), once


def of_days(clock: Clock, store: MemoryStore) -> tuple[Any, Use]:
    made = DailyUsage(Quotas(daily_turns=1), store, clock)

    async def once(number: int) -> None:
        for _ in range(3):
            with suppress(RateLimited):
                await made.begin(caller(number))

    return made, once


def of_places() -> tuple[Any, Use]:
    made = ConcurrencyCaps(Quotas(concurrent_per_caller=1, concurrent_per_agent=NAMES))

    async def once(number: int) -> None:
        made.free(made.take(caller(number), f"agent {number}"))

    return made, once


def of_costly_messages() -> tuple[Any, Use]:
    made = Heavy()

    async def once(number: int) -> None:
        async with made.work(10_000_000, Paced(number)):
            made._free_at = 0.0  # the test need not wait for its turn

    return made, once


def of_refusals(clock: Clock) -> tuple[Any, Use]:
    made = AuditThrottle(limit=LIMIT, clock=clock)

    async def once(number: int) -> None:
        made.admit(AuditLine(clock(), "refusal", "anonymous", "nlip", "echo", "limited", str(number)), address(number))

    return made, once


def of_agreed_rates(clock: Clock) -> tuple[Any, Use]:
    made = Agreements(clock=clock)

    async def once(number: int) -> None:
        made._take(f"conversation {number}", 60)

    return made, once


def of_keys() -> tuple[Any, Use]:
    made = IdempotentTurns()

    async def once(number: int) -> None:
        await made.enter(f"turn {number}")
        made.leave(f"turn {number}")

    return made, once


def of_conversations(store: MemoryStore) -> tuple[Any, Use]:
    made = Conversations(store, Seal(bytes(32)), Quotas(conversations=5))
    made._strangers._limit = LIMIT

    async def once(number: int) -> None:
        for who in (caller(number), Caller(address=address(number))):
            async with made.hold(Tokens(), who):
                pass

    return made, once


TABLES: dict[str, Callable[[Clock, MemoryStore], tuple[Any, Use]]] = {
    "rates: take": lambda clock, store: of_buckets(lambda made, key: made.take(key), clock),
    "rates: take more than there is": lambda clock, store: of_buckets(lambda made, key: made.take(key, 50.0), clock),
    "rates: spend": lambda clock, store: of_buckets(lambda made, key: made.spend(key, 50.0), clock),
    "rates: begin": lambda clock, store: of_buckets(lambda made, key: made.begin(key), clock),
    "rates of callers, addresses and names": lambda clock, store: of_rates(clock),
    "failed logins": of_logins,
    "daily quotas": of_days,
    "concurrent turns": lambda clock, store: of_places(),
    "costly messages": lambda clock, store: of_costly_messages(),
    "refusals in the audit log": lambda clock, store: of_refusals(clock),
    "agreed rates": lambda clock, store: of_agreed_rates(clock),
    "idempotency keys": lambda clock, store: of_keys(),
    "open conversations": lambda clock, store: of_conversations(store),
}


def largest_table(made: Any, depth: int = 3) -> int:
    """The number of entries of the largest table in these objects."""
    if isinstance(made, dict | set):
        return len(made)
    if isinstance(made, tuple):
        return max(map(largest_table, made))
    if not type(made).__module__.startswith("sabir.") or isinstance(made, MemoryStore) or not depth:
        return 0
    names = [*getattr(made, "__dict__", ()), *getattr(made, "__slots__", ())]
    return max((largest_table(getattr(made, name, None), depth - 1) for name in names), default=0)


@pytest.mark.parametrize("name", TABLES)
async def test_a_table_stays_within_its_limit(
    name: str, clock: Clock, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``Buckets.spend`` and the counts of open conversations grew with every address and caller."""
    for module, limit in (
        (callers, "_REMEMBERED"),
        (api_keys, "_CACHED"),
        (daily, "_REMEMBERED"),
        (agreements, "_MAX_RATES"),
        (heavy, "MAX_ADDRESSES"),
        (exchange_conversations, "_MAX_COUNTED"),
    ):
        monkeypatch.setattr(module, limit, LIMIT)
    monkeypatch.setattr(heavy, "DISTANCE", 1e3)  # so that every entry still matters
    made, use = TABLES[name](clock, store)
    async with asyncio.timeout(60):
        for number in range(NAMES):
            await use(number)
    assert largest_table(made) <= LIMIT


def test_the_most_recent_callers_are_remembered(clock: Clock) -> None:
    """What is dropped is what was not used for longest, also if it was used on credit or in vain."""
    made = Buckets(1.0, 5.0, limit=2, clock=clock)
    made.spend("a", 10.0)
    made.take("b")
    made.take("a")  # paid for already
    made.take("a")  # in vain
    made.spend("c", 1.0)
    assert "a" in made and "c" in made and "b" not in made

"""Limits: rates, concurrency slots, daily quotas, budgets; and how they are reported."""

from __future__ import annotations

from contextlib import suppress

import pytest

from guard_clock import Clock
from sabir.errors import RateLimited, TurnFailed
from sabir.guard import Credentials, Guard, Quotas, Rates, Seal
from sabir.guard.quotas.daily import DailyUsage
from sabir.guard.quotas.rates import Buckets, ConcurrencyCaps, rate_limit_key
from sabir.message import Message
from sabir.stores.memory import MemoryStore
from sabir.turn import Caller, Meter, Turn

ALICE = Caller("key:a", "key", address="192.0.2.1")
BOB = Caller("key:b", "key", address="192.0.2.1")
STRANGER = Caller(address="192.0.2.7")


def test_a_caller_an_address_and_an_agent_each_have_their_rate(clock: Clock) -> None:
    quotas = Quotas(rate_per_caller=1.0, rate_per_address=2.0, rate_per_agent=1.0, burst=2.0)
    rates = Rates(quotas, clock=clock)
    rates.check_caller(ALICE)
    rates.check_caller(ALICE)
    with pytest.raises(RateLimited) as over:
        rates.check_caller(ALICE)
    assert over.value.retry_after == pytest.approx(1.0)
    rates.check_caller(BOB)  # another caller has an account of its own
    rates.check_agent("echo")
    rates.check_agent("echo")
    with pytest.raises(RateLimited):
        rates.check_agent("echo")
    rates.check_agent("other")
    clock.now += 1
    rates.check_caller(ALICE)


def let_in(rates: Rates, name: str) -> bool:
    """Whether a caller known only by this name is admitted, at an address shared by many."""
    try:
        rates.check_share("amqp", name)
    except RateLimited:
        return False
    return True


@pytest.mark.parametrize("amount", [0.0, 10.0], ids=["invalid messages", "costly messages"])
def test_what_one_of_many_at_a_place_sends_is_charged_to_its_share(clock: Clock, amount: float) -> None:
    """It emptied the account of the place, and nobody there was read any more."""
    rates = Rates(Quotas(rate_per_address=8.0, burst=80.0), clock=clock)
    for _ in range(200):
        with suppress(RateLimited):
            rates.check_open("amqp", "flood")
            if amount:
                rates.spend("amqp", None, amount, "flood")
            rates.check_share("amqp", "flood")
    with pytest.raises(RateLimited):
        rates.check_open("amqp", "flood")
    rates.check_open("amqp", "other")
    assert let_in(rates, "other")


def test_a_flood_from_a_shared_address_leaves_something_for_others(clock: Clock) -> None:
    rates = Rates(Quotas(rate_per_address=8.0, burst=80.0), clock=clock)
    assert sum(let_in(rates, "flood") for _ in range(200)) == 80  # as if it were alone
    assert let_in(rates, "first") and let_in(rates, "second")  # though they are seen for the first time
    counts = {"flood": 0, "first": 0, "second": 0}
    for step in range(300):  # half a minute: the one asks at every chance, the others once a second
        clock.now += 0.1
        counts["flood"] += sum(let_in(rates, "flood") for _ in range(5))
        if step % 10 == 9:
            counts["first"] += let_in(rates, "first")
            counts["second"] += let_in(rates, "second")
    assert counts["first"] == counts["second"] == 30  # each was answered whenever it asked
    assert 150 <= counts["flood"] <= 190  # its share, and what the others left


def test_a_new_name_for_each_request_gains_nothing_and_does_not_block_known_names(clock: Clock) -> None:
    rates = Rates(Quotas(rate_per_address=8.0, burst=80.0), clock=clock)
    assert let_in(rates, "known")
    clock.now += 10
    names = (f"made up {n}" for n in range(1_000_000))
    taken = sum(let_in(rates, next(names)) for _ in range(2000))
    assert taken <= 160  # what the place has, and no more
    for _ in range(100):
        clock.now += 0.5
        taken += sum(let_in(rates, next(names)) for _ in range(200))
        assert let_in(rates, "known")
    assert taken <= 160 + 8 * 50


def test_names_that_were_not_let_in_are_not_remembered(clock: Clock) -> None:
    rates = Rates(Quotas(rate_per_address=1.0, burst=8.0), clock=clock)
    for n in range(50_000):
        let_in(rates, f"made up {n}")
    assert len(rates._shares._known._levels) <= 16


def test_this_machine_is_spared_unless_a_rate_is_configured(clock: Clock) -> None:
    local = Caller(address="127.0.0.1")
    spared = Rates(Quotas(burst=1.0), clock=clock)
    for _ in range(5):
        spared.check(local)
    assert spared.remaining(local) is None
    # Behind a proxy that does not say for whom it asks, everybody seems to be this machine.
    for counted in (
        Rates(Quotas(burst=1.0, rate_per_address=1.0), clock=clock),
        Rates(Quotas(burst=1.0), behind_proxy=True, clock=clock),
    ):
        counted.check(local)
        with pytest.raises(RateLimited):
            counted.check(local)


async def test_a_flood_is_rejected_before_authentication() -> None:
    class Dear:
        challenge = "Bearer"
        asked = 0

        async def verify(self, credentials: Credentials, tokens: object) -> None:
            self.asked += 1

    from sabir.guard import Authenticator

    verifier = Dear()
    guard = Guard(Seal(b"k"), Quotas(rate_per_address=0.001, burst=2.0), Authenticator([verifier], strict=False))
    credentials = Credentials("192.0.2.9", "Bearer x")
    for _ in range(2):
        await guard.admit(credentials, ())
    for _ in range(50):
        with pytest.raises(RateLimited):
            await guard.admit(credentials, ())
    assert verifier.asked == 2


def test_the_remaining_quota_is_in_headers(clock: Clock) -> None:
    rates = Rates(Quotas(rate_per_caller=2.0, burst=10.0), clock=clock)
    for _ in range(4):
        rates.check_caller(ALICE)
    left = rates.remaining(ALICE)
    assert left is not None
    assert left.headers() == [
        (b"ratelimit-policy", b'"requests";q=10'),
        (b"ratelimit", b'"requests";r=6;t=2'),
    ]


def test_places_are_taken_and_given_back() -> None:
    places = ConcurrencyCaps(Quotas(concurrent_per_caller=2, concurrent_per_agent=3))
    taken = [places.take(ALICE, "echo"), places.take(ALICE, "echo")]
    with pytest.raises(RateLimited, match="at most 2 turns"):
        places.take(ALICE, "echo")
    taken.append(places.take(BOB, "echo"))
    with pytest.raises(RateLimited, match="at most 3 turns"):
        places.take(STRANGER, "echo")
    places.free(taken.pop())
    places.free(taken.pop())
    assert places.take(ALICE, "echo")


async def test_daily_quotas_are_one_account_across_nodes(store: MemoryStore, clock: Clock) -> None:
    quotas = Quotas(daily_turns=3)
    one, two = DailyUsage(quotas, store, clock), DailyUsage(quotas, store, clock)
    for node in (one, two, one):
        await node.begin(ALICE)
    for node in (one, two):
        with pytest.raises(RateLimited, match="the quota of 3 turns a day is used up") as over:
            await node.begin(ALICE)
        assert 0 < over.value.retry_after <= 86400
    await one.begin(BOB)
    clock.now += 86400
    await one.begin(ALICE)


async def test_bytes_tokens_and_cost_count_when_the_turn_has_ended(store: MemoryStore, clock: Clock) -> None:
    usage = DailyUsage(Quotas(daily_bytes=1000, daily_tokens=50, daily_cost=0.5), store, clock)
    meter = Meter()
    meter.add(1, 49, 0.1)
    await usage.begin(STRANGER)
    await usage.spend(STRANGER, 10, meter)
    await usage.begin(STRANGER)
    meter.add(1, 1, 0.0)
    await usage.spend(STRANGER, 10, meter)
    with pytest.raises(RateLimited, match="50 tokens a day"):
        await usage.begin(STRANGER)
    await usage.begin(Caller(address="192.0.2.8"))  # anonymous callers are distinguished by their address
    left = {item.name: item.remaining for item in await usage.left(STRANGER)}
    assert left == {"daily-bytes": 980.0, "daily-tokens": 0.0, "daily-cost": pytest.approx(0.3)}


async def test_callers_over_their_limit_are_rejected_from_memory(store: MemoryStore, clock: Clock) -> None:
    usage = DailyUsage(Quotas(daily_turns=1), store, clock)
    await usage.begin(ALICE)
    with pytest.raises(RateLimited):
        await usage.begin(ALICE)
    await store.close()  # any look at the store would fail now
    for _ in range(3):
        with pytest.raises(RateLimited):
            await usage.begin(ALICE)


async def test_a_turn_puts_on_the_account_what_it_used_also_when_it_fails(store: MemoryStore, clock: Clock) -> None:
    quotas = Quotas(daily_tokens=1000, concurrent_per_caller=1)
    guard = Guard(Seal(b"k"), quotas, usage=DailyUsage(quotas, store, clock))
    turn = Turn(Message.text("hi"), caller=ALICE, agent="echo", meter=guard.meter())
    with pytest.raises(ValueError):
        async with guard.counted(turn):
            turn.spend(tokens=100)
            raise ValueError
    [left] = await guard.usage.left(ALICE)
    assert left.remaining == 900
    async with guard.counted(turn):  # its place is free again
        pass


def test_a_turn_has_one_budget_for_all_agents_in_it() -> None:
    """Cost amplification: a fan-out spends from the same account."""
    guard = Guard(Seal(b"k"), Quotas(turn_calls=3, turn_tokens=1000))

    class Member:
        from sabir.card import Card

        card = Card("member")

    turn = Turn(Message.text("hi"), agent="panel", meter=guard.meter())
    subs = [turn.sub(Message.text("part"), Member()) for _ in range(4)]
    for sub in subs[:3]:
        sub.spend(calls=1, tokens=10)
    with pytest.raises(TurnFailed, match="budget of 3 calls is used up"):
        subs[3].spend(calls=1)
    assert turn.meter.tokens == 30


def test_a_house_with_many_ipv6_addresses_is_one_place(clock: Clock) -> None:
    assert rate_limit_key("192.0.2.7") == "192.0.2.7" == rate_limit_key("::ffff:192.0.2.7")
    assert rate_limit_key("2001:db8:1:2:3:4:5:6") == rate_limit_key("2001:db8:1:2::9%eth0") == "2001:db8:1:2::/64"
    assert rate_limit_key("not:an:address") == "not:an:address"
    rates = Rates(Quotas(rate_per_address=1.0, burst=2.0), clock=clock)
    for last in range(2):
        rates.check_address(f"2001:db8::{last}")
    with pytest.raises(RateLimited):
        rates.check_address("2001:db8::ffff")
    rates.check_address("2001:db8:0:1::1")


def test_costly_requests_are_paid_for_when_the_account_is_nearly_empty_too() -> None:
    """They took no more than what was there, so that a flood of them cost as much as one of small requests."""
    now, let_in = 0.0, 0
    buckets = Buckets(rate=100.0, burst=200.0, clock=lambda: now)
    for _ in range(1000):  # ten seconds
        now += 0.01
        if not buckets.wait("a"):
            buckets.spend("a", 14)
            assert buckets.take("a") == 0.0  # the request itself is paid for
            let_in += 1
    assert 70 <= let_in <= (10 * 100 + 200 + 200) / 15
    buckets.spend("a", 10_000)
    assert buckets.take("a") == 0.0 and buckets.left("a") == 0.0
    assert buckets.wait("a") == pytest.approx(2.01)  # nobody is shut out for longer than it takes to fill a burst
    now += 2.1
    assert buckets.wait("a") == 0.0

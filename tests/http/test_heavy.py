"""Costly messages keep a distance from each other, by address; others do not wait for that (issue 11, D15)."""

from __future__ import annotations

import asyncio
import time

import pytest

from deadline import DEADLINE
from sabir.errors import ShuttingDown
from sabir.http.heavy import DISTANCE, Heavy

COST = 25_000  # 0.1 s


class Charge:
    """What ``Heavy`` asks of an ``Admission``."""

    def __init__(self, address: str | None) -> None:
        self.paced_as = address
        self.charged = 0
        self.stops = False

    def check_running(self) -> None:
        if self.stops:
            raise ShuttingDown

    def charge_cost(self, cost: int) -> None:
        self.charged += cost


async def begins(heavy: Heavy, addresses: list[str | None], cost: int = COST) -> list[float]:
    """When the work on each of these messages began, in seconds from now."""
    start = time.monotonic()

    async def work(address: str | None) -> float:
        async with heavy.work(cost, Charge(address)):
            return time.monotonic() - start

    return await asyncio.gather(*(work(address) for address in addresses))


async def test_costly_messages_of_one_address_keep_a_distance() -> None:
    _, second, third = await begins(Heavy(), ["a", "a", "a"])
    assert second >= 0.9 * COST * DISTANCE and third >= 1.8 * COST * DISTANCE  # since the first could begin


async def test_other_addresses_do_not_wait_for_them() -> None:
    *flood, other = await begins(Heavy(), ["a", "a", "a", "b"])
    assert other < flood[1]


async def test_callers_that_are_not_metered_keep_no_distance() -> None:
    assert max(await begins(Heavy(), [None, None, None], 100 * COST)) < 100 * COST * DISTANCE


async def test_cheap_messages_are_neither_charged_nor_delayed() -> None:
    charge = Charge("a")
    heavy = Heavy()
    for _ in range(3):
        async with heavy.work(10, charge):
            pass
    assert charge.charged == 0


async def test_later_work_on_the_same_message_keeps_no_distance() -> None:
    heavy, began = Heavy(), time.monotonic()
    async with heavy.work(100 * COST, Charge("a")):
        pass
    async with heavy.work(100 * COST):
        pass
    assert time.monotonic() - began < 100 * COST * DISTANCE


async def test_whoever_keeps_a_distance_notices_that_the_gateway_stops() -> None:
    heavy, charge = Heavy(), Charge("a")
    charge.stops = True
    async with heavy.work(100 * COST, charge):
        pass
    with pytest.raises(ShuttingDown):
        async with asyncio.timeout(DEADLINE), heavy.work(COST, charge):
            pass

"""A breaker per peer."""

from __future__ import annotations

import pytest

from guard_clock import Clock
from sabir.errors import Forbidden, PeerUnavailable
from sabir.guard.breaker import Breaker, Breakers


def fail(breaker: Breaker, times: int = 1) -> None:
    for _ in range(times):
        with pytest.raises(PeerUnavailable, match="gone"), breaker.call():
            raise PeerUnavailable("b", "gone")


def test_a_peer_that_keeps_failing_is_left_alone_and_then_tried_by_one_call(clock: Clock) -> None:
    breaker = Breaker("b", trip=3, pause=5.0, clock=clock)
    fail(breaker, 3)
    assert breaker.state == "open"
    with pytest.raises(PeerUnavailable, match="it failed 3 times; tried again in 5 s"), breaker.call():
        raise AssertionError("the peer must not be called")
    clock.now += 5
    assert breaker.state == "half-open"
    with breaker.call(), pytest.raises(PeerUnavailable), breaker.call():
        raise AssertionError("one call tries; others wait for what it finds")
    assert breaker.state == "closed"


def test_a_peer_that_fails_again_is_left_alone_for_twice_as_long(clock: Clock) -> None:
    breaker = Breaker("b", trip=1, pause=5.0, longest=15.0, clock=clock)
    fail(breaker)
    for pause in (5, 10, 15, 15):
        clock.now += pause - 1
        assert breaker.state == "open"
        clock.now += 1
        fail(breaker)
    clock.now += 15
    with breaker.call():
        pass
    fail(breaker)
    clock.now += 5
    assert breaker.state == "half-open"  # an answer makes the pause short again


def test_failures_count_in_a_row_and_a_refusal_is_an_answer(clock: Clock) -> None:
    breaker = Breaker("b", trip=2, clock=clock)
    fail(breaker)
    with pytest.raises(Forbidden), breaker.call():
        raise Forbidden("no")
    fail(breaker)
    assert breaker.state == "closed"


def test_a_cancelled_try_leaves_the_way_open_for_the_next(clock: Clock) -> None:
    breaker = Breaker("b", trip=1, pause=1.0, clock=clock)
    fail(breaker)
    clock.now += 1
    with pytest.raises(KeyboardInterrupt), breaker.call():
        raise KeyboardInterrupt
    with breaker.call():
        pass
    assert breaker.state == "closed"


def test_each_peer_has_its_own_and_those_unused_are_forgotten() -> None:
    breakers = Breakers(trip=1, most=2)
    fail(breakers.of("a"))
    assert breakers.of("b").state == "closed"
    assert breakers.states() == {"a": "open"}
    breakers.of("c")
    assert breakers.states() == {}

"""A breaker per peer."""

from __future__ import annotations

import pytest

from guard_clock import Clock
from sabir.errors import Forbidden, PeerRefused, PeerUnavailable, SabirError, StoreUnavailable, tree
from sabir.events import Delta, Event, Fault, Progress, Question, Reply
from sabir.guard.egress.breaker import Breaker
from sabir.message import Message


def fail(breaker: Breaker, times: int = 1) -> None:
    for _ in range(times):
        with pytest.raises(PeerUnavailable, match="gone"), breaker.call():
            raise PeerUnavailable("b", "gone")


def test_a_peer_that_keeps_failing_is_left_alone_and_then_tried_by_one_call(clock: Clock) -> None:
    breaker = Breaker("b", trip=3, pause=5.0, clock=clock)
    fail(breaker, 3)
    assert breaker.state == "open"
    with pytest.raises(PeerUnavailable, match="it failed 3 times; next try in 5 s"), breaker.call():
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
    with pytest.raises(PeerRefused), breaker.call():
        raise PeerRefused("b", "no", 500)  # it failed on this one
    fail(breaker)
    assert breaker.state == "closed"
    with pytest.raises(PeerRefused), breaker.call():
        raise PeerRefused("b", "down", 503, broken=True)
    assert breaker.state == "open"


def test_only_errors_of_the_peer_count(clock: Clock) -> None:
    counted = set()
    for kind in tree():
        breaker = Breaker("b", trip=1, clock=clock)
        raised = kind.__new__(kind)
        SabirError.__init__(raised, "x")
        raised.broken = False  # type: ignore[attr-defined]
        with pytest.raises(kind), breaker.call():
            raise raised
        if breaker.state == "open":
            counted.add(kind.__name__)
    assert counted == {"PeerError", "PeerUnavailable", "PeerUnreadable"}


@pytest.mark.parametrize("ours", [Forbidden("no"), StoreUnavailable("away"), KeyboardInterrupt()])
def test_what_goes_wrong_on_our_own_side_says_nothing_of_the_peer(clock: Clock, ours: BaseException) -> None:
    breaker = Breaker("b", trip=2, clock=clock)
    fail(breaker)
    with pytest.raises(type(ours)), breaker.call():
        raise ours
    assert breaker.state == "closed"
    fail(breaker)
    assert breaker.state == "open"


@pytest.mark.parametrize(
    ("event", "state"),
    [
        (Reply(Message.text("yes")), "closed"),
        (Fault("I cannot"), "closed"),
        (Question("which?"), "closed"),
        (Fault("I am down", "unavailable"), "open"),
        (Delta.text("y"), "half-open"),
        (Progress(0.5), "half-open"),
    ],
)
def test_a_caller_that_leaves_with_the_answer_counts_as_answered(clock: Clock, event: Event, state: str) -> None:
    """A caller that has what it wanted does not come back for the end of the call."""
    breaker = Breaker("b", trip=1, pause=1.0, clock=clock)
    fail(breaker)
    clock.now += 1
    with pytest.raises(GeneratorExit), breaker.call() as calling:
        calling.received(event)
        raise GeneratorExit
    if state == "half-open":  # a sign of life: others are let through, and the first failure ends that
        assert breaker.state == "closed"
        fail(breaker)
        state = "open"
    assert breaker.state == state


def test_others_do_not_wait_for_the_end_of_a_long_try(clock: Clock) -> None:
    breaker = Breaker("b", trip=1, pause=1.0, clock=clock)
    fail(breaker)
    clock.now += 1
    with pytest.raises(PeerUnavailable, match="broke off"), breaker.call() as long:
        long.received(Delta.text("to begin with,"))
        assert breaker.state == "closed"
        raise PeerUnavailable("b", "broke off")
    assert breaker.state == "open"
    clock.now += 1
    assert breaker.state == "open"  # for twice as long, as after every try that failed


def test_a_late_failure_of_an_older_call_does_not_end_the_try(clock: Clock) -> None:
    breaker = Breaker("b", trip=1, pause=1.0, clock=clock)
    older = breaker.call()
    older.__enter__()
    fail(breaker)
    clock.now += 1
    with breaker.call():
        older.__exit__(PeerUnavailable, PeerUnavailable("b", "gone"), None)
        with pytest.raises(PeerUnavailable, match="next try"), breaker.call():
            raise AssertionError("one call tries")
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

"""The life of a turn: every state and every step of the table."""

from __future__ import annotations

import pytest

from sabir.exchange.states import ENDED_EARLY, TRANSITIONS, TurnState, TurnStep, after

CELLS = [(state, step) for state in TurnState for step in TurnStep]


@pytest.mark.parametrize(("state", "step"), CELLS, ids=lambda item: item.value)
def test_every_cell_of_the_table_is_a_transition_or_changes_nothing(state: TurnState, step: TurnStep) -> None:
    assert after(state, step) is TRANSITIONS[state].get(step, state)


def test_a_turn_runs_asks_back_and_ends() -> None:
    state = TurnState.ASKED
    for step in (TurnStep.BEGIN, TurnStep.ASK, TurnStep.ANSWER, TurnStep.END):
        state = after(state, step)
    assert state is TurnState.ENDED


@pytest.mark.parametrize("first", [TurnStep.EXPIRE, TurnStep.STOP, TurnStep.CANCEL])
@pytest.mark.parametrize("second", [TurnStep.EXPIRE, TurnStep.STOP, TurnStep.CANCEL, TurnStep.ASK, TurnStep.ANSWER])
def test_what_ends_a_turn_first_is_the_reason(first: TurnStep, second: TurnStep) -> None:
    ended = after(TurnState.RUNNING, first)
    assert ended in ENDED_EARLY
    assert after(ended, second) is ended


def test_nothing_leaves_the_end() -> None:
    assert all(after(TurnState.ENDED, step) is TurnState.ENDED for step in TurnStep)


def test_every_state_can_be_reached_and_left() -> None:
    reached = {TurnState.ASKED} | {state for row in TRANSITIONS.values() for state in row.values()}
    assert reached == set(TurnState)
    assert all(TurnStep.END in row for state, row in TRANSITIONS.items() if state is not TurnState.ENDED)

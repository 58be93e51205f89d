"""The life of a turn, as a table.

::

    ASKED → RUNNING ⇄ WAITING → ENDED

A waiting turn has asked a question. A running or waiting turn can be ended early: its deadline has passed, the gateway
is stopping, or its owner cancelled it.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final


class TurnState(StrEnum):
    ASKED = "asked"  # the agent has not been called yet
    RUNNING = "running"
    WAITING = "waiting"  # for the answer to a question of its own
    EXPIRED = "expired"  # being ended: past its deadline
    STOPPED = "stopped"  # being ended: the gateway is stopping
    CANCELLED = "cancelled"  # being ended: its owner no longer wants the answer
    ENDED = "ended"


class TurnStep(StrEnum):
    BEGIN = "begin"
    ASK = "ask"
    ANSWER = "answer"
    EXPIRE = "expire"
    STOP = "stop"
    CANCEL = "cancel"
    END = "end"


_EARLY: Final = {
    TurnStep.EXPIRE: TurnState.EXPIRED,
    TurnStep.STOP: TurnState.STOPPED,
}
_ENDING: Final = {TurnStep.END: TurnState.ENDED}

# A step that is not listed for a state has no effect: the first reason to end a turn wins.
TRANSITIONS: Final[Mapping[TurnState, Mapping[TurnStep, TurnState]]] = {
    TurnState.ASKED: {TurnStep.BEGIN: TurnState.RUNNING, **_EARLY, **_ENDING},
    TurnState.RUNNING: {TurnStep.ASK: TurnState.WAITING, **_EARLY, TurnStep.CANCEL: TurnState.CANCELLED, **_ENDING},
    # A cancelled question resolves as cancelled, so that its turn resumes and ends by itself.
    TurnState.WAITING: {TurnStep.ANSWER: TurnState.RUNNING, **_EARLY, **_ENDING},
    TurnState.EXPIRED: _ENDING,
    TurnState.STOPPED: _ENDING,
    TurnState.CANCELLED: _ENDING,
    TurnState.ENDED: {},
}
ENDED_EARLY: Final = frozenset({TurnState.EXPIRED, TurnState.STOPPED, TurnState.CANCELLED})


def after(state: TurnState, step: TurnStep) -> TurnState:
    """The state after a step; unchanged if the step has no effect."""
    return TRANSITIONS[state].get(step, state)

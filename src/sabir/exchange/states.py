"""The life of a turn, as a table.

::

    ASKED → RUNNING ⇄ WAITING → ENDED

A turn that waits has asked back. It may be ended early, while it runs or waits: because its deadline has passed,
because the gateway stops, or because its owner cancelled it.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final


class TurnState(StrEnum):
    ASKED = "asked"  # the agent has not been called yet
    RUNNING = "running"
    WAITING = "waiting"  # for the answer to a question of its own
    EXPIRED = "expired"  # it is being ended: past its deadline
    STOPPED = "stopped"  # it is being ended: the gateway stops
    CANCELLED = "cancelled"  # it is being ended: its owner does not want the answer any more
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

# A step that is not listed for a state changes nothing: what ends a turn first, ends it.
TRANSITIONS: Final[Mapping[TurnState, Mapping[TurnStep, TurnState]]] = {
    TurnState.ASKED: {TurnStep.BEGIN: TurnState.RUNNING, **_EARLY, **_ENDING},
    TurnState.RUNNING: {TurnStep.ASK: TurnState.WAITING, **_EARLY, TurnStep.CANCEL: TurnState.CANCELLED, **_ENDING},
    # A question that is cancelled is answered with that, so that its turn goes on and ends by itself.
    TurnState.WAITING: {TurnStep.ANSWER: TurnState.RUNNING, **_EARLY, **_ENDING},
    TurnState.EXPIRED: _ENDING,
    TurnState.STOPPED: _ENDING,
    TurnState.CANCELLED: _ENDING,
    TurnState.ENDED: {},
}
ENDED_EARLY: Final = frozenset({TurnState.EXPIRED, TurnState.STOPPED, TurnState.CANCELLED})


def after(state: TurnState, step: TurnStep) -> TurnState:
    """The state after a step; unchanged if the step has no effect there."""
    return TRANSITIONS[state].get(step, state)

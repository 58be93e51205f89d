"""The limits and rules of an ensemble."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta


class EnsembleOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """How long an ensemble may run, and what its members may do. 0 means no limit."""

    answers: Annotated[int, Meta(ge=1)] = 3  # per member
    steps: Annotated[int, Meta(ge=1)] = 12  # per member: answers, votes and interrupted ones
    seconds: Annotated[float, Meta(ge=0)] = 300.0
    tokens: Annotated[int, Meta(ge=0)] = 0
    cost: Annotated[float, Meta(ge=0)] = 0.0  # in US dollars
    step_seconds: Annotated[float, Meta(gt=0)] = 120.0  # of one step of one member
    interrupt: bool = True  # whether a new answer interrupts members that have not seen it
    vote_for_self: bool = True
    present: bool = True  # whether the winner writes the final answer; otherwise its answer is used as it is
    coordinate_via_nlip: bool = False  # whether members are asked by NLIP messages through the gateway's exchange

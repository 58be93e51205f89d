"""Counts what one member of an ensemble uses, in addition to the turn."""

from __future__ import annotations

from sabir.turn import Meter


class MemberMeter(Meter, eq=False, kw_only=True):
    """Counts for one member and for the turn, whose budget covers all members together."""

    whole: Meter

    def add(self, calls: int, tokens: int, cost: float, *, completion_tokens: int = 0, here: bool = True) -> None:
        super().add(calls, tokens, cost, completion_tokens=completion_tokens, here=here)
        self.whole.add(calls, tokens, cost, completion_tokens=completion_tokens, here=here)

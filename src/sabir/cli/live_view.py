"""What the members of an ensemble are doing, as it happens: a small table on a terminal, else a line an event."""

from __future__ import annotations

from typing import Final, TextIO

import msgspec

from sabir.agents.ensemble.state import (
    MemberAnswered,
    MemberFailed,
    MemberInterrupted,
    MemberVoted,
    PanelEnded,
    PanelEvent,
)
from sabir.turn import Journal

from .printing import say

_EVENTS: Final = msgspec.json.Decoder(PanelEvent)
_UP: Final = "\x1b[{}F\x1b[0J"  # so many lines up, and clear from there


class LiveView:
    """The members of one panel, and what each did last."""

    def __init__(self, members: list[str], out: TextIO, *, redraws: bool) -> None:
        """``redraws``: whether ``out`` is a terminal, on which the table is drawn over the one before."""
        self._members = members
        self._out = out
        self._redraws = redraws
        self._state = dict.fromkeys(members, "is thinking")
        self._tokens = dict.fromkeys(members, 0)
        self._answers = dict.fromkeys(members, 0)
        self._drawn = 0

    def show(self, event: PanelEvent) -> None:
        """Take one event in, and show it."""
        if isinstance(event, PanelEnded):
            self._line(f"{event.reason}; {self._name(event.winner)} presents")
            return
        name = self._name(event.member)
        self._tokens[name] += event.tokens
        match event:
            case MemberAnswered():
                self._answers[name] += 1
                self._state[name] = f"has given answer {self._answers[name]}"
            case MemberVoted():
                self._state[name] = f"votes for {self._name(event.choice)}"
            case MemberFailed():
                self._state[name] = f"failed: {event.reason}"
            case MemberInterrupted():
                self._state[name] = "starts over"
        if self._redraws:
            self._redraw()
        else:
            self._line(f"{name} {self._state[name]}")

    def _name(self, member: int) -> str:
        return self._members[member] if member < len(self._members) else f"member {member + 1}"

    def _redraw(self) -> None:
        if self._drawn:
            self._out.write(_UP.format(self._drawn))
        width = max(map(len, self._members))
        for name in self._members:
            say(f"  {name:<{width}}  {self._state[name][:60]:<60}  {self._tokens[name]:>8} tokens", file=self._out)
        self._out.flush()
        self._drawn = len(self._members)

    def _line(self, text: str) -> None:
        say(f"  {text}", file=self._out, flush=True)


class WatchedJournal:
    """A journal that shows the events of one panel as they are written down."""

    def __init__(self, journal: Journal, views: dict[str, LiveView]) -> None:
        """``views`` by the id of the turn."""
        self._journal = journal
        self.views = views

    async def append(self, turn: str, entry: bytes) -> None:
        await self._journal.append(turn, entry)
        view = self.views.get(turn)
        if view is not None:
            view.show(_EVENTS.decode(entry))

    async def entries(self, turn: str) -> list[bytes]:
        return await self._journal.entries(turn)

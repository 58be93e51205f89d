"""The activity of an ensemble's members: a small table on a terminal, otherwise one line per event."""

from __future__ import annotations

import shutil
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
from .wrapping import MIN_WIDTH

_EVENTS: Final = msgspec.json.Decoder(PanelEvent)
SNIPPET: Final = 80  # characters of an answer that are shown
_UP: Final = "\x1b[{}F\x1b[0J"  # move up this many lines, and clear from there


class LiveView:
    """The members of one panel, and the last action of each."""

    def __init__(self, members: list[str], out: TextIO, *, redraws: bool) -> None:
        """``redraws``: whether ``out`` is a terminal, on which the table is redrawn in place."""
        self._members = members
        self._out = out
        self._redraws = redraws
        self._state = dict.fromkeys(members, "thinks")
        self._tokens = dict.fromkeys(members, 0)
        self._answers = dict.fromkeys(members, 0)
        self._newest = ""  # the last member to answer
        self._drawn = 0

    def start(self) -> None:
        """Show the members before anything has happened."""
        if self._redraws:
            self._redraw()
        else:
            self._line(f"Asking {', '.join(self._members)}")

    def show(self, event: PanelEvent) -> None:
        """Handle one event, and show it."""
        if isinstance(event, PanelEnded):
            reason = f"{event.reason[:1].upper()}{event.reason[1:]}"
            self._line(f"{reason}. {self._name(event.winner)} presents the answer.")
            if self._redraws:
                self._line("")
            return
        name = self._name(event.member)
        self._tokens[name] += event.tokens
        match event:
            case MemberAnswered():
                self._answers[name] += 1
                self._newest = name
                for voter in [item for item, state in self._state.items() if state.startswith("votes")]:
                    self._state[voter] = self._again()  # a new answer invalidates the votes
                self._state[name] = f"answers: {_short(event.content)}"
                if self._answers[name] > 1:
                    self._state[name] = f"answers again: {_short(event.content)}"
            case MemberVoted():
                reason = f" because {_short(event.reason)}" if event.reason else ""
                self._state[name] = f"votes for {self._name(event.choice)}{reason}"
            case MemberFailed():
                self._state[name] = f"failed: {_short(event.reason)}"
            case MemberInterrupted():
                self._state[name] = (
                    f"thinks again, with the answer of {self._newest}" if self._newest else "thinks again"
                )
        if self._redraws:
            self._redraw()
        else:
            self._line(f"{name} {self._state[name]}")

    def _again(self) -> str:
        return f"thinks again, with the answer of {self._newest}" if self._newest else "thinks again"

    def _name(self, member: int) -> str:
        return self._members[member] if member < len(self._members) else f"member {member + 1}"

    def _redraw(self) -> None:
        if self._drawn:
            self._out.write(_UP.format(self._drawn))
        columns = max(MIN_WIDTH, shutil.get_terminal_size().columns) - 1  # a wrapped line would be drawn twice
        names = min(max(map(len, self._members)), columns // 3)
        for name in self._members:
            tokens = f"{self._tokens[name]:>7} tokens"
            room = columns - names - len(tokens) - 6
            state = self._state[name] if len(self._state[name]) <= room else f"{self._state[name][: room - 1]}…"
            say(f"  {name[:names]:<{names}}  {state:<{room}}  {tokens}", file=self._out)
        self._out.flush()
        self._drawn = len(self._members)

    def _line(self, text: str) -> None:
        say(f"  {text}" if text else "", file=self._out, flush=True)


def _short(text: str) -> str:
    """The beginning of a text, on one line."""
    line = " ".join(text.split())
    return line if len(line) <= SNIPPET else f"{line[: SNIPPET - 1]}…"


class WatchedJournal:
    """A journal that shows the events of one panel as they are written."""

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

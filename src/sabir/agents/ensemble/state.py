"""The state of an ensemble, computed from its events. Pure: no I/O, no clock.

Members are numbered from 0; to each other they are ``agent1``, ``agent2`` and so on, and in a panel inside another
``subagent1``, ``subagent2``, so that it is clear which panel a vote is for. An answer invalidates earlier votes. When
every live member has voted on the same answers, the member with the most votes wins; a tie goes to the member whose
newest answer is the earlier one.
"""

from __future__ import annotations

from collections import Counter
from typing import TypeAlias

import msgspec


class MemberAnswered(msgspec.Struct, frozen=True, tag="answered", omit_defaults=True):
    """A member gave a new answer."""

    member: int
    content: str
    at: float = 0.0
    tokens: int = 0
    cost: float = 0.0


class MemberVoted(msgspec.Struct, frozen=True, tag="voted", omit_defaults=True):
    """A member voted, having seen this many answers."""

    member: int
    choice: int
    reason: str = ""
    seen: int = 0
    at: float = 0.0
    tokens: int = 0
    cost: float = 0.0


class MemberFailed(msgspec.Struct, frozen=True, tag="failed", omit_defaults=True):
    """A member has dropped out."""

    member: int
    reason: str
    at: float = 0.0
    tokens: int = 0
    cost: float = 0.0


class MemberInterrupted(msgspec.Struct, frozen=True, tag="interrupted", omit_defaults=True):
    """A step was ended because there was an answer that the member had not seen, or a limit was reached."""

    member: int
    at: float = 0.0
    tokens: int = 0
    cost: float = 0.0


class PanelEnded(msgspec.Struct, frozen=True, tag="ended", omit_defaults=True):
    """The vote is over, and why."""

    reason: str
    winner: int
    at: float = 0.0


PanelEvent: TypeAlias = MemberAnswered | MemberVoted | MemberFailed | MemberInterrupted | PanelEnded


class PanelAnswer(msgspec.Struct, frozen=True):
    """One answer of one member."""

    member: int
    content: str
    place: int  # in the order of all answers


class PanelState(msgspec.Struct, frozen=True):
    """The ensemble after some events."""

    members: int
    depth: int = 0  # how many other panels this one is nested in
    answers: tuple[PanelAnswer, ...] = ()
    votes: tuple[tuple[int, int, str], ...] = ()  # member, choice, reason
    failed: tuple[tuple[int, str], ...] = ()
    steps: tuple[int, ...] = ()  # by member
    tokens: int = 0
    cost: float = 0.0
    ended: PanelEnded | None = None

    def apply(self, event: PanelEvent) -> PanelState:
        """The state after one more event."""
        if isinstance(event, PanelEnded):
            return msgspec.structs.replace(self, ended=event)
        after = msgspec.structs.replace(
            self,
            steps=_counted(self.steps or (0,) * self.members, event.member),
            tokens=self.tokens + event.tokens,
            cost=self.cost + event.cost,
        )
        match event:
            case MemberAnswered():
                answer = PanelAnswer(event.member, event.content, len(self.answers))
                return msgspec.structs.replace(after, answers=(*self.answers, answer), votes=())
            case MemberVoted() if event.seen == len(self.answers) and event.choice in self.newest():
                others = tuple(vote for vote in self.votes if vote[0] != event.member)
                return msgspec.structs.replace(after, votes=(*others, (event.member, event.choice, event.reason)))
            case MemberFailed():
                votes = tuple(vote for vote in self.votes if vote[0] != event.member)
                return msgspec.structs.replace(after, failed=(*self.failed, (event.member, event.reason)), votes=votes)
        return after

    @property
    def prefix(self) -> str:
        """The prefix of the members' aliases."""
        return "sub" * self.depth + "agent"

    def alias(self, member: int) -> str:
        """The alias of a member among the others."""
        return f"{self.prefix}{member + 1}"

    def member_of(self, name: str) -> int | None:
        """The member with this alias, or None."""
        digits = name.strip().casefold().removeprefix(self.prefix).strip()
        if not digits.isascii() or not digits.isdigit():
            return None
        number = int(digits[:6]) - 1
        return number if 0 <= number < self.members else None

    def newest(self) -> dict[int, PanelAnswer]:
        """The newest answer of each member that has given one."""
        return {answer.member: answer for answer in self.answers}

    @property
    def live(self) -> list[int]:
        gone = {member for member, _ in self.failed}
        return [member for member in range(self.members) if member not in gone]

    def has_voted(self, member: int) -> bool:
        return any(voter == member for voter, _, _ in self.votes)

    def given(self, member: int) -> int:
        """How many answers a member has given."""
        return sum(answer.member == member for answer in self.answers)

    def stepped(self, member: int) -> int:
        return self.steps[member] if self.steps else 0

    @property
    def is_decided(self) -> bool:
        """Whether all live members have voted on the current answers."""
        return bool(self.answers) and bool(self.live) and all(self.has_voted(member) for member in self.live)

    def winner(self) -> int | None:
        """The member with the most votes; a tie, or no votes at all, goes to the earlier answer."""
        newest = self.newest()
        if not newest:
            return None
        counted = Counter(choice for _, choice, _ in self.votes)
        return min(newest, key=lambda member: (-counted[member], newest[member].place))


def _counted(steps: tuple[int, ...], member: int) -> tuple[int, ...]:
    return tuple(count + (number == member) for number, count in enumerate(steps))

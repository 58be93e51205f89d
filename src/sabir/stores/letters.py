"""What every store keeps for inboxes and conversations between agents; one contract suite runs over all stores.

A letter waits in a box until it was handled; whoever takes it holds it for the time of a lease. A dialogue is a
conversation with one participant. What one message of it changes is written by one call of ``converse``, in one
commit: its id, the new state with its timer, the letters that go out, and the audit line.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal, Protocol, runtime_checkable

import msgspec

from .base import AuditLine

LANE: Final = "\x1f"  # between the sender and the order in a lane
LOW, MEDIUM, HIGH = 0, 1, 2
EXPIRED: Final = "it expired before it was received"

Outcome = Literal["done", "duplicate", "changed"]


class LetterRow(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A letter in a box. ``number`` grows over all boxes; ``member`` is set in the box of a member of a group."""

    box: str
    id: str
    body: bytes
    at: float
    expires: float
    sender: str = ""
    lane: str = ""  # sender and order; empty: bound to nothing
    priority: int = MEDIUM
    member: str = ""
    number: int = 0
    deliveries: int = 0


class DeadRow(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A letter that could not be handled. ``body`` is the letter as it was kept."""

    box: str
    body: bytes
    reason: str
    attempts: int
    at: float
    member: str = ""
    number: int = 0


class DialogueRow(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A conversation with one participant, and its timer."""

    conversation: str
    initiator: str
    participant: str
    protocol: str
    state: str
    opener: str
    created: float
    updated: float
    expires: float
    cancel: str = ""
    timer: str = ""  # reply_by, result, lease
    due: float = 0.0  # when the timer fires; 0: never
    version: int = 0
    detail: bytes = b""  # what the conversation's own rules keep, in JSON

    @property
    def key(self) -> tuple[str, str, str]:
        return self.conversation, self.initiator, self.participant


class UtteranceRow(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One message of a conversation; duplicates are recognised by its id."""

    id: str
    sender: str
    receiver: str
    conversation: str
    initiator: str
    participant: str
    performative: str
    at: float
    expires: float
    body: bytes
    reply_with: str = ""


class DialogueEntry(msgspec.Struct, frozen=True):
    """All that one message, or one timer, of a conversation writes, in one commit."""

    dialogue: DialogueRow | None = None  # None: the state stays
    expect: int = 0  # the version that is stored (0: the dialogue is new)
    said: tuple[UtteranceRow, ...] = ()  # the first is what came in, by which duplicates are recognised
    letters: tuple[LetterRow, ...] = ()
    audit: AuditLine | None = None


class LetterNotices(Protocol):
    """News of letters that other processes put."""

    live: bool  # False: for now nothing is announced, and whoever waits has to look

    async def stop(self) -> None: ...


@runtime_checkable
class Letters(Protocol):
    """Boxes of letters, and dialogues."""

    async def notice_letters(self, notify: Callable[[str], None]) -> LetterNotices | None:
        """Have ``notify`` called with each box that another process puts letters into (empty: any box may have some).

        None if this store cannot announce it; then ``last_letter`` has to be looked at.
        """

    async def put_letters(self, rows: tuple[LetterRow, ...]) -> None:
        """Put letters into their boxes. One whose id waits there already is not put twice.

        In a lane no letter has a higher priority than one that waits before it, so that its order is kept.
        """

    async def take_letters(self, box: str, member: str, holder: str, lease: float, limit: int) -> list[LetterRow]:
        """Take letters that nobody holds, for so many seconds: by priority, then in the order they came.

        Letters of a lane of which another holder has some are left to it.
        """

    async def hold_letters(self, holder: str, numbers: tuple[int, ...], lease: float) -> int:
        """Hold letters for so many seconds from now (0: give them back); how many are still this holder's."""

    async def release_letter(self, holder: str, box: str, letter_id: str) -> int:
        """Give back the letter of this id, if this holder has it; returns how many there were."""

    async def drop_letters(self, numbers: tuple[int, ...], box: str | None = None) -> int:
        """Remove letters that were handled, only those of a box if one is given; returns how many there were."""

    async def drop_letter(self, box: str, letter_id: str) -> int:
        """Remove the letter of this id from a box; returns how many there were."""

    async def acknowledge_letters(self, box: str, through: int) -> int:
        """Remove this letter of a box and those before it that were given to somebody.

        Letters of a lower priority stay: one with a smaller number may be given out after it. If the letter is not
        there any more, only letters of high priority, which are given out in the order of their numbers, are removed.
        """

    async def waiting_letters(self, box: str, member: str = "", after: int = 0, limit: int = 100) -> list[LetterRow]:
        """What waits in a box or is held, in the order of numbers."""

    async def count_letters(self, box: str, member: str = "") -> dict[str, int]:
        """How many letters are in a box, by sender."""

    async def clear_letters(self, box: str, member: str = "") -> int: ...

    async def last_letter(self) -> int:
        """The number of the last letter that was put anywhere; for noticing what other processes put."""

    async def move_to_dead(self, number: int, dead: DeadRow) -> None:
        """Move a letter to the dead ones, in one commit."""

    async def dead_letters(self, box: str, limit: int = 100) -> list[DeadRow]: ...

    async def count_dead(self) -> dict[str, int]: ...

    async def take_dead(self, box: str, numbers: tuple[int, ...] = ()) -> list[DeadRow]:
        """Remove dead letters (all of a box, or these) and return them."""

    async def converse(self, entry: DialogueEntry) -> Outcome:
        """Write what one message changes, in one commit.

        ``duplicate``: a message of this id was written before. ``changed``: the dialogue is not at the version that
        was expected. Nothing is written in either case.
        """

    async def converse_and_hand(self, entry: DialogueEntry, holder: str, lease: float) -> tuple[Outcome, int]:
        """Write as ``converse`` does; the holder takes the entry's one letter at once, if its turn has come.

        The number of that letter is returned, or 0: it waits to be taken, because others wait before it in its lane.
        """

    async def dialogue(self, conversation: str, initiator: str, participant: str) -> DialogueRow | None: ...

    async def dialogues(
        self, *, conversation: str | None = None, agent: str | None = None, limit: int = 100
    ) -> list[DialogueRow]:
        """Those of a conversation or of an agent, the latest change first."""

    async def due_dialogues(self, now: float, limit: int = 100) -> list[DialogueRow]:
        """Those whose timer has fired, the longest ago first."""

    async def count_open(self, agent: str) -> int:
        """How many conversations wait for this agent's next word or work."""

    async def utterance(self, reference: str, sender: str, receiver: str) -> UtteranceRow | None:
        """What the sender said to the receiver under this id, or with this ``reply_with``; the latest."""

    async def utterances(self, conversation: str, limit: int = 1000) -> list[UtteranceRow]:
        """What was said in a conversation, in order."""


# The columns of the tables, in the order of the rows' fields; ``seq`` keeps the order of what was said.
LETTER: Final = ", ".join(LetterRow.__struct_fields__)
DEAD: Final = ", ".join(DeadRow.__struct_fields__)
DIALOGUE: Final = ", ".join(DialogueRow.__struct_fields__)
UTTERANCE: Final = ", ".join(UtteranceRow.__struct_fields__)

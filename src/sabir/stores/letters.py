"""What every store keeps for inboxes and for conversations between agents; one contract suite runs over all stores.

A letter waits in a box until it is handled; a receiver holds it under a lease. A dialogue is a conversation with one
participant. Everything that one message of it changes is written by one call of ``converse``, in one commit: its id,
the new state with its timer, the outgoing letters, and the audit entry.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
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
    lane: str = ""  # sender and order; empty: no order
    priority: int = MEDIUM
    member: str = ""
    number: int = 0
    deliveries: int = 0


class DeadRow(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A letter that could not be handled. ``body`` is the letter as it was stored."""

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
    detail: bytes = b""  # data of the conversation's protocol, in JSON

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


class DialogueEntry(msgspec.Struct, frozen=True, gc=False):
    """Everything that one message or timer of a conversation writes, in one commit.

    With ``shared``, the body of its letter continues with the body of its message, so that a store can keep that once.
    """

    dialogue: DialogueRow | None = None  # None: the state does not change
    expect: int = 0  # the expected stored version (0: the dialogue is new)
    said: tuple[UtteranceRow, ...] = ()  # the first is the incoming message, by which duplicates are recognised
    letters: tuple[LetterRow, ...] = ()
    audit: AuditLine | None = None
    shared: bool = False

    @property
    def whole(self) -> DialogueEntry:
        return self

    @property
    def whole_letters(self) -> tuple[LetterRow, ...]:
        """The letters with their whole bodies."""
        if not self.shared:
            return self.letters
        message = self.said[0].body
        return tuple(msgspec.structs.replace(letter, body=letter.body + message) for letter in self.letters)


class MessageEntry(msgspec.Struct, frozen=True, gc=False):
    """The entry of one message with its one letter, as a flat row: nearly every entry is one.

    What follows from the message is left out: the letter's id is ``letter_id``, its lane is the conversation, its box
    and its time are those of the message, and the state changes when the message is written.
    """

    # the message, as in ``UtteranceRow``
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
    reply_with: str
    # its letter
    head: bytes  # how the letter's body starts; with ``shared``, it continues with the message
    letter_expires: float
    priority: int
    shared: bool = True
    # the conversation after it, as in ``DialogueRow``
    expect: int = -1  # the expected stored version (0: the dialogue is new, -1: the state does not change)
    protocol: str = ""
    state: str = ""
    opener: str = ""
    created: float = 0.0
    dialogue_expires: float = 0.0
    cancel: str = ""
    timer: str = ""
    due: float = 0.0
    detail: bytes = b""
    audit: AuditLine | None = None

    @property
    def whole(self) -> DialogueEntry:
        """The same, with its rows."""
        said = UtteranceRow(
            self.id,
            self.sender,
            self.receiver,
            self.conversation,
            self.initiator,
            self.participant,
            self.performative,
            self.at,
            self.expires,
            self.body,
            self.reply_with,
        )
        letter = LetterRow(
            self.receiver,
            letter_id(self.sender, self.id),
            self.head,
            self.at,
            self.letter_expires,
            self.sender,
            f"{self.sender}{LANE}{self.conversation}",
            self.priority,
        )
        if self.expect < 0:
            return DialogueEntry(None, 0, (said,), (letter,), self.audit, self.shared)
        row = DialogueRow(
            self.conversation,
            self.initiator,
            self.participant,
            self.protocol,
            self.state,
            self.opener,
            self.created,
            self.at,
            self.dialogue_expires,
            self.cancel,
            self.timer,
            self.due,
            detail=self.detail,
        )
        return DialogueEntry(row, self.expect, (said,), (letter,), self.audit, self.shared)


def letter_id(sender: str, message_id: str) -> str:
    """The id of a message's letter: two senders may use the same message ids."""
    return f"{sender}/{message_id}"


Entry = DialogueEntry | MessageEntry


class LetterNotices(Protocol):
    """Notifications about letters that other processes put."""

    live: bool  # False: there are no notifications now, so waiters have to poll

    async def stop(self) -> None: ...


@runtime_checkable
class Letters(Protocol):
    """Boxes of letters, and dialogues."""

    async def notice_letters(self, notify: Callable[[str], None]) -> LetterNotices | None:
        """Call ``notify`` with each box that another process puts letters into (empty: any box may have some).

        None if this store cannot notify; then ``last_letter`` has to be polled.
        """

    async def put_letters(self, rows: tuple[LetterRow, ...]) -> None:
        """Put letters into their boxes. A letter whose id is already waiting there is not put twice.

        In a lane no letter has a higher priority than an earlier one, so that the order is kept.
        """

    async def take_letters(self, box: str, member: str, holder: str, lease: float, limit: int) -> list[LetterRow]:
        """Take letters that nobody holds, for this many seconds: by priority, then in order of arrival.

        If another holder has letters of a lane, the rest of that lane is left to it.
        """

    async def hold_letters(self, holder: str, numbers: tuple[int, ...], lease: float) -> int:
        """Hold letters for this many seconds from now (0: release them); returns how many are still this holder's."""

    async def release_letter(self, holder: str, box: str, letter_id: str) -> int:
        """Release the letter with this id, if this holder has it; returns how many there were."""

    async def finish_letters(self, numbers: tuple[int, ...]) -> None:
        """Remove letters that their holder has handled."""

    async def drop_letters(self, numbers: tuple[int, ...], box: str) -> int:
        """Remove letters of a box; returns how many there were."""

    async def drop_letter(self, box: str, letter_id: str) -> int:
        """Remove the letter with this id from a box; returns how many there were."""

    async def acknowledge_letters(self, box: str, through: int) -> int:
        """Remove this letter of a box and earlier ones that were delivered.

        Letters of a lower priority stay: one with a smaller number may be delivered later. If the letter is gone, only
        letters of high priority, which are delivered in numeric order, are removed.
        """

    async def waiting_letters(self, box: str, member: str = "", after: int = 0, limit: int = 100) -> list[LetterRow]:
        """The letters that wait in a box or are held, in numeric order."""

    async def count_letters(self, box: str, member: str = "") -> dict[str, int]:
        """How many letters are in a box, by sender."""

    async def clear_letters(self, box: str, member: str = "") -> int: ...

    async def last_letter(self) -> int:
        """The number of the last letter in any box; for noticing letters from other processes."""

    async def move_to_dead(self, number: int, dead: DeadRow) -> None:
        """Move a letter to the dead letters, in one commit."""

    async def dead_letters(self, box: str, limit: int = 100) -> list[DeadRow]: ...

    async def count_dead(self) -> dict[str, int]: ...

    async def take_dead(self, box: str, numbers: tuple[int, ...] = ()) -> list[DeadRow]:
        """Remove dead letters (all of a box, or these) and return them."""

    async def converse(self, entry: Entry) -> Outcome:
        """Write what one message changes, in one commit.

        ``duplicate``: a message with this id was written before. ``changed``: the dialogue is not at the expected
        version. In either case nothing is written.
        """

    def converse_and_hand(self, entry: Entry, holder: str, lease: float) -> Awaitable[tuple[Outcome, int]]:
        """Write as ``converse`` does; the holder takes the entry's only letter at once, if it is next in its lane.

        Returns the number of that letter, or 0 if it has to wait for earlier ones in its lane, or for a holder: with
        an empty one nobody takes it.
        """

    async def dialogue(self, conversation: str, initiator: str, participant: str) -> DialogueRow | None: ...

    async def dialogues(
        self, *, conversation: str | None = None, agent: str | None = None, limit: int = 100
    ) -> list[DialogueRow]:
        """The dialogues of a conversation or of an agent, latest change first."""

    async def due_dialogues(self, now: float, limit: int = 100) -> list[DialogueRow]:
        """The dialogues whose timer is due, longest overdue first."""

    async def count_open(self, agent: str) -> int:
        """How many conversations wait for this agent."""

    async def utterance(self, reference: str, sender: str, receiver: str) -> UtteranceRow | None:
        """The latest message from sender to receiver with this id, or with this ``reply_with``."""

    async def utterances(self, conversation: str, limit: int = 1000) -> list[UtteranceRow]:
        """What was said in a conversation, in order."""


# The columns of the tables, in the order of the rows' fields; ``seq`` orders the messages.
LETTER: Final = ", ".join(LetterRow.__struct_fields__)
DEAD: Final = ", ".join(DeadRow.__struct_fields__)
DIALOGUE: Final = ", ".join(DialogueRow.__struct_fields__)
UTTERANCE: Final = ", ".join(UtteranceRow.__struct_fields__)

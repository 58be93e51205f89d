"""The Bus interface and its values. One contract suite runs over every implementation.

A bus carries two kinds of talk between agents on any node.

**Letters** are kept. ``send`` puts a letter into the inbox of a name, where it waits until somebody
receives it; ``publish`` gives every member of a group its own copy. Delivery is at least once: a letter
is acknowledged when its handler has returned, that is after its effect is stored, and is delivered again
if the node died before. Letters whose id was handled before are dropped, as far back as the bus
remembers (``Limits.seen`` ids in a process, two minutes on the server); an effect that must never happen
twice also checks the id where it is stored. A letter that keeps failing goes to the dead letters of its
name, where it can be listed and replayed.

**Calls** are answered. ``call`` reaches one of the nodes that ``serve`` a name, streams what it sends
back, can send more (an answer to a question), and takes the call back when it is left. A call is kept
nowhere: if either side dies, the other gets an error.

Every method may raise ``BusUnavailable``; the work is then not done, and may be tried again with the
same letter ids.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from functools import lru_cache
from typing import Protocol

import msgspec

from sabir.errors import BadMessage
from sabir.ids import new_id

_LONGEST_NAME = 200


class Letter(msgspec.Struct, frozen=True, array_like=True):
    """Something said to a name or a group, kept until it was handled.

    Letters of one sender with the same ``order`` (a conversation) are handled one after the other, in
    the order in which they were sent; an empty ``order`` is bound to nothing.
    """

    to: str
    body: bytes
    id: str = msgspec.field(default_factory=new_id)
    sender: str = ""
    order: str = ""
    headers: dict[str, str] = {}
    at: float = 0.0
    only: str = ""  # in a group: for this member alone; so dead letters of one member are replayed to it

    @property
    def lane(self) -> tuple[str, str] | None:
        return (self.sender, self.order) if self.order else None


class DeadLetter(msgspec.Struct, frozen=True, array_like=True):
    """A letter that could not be handled, and why. ``number`` is its place among the dead of its name.

    The reason is what a ``SabirError`` says, which is meant to be read; of any other exception its kind and place, as
    in the log, because what it says may be what somebody said.
    """

    letter: Letter
    reason: str
    attempts: int
    at: float
    member: str = ""  # of a group
    number: int = 0


class Receiving(msgspec.Struct, frozen=True):
    """How a name's letters are taken.

    ``ordered`` keeps the order of each lane over all nodes and over crashes, at the price that only one
    frame of the inbox is out at a time; without it, order holds within a receiver.
    """

    width: int = 16  # letters handled at once
    ordered: bool = False
    idle_seconds: float | None = None  # a member of a group that is absent for so long has left


class Load(msgspec.Struct, frozen=True):
    """What this node has under way on the bus."""

    in_hand: int = 0  # letters that were taken and are not handled
    sending: int = 0  # letters that are not yet kept by the server
    calls: int = 0  # made here, and not ended
    serving: int = 0  # calls of others that are answered here


Handler = Callable[[Letter], Awaitable[None]]


class LetterReceiver(Protocol):
    """Somebody who takes letters or serves calls."""

    async def stop(self) -> None:
        """Take no more; what is in hand and not handled goes back at once, for others."""


class BusCall(Protocol):
    """One call, as the caller holds it: iterate for what comes back."""

    def __aiter__(self) -> AsyncIterator[bytes]: ...

    async def __anext__(self) -> bytes:
        """The next that comes back.

        Raises:
            PeerUnavailable: nobody serves the name, or the one who did is gone.
            DeadlineExceeded: the time of the call is over.
            SabirError: what the server raised, by its fault code.
        """

    async def send(self, body: bytes) -> None:
        """Send more to the one who serves this call."""


class Called(Protocol):
    """One call, as its server holds it."""

    name: str
    body: bytes
    headers: Mapping[str, str]

    async def send(self, body: bytes) -> None:
        """Send one piece back; waits while the caller is behind.

        Raises:
            Cancelled: the caller has left.
        """

    async def receive(self) -> bytes:
        """What the caller sends next."""


Server = Callable[[Called], Awaitable[None]]

DEFAULT = Receiving()


class Bus(Protocol):
    """Letters and calls between agents, wherever they run."""

    spans_nodes: bool  # False: letters reach every process on the same store, calls only this one

    async def open(self) -> None: ...

    async def close(self) -> None:
        """Stop all receivers and let go. Calls after this raise ``BusUnavailable``."""

    async def ping(self) -> None:
        """Answer, or raise ``BusUnavailable``."""

    @property
    def up(self) -> bool:
        """Whether it can be used now, as far as is known; costs nothing."""

    def load(self) -> Load:
        """How busy this node is; costs nothing."""

    # -- letters to a name -----------------------------------------------------------------------

    async def send(self, *letters: Letter) -> None:
        """Put letters into the inboxes of their names. They are kept when this returns.

        Raises:
            TooLarge: a letter is over ``Limits.letter_bytes``; none was sent.
        """

    async def receive(self, name: str, handler: Handler, receiving: Receiving = DEFAULT) -> LetterReceiver:
        """Handle the letters of a name. Receivers of one name, on any node, share its letters."""

    async def waiting(self, name: str) -> int:
        """How many frames wait in an inbox or are in somebody's hands (a frame holds one or more letters)."""

    async def discard(self, name: str) -> None:
        """Discard an inbox and what waits in it."""

    # -- letters to a group ----------------------------------------------------------------------

    async def publish(self, *letters: Letter) -> None:
        """Give each member of the letters' groups a copy. A group without members hears nothing."""

    async def join(self, group: str, member: str, handler: Handler, receiving: Receiving = DEFAULT) -> LetterReceiver:
        """Handle a group's letters as this member. It stays a member, and letters wait for it, until it leaves."""

    async def leave(self, group: str, member: str) -> None:
        """Leave a group; what waits for the member is discarded."""

    # -- dead letters ----------------------------------------------------------------------------

    async def dead(self, name: str, limit: int = 100) -> list[DeadLetter]:
        """The dead letters of a name or group, oldest first."""

    async def dead_letter_counts(self) -> dict[str, int]:
        """How many dead letters there are to each name or group that has any."""

    async def replay(self, name: str, *numbers: int) -> int:
        """Send dead letters again (all, or those of these numbers); returns how many."""

    async def discard_dead(self, name: str, *numbers: int) -> int:
        """Discard dead letters (all, or those with these numbers); returns how many."""

    # -- calls -----------------------------------------------------------------------------------

    def call(
        self,
        name: str,
        body: bytes,
        *,
        headers: Mapping[str, str] | None = None,
        seconds: float | None = None,
    ) -> AbstractAsyncContextManager[BusCall]:
        """Call one of those who serve a name. Leaving the context before the end takes the call back."""

    async def serve(self, name: str, server: Server) -> LetterReceiver:
        """Serve calls to a name. What ``server`` sends goes back; when it returns, the call ends."""


@lru_cache(maxsize=4096)
def check_name(name: str) -> str:
    """A name that every bus can carry.

    Raises:
        BadMessage: it is empty, too long, or holds what cannot be printed.
    """
    if not 0 < len(name) <= _LONGEST_NAME or not name.isprintable() or " " in name:
        raise BadMessage("bus", "name", f"1 to {_LONGEST_NAME} printable characters without spaces")
    return name

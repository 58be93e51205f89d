"""The Bus interface and its values. One contract suite runs over every implementation.

A bus carries two kinds of traffic between agents on any node.

**Letters** are durable. ``send`` puts a letter into the inbox of a name, where it waits until it is received;
``publish`` gives every member of a group its own copy. Delivery is at least once: a letter is acknowledged when its
handler has returned, that is after its effect is stored, and is redelivered if the node died before. Letters whose id
was already handled are dropped, as far back as the bus remembers (``Limits.seen`` ids in a process, two minutes on the
server); an effect that must never happen twice also checks the id where it is stored. A letter that keeps failing goes
to the dead letters of its name, where it can be listed and replayed.

**Calls** are answered. ``call`` reaches one of the nodes that ``serve`` a name, streams what it sends back, can send
more (an answer to a question), and is cancelled when its context is left. A call is not stored: if either side dies,
the other gets an error.

Every method may raise ``BusUnavailable``; then the work was not done, and may be retried with the same letter ids.
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


class Letter(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A message to a name or a group, kept until it is handled.

    Letters of one sender with the same ``order`` (a conversation) are handled one at a time, in the order in which they
    were sent; an empty ``order`` means no order.
    """

    to: str
    body: bytes
    id: str = msgspec.field(default_factory=new_id)
    sender: str = ""
    order: str = ""
    headers: dict[str, str] = {}
    at: float = 0.0
    only: str = ""  # in a group: for this member only, so that its dead letters are replayed to it alone

    @property
    def lane(self) -> tuple[str, str] | None:
        return (self.sender, self.order) if self.order else None


class DeadLetter(msgspec.Struct, frozen=True, array_like=True):
    """A letter that could not be handled, and why. ``number`` is its position among the dead letters of its name.

    The reason is the text of a ``SabirError``, which is meant to be read; for any other exception only its type and
    place, as in the log, because its text may contain content.
    """

    letter: Letter
    reason: str
    attempts: int
    at: float
    member: str = ""  # of a group
    number: int = 0


class Receiving(msgspec.Struct, frozen=True):
    """How the letters of a name are received.

    ``ordered`` keeps the order of each lane across all nodes and crashes, at the price of one outstanding frame per
    inbox; without it, order holds within one receiver.
    """

    width: int = 16  # letters handled at once
    ordered: bool = False
    idle_seconds: float | None = None  # a group member that is absent for this long is removed


class Load(msgspec.Struct, frozen=True):
    """What is in progress on this node's bus."""

    in_hand: int = 0  # letters received but not yet handled
    sending: int = 0  # letters not yet stored by the server
    calls: int = 0  # outgoing calls in progress
    serving: int = 0  # incoming calls in progress


Handler = Callable[[Letter], Awaitable[None]]


class LetterReceiver(Protocol):
    """Something that receives letters or serves calls."""

    async def stop(self) -> None:
        """Stop receiving; unhandled letters are released at once for other receivers."""


class BusCall(Protocol):
    """One call, on the caller's side: iterate over what comes back."""

    def __aiter__(self) -> AsyncIterator[bytes]: ...

    async def __anext__(self) -> bytes:
        """The next piece.

        Raises:
            PeerUnavailable: nobody serves the name, or the server died.
            DeadlineExceeded: the call timed out.
            SabirError: the error that the server raised, by its fault code.
        """

    async def send(self, body: bytes) -> None:
        """Send more to the server of this call."""


class Called(Protocol):
    """One call, on the server's side."""

    name: str
    body: bytes
    headers: Mapping[str, str]

    async def send(self, body: bytes) -> None:
        """Send one piece back; waits while the caller is behind.

        Raises:
            Cancelled: the caller has gone.
        """

    async def receive(self) -> bytes:
        """The next piece that the caller sends."""


Server = Callable[[Called], Awaitable[None]]

DEFAULT = Receiving()


class Bus(Protocol):
    """Letters and calls between agents, wherever they run."""

    spans_nodes: bool  # False: letters reach every process on the same store, calls only this one

    async def open(self) -> None: ...

    async def close(self) -> None:
        """Stop all receivers and close. Later calls raise ``BusUnavailable``."""

    async def ping(self) -> None:
        """Answer, or raise ``BusUnavailable``."""

    @property
    def up(self) -> bool:
        """Whether it is usable now, as far as is known; costs nothing."""

    def load(self) -> Load:
        """How busy this node is; costs nothing."""

    # -- letters to a name -----------------------------------------------------------------------

    async def send(self, *letters: Letter) -> None:
        """Put letters into the inboxes of their names. They are stored when this returns.

        Raises:
            TooLarge: a letter is over ``Limits.letter_bytes``; none was sent.
        """

    async def receive(self, name: str, handler: Handler, receiving: Receiving = DEFAULT) -> LetterReceiver:
        """Handle the letters of a name. Receivers of one name, on any node, share its letters."""

    async def waiting(self, name: str) -> int:
        """How many frames wait in an inbox or are being handled (a frame holds one or more letters)."""

    async def discard(self, name: str) -> None:
        """Delete an inbox and its letters."""

    # -- letters to a group ----------------------------------------------------------------------

    async def publish(self, *letters: Letter) -> None:
        """Give each member of the letters' groups a copy. A group without members receives nothing."""

    async def join(self, group: str, member: str, handler: Handler, receiving: Receiving = DEFAULT) -> LetterReceiver:
        """Handle a group's letters as this member. It stays a member, and letters wait for it, until it leaves."""

    async def leave(self, group: str, member: str) -> None:
        """Leave a group; letters that wait for the member are discarded."""

    # -- dead letters ----------------------------------------------------------------------------

    async def dead(self, name: str, limit: int = 100) -> list[DeadLetter]:
        """The dead letters of a name or group, oldest first."""

    async def dead_letter_counts(self) -> dict[str, int]:
        """How many dead letters each name or group has."""

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
        """Call one of the servers of a name. Leaving the context before the end cancels the call."""

    async def serve(self, name: str, server: Server) -> LetterReceiver:
        """Serve calls to a name. What ``server`` sends is streamed back; when it returns, the call ends."""


@lru_cache(maxsize=4096)
def check_name(name: str) -> str:
    """Check that every bus can carry a name.

    Raises:
        BadMessage: it is empty, too long, or contains unprintable characters.
    """
    if not 0 < len(name) <= _LONGEST_NAME or not name.isprintable() or " " in name:
        raise BadMessage("bus", "name", f"1 to {_LONGEST_NAME} printable characters without spaces")
    return name

"""Peer: a remote agent as an Agent, whatever protocol it speaks.

A protocol's peer says how one message is sent and how the events come back (``talk``); the user-facing methods are
here. A peer may be used by many turns at once.
"""

from __future__ import annotations

import re
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, Unpack
from urllib.parse import urlsplit

import msgspec

from sabir.card import Card
from sabir.errors import ConfigError, PeerError, PeerRefused, PeerUnreadable
from sabir.events import Event, Fault, Question, Reply
from sabir.guard.egress.breaker import Breaker
from sabir.message import Message
from sabir.turn import Turn

from .nlip.wire import json as nlip
from .options import SECONDS, Identity, OnWire, PeerOptionNames, PeerOptions

__all__ = [
    "SECONDS",
    "Call",
    "Clock",
    "Identity",
    "OnWire",
    "Peer",
    "PeerOptionNames",
    "PeerOptions",
    "choose",
]

if TYPE_CHECKING:
    from sabir.guard.egress.credentials import OutgoingCredentials

_TRACE: Final = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")


@dataclass(frozen=True, slots=True)
class Call:
    """The data of one outgoing message besides its content."""

    conversation: str = ""  # which of our conversations it belongs to; "" is the peer's own
    seconds: float = SECONDS
    key: str | None = None  # idempotency key; None: the peer generates one
    trace: str | None = None  # W3C traceparent
    hops: int = 0
    pieces: bool = False  # whether deltas are wanted
    anonymous: bool = False  # nothing that identifies the caller is sent
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)  # our credentials for this service and caller
    whole: Callable[[], float] | None = None  # remaining seconds of the turn, for work that becomes a remote task


def choose(identities: tuple[Identity, ...], origin: str, challenge: str | None) -> str | None:
    """The credential for a service: without a challenge only one that may be sent at once; otherwise the first whose
    scheme the service asked for, or the first of all."""
    forms = (origin, origin_of(origin), origin.removesuffix(":443").removesuffix(":80"))  # with and without its port
    fitting = [
        identity for identity in identities if any(fnmatchcase(form, identity.service.rstrip("/")) for form in forms)
    ]
    if challenge is None:
        return next((item.authorization for item in fitting if item.at_once), None)
    asked = challenge.lower()
    named = (item for item in fitting if item.authorization.partition(" ")[0].lower() in asked)
    return next((item.authorization for item in named), fitting[0].authorization if fitting else None)


class Peer(ABC):
    """A remote agent. ``ask`` for an answer, ``stream`` for its events, call it with a Turn as an Agent."""

    protocol: str = ""

    def __init__(self, url: str, options: PeerOptions | None = None, **named: Unpack[PeerOptionNames]) -> None:
        """``options`` together, ``named`` one by one; see ``PeerOptions``."""
        self.url = url
        self.options = replace(options or PeerOptions(), **named)
        self.seconds = self.options.seconds
        self.address = without_credentials(url)
        self.card = Card(name=self.options.name or name_of(url))  # the peer's address is not disclosed to callers
        self.outgoing: OutgoingCredentials | None = None  # set by the gateway: our credentials, by service and caller
        self.breaker = Breaker(self.card.name)  # for turns; direct calls get each failure

    @property
    def speaks(self) -> str:
        """The protocol in use, even if it was detected."""
        return self.protocol

    @abstractmethod
    def talk(self, message: Message, call: Call) -> AsyncGenerator[Event, None]:
        """Send one message; yields deltas, then one Reply, without tokens.

        Raises:
            PeerError: it could not be reached, refused, or violated its protocol.
        """

    @abstractmethod
    async def aclose(self) -> None:
        """Close all connections."""

    async def discover(self) -> None:  # noqa: B027  # not every protocol has a way
        """Read the remote agent's description, if its protocol has one, into the Card.

        Raises:
            PeerError: it could not be asked.
        """

    def export(self) -> dict[str, Any]:
        """This peer's own conversation as plain data, to be stored as a secret; ``resume`` continues it."""
        return {"protocol": self.protocol, "left": self._left()}

    def resume(self, exported: Mapping[str, Any]) -> None:
        """Continue where ``export`` left off; state of another protocol, or unreadable state, is ignored."""
        if exported.get("protocol") == self.protocol:
            with suppress(msgspec.ValidationError):
                self._restore_state(exported.get("left"))

    def _left(self) -> Any:
        """The remote state of our own conversation as plain data, or None."""
        return None

    def _restore_state(self, left: Any) -> None:  # noqa: B027  # not every protocol has conversations
        """The inverse of ``_export_state``.

        Raises:
            msgspec.ValidationError: not the output of ``_export_state``.
        """

    async def propose_anonymous(self, conversation: str) -> str | None:
        """Whether this peer agrees to anonymity: None, or why not. All agents on the way must agree (PAPER-ANON).

        Raises:
            PeerError: it could not be asked.
        """
        return f"{self.protocol} has no way to agree to it"

    async def ask(self, said: str | Message, *, seconds: float | None = None, key: str | None = None) -> Message:
        """Send a message and return the whole answer.

        Raises:
            PeerUnavailable: no connection, or no answer in time.
            PeerRefused: the peer refused; ``status`` is its code.
            PeerUnreadable: the answer violates its protocol.
        """
        call = Call(seconds=self.seconds if seconds is None else seconds, key=key)
        return await self._whole_answer(message_of(said), call)

    async def stream(
        self, said: str | Message, *, seconds: float | None = None, key: str | None = None
    ) -> AsyncGenerator[Event, None]:
        """Send a message and yield the events as they arrive, the Reply last. Raises as ``ask`` does."""
        call = Call(seconds=self.seconds if seconds is None else seconds, key=key, pieces=True)
        async with aclosing(self.talk(message_of(said), call)) as events:
            async for event in events:
                yield event

    async def __call__(self, turn: Turn, /) -> AsyncIterator[Event]:
        """Answer a turn by asking the remote agent; its questions go to our caller.

        Raises:
            PeerError: as ``ask`` does, under the peer's name: callers do not learn its address.
        """
        message = turn.message
        anonymous = bool(turn.conversation.agreed.get("anonymous"))
        shown = await self.outgoing.headers(self.url, turn.caller) if self.outgoing and not anonymous else {}
        call = Call(
            turn.conversation.id,
            min(turn.remaining, self.seconds),
            turn.id,
            trace_of(turn),
            turn.hops + 1,
            pieces=True,
            anonymous=anonymous,
            headers=shown,
            whole=lambda: turn.remaining,
        )
        while True:
            asked: Question | None = None
            try:
                with self.breaker.call() as calling, turn.timeline.span("peer", self.card.name) as hop:
                    async with aclosing(self.talk(message, call)) as events:
                        async for event in events:
                            calling.received(event)  # now: a consumer that has the Reply does not come back for more
                            if isinstance(event, Reply | Fault):
                                hop.end(failed=isinstance(event, Fault))
                            if isinstance(event, Question):
                                asked = event
                            elif not isinstance(event, Reply) or asked is None:
                                yield event
            except PeerError as exc:
                raise self._without_address(exc) from None
            if asked is None:
                return
            message = await turn.ask(asked)
            call = replace(call, key=f"{turn.id}.{turn.questions}", seconds=min(turn.remaining, self.seconds))

    def _without_address(self, exc: PeerError) -> PeerError:
        words = exc.reason.removeprefix(f"{exc.peer}: ").replace(self.address, self.card.name)
        where = urlsplit(self.address)
        if where.netloc:  # what is related to it, such as a task
            words = words.replace(f"{where.scheme}://{where.netloc}", self.card.name)
        if isinstance(exc, PeerRefused):
            return PeerRefused(self.card.name, words, exc.status, broken=exc.broken)
        return type(exc)(self.card.name, words)

    async def _whole_answer(self, message: Message, call: Call) -> Message:
        asked: Question | None = None
        async with aclosing(self.talk(message, call)) as events:
            async for event in events:
                if isinstance(event, Reply):
                    return event.message
                if isinstance(event, Fault):
                    raise event.error()
                if isinstance(event, Question):
                    asked = event
        if asked is not None:  # the next message answers it
            return nlip.question_message(asked)
        raise PeerUnreadable(self.address, "it ended without an answer")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def __repr__(self) -> str:
        return f"<peer {self.protocol} {self.address}>"


class Clock:
    """The remaining time of one call."""

    __slots__ = ("_end",)

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    @property
    def left(self) -> float:
        return max(0.0, self._end - time.monotonic())


def trace_of(turn: Turn) -> str | None:
    """The turn's traceparent if valid, else None."""
    return turn.trace if turn.trace is not None and _TRACE.fullmatch(turn.trace) else None


def message_of(said: str | Message) -> Message:
    return Message("text", "english", said) if isinstance(said, str) else said


def origin_of(url: str) -> str:
    """Scheme, host and port of a URL, the port always included."""
    parts = urlsplit(url)
    try:
        port = parts.port or {"https": 443, "wss": 443, "amqps": 5671, "amqp": 5672}.get(parts.scheme.lower(), 80)
    except ValueError:
        raise ConfigError(f"the port of {without_credentials(url)} is not a number from 1 to 65535") from None
    host = (parts.hostname or "").lower()
    return f"{parts.scheme.lower()}://{f'[{host}]' if ':' in host else host}:{port}"


def without_credentials(url: str) -> str:
    """The URL, safe to show: without user, password or query."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()


def name_of(url: str) -> str:
    """A Card name for a URL: its host and path."""
    parts = urlsplit(url)
    name = re.sub(r"[^A-Za-z0-9_.-]+", "-", f"{parts.netloc.rpartition('@')[2]}{parts.path}").strip("-_.")
    return name[:64] or "peer"

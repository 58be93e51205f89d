"""What an Agent yields: pieces, progress, questions, and exactly one end.

An agent's events are any number of ``Delta``, ``Progress`` and ``Question``, then one ``Reply`` or
one ``Fault``. ``Question`` is normally sent by ``Turn.ask`` and not yielded by hand.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import msgspec

from .errors import (
    BadInput,
    BadMessage,
    Cancelled,
    DeadlineExceeded,
    Forbidden,
    NotFound,
    PeerError,
    Refused,
    SabirError,
    TurnFailed,
    Unavailable,
)
from .message import Message, Part, text_part


class Delta(msgspec.Struct, frozen=True):
    """A piece of the answer, sent ahead of it. The pieces of a text join to the Reply's text."""

    part: Part

    @classmethod
    def text(cls, text: str) -> Delta:
        return cls(text_part(text))


class Progress(msgspec.Struct, frozen=True):
    """How far the work is: ``fraction`` from 0 to 1 if known, and a note for people."""

    fraction: float | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Field:
    """One thing that a Question wants to know."""

    id: str
    text: str
    kind: str = "text"  # text, single_select, multi_select, number, boolean
    options: tuple[str, ...] = ()
    required: bool = True


@dataclass(frozen=True, slots=True)
class Question:
    """The agent needs input before it can go on.

    ``fields`` describes the answer where it has a shape; ``schema`` is the same as JSON Schema if
    the asker has one. An answer in words is always allowed.
    """

    text: str
    fields: tuple[Field, ...] = ()
    schema: dict[str, Any] | None = None
    id: str = ""


class Reply(msgspec.Struct, frozen=True):
    """The whole answer; ends the turn."""

    message: Message


class Fault(msgspec.Struct, frozen=True):
    """Ends the turn badly. ``reason`` is shown to the caller, so it holds nothing from inside.

    ``code`` is one word of ``FAULT_CODES``; protocols map it to their own.
    """

    reason: str
    code: str = "failed"

    def error(self) -> SabirError:
        """The error that this stands for, so that each protocol's table tells it in its own words."""
        return FAULTS.get(self.code, TurnFailed)(self.reason)

    @classmethod
    def of(cls, wrong: SabirError) -> Fault:
        """The Fault that an error is told by, where a protocol streams events."""
        return cls(str(wrong), next((code for kind, code in _CODES if isinstance(wrong, kind)), "failed"))


def _peer_and_reason(reason: str) -> tuple[str, str]:
    peer, told, rest = reason.partition(": ")
    return (peer, rest) if told else ("a remote agent", reason)


FAULTS: Mapping[str, Callable[[str], SabirError]] = {
    "failed": TurnFailed,
    "refused": Forbidden,
    "unsupported": lambda reason: BadMessage("agent", "$", reason),
    "invalid": lambda reason: BadMessage("agent", "$", reason),
    "cancelled": Cancelled,
    "deadline": DeadlineExceeded,
    "unavailable": Unavailable,
    "peer": lambda reason: PeerError(*_peer_and_reason(reason)),
    "not_found": NotFound,
}
_CODES: tuple[tuple[type[SabirError], str], ...] = (
    (DeadlineExceeded, "deadline"),
    (Cancelled, "cancelled"),
    (NotFound, "not_found"),
    (Refused, "refused"),
    (BadInput, "invalid"),
    (Unavailable, "unavailable"),
    # Not "unavailable": whoever asked us would try again, and so would those before, three times at each hop.
    (PeerError, "peer"),
)

Event: TypeAlias = Delta | Progress | Question | Reply | Fault

"""The events that an Agent yields: deltas, progress, questions, and exactly one end.

An agent yields any number of ``Delta``, ``Progress`` and ``Question``, then one ``Reply`` or one ``Fault``.
``Question`` is normally sent by ``Turn.ask`` and not yielded directly.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NoReturn, TypeAlias

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
    """A piece of the answer, sent before the Reply. Text pieces join to the Reply's text."""

    part: Part

    @classmethod
    def text(cls, text: str) -> Delta:
        return cls(text_part(text))


class Progress(msgspec.Struct, frozen=True):
    """The progress of the work: ``fraction`` from 0 to 1 if known, and a note for people."""

    fraction: float | None = None
    note: str = ""


FIELD_KINDS: Final = ("text", "single_select", "multi_select", "number", "boolean")


def field_kind(said: object) -> str:
    """The kind of a field that another agent asks for; ``text`` if we do not know it."""
    return said if isinstance(said, str) and said in FIELD_KINDS else "text"


@dataclass(frozen=True, slots=True)
class Field:
    """One value that a Question asks for."""

    id: str
    text: str
    kind: str = "text"  # one of FIELD_KINDS
    options: tuple[str, ...] = ()
    required: bool = True

    def __post_init__(self) -> None:
        if self.kind not in FIELD_KINDS:
            raise ValueError(f"Field {self.id!r}: kind is {self.kind!r}; expected one of {', '.join(FIELD_KINDS)}")


@dataclass(frozen=True, slots=True)
class Question:
    """The agent needs input before it can continue.

    ``fields`` describes a structured answer; ``schema`` is the same as JSON Schema, if there is one. A text answer is
    always allowed.
    """

    text: str
    fields: tuple[Field, ...] = ()
    schema: dict[str, Any] | None = None
    id: str = ""
    # The caller must authenticate, to the agent or elsewhere.
    is_authentication: bool = dataclasses.field(default=False, kw_only=True)
    # The gateway asks for confirmation: only yes or no answers it.
    control: bool = dataclasses.field(default=False, kw_only=True)


def stored_question(stored: Mapping[str, Any]) -> Question:
    """The Question from a task's stored data."""
    fields = tuple(
        Field(
            str(item.get("id", "")),
            str(item.get("text", "")),
            field_kind(item.get("kind")),
            tuple(str(option) for option in item.get("options") or ()),
            bool(item.get("required", True)),
        )
        for item in stored.get("fields") or ()
    )
    schema = stored.get("schema")
    return Question(
        str(stored.get("text", "")),
        fields,
        dict(schema) if isinstance(schema, dict) else None,
        str(stored.get("id", "")),
    )


class Reply(msgspec.Struct, frozen=True):
    """The whole answer; ends the turn."""

    message: Message


class Fault(msgspec.Struct, frozen=True):
    """Ends the turn with a failure. ``reason`` is shown to the caller, so it must not contain internals.

    ``code`` is one of ``FAULT_CODES``; protocols map it to their own.
    """

    reason: str
    code: str = "failed"

    def error(self) -> SabirError:
        """The error that this Fault represents, for the error tables of the protocols."""
        return FAULTS.get(self.code, TurnFailed)(self.reason)

    @classmethod
    def of(cls, exc: SabirError) -> Fault:
        """The Fault that reports an error in a stream of events."""
        return cls(str(exc), next((code for kind, code in _CODES if isinstance(exc, kind)), "failed"))


def _peer_and_reason(reason: str) -> tuple[str, str]:
    peer, answer, rest = reason.partition(": ")
    return (peer, rest) if answer else ("a remote agent", reason)


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
    # Not "unavailable": our caller would retry, and so would those before, three times at each hop.
    (PeerError, "peer"),
)

Event: TypeAlias = Delta | Progress | Question | Reply | Fault


# -- what comes from an agent -------------------------------------------------------------------------


class WrongEvent(TypeError):
    """An agent returned something that is not an Event, or an Event with an invalid field.

    Names the field, what was expected and the type of the value: no content, so that it can be logged.
    """


def check(event: object) -> None:
    """Check that this is an Event whose fields have their declared types.

    Python does not enforce types, and what is stored must be readable: so events are checked once, when an agent yields
    them.

    Raises:
        WrongEvent: it is invalid.
    """
    kind = type(event)
    look = _CHECKS.get(kind) or next((look for item, look in _CHECKS.items() if isinstance(event, item)), None)
    if look is None:
        raise WrongEvent(f"expected a Delta, Progress, Question, Reply or Fault, not {_named(event)}")
    look(event)


def _check_reply(reply: Reply) -> None:
    message = reply.message
    if not isinstance(message, Message):
        _refuse("Reply.message", "a Message", message)
    if not _is_right(message):
        _refuse_part(message, "Reply.message")
    if message.messagetype is not None:
        _check_words(message.messagetype, "Reply.message.messagetype")
    if message.control is not None and not isinstance(message.control, bool | str):
        _refuse("Reply.message.control", "True, False or None", message.control)
    if message.submessages != ():
        _check_submessages(message.submessages)


def _check_submessages(parts: object) -> None:
    if not isinstance(parts, tuple | list):
        _refuse("Reply.message.submessages", "a tuple of Parts", parts)
    for number, part in enumerate(parts):
        if not isinstance(part, Part):
            _refuse(f"Reply.message.submessages[{number}]", "a Part", part)
        if not _is_right(part):
            _refuse_part(part, f"Reply.message.submessages[{number}]")


def _check_delta(delta: Delta) -> None:
    if not isinstance(delta.part, Part):
        _refuse("Delta.part", "a Part (Delta.text makes one of a string)", delta.part)
    if not _is_right(delta.part):
        _refuse_part(delta.part, "Delta.part")


def _is_right(part: Part | Message) -> bool:
    """Check the fields; only this is checked for every reply and every delta."""
    return (
        isinstance(part.format, str)
        and isinstance(part.subformat, str)
        and (isinstance(part.content, str) or part.format != "text")
        and (part.label is None or isinstance(part.label, str))
        and (part.extra is None or isinstance(part.extra, dict))
    )


def _refuse_part(part: Part | Message, where: str) -> NoReturn:
    for name in ("format", "subformat"):
        _check_words(getattr(part, name), f"{where}.{name}")
    if part.label is not None:
        _check_words(part.label, f"{where}.label")
    if part.format == "text":
        _check_words(part.content, f"{where}.content")
    _refuse(f"{where}.extra", "a dict or None", part.extra)


def _check_progress(progress: Progress) -> None:
    fraction = progress.fraction
    if fraction is not None and (type(fraction) not in (float, int) or not math.isfinite(fraction)):
        _refuse("Progress.fraction", "a number from 0 to 1, or None", fraction)
    _check_words(progress.note, "Progress.note")


def check_question(question: object) -> None:
    """The same for a question.

    Raises:
        WrongEvent: it is not a Question, or a field of it is invalid.
    """
    if not isinstance(question, Question):
        _refuse("a question", "a Question or a string", question)
    _check_words(question.text, "Question.text")
    _check_words(question.id, "Question.id")
    if not isinstance(question.schema, dict | None):
        _refuse("Question.schema", "a dict or None", question.schema)
    if not isinstance(question.fields, tuple | list):
        _refuse("Question.fields", "a tuple of Fields", question.fields)
    for number, field in enumerate(question.fields):
        where = f"Question.fields[{number}]"
        if not isinstance(field, Field):
            _refuse(where, "a Field", field)
        for name in ("id", "text", "kind"):
            _check_words(getattr(field, name), f"{where}.{name}")
        if not isinstance(field.options, tuple | list):
            _refuse(f"{where}.options", "a tuple of strings", field.options)
        for option in field.options:
            _check_words(option, f"{where}.options")
        if not isinstance(field.required, bool):
            _refuse(f"{where}.required", "True or False", field.required)


def _check_fault(fault: Fault) -> None:
    _check_words(fault.reason, "Fault.reason")
    _check_words(fault.code, "Fault.code")


def _check_words(value: object, where: str) -> None:
    if not isinstance(value, str):
        _refuse(where, "a string", value)


def _refuse(where: str, expected: str, given: object) -> NoReturn:
    raise WrongEvent(f"{where}: expected {expected}, not {_named(given)}")


def _named(given: object) -> str:
    """Describe a value by its type, never by its content; NaN and infinity by value."""
    return str(given) if isinstance(given, float) and not math.isfinite(given) else type(given).__name__


_CHECKS: Final[Mapping[type, Callable[[Any], None]]] = {
    Delta: _check_delta,
    Progress: _check_progress,
    Question: check_question,
    Reply: _check_reply,
    Fault: _check_fault,
}

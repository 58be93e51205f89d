"""The A2A wire: Messages, Cards and task events as the types of A2A 1.0, and back.

The types are those of the official SDK (``a2a.types``), which writes and reads them as JSON and as
protobuf and keeps the 0.3 spelling besides. Here is only what they mean to the hub. What A2A has no word
for stands in the metadata of a message or part under ``nlip``, so that two gateways lose nothing by
speaking A2A to each other; others pass over it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

import msgspec

from .. import errors
from ..errors import (
    BadMediaType,
    BadMessage,
    BadMethod,
    Forbidden,
    MissingExtra,
    PolicyRequired,
    Refused,
    SabirError,
    TooBig,
    TooMany,
    Unauthenticated,
    Unavailable,
)
from ..events import Question
from ..message import ERROR, FORMATS, Message, Part, media_of, text_part
from . import nlip
from .rules import LIMITS, Limits, check_content

try:
    from a2a.types import a2a_pb2 as pb
    from google.protobuf import struct_pb2, timestamp_pb2
    from google.protobuf.json_format import MessageToDict, ParseDict
    from google.protobuf.message import Message as Proto
except ImportError as missing:
    raise MissingExtra("A2A", "a2a") from missing

PROTOCOL: Final = "a2a"
VERSION: Final = "1.0"
OLD_VERSION: Final = "0.3"
MARK: Final = "nlip"  # the metadata key under which the hub's own words travel
REPLY: Final = "reply"  # the artifact that the answer is

LOSSES: Final[tuple[str, ...]] = (
    "tokens other than the conversation's",
    "the media type of a text, unless it is HTML, XML, JSON or code",
    "byte strings inside JSON values, which become base64 text",
    "whole numbers written as fractions (1.0), which become whole",
)

# How each failure is told in JSON-RPC. Walked against the whole tree by a test.
CODES: Final[Mapping[type[errors.SabirError], int]] = {
    errors.SabirError: -32603,
    errors.BadInput: -32602,
    errors.Unreadable: -32700,
    errors.BadMessage: -32602,
    errors.TooBig: -32600,
    errors.BadMediaType: -32005,
    errors.BadMethod: -32601,
    errors.UnknownVersion: -32009,
    errors.Refused: -32600,
    errors.Unauthenticated: -32600,
    errors.Forbidden: -32600,
    errors.TooMany: -32600,
    errors.PolicyRequired: -32600,
    errors.NotFound: -32001,
    errors.Conflict: -32004,
    errors.Cancelled: -32004,
    errors.TurnFailed: -32603,
    errors.DeadlineExceeded: -32603,
    errors.Unavailable: -32603,
    errors.ShuttingDown: -32603,
    errors.StoreUnavailable: -32603,
    errors.BusUnavailable: -32603,
    errors.PeerError: -32006,
    errors.PeerUnavailable: -32006,
    errors.PeerRefused: -32006,
    errors.PeerUnreadable: -32006,
    errors.BadSetup: -32603,
    errors.MissingExtra: -32004,
}

# The word that a code is told by where numbers are not read, and the HTTP status of the HTTP+JSON binding.
REASONS: Final[Mapping[int, tuple[str, str, int]]] = {
    -32001: ("TASK_NOT_FOUND", "NOT_FOUND", 404),
    -32002: ("TASK_NOT_CANCELABLE", "FAILED_PRECONDITION", 400),
    -32003: ("PUSH_NOTIFICATION_NOT_SUPPORTED", "FAILED_PRECONDITION", 400),
    -32004: ("UNSUPPORTED_OPERATION", "FAILED_PRECONDITION", 400),
    -32005: ("CONTENT_TYPE_NOT_SUPPORTED", "INVALID_ARGUMENT", 415),
    -32006: ("INVALID_AGENT_RESPONSE", "INTERNAL", 502),
    -32007: ("EXTENDED_AGENT_CARD_NOT_CONFIGURED", "FAILED_PRECONDITION", 400),
    -32008: ("EXTENSION_SUPPORT_REQUIRED", "FAILED_PRECONDITION", 400),
    -32009: ("VERSION_NOT_SUPPORTED", "FAILED_PRECONDITION", 400),
    -32600: ("INVALID_REQUEST", "INVALID_ARGUMENT", 400),
    -32601: ("METHOD_NOT_FOUND", "NOT_FOUND", 404),
    -32602: ("INVALID_PARAMS", "INVALID_ARGUMENT", 400),
    -32603: ("INTERNAL_ERROR", "INTERNAL", 500),
    -32700: ("PARSE_ERROR", "INVALID_ARGUMENT", 400),
}

# Failures of the transport, not of the protocol: they have an HTTP status of their own in both bindings.
STATUSES: Final[Mapping[type[SabirError], tuple[int, str, str]]] = {
    Unauthenticated: (401, "UNAUTHENTICATED", "UNAUTHENTICATED"),
    Forbidden: (403, "PERMISSION_DENIED", "PERMISSION_DENIED"),
    PolicyRequired: (403, "POLICY_REQUIRED", "PERMISSION_DENIED"),
    Refused: (403, "PERMISSION_DENIED", "PERMISSION_DENIED"),
    TooMany: (429, "TOO_MANY_REQUESTS", "RESOURCE_EXHAUSTED"),
    TooBig: (413, "TOO_BIG", "INVALID_ARGUMENT"),
    BadMediaType: (415, "CONTENT_TYPE_NOT_SUPPORTED", "INVALID_ARGUMENT"),
    BadMethod: (405, "METHOD_NOT_FOUND", "UNIMPLEMENTED"),
    Unavailable: (503, "UNAVAILABLE", "UNAVAILABLE"),
}

STATES: Final[Mapping[str, pb.TaskState]] = {
    "submitted": pb.TASK_STATE_SUBMITTED,
    "working": pb.TASK_STATE_WORKING,
    "input-required": pb.TASK_STATE_INPUT_REQUIRED,
    "completed": pb.TASK_STATE_COMPLETED,
    "failed": pb.TASK_STATE_FAILED,
    "cancelled": pb.TASK_STATE_CANCELED,
    "expired": pb.TASK_STATE_FAILED,
}
ENDS: Final = frozenset({pb.TASK_STATE_COMPLETED, pb.TASK_STATE_FAILED, pb.TASK_STATE_CANCELED, pb.TASK_STATE_REJECTED})

Update: TypeAlias = pb.TaskStatusUpdateEvent | pb.TaskArtifactUpdateEvent

# -- parts --------------------------------------------------------------------------------------

# What a text holds, by its media type; the rest is words.
_TEXTS: Final[Mapping[str, str]] = {
    "text/html": "html",
    "application/xhtml+xml": "html",
    "application/xml": "xml",
    "text/xml": "xml",
    "application/json": "json",
}
_MEDIA_OF: Final = {"html": "text/html", "xml": "application/xml"}
_CODE = re.compile(r"text/x-([a-z0-9+.#_-]{1,64})")
_EXACT = 2**53


def part_to(part: Part) -> pb.Part:
    """One part as A2A says it; what A2A has no word for is marked in its metadata."""
    if part.format == "text" and part.subformat == "english" and part.label is None:
        return pb.Part(text=str(part.content))
    made = _plain(part)
    again = _unmarked(made)
    mark: dict[str, Any] = {}
    if again.format != part.format:
        mark["format"] = part.format if part.format != ERROR else "text"
    if again.subformat != part.subformat or mark:
        mark["subformat"] = part.subformat
    if again.label != part.label:
        mark["label"] = part.label
    if mark:
        made.metadata.update({MARK: mark})
    return made


def part_from(part: pb.Part, where: str = "$", limits: Limits = LIMITS) -> Part:
    """One part as the hub has it.

    Raises:
        BadMessage: it holds nothing, or its mark does not fit what it holds.
    """
    plain = _unmarked(part, where)
    if not part.HasField("metadata"):
        return plain
    mark = MessageToDict(part.metadata).get(MARK)
    if not isinstance(mark, dict):
        return plain
    format_ = mark.get("format", plain.format)
    subformat = mark.get("subformat", plain.subformat)
    label = mark.get("label", plain.label)
    if format_ not in FORMATS or format_ == "token" or not isinstance(subformat, str):
        raise BadMessage(PROTOCOL, f"{where}.metadata.{MARK}", "the format and subformat of a part that is no token")
    if label is not None and not isinstance(label, str):
        raise BadMessage(PROTOCOL, f"{where}.metadata.{MARK}.label", "a string")
    subformat, content = check_content(format_, subformat, plain.content, where, limits=limits)
    return Part(format_, subformat, content, label)


def _plain(part: Part) -> pb.Part:
    name = part.label or ""
    match part.format:
        case "structured":
            return _structured(part, name)
        case "binary":
            kind, encoding = media_of(part.subformat)
            media = f"{kind if kind in ('image', 'audio', 'video') else 'application'}/{encoding}"
            return pb.Part(raw=_bytes(part.content), media_type=media, filename=name)
        case "location" if part.gps is not None:
            latitude, longitude = part.gps
            return pb.Part(data=value_to({"latitude": latitude, "longitude": longitude}), media_type="application/json")
        case _ if isinstance(part.content, str):
            return pb.Part(text=part.content)
        case _ if isinstance(part.content, bytes):
            return pb.Part(raw=part.content, media_type="application/octet-stream", filename=name)
        case _:
            return pb.Part(data=value_to(part.content), media_type="application/json")


def _structured(part: Part, name: str) -> pb.Part:
    kind = part.kind
    if kind == "json":
        value = part.value
        if _exact(value):
            return pb.Part(data=value_to(value), media_type="application/json")
        # A number of more than 53 bits does not survive as a protobuf Value; its text does.
        return pb.Part(text=msgspec.json.encode(value).decode(), media_type="application/json")
    if kind == "uri":
        return pb.Part(url=str(part.content), filename=name)
    return pb.Part(text=str(part.content), media_type=_MEDIA_OF.get(kind, f"text/x-{kind}"))


def _unmarked(part: pb.Part, where: str = "$") -> Part:
    label = part.filename or None
    match part.WhichOneof("content"):
        case "text":
            return _text_from(part)
        case "raw":
            kind, _, encoding = part.media_type.partition(";")[0].strip().lower().partition("/")
            known = kind if kind in ("image", "audio", "video") else "generic"
            return Part("binary", f"{known}/{encoding or 'octet-stream'}", part.raw, label)
        case "url":
            return Part("structured", "uri", part.url, label)
        case "data":
            return Part("structured", "json", value_from(part.data), label)
        case _:
            raise BadMessage(PROTOCOL, where, "text, raw, url or data")


def _text_from(part: pb.Part) -> Part:
    media = part.media_type.partition(";")[0].strip().lower()
    label = part.filename or None
    kind = _TEXTS.get(media)
    code = _CODE.fullmatch(media)
    if kind == "json":
        return Part("structured", "json", _json_or_text(part.text), label)
    if kind is not None:
        return Part("structured", kind, part.text, label)
    if code is not None:
        return Part("structured", code.group(1), part.text, label)
    return Part("text", "english", part.text, label)


def _json_or_text(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return text


def _bytes(content: Any) -> bytes:
    return content if isinstance(content, bytes) else str(content).encode()


def _exact(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | dict | list):
        return True
    if isinstance(value, int):
        return -_EXACT <= value <= _EXACT
    return all(_exact(item) for item in (value.values() if isinstance(value, dict) else value))


def value_to(value: Any) -> struct_pb2.Value:
    """A JSON value as protobuf has it; byte strings inside become base64 text."""
    return ParseDict(msgspec.to_builtins(value), struct_pb2.Value())


def value_from(value: struct_pb2.Value) -> Any:
    return plain(value)


def plain(message: Proto) -> Any:
    """A value of the protocol as plain JSON. Numbers are fractions in protobuf; whole ones are written whole."""
    return _whole(MessageToDict(message))


def _whole(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _whole(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_whole(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) <= _EXACT else value


# -- messages -----------------------------------------------------------------------------------


def message_to(
    message: Message, *, id: str, context: str = "", task: str = "", role: pb.Role = pb.ROLE_USER
) -> pb.Message:
    """A Message as A2A says it, without its tokens: the conversation's is the ``contextId``."""
    made = pb.Message(
        message_id=id, context_id=context, task_id=task, role=role, parts=[part_to(p) for p in _spoken(message)]
    )
    if message.messagetype is not None:
        made.metadata.update({MARK: {"messagetype": message.messagetype}})
    return made


def message_from(message: pb.Message, limits: Limits = LIMITS) -> Message:
    """What an A2A message says.

    Raises:
        BadMessage: it has no parts, or one that holds nothing.
        TooBig: it has too many.
    """
    parts = parts_from(message.parts, "$.message.parts", limits)
    if not parts:
        raise BadMessage(PROTOCOL, "$.message.parts", "at least one part")
    return Message.of(*parts, messagetype=_messagetype(message))


def parts_from(parts: Iterable[pb.Part], where: str, limits: Limits = LIMITS) -> list[Part]:
    made: list[Part] = []
    for index, part in enumerate(parts):
        if index > limits.submessages:
            raise TooBig(PROTOCOL, where, f"at most {limits.submessages} parts")
        made.append(part_from(part, f"{where}[{index}]", limits))
    return made


def _messagetype(message: pb.Message) -> str | None:
    if not message.HasField("metadata"):
        return None
    mark = MessageToDict(message.metadata).get(MARK)
    kind = mark.get("messagetype") if isinstance(mark, dict) else None
    return kind if isinstance(kind, str) else None


def _spoken(message: Message) -> list[Part]:
    return [part for part in message.without_tokens().parts if part.format != "token"]


# -- questions ----------------------------------------------------------------------------------


def question_parts(question: Question) -> tuple[Part, ...]:
    """What an agent asks back: its words, and its shape as the hub writes it."""
    return nlip.question_message(question).parts


def question_from(message: pb.Message) -> Question:
    """What a status message of ``input-required`` asks."""
    parts = parts_from(message.parts, "$.status.message.parts")
    said = Message.of(*parts) if parts else Message.text("")
    return nlip.question_of(said) or Question(said.text or "Input is required.")


# -- tasks, told --------------------------------------------------------------------------------


class Told(msgspec.Struct, frozen=True):
    """All that is known of a task, as the door tells it; made of the stored row and its events."""

    id: str
    context: str
    state: str
    updated: float
    asked: Message
    reply: Message | None = None
    pieces: tuple[Part, ...] = ()
    question: Question | None = None
    fault: str = ""
    fault_code: str = ""
    note: str = ""
    talk: tuple[tuple[bool, Message], ...] = ()  # what was said since: whether by the agent, and what
    asked_id: str = ""


def task_to(told: Told, *, history: int | None = None, artifacts: bool = True) -> pb.Task:
    """A task as A2A says it. ``history`` is how many of its messages are wanted; None is all of them."""
    task = pb.Task(id=told.id, context_id=told.context, status=status_to(told))
    if artifacts:
        parts = _spoken(told.reply) if told.reply is not None else list(told.pieces)
        if parts:
            task.artifacts.append(_artifact(parts))
    said = _history(told)
    task.history.extend(said if history is None else said[max(0, len(said) - history) :])
    return task


def _history(told: Told) -> list[pb.Message]:
    said = [message_to(told.asked, id=told.asked_id or f"{told.id}-0", context=told.context, task=told.id)]
    for number, (by_agent, message) in enumerate(told.talk, 1):
        role = pb.ROLE_AGENT if by_agent else pb.ROLE_USER
        said.append(message_to(message, id=f"{told.id}-{number}", context=told.context, task=told.id, role=role))
    return said


def status_to(told: Told) -> pb.TaskStatus:
    """Where a task is, with the words that belong to it: what is asked, what went wrong, how far it is."""
    state = STATES[told.state]
    if told.state == "failed" and told.fault_code == "refused":
        state = pb.TASK_STATE_REJECTED
    status = pb.TaskStatus(state=state, timestamp=_time(told.updated))
    parts: tuple[Part, ...] = ()
    if told.state == "input-required" and told.question is not None:
        parts = question_parts(told.question)
    elif told.state in ("failed", "cancelled", "expired") and (told.fault or told.state == "expired"):
        parts = (text_part(told.fault or "the task has expired"),)
    elif told.state == "working" and told.note:
        parts = (text_part(told.note),)
    if parts:
        said = Message.of(*parts)
        status.message.CopyFrom(
            message_to(said, id=f"{told.id}-status", context=told.context, task=told.id, role=pb.ROLE_AGENT)
        )
        if told.fault_code:
            status.message.metadata.update({MARK: {"fault": told.fault_code}})
    return status


def status_update(told: Told) -> pb.TaskStatusUpdateEvent:
    return pb.TaskStatusUpdateEvent(task_id=told.id, context_id=told.context, status=status_to(told))


def progress_update(told: Told, fraction: float | None, note: str) -> pb.TaskStatusUpdateEvent:
    update = status_update(msgspec.structs.replace(told, state="working", note=note))
    if fraction is not None:
        update.metadata.update({MARK: {"progress": fraction}})
    return update


def piece_update(told: Told, part: Part, *, append: bool) -> pb.TaskArtifactUpdateEvent:
    """A piece of the answer, sent ahead of it."""
    return pb.TaskArtifactUpdateEvent(
        task_id=told.id, context_id=told.context, artifact=_artifact([part]), append=append
    )


def reply_update(told: Told) -> pb.TaskArtifactUpdateEvent | None:
    """The whole answer, unless the pieces have said it already."""
    if told.reply is None:
        return None
    parts = _spoken(told.reply)
    if told.pieces and run_together(told.pieces) == run_together(parts):
        return None
    return pb.TaskArtifactUpdateEvent(
        task_id=told.id, context_id=told.context, artifact=_artifact(parts), append=False, last_chunk=True
    )


def run_together(parts: Iterable[Part]) -> list[Part]:
    """Pieces as one sequence: neighbouring texts of one language are one text."""
    merged: list[Part] = []
    for part in parts:
        if merged and continues(merged[-1], part):
            last = merged[-1]
            merged[-1] = Part("text", last.subformat, f"{last.content}{part.content}", last.label)
        else:
            merged.append(part)
    return merged


def continues(last: Part, part: Part) -> bool:
    return part.format == last.format == "text" and part.subformat == last.subformat and part.label == last.label


def _artifact(parts: list[Part]) -> pb.Artifact:
    return pb.Artifact(artifact_id=REPLY, name=REPLY, parts=[part_to(p) for p in parts])


def _time(at: float) -> timestamp_pb2.Timestamp:
    made = timestamp_pb2.Timestamp()
    made.FromMilliseconds(int(at * 1000))
    return made

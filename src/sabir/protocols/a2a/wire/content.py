"""The A2A wire: converts errors, messages and questions to the types of A2A 1.0, and back.

The types come from the official SDK (``a2a.types``), which encodes them as JSON and as protobuf and also knows the
0.3 spelling. This module maps them to the hub. What A2A has no field for goes into the metadata of a message or part
under ``nlip``, so that two gateways lose nothing between them; others ignore it. What the hub has no field for is kept
in ``extra`` under ``a2a`` (see ``parts``).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import msgspec
from a2a.types import a2a_pb2 as pb

from sabir import errors
from sabir.errors import (
    BadMediaType,
    BadMessage,
    BadMethod,
    Forbidden,
    PolicyRequired,
    RateLimited,
    Refused,
    SabirError,
    TooLarge,
    Unauthenticated,
    Unavailable,
    UnknownVersion,
)
from sabir.events import Question
from sabir.limits import LIMITS, Limits
from sabir.message import Message, Part
from sabir.protocols.nlip.wire import json as nlip

from .parts import KEPT, MARK, PROTOCOL, kept, part_to, parts_from
from .values import plain, struct_to

VERSION: Final = "1.0"
_URI: Final = re.compile(r"[!#-+\--;=?-~]{1,256}")  # no space, quote or comma, and nothing that a header cannot carry
_MAX_EXTENSIONS: Final = 16
OLD_VERSION: Final = "0.3"

LOSSES: Final[tuple[str, ...]] = (
    "tokens other than the conversation's",
    "byte strings inside JSON values, which become base64 text",
    "the difference between 1.0 and 1: both arrive as 1",
    "metadata of tasks, status messages and stream events, and the ids of tasks that a message refers to",
)

# The JSON-RPC code of each failure. A test compares it with the whole tree of errors.
CODES: Final[Mapping[type[errors.SabirError], int]] = errors.ErrorTable(
    {
        errors.SabirError: -32603,
        errors.BadInput: -32602,
        errors.Unreadable: -32700,
        errors.BadMessage: -32602,
        errors.TooLarge: -32600,
        errors.BadMediaType: -32005,
        errors.BadMethod: -32601,
        errors.UnknownVersion: -32009,
        errors.Refused: -32600,
        errors.Unauthenticated: -32600,
        errors.Forbidden: -32600,
        errors.RateLimited: -32600,
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
        errors.ConfigError: -32603,
        errors.MissingExtra: -32004,
    }
)

# The reason and gRPC status of each code, and the HTTP status of the HTTP+JSON binding (specification, 5.4).
REASONS: Final[Mapping[int, tuple[str, str, int]]] = {
    -32001: ("TASK_NOT_FOUND", "NOT_FOUND", 404),
    -32002: ("TASK_NOT_CANCELABLE", "FAILED_PRECONDITION", 409),
    -32003: ("PUSH_NOTIFICATION_NOT_SUPPORTED", "UNIMPLEMENTED", 400),
    -32004: ("UNSUPPORTED_OPERATION", "UNIMPLEMENTED", 400),
    -32005: ("CONTENT_TYPE_NOT_SUPPORTED", "INVALID_ARGUMENT", 415),
    -32006: ("INVALID_AGENT_RESPONSE", "INTERNAL", 502),
    -32007: ("EXTENDED_AGENT_CARD_NOT_CONFIGURED", "FAILED_PRECONDITION", 400),
    -32008: ("EXTENSION_SUPPORT_REQUIRED", "FAILED_PRECONDITION", 400),
    -32009: ("VERSION_NOT_SUPPORTED", "UNIMPLEMENTED", 400),
    -32600: ("INVALID_REQUEST", "INVALID_ARGUMENT", 400),
    -32601: ("METHOD_NOT_FOUND", "NOT_FOUND", 404),
    -32602: ("INVALID_PARAMS", "INVALID_ARGUMENT", 400),
    -32603: ("INTERNAL_ERROR", "INTERNAL", 500),
    -32700: ("PARSE_ERROR", "INVALID_ARGUMENT", 400),
}

# Failures of the transport, not of the protocol: they have their own HTTP status in both bindings.
STATUSES: Final[Mapping[type[SabirError], tuple[int, str, str]]] = {
    Unauthenticated: (401, "UNAUTHENTICATED", "UNAUTHENTICATED"),
    Forbidden: (403, "PERMISSION_DENIED", "PERMISSION_DENIED"),
    PolicyRequired: (403, "POLICY_REQUIRED", "PERMISSION_DENIED"),
    Refused: (403, "PERMISSION_DENIED", "PERMISSION_DENIED"),
    RateLimited: (429, "TOO_MANY_REQUESTS", "RESOURCE_EXHAUSTED"),
    TooLarge: (413, "TOO_BIG", "INVALID_ARGUMENT"),
    BadMediaType: (415, "CONTENT_TYPE_NOT_SUPPORTED", "INVALID_ARGUMENT"),
    BadMethod: (405, "METHOD_NOT_FOUND", "UNIMPLEMENTED"),
    Unavailable: (503, "UNAVAILABLE", "UNAVAILABLE"),
}


def version_of(asked: str, expected: str | None = None) -> str:
    """The protocol version that ``A2A-Version`` names, as Major.Minor; absent means 0.3.

    Raises:
        UnknownVersion: it is not supported, or is not the ``expected`` one.
    """
    version = ".".join(asked.split(".")[:2]) if asked else OLD_VERSION
    if version not in (VERSION, OLD_VERSION) or (expected is not None and version != expected):
        raise UnknownVersion(PROTOCOL, "A2A-Version", f"{expected or VERSION} (absent means {OLD_VERSION})")
    return version


# -- messages -----------------------------------------------------------------------------------


def message_to(
    message: Message, *, message_id: str, context: str = "", task: str = "", role: pb.Role = pb.ROLE_USER
) -> pb.Message:
    """A Message in A2A's form, without its tokens: the conversation's is the ``contextId``."""
    made = pb.Message(
        message_id=message_id, context_id=context, task_id=task, role=role, parts=[part_to(p) for p in spoken(message)]
    )
    said = said_of(message)
    metadata = said.get("metadata")
    if isinstance(metadata, dict):
        made.metadata.MergeFrom(struct_to(metadata))
    made.extensions.extend(extensions_of(message))
    if message.messagetype is not None:
        made.metadata.update({MARK: {"messagetype": message.messagetype}})
    return made


def message_from(message: pb.Message, limits: Limits = LIMITS) -> Message:
    """The Message in an A2A message.

    Raises:
        BadMessage: it has no parts, or an empty one.
        TooLarge: it has too many parts.
    """
    parts = parts_from(message.parts, "$.message.parts", limits)
    if not parts:
        raise BadMessage(PROTOCOL, "$.message.parts", "at least one part")
    metadata = plain(message.metadata) if message.HasField("metadata") else {}
    mark = metadata.pop(MARK, None)
    kind = mark.get("messagetype") if isinstance(mark, dict) else None
    made = Message.of(*parts, messagetype=kind if isinstance(kind, str) else None)
    return note(
        made,
        metadata=metadata,
        extensions=list(message.extensions),
        referenceTaskIds=list(message.reference_task_ids),
    )


def note(message: Message, **values: Any) -> Message:
    """The message with A2A data about it as a whole added; empty values are left out."""
    added = {name: value for name, value in values.items() if value}
    if not added:
        return message
    about = {**kept(message), "message": {**said_of(message), **added}}
    return msgspec.structs.replace(message, extra={**(message.extra or {}), KEPT: about})


def said_of(message: Message) -> Mapping[str, Any]:
    """A2A data about a message as a whole: ``messageId``, ``metadata``, ``extensions``, ``referenceTaskIds``, and
    ``direct`` if an agent answered with a message instead of a task."""
    said = kept(message).get("message")
    return said if isinstance(said, dict) else {}


def extensions_of(message: Message) -> list[str]:
    """The URIs of the extensions that a message uses, without those that do not fit a header."""
    found = said_of(message).get("extensions")
    listed = found if isinstance(found, list) else []
    return [uri for uri in listed if isinstance(uri, str) and _URI.fullmatch(uri)][:_MAX_EXTENSIONS]


def spoken(message: Message) -> list[Part]:
    """The parts to send: all but tokens. A2A data about the first part is kept by the message."""
    said = message.without_tokens()
    parts = [part for part in said.parts if part.format != "token"]
    about = {name: value for name, value in kept(said).items() if name != "message"}
    if about and parts:
        parts[0] = msgspec.structs.replace(parts[0], extra={KEPT: about})
    return parts


# -- questions ----------------------------------------------------------------------------------


def question_parts(question: Question) -> tuple[Part, ...]:
    """A question of an agent: its text, and its form as the hub writes it."""
    return nlip.question_message(question).parts


def question_from(message: pb.Message, *, authentication: bool = False) -> Question:
    """The question in a status message of ``input-required`` or ``auth-required``."""
    parts = parts_from(message.parts, "$.status.message.parts")
    said = Message.of(*parts) if parts else Message.text("")
    usual = "Authentication is required." if authentication else "Input is required."
    question = nlip.question_of(said) or Question(said.text or usual)
    return replace(question, is_authentication=True) if authentication else question


__all__ = [
    "CODES",
    "KEPT",
    "LOSSES",
    "MARK",
    "OLD_VERSION",
    "PROTOCOL",
    "REASONS",
    "STATUSES",
    "VERSION",
    "extensions_of",
    "kept",
    "message_from",
    "message_to",
    "note",
    "plain",
    "question_from",
    "question_parts",
    "said_of",
    "spoken",
    "version_of",
]

"""The NLIP wire over AMQP 1.0 (ECMA-433, from its draft): the meaning of properties. Pure.

One NLIP message is one AMQP message (AMQP-0). An ``AmqpMessage`` is the bare message as plain values; sockets, links
and the AMQP encoding itself belong to the transport.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Protocol

import msgspec

from sabir.errors import BadInput, BadMediaType, Cancelled, Forbidden, SabirError, Unavailable
from sabir.limits import LIMITS, Limits, check_cost
from sabir.message import FORMATS, Message

from . import cbor
from . import json as nlip
from .rules import PROTOCOL

JSON: Final = "application/json"
CBOR: Final = "application/cbor"
REPLY: Final = "nlip-reply-"
MAX_REPLIES: Final = 8  # reply addresses that one message may name
LOSSES: Final[tuple[str, ...]] = ()

# How a letter is settled if its message was not answered. Looked up along the error's class hierarchy.
OUTCOMES: Final[Mapping[type[SabirError], str]] = {
    SabirError: "accepted",  # answered with an error message
    BadInput: "rejected",  # nobody else could read it either
    Unavailable: "released",  # somebody else may answer it, or we later
    Cancelled: "accepted",
}


class AmqpMessage(msgspec.Struct, frozen=True):
    """The bare message: properties, application properties and payload."""

    body: bytes
    to: str = ""
    reply_to: str = ""
    correlation_id: Any = None  # string, uuid, ulong or binary; its type is kept (AMQP-4)
    content_type: str = ""
    user_id: str = ""
    message_id: Any = None
    properties: Mapping[str, Any] = {}
    is_data: bool = True  # a Data section; False: an amqp-value (D-43)


def decode(letter: AmqpMessage, *, strict: bool = False, limits: Limits = LIMITS) -> Message:
    """The NLIP message in a letter, decoded by its content type (AMQP-5).

    Raises:
        BadMediaType: the content type is neither JSON nor CBOR.
        BadInput: the payload does not match the content type, or is not an NLIP message.
    """
    if strict and not letter.is_data:
        raise BadMediaType(PROTOCOL, "payload", "a Data section")
    read = cbor.decode if kind_of(letter, strict=strict) == CBOR else nlip.decode
    return read(letter.body, strict=strict, limits=limits)


def kind_of(letter: AmqpMessage, *, strict: bool = False) -> str:
    """JSON or CBOR: by the content type, otherwise by the first byte (D-41)."""
    said = letter.content_type.partition(";")[0].strip().lower()
    if said == CBOR or said.endswith("+cbor"):
        return CBOR
    if said == JSON or said.endswith("+json"):
        return JSON
    if said or strict:
        raise BadMediaType(PROTOCOL, "content-type", f"{JSON} or {CBOR}")
    return JSON if letter.body.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"{", b"") else CBOR


def encode(message: Message, content_type: str, *, answering: Message | None = None) -> bytes:
    write = cbor.encode if content_type == CBOR else nlip.encode
    return write(message, answering=answering)


class Encode(Protocol):
    """How an answer is encoded in a content type; ``encode`` is the usual way."""

    def __call__(self, message: Message, content_type: str, *, answering: Message | None = None) -> bytes: ...


def originator(letter: AmqpMessage, identity: str) -> str:
    """The sender of a letter; it must match the connection's owner, if that is known (AMQP-1).

    Raises:
        Forbidden: the letter claims another originator.
    """
    if letter.user_id and identity and letter.user_id != identity:
        raise Forbidden("the user-id is not the user of its connection")
    return letter.user_id or identity


def addresses(letter: AmqpMessage) -> list[tuple[str, str]]:
    """Reply addresses with their content types: ``nlip-reply-…`` before ``reply-to`` (AMQP-7, D-42)."""
    own = _own_kind(letter)
    asked: list[tuple[str, str]] = []
    for key, address in letter.properties.items():
        name = key.lower()
        if not name.startswith(REPLY) or not isinstance(address, str) or not address:
            continue
        wanted = name.removeprefix(REPLY).partition(";")[0].strip()
        if wanted in (JSON, CBOR):
            asked.append((address, wanted))
        elif wanted in FORMATS:
            asked.append((address, own))
    if asked:
        return asked[:MAX_REPLIES]
    return [(letter.reply_to, own)] if letter.reply_to else []


def answers(
    letter: AmqpMessage, reply: Message, asked: Message | None = None, write: Encode = encode
) -> list[AmqpMessage]:
    """The answers to a letter: one per requested address, with its correlation-id (AMQP-3, AMQP-4)."""
    return [
        AmqpMessage(
            write(reply, kind, answering=asked),
            to=address,
            correlation_id=letter.correlation_id if letter.correlation_id is not None else letter.message_id,
            content_type=kind,
        )
        for address, kind in addresses(letter)
    ]


def _own_kind(letter: AmqpMessage) -> str:
    try:
        return kind_of(letter)
    except BadMediaType:
        return JSON


def cost_of(letter: AmqpMessage, limits: Limits = LIMITS) -> int:
    """The cost of a payload. CBOR is not parsed: most of it is bytes, which cost little.

    Raises:
        BadMediaType: it is neither JSON nor CBOR.
        TooLarge: it has too many values.
    """
    if kind_of(letter) == CBOR:
        return len(letter.body) // 100
    return check_cost(letter.body, limits, PROTOCOL)


def outcome(exc: SabirError) -> str:
    """How to settle a letter after this error: ``accepted``, ``rejected`` or ``released``."""
    return next(OUTCOMES[kind] for kind in type(exc).__mro__ if kind in OUTCOMES)

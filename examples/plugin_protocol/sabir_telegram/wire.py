"""The wire: pure functions between bytes and Messages. No I/O, no clock."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from sabir import Message, Part, SabirError
from sabir.errors import BadMessage, tree
from sabir.extend import nlip

PROTOCOL: Final = "telegram"
# The status of each failure: the same as NLIP's, which has every error.
CODES: Final = {error: nlip.CODES[error] for error in tree()}
# What a telegram cannot carry.
LOSSES: Final = ("everything but text",)


class Telegram(msgspec.Struct, omit_defaults=True):
    """What goes either way."""

    text: str = ""
    thread: str | None = None
    problem: str | None = None


def message_of(value: Any) -> Message:
    """Read a decoded body.

    Raises:
        BadMessage: it is not a telegram; says where and what was expected.
    """
    try:
        telegram = msgspec.convert(value, Telegram)
    except msgspec.ValidationError as exc:
        expected, _, where = str(exc).partition(" - at `$")
        raise BadMessage(PROTOCOL, f"${where.rstrip('`')}", expected.removeprefix("Expected ")) from None
    message = Message.text(telegram.text)
    if telegram.thread:
        message = message.with_part(Part("token", "conversation", telegram.thread))
    return message


def encode(message: Message) -> bytes:
    """A reply as bytes, with its thread."""
    threads = [part.content for part in message.tokens if isinstance(part.content, str)]
    return msgspec.json.encode(Telegram(message.without_tokens().text, threads[-1] if threads else None))


def encode_problem(error: SabirError) -> bytes:
    return msgspec.json.encode(Telegram(problem=str(error)))


def status_of(error: SabirError) -> int:
    return CODES.get(type(error), 500)

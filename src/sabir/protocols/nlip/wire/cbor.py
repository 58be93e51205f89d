"""The NLIP wire in CBOR (ECMA-432 binary frames, AMQP ``application/cbor``).

Bytes stay bytes. Core deterministic on output (D-37). Tags are refused, since nothing in NLIP uses them and several of
them (shared references, regular expressions) are a danger in a message from a stranger; but those of integers beyond
64 bits (RFC 8949, 3.4.3) are read, as JSON carries them too.
"""

from __future__ import annotations

import io
from typing import Any, Final, NoReturn

import cbor2

from sabir.errors import TooLarge, Unreadable
from sabir.limits import LIMITS, Limits, count_values
from sabir.message import Message

from .rules import PROTOCOL, message_from, plain

LOSSES: Final[tuple[str, ...]] = ()

# Every tag that the library would turn into something else than plain data; 2 and 3 are integers.
_TAGS: Final = (
    0, 1, 4, 5, 25, 28, 29, 30, 35, 36, 37, 52, 54, 100, 256, 258, 260, 261, 1004, 43000, 55799,
)  # fmt: skip


class _Tagged(ValueError):
    """A tag stood in the input."""


def _refuse(*_: Any) -> NoReturn:
    raise _Tagged("tag")


_NO_TAGS: Final = dict.fromkeys(_TAGS, _refuse)


def decode(body: bytes, *, strict: bool = False, limits: Limits = LIMITS) -> Message:
    """Read one NLIP message from CBOR.

    Raises:
        Unreadable: not one well-formed CBOR item (WS-7.1, WS-11).
        BadMessage: CBOR, but not an NLIP message.
        TooLarge: over a limit.
    """
    if len(body) > limits.body:
        raise TooLarge(PROTOCOL, "$", f"at most {limits.body} bytes")
    value = item(body, limits)
    if len(body) > limits.values and count_values(value, limits.values) > limits.values:
        raise TooLarge(PROTOCOL, "$", f"at most {limits.values} values")
    return message_from(value, strict=strict, limits=limits)


def item(body: bytes, limits: Limits = LIMITS) -> object:
    """The one CBOR item in these bytes, whatever it is; raises as ``decode`` does."""
    if not body:
        raise Unreadable(PROTOCOL, "byte 0", "one CBOR item")
    stream = io.BytesIO(body)
    decoder = cbor2.CBORDecoder(
        stream,
        tag_hook=_refuse,
        semantic_decoders=_NO_TAGS,
        max_depth=limits.depth + 3,  # the message, its list and its parts stand around a content
        allow_duplicate_keys=False,
        strict_hashable_types=True,
    )
    try:
        value = decoder.decode()
    except _Tagged:
        raise Unreadable(PROTOCOL, "$", "CBOR without tags") from None
    except (cbor2.CBORError, ValueError, OverflowError, RecursionError, MemoryError, TypeError) as exc:
        if isinstance(exc.__cause__, _Tagged):
            raise Unreadable(PROTOCOL, "$", "CBOR without tags") from None
        if "nesting depth" in str(exc):  # the library has no class of its own for it
            raise TooLarge(PROTOCOL, "$", f"at most {limits.depth} levels of nesting") from None
        raise Unreadable(PROTOCOL, "$", "one well-formed CBOR item") from None
    if stream.tell() != len(body):
        raise Unreadable(PROTOCOL, f"byte {stream.tell()}", "the end, as one message fills one frame")
    return value


def encode(message: Message, *, answering: Message | None = None) -> bytes:
    """Write a Message as deterministic CBOR."""
    return cbor2.dumps(plain(message, answering), canonical=True)

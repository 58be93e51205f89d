"""The NLIP wire in CBOR (ECMA-432 binary frames, AMQP ``application/cbor``).

Bytes stay bytes. Output is core deterministic (D-37). Tags are rejected, because NLIP uses none and several of them
(shared references, regular expressions) are dangerous in untrusted input; except integers beyond 64 bits (RFC 8949,
3.4.3), which JSON can carry, too.
"""

from __future__ import annotations

import io
from typing import Any, Final, NoReturn

import cbor2

from sabir.errors import TooLarge, Unreadable
from sabir.limits import BYTES_AS_A_VALUE, FEW_VALUES, LIMITS, Limits, count_values
from sabir.message import Message

from .rules import PROTOCOL, message_from, plain

LOSSES: Final[tuple[str, ...]] = ()

# Every tag that the library would turn into something other than plain data; 2 and 3 are integers.
_TAGS: Final = (
    0, 1, 4, 5, 25, 28, 29, 30, 35, 36, 37, 52, 54, 100, 256, 258, 260, 261, 1004, 43000, 55799,
)  # fmt: skip


class _Tagged(ValueError):
    """There is a tag in the input."""


def _refuse(*_: Any) -> NoReturn:
    raise _Tagged("tag")


_NO_TAGS: Final = dict.fromkeys(_TAGS, _refuse)


def decode(body: bytes, *, strict: bool = False, limits: Limits = LIMITS, is_counted: bool = False) -> Message:
    """Decode one NLIP message from CBOR; ``is_counted`` means that its items were already counted (``check_cost``).

    Raises:
        Unreadable: not one well-formed CBOR item (WS-7.1, WS-11).
        BadMessage: CBOR, but not an NLIP message.
        TooLarge: over a limit.
    """
    if len(body) > limits.body:
        raise TooLarge(PROTOCOL, "$", f"at most {limits.body} bytes")
    if not is_counted:
        check_cost(body, limits)
    value = item(body, limits)
    if len(body) > limits.values and count_values(value, limits.values) > limits.values:
        raise TooLarge(PROTOCOL, "$", f"at most {limits.values} values")
    return message_from(value, strict=strict, limits=limits)


def check_cost(body: bytes, limits: Limits = LIMITS) -> int:
    """The cost of CBOR, estimated before decoding: by its items, and a little by its length.

    A byte can be an item, or one of many in a text, so the heads of items are counted: all levels together, keys too.

    Raises:
        TooLarge: it has too many items.
    """
    if len(body) < FEW_VALUES:
        return 0
    limit = 2 * limits.values + 16  # a value may have a key; the surrounding structure does not count
    count = _count_items(body, limit)
    if count > limit:
        raise TooLarge(PROTOCOL, "$", f"at most {limits.values} values")
    return count + len(body) // BYTES_AS_A_VALUE


def _count_items(body: bytes, limit: int) -> int:
    """How many items there are; stops just past ``limit``, and where an item is truncated."""
    at = count = 0
    size = len(body)
    while at < size and count <= limit:
        head = body[at]
        step = _STEPS[head]
        if not step:
            width = _WIDTHS.get(head & 31, 0)
            step = 1 + width
            if head >> 5 in (2, 3):
                step += int.from_bytes(body[at + 1 : at + 1 + width], "big")
        at += step
        count += 1
    return count


# Bytes from one item to the next, by its first byte; 0 if the length is in the following bytes (RFC 8949, 3).
_STEPS: Final = tuple(0 if head & 31 > 23 else 1 + (head & 31 if head >> 5 in (2, 3) else 0) for head in range(256))
_WIDTHS: Final = {24: 1, 25: 2, 26: 4, 27: 8}


def item(body: bytes, limits: Limits = LIMITS) -> object:
    """The one CBOR item in these bytes, whatever it is; raises as ``decode`` does."""
    if not body:
        raise Unreadable(PROTOCOL, "byte 0", "one CBOR item")
    stream = io.BytesIO(body)
    decoder = cbor2.CBORDecoder(
        stream,
        tag_hook=_refuse,
        semantic_decoders=_NO_TAGS,
        max_depth=limits.depth + 3,  # the message, its list and its parts surround a content
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
        if "nesting depth" in str(exc):  # the library has no exception class for it
            raise TooLarge(PROTOCOL, "$", f"at most {limits.depth} levels of nesting") from None
        raise Unreadable(PROTOCOL, "$", "one well-formed CBOR item") from None
    if stream.tell() != len(body):
        raise Unreadable(PROTOCOL, f"byte {stream.tell()}", "the end, as one message fills one frame")
    return value


def encode(message: Message, *, answering: Message | None = None) -> bytes:
    """Encode a Message as deterministic CBOR."""
    return cbor2.dumps(plain(message, answering), canonical=True)

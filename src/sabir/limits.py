"""How large a message may be, and its cost: the limits that every layer enforces."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from sabir.errors import TooLarge

FEW_BYTES: Final = 4096  # shorter JSON is not counted
FEW_VALUES: Final = 500
_NO_SEPARATORS: Final = bytes(set(range(256)) - set(b",[{"))
BYTES_AS_A_VALUE: Final = 64  # this many bytes of text cost about as much as one value


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The size limits of a message. Sent to peers by control, enforced before anything runs."""

    body: Annotated[int, Meta(ge=1)] = 1024 * 1024
    values: Annotated[int, Meta(ge=1)] = 10_000  # JSON or CBOR values, all levels together: each costs time to check
    depth: Annotated[int, Meta(ge=1, le=256)] = 64  # values are checked recursively
    tokens: Annotated[int, Meta(ge=1)] = 32
    submessages: Annotated[int, Meta(ge=1)] = 256
    token_length: Annotated[int, Meta(ge=1)] = 8192
    label_length: Annotated[int, Meta(ge=1)] = 256
    subformat_length: Annotated[int, Meta(ge=1)] = 256


LIMITS: Final = Limits()


def check_cost(body: bytes, limits: Limits, protocol: str, *, weight: int = 1) -> int:
    """The cost of JSON, estimated before decoding: by its values, and a little by its length.

    ``weight`` is how much more a value costs in this protocol than in others. Short JSON costs 0.

    Raises:
        TooLarge: it has too many values.
    """
    if len(body) < FEW_BYTES:
        return 0
    count = _separators(body)
    if count > FEW_VALUES:
        count = _separators(_without_texts(body))
    if count * weight > limits.values:
        raise TooLarge(protocol, "$", f"at most {limits.values // weight} values")
    return weight * (count + len(body) // BYTES_AS_A_VALUE)


def _without_texts(body: bytes) -> bytes:
    """JSON without the contents of its strings, in linear time."""
    if b"\\" in body:
        body = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    return b"".join(body.split(b'"')[::2])


def _separators(body: bytes) -> int:
    """Count values: one before each comma, and one in each bracket; in one pass."""
    return 1 + len(body.translate(None, _NO_SEPARATORS))


def check_shape(content: object, where: str, limits: Limits, protocol: str) -> None:
    """Check a content that was already decoded.

    Raises:
        TooLarge: it has too many values, or is nested too deeply.
    """
    if not isinstance(content, dict | list):
        return
    if count_values(content, limits.values) > limits.values:
        raise TooLarge(protocol, where, f"at most {limits.values} values")
    if depth_of(content, limits.depth) > limits.depth:
        raise TooLarge(protocol, where, f"at most {limits.depth} levels of nesting")


def count_values(value: object, limit: int) -> int:
    """How many values a decoded value has, all levels together; stops just past ``limit``."""
    count, pending = 1, [value]
    while pending and count <= limit:
        item = pending.pop()
        if isinstance(item, dict):
            count += len(item)
            pending.extend(child for child in item.values() if isinstance(child, dict | list))
        elif isinstance(item, list):
            count += len(item)
            pending.extend(child for child in item if isinstance(child, dict | list))
    return count


def depth_of(value: object, limit: int) -> int:
    """How deeply a value is nested; stops just past ``limit``."""
    deepest = 0
    layer: list[object] = [value] if isinstance(value, dict | list) else []
    while layer and deepest <= limit:
        layer = [child for item in layer for child in _children(item)]
        deepest += 1
    return deepest


def _children(value: object) -> Iterator[object]:
    if isinstance(value, dict):
        return (item for item in value.values() if isinstance(item, dict | list))
    if isinstance(value, list):
        return (item for item in value if isinstance(item, dict | list))
    return iter(())

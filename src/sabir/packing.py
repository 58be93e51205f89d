"""MessagePack with integers of any size, which the format itself limits to 64 bits.

Stores and the bus use it for messages. Larger integers are an extension type, so that older data is still readable.
"""

from __future__ import annotations

from typing import Any, Final, TypeVar

import msgspec

T = TypeVar("T")

_BIG_INTEGER: Final = 1  # the extension code: two's complement, big-endian
_SMALLEST: Final = -(2**63)
_LARGEST: Final = 2**64 - 1

_encode: Final = msgspec.msgpack.Encoder().encode


def pack(value: object) -> bytes:
    """The value as MessagePack."""
    try:
        return _encode(value)
    except OverflowError:  # rare, so the value is only searched then
        return _encode(_with_extensions(msgspec.to_builtins(value, builtin_types=(bytes,))))


def unpacker(kind: type[T]) -> msgspec.msgpack.Decoder[T]:
    """A decoder for packed values of this type."""
    return msgspec.msgpack.Decoder(kind, ext_hook=_integer)


def _with_extensions(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _with_extensions(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_with_extensions(item) for item in value]
    if isinstance(value, int) and not _SMALLEST <= value <= _LARGEST:
        return msgspec.msgpack.Ext(_BIG_INTEGER, value.to_bytes(value.bit_length() // 8 + 1, "big", signed=True))
    return value


def _integer(code: int, data: memoryview) -> int:
    if code != _BIG_INTEGER:
        raise msgspec.ValidationError(f"unknown extension type {code}")
    return int.from_bytes(data, "big", signed=True)

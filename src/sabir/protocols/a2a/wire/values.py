"""Protobuf messages and values as plain JSON, and back.

``google.protobuf.json_format`` does the same at 1 to 2 µs per value, and a message is converted several times on its
way.
These functions take a quarter to a half of that. They return the same as ``MessageToDict``, except that integers are
written as integers.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec
from google.protobuf import struct_pb2
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.json_format import SerializeToJsonError
from google.protobuf.message import Message as Proto

EXACT: Final = 2**53  # larger integers are not exact in a protobuf Value

_WIDE: Final = frozenset(
    {
        FieldDescriptor.TYPE_INT64,
        FieldDescriptor.TYPE_UINT64,
        FieldDescriptor.TYPE_SINT64,
        FieldDescriptor.TYPE_FIXED64,
        FieldDescriptor.TYPE_SFIXED64,
    }
)


def value_to(value: Any) -> struct_pb2.Value:
    """A JSON value in protobuf; byte strings inside become base64 text.

    Raises:
        ValueError, TypeError, OverflowError: protobuf cannot hold it.
    """
    made = struct_pb2.Value()
    _fill(made, msgspec.to_builtins(value, str_keys=True))
    return made


def struct_to(value: Mapping[str, Any]) -> struct_pb2.Struct:
    """Metadata in protobuf; empty if protobuf cannot hold it."""
    made = struct_pb2.Struct()
    try:
        _fill_struct(made, msgspec.to_builtins(value, str_keys=True))
    except (ValueError, TypeError, OverflowError):  # a number or text from another protocol
        return struct_pb2.Struct()
    return made


def value_from(value: struct_pb2.Value) -> Any:
    """The JSON value; protobuf numbers are floats, and whole ones become integers again."""
    kind = value.WhichOneof("kind")
    if kind == "string_value":
        return value.string_value
    if kind == "number_value":
        return _number(value.number_value)
    if kind == "bool_value":
        return value.bool_value
    if kind == "list_value":
        return [value_from(item) for item in value.list_value.values]
    if kind == "struct_value":
        return _struct_from(value.struct_value)
    return None


def plain(message: Proto) -> Any:
    """A message of the protocol as plain JSON. Protobuf numbers are floats; whole ones are written as integers."""
    write = _KNOWN.get(message.DESCRIPTOR.full_name)
    if write is not None:
        return write(message)
    return {field.json_name: _field(field, value) for field, value in message.ListFields()}


def _field(field: FieldDescriptor, value: Any) -> Any:
    kind = field.message_type
    if kind is not None and kind.GetOptions().map_entry:
        inner = kind.fields_by_name["value"]
        return {key: _item(inner, item) for key, item in value.items()}
    if field.is_repeated:
        return [_item(field, item) for item in value]
    return _item(field, value)


def _item(field: FieldDescriptor, value: Any) -> Any:
    kind = field.type
    if kind == FieldDescriptor.TYPE_MESSAGE:
        return plain(value)
    if kind == FieldDescriptor.TYPE_ENUM:
        known = field.enum_type.values_by_number.get(value) if field.enum_type is not None else None
        return value if known is None else known.name
    if kind == FieldDescriptor.TYPE_BYTES:
        return base64.b64encode(value).decode("ascii")
    if kind in _WIDE:
        return str(value)
    return _number(value) if isinstance(value, float) else value


def _number(value: float) -> float | int:
    if value.is_integer() and abs(value) <= EXACT:
        return int(value)
    if not math.isfinite(value):
        raise SerializeToJsonError("JSON has no number for infinity, and none that is not a number")
    return value


def _fill(target: struct_pb2.Value, value: Any) -> None:
    if isinstance(value, str):
        target.string_value = value
    elif value is None:
        target.null_value = struct_pb2.NULL_VALUE
    elif isinstance(value, bool):
        target.bool_value = value
    elif isinstance(value, int | float):
        number = float(value)
        if not math.isfinite(number):
            raise ValueError("a protobuf Value holds finite numbers only")
        target.number_value = number
    elif isinstance(value, dict):
        _fill_struct(target.struct_value, value)
    else:
        values = target.list_value
        values.SetInParent()
        add = values.values.add
        for item in value:
            _fill(add(), item)


def _fill_struct(target: struct_pb2.Struct, value: Mapping[str, Any]) -> None:
    target.SetInParent()
    fields = target.fields
    for key, item in value.items():
        _fill(fields[key], item)


def _struct_from(value: Any) -> dict[str, Any]:
    return {key: value_from(item) for key, item in value.fields.items()}


_KNOWN: Final[Mapping[str, Callable[[Any], Any]]] = {
    "google.protobuf.Value": value_from,
    "google.protobuf.Struct": _struct_from,
    "google.protobuf.ListValue": lambda value: [value_from(item) for item in value.values],
    "google.protobuf.Timestamp": lambda value: value.ToJsonString(),
}

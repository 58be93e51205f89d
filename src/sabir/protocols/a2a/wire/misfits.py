"""Where JSON does not fit a message of protobuf, and what was expected there.

Protobuf's own errors name neither the number of a part nor the type that was expected, and repeat what came in.
"""

from __future__ import annotations

from typing import Any, Final

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message as Proto

from sabir.misfits import shown

_STRUCT: Final = "google.protobuf.Struct"
_VALUE: Final = "google.protobuf.Value"
_LIST: Final = "google.protobuf.ListValue"
_TIMES: Final = {"google.protobuf.Timestamp": "a time such as 2026-01-31T12:00:00Z"}
_LARGEST: Final = 1.7976931348623157e308

Misfit = tuple[str, str]  # the place, and what was expected there


def find_misfit(value: Any, kind: type[Proto], where: str) -> Misfit:
    """The first place that does not fit; the value as a whole if each of its fields does."""
    described: Any = kind.DESCRIPTOR
    return _message(value, described, where) or (where, f"a {described.name}")


def _message(value: Any, kind: Descriptor, where: str) -> Misfit | None:
    if kind.full_name in _TIMES:
        return None if _is_text(value) else (where, _TIMES[kind.full_name])
    if kind.full_name == _VALUE:
        return unfit_value(value, where)
    if kind.full_name == _LIST:
        return unfit_value(value, where) if isinstance(value, list) else (where, "an array")
    if not isinstance(value, dict):
        return where, "an object"
    if kind.full_name == _STRUCT:
        return unfit_value(value, where)
    for name, item in value.items():
        field = kind.fields_by_camelcase_name.get(name) or kind.fields_by_name.get(name)
        found = None if field is None or item is None else _field(item, field, f"{where}.{name}")
        if found is not None:
            return found
    return None


def _field(value: Any, field: FieldDescriptor, where: str) -> Misfit | None:
    if not field.is_repeated:
        return _single(value, field, where)
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        if not isinstance(value, dict):
            return where, "an object"
        inner = field.message_type.fields_by_name["value"]
        found = (_single(item, inner, f"{where}.{name}") for name, item in value.items())
    elif isinstance(value, list):
        found = (_single(item, field, f"{where}[{index}]") for index, item in enumerate(value))
    else:
        return where, "an array"
    return next((one for one in found if one is not None), None)


def _single(value: Any, field: FieldDescriptor, where: str) -> Misfit | None:
    if field.message_type is not None:
        return _message(value, field.message_type, where)
    if field.enum_type is not None:
        names = [known.name for known in field.enum_type.values if known.number]
        fits = value in names if isinstance(value, str) else isinstance(value, bool) or _is_narrow(value)
        return None if fits else (where, " or ".join(names))
    if field.type == FieldDescriptor.TYPE_BYTES:
        return None if _is_text(value) else (where, "base64 text")
    if field.type == FieldDescriptor.TYPE_STRING:
        return None if _is_text(value) else (where, "a string")
    if field.type == FieldDescriptor.TYPE_BOOL:
        return None if isinstance(value, bool) else (where, "true or false")
    return None if _is_narrow(value) else (where, "a whole number of at most 32 bits")


def unfit_value(value: Any, where: str) -> Misfit | None:
    """The first number or text of any JSON that protobuf cannot hold, if there is one."""
    if isinstance(value, dict):
        found = (
            (where, "names in whole characters") if not _is_text(name) else unfit_value(item, f"{where}.{shown(name)}")
            for name, item in value.items()
        )
        return next((one for one in found if one is not None), None)
    if isinstance(value, list):
        found = (unfit_value(item, f"{where}[{index}]") for index, item in enumerate(value))
        return next((one for one in found if one is not None), None)
    if isinstance(value, str):
        return None if _is_text(value) else (where, "text without half surrogate pairs")
    if isinstance(value, int | float) and not -_LARGEST <= value <= _LARGEST:
        return where, "a number of at most 308 digits, as in protobuf"
    return None


def _is_text(value: object) -> bool:
    """Whether it can be written as UTF-8."""
    try:
        return isinstance(value, str) and value.encode() is not None
    except UnicodeEncodeError:
        return False


def _is_whole(value: object) -> bool:
    return isinstance(value, int) or (isinstance(value, float) and value.is_integer())


def _is_narrow(value: object) -> bool:
    if isinstance(value, str):
        return value.removeprefix("-").isdecimal() and -(2**31) <= int(value) < 2**31
    return _is_whole(value) and not isinstance(value, bool) and -(2**31) <= value < 2**31  # type: ignore[operator]

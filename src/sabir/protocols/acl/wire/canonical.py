"""Canonical JSON of RFC 8785: the bytes that are signed."""

from __future__ import annotations

import math
import re
from typing import Final

from sabir.errors import BadMessage
from sabir.message import JSON

_LARGEST_INTEGER: Final = 2**53  # larger JSON numbers lose digits elsewhere
_ESCAPES: Final = {
    '"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t",
}  # fmt: skip
_ESCAPED: Final = re.compile(r'["\\\x00-\x1f]')


def canonical(value: JSON) -> bytes:
    """The canonical JSON of a value.

    Raises:
        BadMessage: a number or text that I-JSON cannot represent.
    """
    return _written(value, "$").encode()


def _written(value: JSON, where: str) -> str:
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, str):
        return _string(value, where)
    if isinstance(value, int):
        if abs(value) > _LARGEST_INTEGER:
            raise BadMessage("acl", where, "an integer of at most 2^53 in signed content")
        return str(value)
    if isinstance(value, float):
        return _number(value, where)
    if isinstance(value, dict):
        keys = sorted(value, key=lambda key: str(key).encode("utf-16-be", "surrogatepass"))
        members = (f"{_string(str(key), where)}:{_written(value[key], f'{where}.{key}')}" for key in keys)
        return "{" + ",".join(members) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(_written(item, f"{where}[{n}]") for n, item in enumerate(value)) + "]"
    raise BadMessage("acl", where, "a JSON value")


def _string(text: str, where: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise BadMessage("acl", where, "text without lone surrogates") from None
    return '"' + _ESCAPED.sub(lambda found: _ESCAPES.get(found[0]) or f"\\u{ord(found[0]):04x}", text) + '"'


def _number(value: float, where: str) -> str:
    """A double in ECMAScript's format."""
    if not math.isfinite(value):
        raise BadMessage("acl", where, "a finite number")
    if value == 0:
        return "0"
    sign = "-" if value < 0 else ""
    mantissa, _, power = repr(abs(value)).partition("e")
    whole, _, fraction = mantissa.partition(".")
    fraction = "" if fraction == "0" else fraction
    digits = (whole + fraction).lstrip("0")
    point = len(whole) + int(power or 0)  # position of the decimal point, counted from the first digit
    if whole == "0":
        point -= 1 + len(fraction) - len(fraction.lstrip("0"))
    digits = digits.rstrip("0") or "0"
    count = len(digits)
    if count <= point <= 21:
        return f"{sign}{digits}{'0' * (point - count)}"
    if 0 < point <= 21:
        return f"{sign}{digits[:point]}.{digits[point:]}"
    if -6 < point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    exponent = point - 1
    tail = f".{digits[1:]}" if count > 1 else ""
    return f"{sign}{digits[0]}{tail}e{'+' if exponent > 0 else ''}{exponent}"

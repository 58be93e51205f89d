"""The rules of ECMA-430 on plain values, shared by its JSON and CBOR notations.

``message_from`` turns a decoded object into a Message; ``plain`` is its inverse. Every error names the JSON path and
what was expected. ``docs/requirements.md`` and ``docs/decisions.md`` explain the ids.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from sabir.errors import BadMessage, TooLarge
from sabir.limits import LIMITS, Limits
from sabir.message import ERROR, FORMATS, MEDIA, STRUCTURED, Message, Part, language_name, printable

PROTOCOL: Final = "nlip"
FIELDS: Final = {
    "format": "format",
    "subformat": "subformat",
    "content": "content",
    "label": "label",
    "messagetype": "messagetype",
    "message_type": "messagetype",  # D-03
    "message-type": "messagetype",
    "submessages": "submessages",
    "control": "control",  # D-19
}
_PART_FIELDS: Final = frozenset({"format", "subformat", "content", "label"})
_EXPECTED_FORMAT: Final = "text, token, structured, binary, location or generic"
_ABSOLUTE_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[^\s]+")
_URLSAFE = str.maketrans("-_", "+/")
_TOO_LARGE: Final = 10**4300  # Python does not convert longer integers


def message_from(value: object, *, strict: bool = False, limits: Limits = LIMITS) -> Message:
    """Convert a decoded JSON or CBOR object to a Message.

    Raises:
        BadMessage: it is not an NLIP message; says where and what was expected.
        TooLarge: it has too many parts or tokens, or is nested too deeply.
    """
    fields, extra = _fold(value, "$", limits)
    parts: tuple[Part, ...] = ()
    listed = fields.get("submessages")
    if listed is not None or "submessages" in fields:
        parts = _submessages(listed, strict, limits)
    messagetype = _messagetype(fields, strict, limits)
    control = _control_flag(fields.get("control"))
    first = _part(fields, "$", strict, limits)
    message = Message(first.format, first.subformat, first.content, messagetype, first.label, parts, control, extra)
    check_tokens(message, limits)
    return message


def _fold(value: object, where: str, limits: Limits) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """Known fields under their lower-case names (CORE-5.0.2), others unchanged (D-05)."""
    if not isinstance(value, Mapping):
        raise BadMessage(PROTOCOL, where, "an object")
    fields: dict[str, Any] = {}
    extra: dict[str, Any] = {}
    repeated: frozenset[str] = getattr(value, "repeated", frozenset())
    for key, item in value.items():
        if not isinstance(key, str):
            raise BadMessage(PROTOCOL, where, "text keys")
        check_text(key, where)
        name = FIELDS.get(key.lower())
        if name is None or (where != "$" and name not in _PART_FIELDS):
            check_value(item, f"{where}.{printable(key)}", limits.depth)
            extra[key] = item
        elif name in fields or key in repeated:
            raise BadMessage(PROTOCOL, f"{where}.{name}", "this field once")  # D-03
        else:
            fields[name] = item
    return fields, extra or None


def _submessages(listed: object, strict: bool, limits: Limits) -> tuple[Part, ...]:
    where = "$.submessages"
    if listed is None and not strict:
        return ()  # D-08
    if not isinstance(listed, list | tuple):
        raise BadMessage(PROTOCOL, where, "an array of submessages")
    if not listed:
        if strict:
            raise BadMessage(PROTOCOL, where, "one submessage or more")  # CORE-5.1.5; D-09
        return ()
    if len(listed) > limits.submessages:
        raise TooLarge(PROTOCOL, where, f"at most {limits.submessages} submessages")
    parts = []
    for index, item in enumerate(listed):
        place = f"{where}[{index}]"
        fields, extra = _fold(item, place, limits)
        part = _part(fields, place, strict, limits)
        parts.append(part if extra is None else msgspec.structs.replace(part, extra=extra))
    return tuple(parts)


def _messagetype(fields: Mapping[str, Any], strict: bool, limits: Limits) -> str | None:
    value = fields.get("messagetype")
    if isinstance(value, str):
        if len(value) > limits.label_length:
            raise TooLarge(PROTOCOL, "$.messagetype", f"at most {limits.label_length} characters")
        return check_text(value, "$.messagetype").strip() or None
    if value is None and not (strict and "messagetype" in fields):
        return None
    raise BadMessage(PROTOCOL, "$.messagetype", "a string")


def _control_flag(value: object) -> bool | str | None:
    return value if isinstance(value, bool | str) else None  # other values are ignored (D-19)


def _part(fields: Mapping[str, Any], where: str, strict: bool, limits: Limits) -> Part:
    format_ = _format(fields, where, strict)
    subformat = _subformat(fields, format_, where, strict, limits)
    if "content" not in fields:
        raise BadMessage(PROTOCOL, f"{where}.content", "content, which is required")
    subformat, content = check_content(
        format_, subformat, fields["content"], f"{where}.content", strict=strict, limits=limits
    )
    return Part(format_, subformat, content, _label(fields, where, strict, limits))


def _format(fields: Mapping[str, Any], where: str, strict: bool) -> str:
    value = fields.get("format")
    if not isinstance(value, str):
        raise BadMessage(PROTOCOL, f"{where}.format", _EXPECTED_FORMAT)
    name = value.lower() if strict else value.strip().lower()
    if name in FORMATS or (name == ERROR and not strict):  # D-12
        return name
    raise BadMessage(PROTOCOL, f"{where}.format", _EXPECTED_FORMAT)  # D-68


def _subformat(fields: Mapping[str, Any], format_: str, where: str, strict: bool, limits: Limits) -> str:
    value = fields.get("subformat")
    place = f"{where}.subformat"
    if value is None and not strict and format_ in ("text", ERROR):
        return "english"  # D-06
    if not isinstance(value, str):
        raise BadMessage(PROTOCOL, place, "a string, which is required")
    check_text(value, place)
    if len(value) > limits.subformat_length:
        raise TooLarge(PROTOCOL, place, f"at most {limits.subformat_length} characters")
    trimmed = value.strip()
    if strict and trimmed != value:
        raise BadMessage(PROTOCOL, place, "a name without blanks around it")  # D-04
    if not trimmed:
        if format_ == "text" and not strict:
            return "english"
        raise BadMessage(PROTOCOL, place, "a name")
    return trimmed


def _label(fields: Mapping[str, Any], where: str, strict: bool, limits: Limits) -> str | None:
    value = fields.get("label")
    if value is None:
        if strict and "label" in fields:
            raise BadMessage(PROTOCOL, f"{where}.label", "a string")  # D-08
        return None
    if isinstance(value, int | float) and not isinstance(value, bool) and not strict:
        value = str(value)  # D-07
    if not isinstance(value, str):
        raise BadMessage(PROTOCOL, f"{where}.label", "a string")
    if len(value) > limits.label_length:
        raise TooLarge(PROTOCOL, f"{where}.label", f"at most {limits.label_length} characters")
    return check_text(value, f"{where}.label")


# -- content, by format -------------------------------------------------------------------------


def check_content(
    format_: str, subformat: str, content: Any, where: str, *, strict: bool = False, limits: Limits = LIMITS
) -> tuple[str, Any]:
    """The canonical subformat and the checked content of one part."""
    match format_:
        case "text":
            return subformat, _string(content, where, "a string")
        case "binary":
            return _binary(subformat, content, where, strict)
        case "structured":
            return _structured(subformat, content, where, strict, limits)
        case "location":
            return _location(subformat, content, where, limits)
        case "token":
            check_value(content, where, limits.depth)
            if token_size(content) > limits.token_length:
                raise TooLarge(PROTOCOL, where, f"a token of at most {limits.token_length} bytes")
            return subformat, content
        case _:  # generic; error in liberal mode
            check_value(content, where, limits.depth)
            return subformat, content


def _string(content: object, where: str, expected: str) -> str:
    if isinstance(content, bytes):  # only CBOR has them here (D-32)
        try:
            return content.decode()
        except UnicodeDecodeError:
            raise BadMessage(PROTOCOL, where, f"{expected} in UTF-8") from None
    if not isinstance(content, str):
        raise BadMessage(PROTOCOL, where, expected)
    return check_text(content, where)


def _binary(subformat: str, content: object, where: str, strict: bool) -> tuple[str, bytes]:
    place = where.removesuffix("content") + "subformat"
    kind, slash, encoding = subformat.partition(";")[0].partition("/")
    if slash and not (kind.strip() and encoding.strip().lstrip(".")):
        raise BadMessage(PROTOCOL, place, "<kind>/<encoding>, for example image/png")
    if strict and (not slash or kind.strip().lower() not in MEDIA):
        raise BadMessage(PROTOCOL, place, "audio, image, sensor, video or generic, '/' and an encoding")
    if isinstance(content, bytes):
        return subformat, content
    if not isinstance(content, str):
        raise BadMessage(PROTOCOL, where, "base64 text")
    return subformat, unbase64(content, where, strict=strict)


def unbase64(text: str, where: str, *, strict: bool = False) -> bytes:
    """Bytes of base64 text; lenient on padding, line breaks, URL-safe letters and data URLs (D-15)."""
    try:
        return binascii.a2b_base64(text, strict_mode=True) if text else b""
    except (binascii.Error, ValueError):
        if strict:
            raise BadMessage(PROTOCOL, where, "standard base64 with padding") from None
    if text.startswith("data:"):
        text = text.partition(",")[2]
    compact = "".join(text.split()).translate(_URLSAFE).rstrip("=")
    try:
        return base64.b64decode(compact + "=" * (-len(compact) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise BadMessage(PROTOCOL, where, "base64 text") from None


def _structured(subformat: str, content: Any, where: str, strict: bool, limits: Limits) -> tuple[str, Any]:
    name = subformat.lower().partition(";")[0].strip()
    kind = STRUCTURED.get(name)
    if isinstance(content, dict | list) and kind != "json":
        if strict:
            raise BadMessage(PROTOCOL, where, f"a string, as the subformat is {printable(subformat)}")
        kind = "json"  # D-13
    if kind == "json":
        if isinstance(content, bytes):
            return "json", _string(content, where, "JSON")
        check_value(content, where, limits.depth)
        return "json", content
    text = _string(content, where, f"a string, as the subformat is {printable(subformat)}")
    if kind == "uri":
        text = text if strict else text.strip()
        if not _ABSOLUTE_URI.fullmatch(text):
            raise BadMessage(PROTOCOL, where, "an absolute URI")
    return kind or subformat, text


def _location(subformat: str, content: Any, where: str, limits: Limits) -> tuple[str, Any]:
    kind = subformat.lower()
    if kind == "text":
        return kind, _string(content, where, "a place in words")
    if kind != "gps":
        raise BadMessage(PROTOCOL, where.removesuffix("content") + "subformat", "text or gps")
    if not isinstance(content, str | list | tuple | dict):
        raise BadMessage(PROTOCOL, where, 'coordinates such as "47.37,8.54"')
    check_value(content, where, limits.depth)
    return kind, content


# -- values -------------------------------------------------------------------------------------


def check_text(text: str, where: str) -> str:
    """Check that text can be encoded as UTF-8: no lone surrogates (CORE-5.0.4)."""
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise BadMessage(PROTOCOL, where, "valid Unicode (no lone surrogates)") from None
    return text


def check_value(value: object, where: str, depth: int) -> None:
    """Check that every encoding can carry a value: no tags, no NaN, no numbers of thousands of digits, not too deep."""
    if value is None or isinstance(value, bool | bytes):
        return
    if isinstance(value, str):
        check_text(value, where)
    elif isinstance(value, int):
        if not -_TOO_LARGE < value < _TOO_LARGE:
            raise BadMessage(PROTOCOL, where, "a number of at most 4,300 digits")
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise BadMessage(PROTOCOL, where, "a finite number")
    elif isinstance(value, dict | list):
        _check_container(value, where, depth)
    else:
        raise BadMessage(PROTOCOL, where, "a JSON value or a byte string")


def _check_container(value: dict[Any, Any] | list[Any], where: str, depth: int) -> None:
    if depth <= 0:
        raise TooLarge(PROTOCOL, where.partition("[")[0], "less nesting")
    if isinstance(value, list):
        for index, item in enumerate(value):
            check_value(item, f"{where}[{index}]" if depth > 60 else where, depth - 1)
        return
    for key, item in value.items():
        if not isinstance(key, str):
            raise BadMessage(PROTOCOL, where, "text keys")
        check_text(key, where)
        check_value(item, f"{where}.{printable(key)}" if depth > 60 else where, depth - 1)


def token_size(content: object) -> int:
    """The size of a token's content in bytes."""
    if isinstance(content, bytes) or (isinstance(content, str) and content.isascii()):
        return len(content)
    return len(content.encode() if isinstance(content, str) else msgspec.json.encode(content))


def check_tokens(message: Message, limits: Limits) -> None:
    """Limit the tokens to echo, so that echoing cannot be used for amplification (SEC-DOS)."""
    if len(message.submessages) < limits.tokens:
        return
    if len(message.tokens) > limits.tokens:
        raise TooLarge(PROTOCOL, "$.submessages", f"at most {limits.tokens} tokens")


# -- out ----------------------------------------------------------------------------------------


def plain(message: Message, answering: Message | None = None) -> dict[str, Any]:
    """A Message as the plain object that goes on the wire, spelt for an unknown peer.

    ``answering`` is the message this one replies to: what that peer uses itself may be sent to it.
    """
    suffix = ";base64" if answering is not None and _says_base64(answering) else ""
    out: dict[str, Any] = {}
    if message.messagetype is not None:
        out["messagetype"] = message.messagetype
    out.update(_plain_part(message.first, suffix))
    if message.label is not None and (answering is None or answering.label is None):
        out.pop("label", None)  # D-10
    if message.control is not None:
        out["control"] = message.control
    if message.extra and answering is not None and answering.extra:
        out.update((key, value) for key, value in message.extra.items() if key not in out)  # D-05
    if message.submessages:
        out["submessages"] = [_plain_part(part, suffix) for part in message.submessages]
    return out


def _plain_part(part: Part, suffix: str) -> dict[str, Any]:
    format_, subformat, content, label = part.format, part.subformat, part.content, part.label
    if format_ == ERROR:  # never sent (D-12)
        format_, subformat, label = "text", "english", label or ERROR
        content = content if isinstance(content, str) else msgspec.json.encode(content).decode()
    elif format_ == "text":
        subformat = language_name(subformat)
    elif format_ == "structured":
        subformat = STRUCTURED.get(subformat.lower(), subformat)
        if not isinstance(content, str | dict | bytes):
            content = msgspec.json.encode(content).decode()  # D-24; also to a peer that sends them: it may relay
    elif format_ == "binary" and suffix and suffix not in subformat:
        subformat += suffix  # D-36
    elif format_ == "location" and isinstance(content, list | tuple | dict) and part.gps is not None:
        content = "{},{}".format(*part.gps)  # D-61
    out: dict[str, Any] = {"format": format_, "subformat": subformat, "content": content}
    if label is not None:
        out["label"] = label
    return out


def _says_base64(message: Message) -> bool:
    return any(p.format == "binary" and p.subformat.lower().endswith(";base64") for p in message.parts)


def needs_spelling(message: Message, answering: Message | None) -> bool:
    """Whether ``plain`` would write anything other than the value's own fields."""
    if message.label is not None or message.extra is not None or _needs_spelling(message, answering):
        return True
    for part in message.submessages:
        if part.extra is not None or (part.format != "token" and _needs_spelling(part, answering)):
            return True
    return False


def _needs_spelling(part: Part | Message, answering: Message | None) -> bool:
    format_ = part.format
    if format_ == "text":
        return part.subformat != "english"
    if format_ == "token" or format_ == "generic":
        return False
    if format_ == "structured":
        return part.subformat != "json" or not isinstance(part.content, str | dict)
    if format_ == "binary":
        return answering is not None and _says_base64(answering)
    return True

"""A2A parts: content of the hub as ``a2a.types.Part`` and back.

What A2A has no field for is written to the metadata of a part under ``nlip`` (``MARK``). What the hub has no field for
(media types, metadata, the artifact of a part) is kept in ``Part.extra`` under ``a2a`` (``KEPT``).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec
from a2a.types import a2a_pb2 as pb

from sabir.errors import BadMessage, TooLarge
from sabir.limits import LIMITS, Limits, check_shape
from sabir.message import ERROR, FORMATS, Message, Part, media_of
from sabir.misfits import NOT_JSON
from sabir.protocols.nlip.wire.rules import check_content

from .values import EXACT, plain, struct_to, value_from, value_to

PROTOCOL: Final = "a2a"
MARK: Final = "nlip"  # the metadata key for what A2A has no field for
KEPT: Final = "a2a"  # the key of ``extra`` for what the hub has no field for

# The content of a text by its media type; anything else is plain text.
_TEXTS: Final[Mapping[str, str]] = {
    "text/html": "html",
    "application/xhtml+xml": "html",
    "application/xml": "xml",
    "text/xml": "xml",
    "application/json": "json",
}
_MEDIA_OF: Final = {"html": "text/html", "xml": "application/xml", "json": "application/json"}
# Files that are text, so that ``binary/generic/csv`` is ``text/csv`` and not ``application/csv``.
_TEXT_FILES: Final = frozenset({"plain", "csv", "tab-separated-values", "markdown", "calendar", "css", "vcard"})
_CODE = re.compile(r"text/x-([a-z0-9+.#_-]{1,64})")


def kept(holder: Part | Message) -> Mapping[str, Any]:
    """A2A data about a part or message for which the hub has no field."""
    found = holder.extra.get(KEPT) if holder.extra else None
    return found if isinstance(found, dict) else {}


def keep(part: Part, **values: Any) -> Part:
    """The part with A2A data added; empty values are left out."""
    added = {name: value for name, value in values.items() if value}
    if not added:
        return part
    extra = {**(part.extra or {}), KEPT: {**kept(part), **added}}
    return msgspec.structs.replace(part, extra=extra)


def part_to(part: Part) -> pb.Part:
    """One part in A2A's form; what A2A has no field for goes into its metadata."""
    if part.format == "text" and part.subformat == "english" and part.label is None and part.extra is None:
        return pb.Part(text=str(part.content))
    made = _plain(part)
    _restore(made, kept(part))
    again = _unmarked(made)
    mark: dict[str, Any] = {}
    if again.format != part.format:
        mark["format"] = part.format if part.format != ERROR else "text"
    if again.subformat != part.subformat or mark:
        mark["subformat"] = part.subformat
    if again.label != part.label:
        mark["label"] = part.label
    if mark:
        made.metadata.update({MARK: mark})
    return made


def _restore(made: pb.Part, said: Mapping[str, Any]) -> None:
    """Write the kept A2A data of a part back to it."""
    media_type, filename, metadata = said.get("mediaType"), said.get("filename"), said.get("metadata")
    if isinstance(media_type, str):
        made.media_type = media_type
    if isinstance(filename, str):
        made.filename = filename
    if isinstance(metadata, dict):
        made.metadata.MergeFrom(struct_to(metadata))


def part_from(part: pb.Part, where: str = "$", limits: Limits = LIMITS) -> Part:
    """One part in the hub's form.

    Raises:
        BadMessage: it is empty, or its mark does not fit its content.
    """
    plain_part = _unmarked(part, where)
    if not (part.media_type or part.filename or part.HasField("metadata")):
        return plain_part
    metadata = plain(part.metadata) if part.HasField("metadata") else {}
    mark = metadata.pop(MARK, None)
    read = _marked(plain_part, mark, where, limits) if isinstance(mark, dict) else plain_part
    media_type, filename = _names(read)
    return keep(
        read,
        mediaType=part.media_type if part.media_type != media_type else "",
        filename=part.filename if part.filename != filename else "",
        metadata=metadata,
    )


def _marked(part: Part, mark: Mapping[str, Any], where: str, limits: Limits) -> Part:
    format_ = mark.get("format", part.format)
    subformat = mark.get("subformat", part.subformat)
    label = mark.get("label", part.label)
    if format_ not in FORMATS or format_ == "token" or not isinstance(subformat, str):
        raise BadMessage(PROTOCOL, f"{where}.metadata.{MARK}", "the format and subformat of a part that is no token")
    if label is not None and not isinstance(label, str):
        raise BadMessage(PROTOCOL, f"{where}.metadata.{MARK}.label", "a string")
    subformat, content = check_content(format_, subformat, part.content, where, limits=limits)
    return Part(format_, subformat, content, label)


def parts_from(parts: Iterable[pb.Part], where: str, limits: Limits = LIMITS) -> list[Part]:
    made: list[Part] = []
    for index, part in enumerate(parts):
        if index > limits.submessages:
            raise TooLarge(PROTOCOL, where, f"at most {limits.submessages} parts")
        made.append(part_from(part, f"{where}[{index}]", limits))
        check_shape(made[-1].content, f"{where}[{index}]", limits, PROTOCOL)
    return made


def _plain(part: Part) -> pb.Part:
    made = _content(part)
    made.media_type, made.filename = _names(part)
    return made


def _content(part: Part) -> pb.Part:
    content = part.content
    match part.format:
        case "structured":
            return _structured(part)
        case "binary":
            return pb.Part(raw=_bytes(content))
        case "location" if part.gps is not None:
            latitude, longitude = part.gps
            return pb.Part(data=value_to({"latitude": latitude, "longitude": longitude}))
        case _ if isinstance(content, str):
            return pb.Part(text=content)
        case _ if isinstance(content, bytes):
            return pb.Part(raw=content)
        case _:
            return pb.Part(data=value_to(content))


def _names(part: Part) -> tuple[str, str]:
    """The default media type and file name of a part."""
    name = part.label or ""
    if part.format == "structured":
        kind = part.kind
        media_type = "" if kind == "uri" else _MEDIA_OF.get(kind, f"text/x-{kind}")
        return media_type, name if kind == "uri" else ""
    if part.format == "binary":
        return _media_type(part.subformat), name
    if part.format == "location" and part.gps is not None:
        return "application/json", ""
    if isinstance(part.content, str):
        return "", ""
    if isinstance(part.content, bytes):
        return "application/octet-stream", name
    return "application/json", ""


def _media_type(subformat: str) -> str:
    kind, encoding = media_of(subformat)
    if kind in ("image", "audio", "video"):
        return f"{kind}/{encoding}"
    return f"{'text' if encoding in _TEXT_FILES else 'application'}/{encoding}"


def _structured(part: Part) -> pb.Part:
    kind = part.kind
    if kind == "uri":
        return pb.Part(url=str(part.content))
    if kind != "json":
        return pb.Part(text=str(part.content))
    value = part.value
    if _exact(value):
        return pb.Part(data=value_to(value))
    # Such numbers do not survive as a protobuf Value; their JSON text does, with null for NaN.
    return pb.Part(text=msgspec.json.encode(value).decode())


def _unmarked(part: pb.Part, where: str = "$") -> Part:
    label = part.filename or None
    match part.WhichOneof("content"):
        case "text":
            return _text_from(part)
        case "raw":
            kind, _, encoding = part.media_type.partition(";")[0].strip().lower().partition("/")
            known = kind if kind in ("image", "audio", "video") else "generic"
            return Part("binary", f"{known}/{encoding or 'octet-stream'}", part.raw, label)
        case "url":
            return Part("structured", "uri", part.url, label)
        case "data":
            return Part("structured", "json", value_from(part.data), label)
        case _:
            raise BadMessage(PROTOCOL, where, "text, raw, url or data")


def _text_from(part: pb.Part) -> Part:
    media = part.media_type.partition(";")[0].strip().lower()
    label = part.filename or None
    kind = _TEXTS.get(media)
    code = _CODE.fullmatch(media)
    if kind == "json":
        return Part("structured", "json", _json_or_text(part.text), label)
    if kind is not None:
        return Part("structured", kind, part.text, label)
    if code is not None:
        return Part("structured", code.group(1), part.text, label)
    return Part("text", "english", part.text, label)


def _json_or_text(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except NOT_JSON:
        return text


def _bytes(content: Any) -> bytes:
    return content if isinstance(content, bytes) else str(content).encode()


def _exact(value: Any) -> bool:
    """Whether a protobuf Value can hold this exactly: no integer of more than 53 bits, no NaN, no infinity."""
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, bool) or not isinstance(value, int | dict | list):
        return True
    if isinstance(value, int):
        return -EXACT <= value <= EXACT
    return all(_exact(item) for item in (value.values() if isinstance(value, dict) else value))

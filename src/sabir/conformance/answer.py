"""A server's answer: read as tolerantly as possible, with its faults of form listed.

One fault must fail one check. Therefore every check reads an answer through ``CheckedAnswer``, which makes the best of
whatever came, and only the checks on the form of answers judge it, by the list of ``AnswerFault``. Nothing here uses
Sabir's own decoders: a mistake in those would be invisible to the suite.
"""

from __future__ import annotations

import base64
import binascii
import codecs
import io
import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

import cbor2
import msgspec

from .base import CheckFailed
from .messages import Json

FORMATS: Final = frozenset({"text", "token", "structured", "binary", "location", "generic"})
OPTIONAL: Final = ("messagetype", "label", "submessages", "control")
_ABSOLUTE: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:\S")
_BOMS: Final = (codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


class AnswerFault(msgspec.Struct, frozen=True):
    """One fault in the form of an answer."""

    id: str
    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.where} {self.what}"


class AnswerPart(msgspec.Struct, frozen=True):
    """One submessage of an answer, as far as it can be read."""

    format: str
    subformat: str
    content: Any
    label: Any = None

    @property
    def is_uri(self) -> bool:
        return self.format == "structured" and self.subformat.lower() in ("uri", "url", "text/uri-list")


class CheckedAnswer:
    """The answer. ``refusal`` says why the message was rejected, and is empty if it was accepted."""

    def __init__(
        self, value: Any, faults: Sequence[AnswerFault] = (), *, refusal: str = "", broken: bool = False
    ) -> None:
        self.value = value
        self.faults = faults
        self.broken = broken  # it failed, rather than refused
        fields = _folded(value) if isinstance(value, dict) else {}
        self._fields = fields
        self.is_message = "format" in fields or "content" in fields
        self.parts = _parts(fields) if self.is_message else ()
        self.refusal = refusal or (f"an error message: {self.text[:200]}" if self.is_error else "")

    @property
    def messagetype(self) -> str:
        return str(self._fields.get("messagetype") or "").strip().lower()

    @property
    def flag(self) -> Any:
        """The field ``control`` of older versions."""
        return self._fields.get("control")

    @property
    def is_control(self) -> bool:
        return self.messagetype == "control"

    @property
    def is_error(self) -> bool:
        return self.messagetype == "error" or any(
            part.format == "error" or part.label == "error" for part in self.parts
        )

    @property
    def text(self) -> str:
        return "\n".join(str(part.content) for part in self.parts if part.format == "text")

    @property
    def tokens(self) -> list[AnswerPart]:
        return [part for part in self.parts if part.format == "token"]

    @property
    def uris(self) -> list[str]:
        return [str(part.content) for part in self.parts if part.is_uri]

    def labelled(self, label: str) -> Any:
        """The content of the first part with this label, or None."""
        return next((part.content for part in self.parts if part.label == label), None)

    def has(self, sent: Json) -> bool:
        """Whether a token that was sent is in the answer, unchanged."""
        return any(
            token.subformat == sent["subformat"]
            and _same(token.content, sent["content"])
            and ("label" not in sent or token.label == sent["label"])
            for token in self.tokens
        )


def _same(one: Any, other: Any) -> bool:
    return bool(one == other) and isinstance(one, type(other))


def _folded(value: Json) -> Json:
    return {str(name).lower(): item for name, item in value.items()}


def _parts(fields: Json) -> tuple[AnswerPart, ...]:
    later = fields.get("submessages")
    objects = [_folded(item) for item in later if isinstance(item, dict)] if isinstance(later, list) else []
    return tuple(
        AnswerPart(
            str(item.get("format", "")).strip().lower(),
            str(item.get("subformat", "")),
            item.get("content"),
            item.get("label"),
        )
        for item in (fields, *objects)
    )


# -- notations --------------------------------------------------------------------------------------


def from_json(data: bytes, *, refusal: str = "", broken: bool = False) -> CheckedAnswer:
    """An answer in JSON.

    Raises:
        Failed: it is not a JSON object at all.
    """
    faults: list[AnswerFault] = []
    words = _decoded(data, faults)
    try:
        value, end = json.JSONDecoder(
            object_pairs_hook=lambda pairs: _object(pairs, faults),
            parse_constant=lambda name: faults.append(AnswerFault("CORE-5.0.4-sent", "the answer", f"has {name}")),
        ).raw_decode(words.lstrip())
    except (ValueError, RecursionError):
        raise CheckFailed(f"the answer is not JSON: {words[:80]!r}") from None
    if words.lstrip()[end:].strip():
        faults.append(AnswerFault("CORE-5.0.1-sent", "the answer", "has text after the object"))
    if not isinstance(value, dict):
        raise CheckFailed(f"the answer is not a JSON object but {type(value).__name__}")
    if _has_half_pair(value):
        faults.append(AnswerFault("CORE-5.0.4-sent", "the answer", "has half of a surrogate pair"))
    faults += shape_faults(value, in_cbor=False)
    return CheckedAnswer(value, faults, refusal=refusal, broken=broken)


def _has_half_pair(value: Json) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return True
    return False


def _decoded(data: bytes, faults: list[AnswerFault]) -> str:
    encoding = json.detect_encoding(data)
    if encoding != "utf-8" or data.startswith(_BOMS):
        faults.append(AnswerFault("CORE-5.0.4-sent", "the answer", f"is {encoding}, not plain UTF-8"))
    try:
        return data.decode(encoding)
    except UnicodeDecodeError:
        faults.append(AnswerFault("CORE-5.0.4-sent", "the answer", "has bytes that are not UTF-8"))
        return data.decode(encoding, "replace")


def _object(pairs: list[tuple[str, Any]], faults: list[AnswerFault]) -> Json:
    names = [name.lower() for name, _ in pairs]
    for name in sorted({name for name in names if names.count(name) > 1}):
        if name in ("format", "subformat", "content", *OPTIONAL):
            faults.append(AnswerFault("CORE-5.0.1-sent", "the answer", f"has the field {name} twice"))
    return dict(pairs)


def from_cbor(data: bytes) -> CheckedAnswer:
    """An answer in CBOR.

    Raises:
        Failed: it is not a CBOR map at all.
    """
    stream = io.BytesIO(data)
    try:
        value = cbor2.load(stream)
    except (cbor2.CBORDecodeError, ValueError, RecursionError) as exc:
        raise CheckFailed(f"the answer is not CBOR ({exc})") from None
    if not isinstance(value, dict):
        raise CheckFailed(f"the answer is not a CBOR map but {type(value).__name__}")
    faults = list(shape_faults(value, in_cbor=True))
    if stream.read(1):
        faults.append(AnswerFault("CORE-5.0.1-sent", "the answer", "has bytes behind the map"))
    return CheckedAnswer(value, faults)


# -- the shape ----------------------------------------------------------------------------------------


def shape_faults(value: Json, *, in_cbor: bool) -> Iterator[AnswerFault]:
    """The faults in the fields of an answer."""
    fields = _folded(value)
    yield from _fields_faults(fields, "", "5.1", in_cbor)
    if not isinstance(fields.get("messagetype", ""), str | None):
        yield AnswerFault("CORE-5.1.1-sent", "messagetype", "is not a string")
    later = fields.get("submessages")
    if later is None:
        return
    if not isinstance(later, list) or not later:
        yield AnswerFault("CORE-5.1.5-sent", "submessages", "is not an array of one or more")
        return
    for index, item in enumerate(later):
        where = f"submessages[{index}]"
        if not isinstance(item, dict):
            yield AnswerFault("CORE-5.2-sent", where, "is not an object")
            continue
        yield from _fields_faults(_folded(item), f"{where}.", "5.2", in_cbor)


def _fields_faults(fields: Json, where: str, clause: str, in_cbor: bool) -> Iterator[AnswerFault]:
    format_ = fields.get("format")
    known = isinstance(format_, str) and format_.lower() in FORMATS
    if not known:
        yield AnswerFault(f"CORE-{clause}.2-sent", f"{where}format", f"is {format_!r:.50}, which is not in Table 1")
    subformat = fields.get("subformat")
    if not isinstance(subformat, str) or not subformat:
        yield AnswerFault(
            f"CORE-{clause}.3-sent", f"{where}subformat", f"is {subformat!r:.50}, not the name of a subformat"
        )
    elif isinstance(format_, str) and (what := _misnamed(format_.lower(), subformat)):
        yield AnswerFault(f"CORE-{clause}.3-sent", f"{where}subformat", what)
    if "content" not in fields:
        yield AnswerFault(f"CORE-{clause}.4-sent", f"{where}content", "is missing")
    elif isinstance(format_, str) and (what := _misshapen(format_, str(subformat), fields["content"], in_cbor)):
        yield AnswerFault(f"CORE-{clause}.4-sent", f"{where}content", what)
    if not isinstance(fields.get("label", ""), str | None):
        yield AnswerFault("CORE-5.2.1-sent", f"{where}label", "is not a string")
    for name in OPTIONAL:
        if name in fields and fields[name] is None:
            yield AnswerFault("CORE-A", f"{where}{name}", "is null instead of absent")


def _misnamed(format_: str, subformat: str) -> str:
    """How a subformat does not belong to its format; empty if it does."""
    if format_ == "location" and subformat.lower() not in ("text", "gps"):
        return f"is {subformat!r:.50}, neither text nor gps"
    if format_ == "binary" and "/" not in subformat:
        return f"is {subformat!r:.50}, not a kind and an encoding such as image/png"
    return ""


def _misshapen(format_: str, subformat: str, content: Any, in_cbor: bool) -> str:
    """How content does not match its format and subformat; empty if it does."""
    kind = (format_.lower(), subformat.lower())
    if kind[0] == "text" or kind in (("location", "text"), ("structured", "xml"), ("structured", "html")):
        return "" if isinstance(content, str) else f"is not a string, as {format_}/{subformat} demands"
    if kind == ("structured", "uri"):
        absolute = isinstance(content, str) and _ABSOLUTE.match(content)
        return "" if absolute else f"is {content!r:.80}, not an absolute URI"
    if kind[0] == "binary" and not (in_cbor and isinstance(content, bytes)):
        return "" if _is_base64(content) else "is not base64"
    return ""


def _is_base64(content: Any) -> bool:
    try:
        base64.b64decode(content, validate=True)
    except (binascii.Error, TypeError, ValueError):
        return False
    return True

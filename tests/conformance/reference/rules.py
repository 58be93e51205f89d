"""What a message is: ECMA-430 clause 5, read from JSON or CBOR. A fault may ignore a rule by its name."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

import cbor2

FORMATS = ("text", "token", "structured", "binary", "location", "generic")
MOST_TOKENS = 32


class Rejected(Exception):
    """The message is not taken."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


@dataclass
class Message:
    """A message that was read: field names in lower case, formats too."""

    raw: dict[str, Any]
    parts: list[dict[str, Any]]

    @property
    def is_control(self) -> bool:
        return str(self.raw.get("messagetype") or "").lower() == "control" or self.raw.get("control") in (True, "true")

    @property
    def text(self) -> str:
        return "\n".join(str(part["content"]) for part in self.parts if part["format"] == "text")

    @property
    def tokens(self) -> list[dict[str, Any]]:
        return [part for part in self.parts if part["format"] == "token"]

    def labelled(self, label: str) -> Any:
        return next((part["content"] for part in self.parts if part.get("label") == label), None)


def from_json(data: bytes, ignore: Collection[str] = ()) -> Any:
    """One JSON value in UTF-8 (ECMA-404, RFC 8259)."""
    try:
        if "encoding" in ignore:
            words = data.decode(json.detect_encoding(data), "replace")
        else:
            words = data.decode("utf-8")
        decoder = json.JSONDecoder(
            parse_constant=float if "constants" in ignore else _no_constant,
            object_pairs_hook=dict if "duplicates" in ignore else _no_duplicates,
        )
        words = words.lstrip(" \t\r\n")
        value, end = decoder.raw_decode(words)
        if words[end:].strip() and "trailing" not in ignore:
            raise Rejected(400, "there is text behind the JSON value")
        if "surrogates" not in ignore:
            json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as exc:
        raise Rejected(400, f"this is not JSON in UTF-8: {exc}") from None
    return value


def _no_constant(name: str) -> Any:
    raise Rejected(400, f"{name} is not JSON")


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names = [name.lower() for name, _ in pairs]
    if len(set(names)) < len(names):
        raise Rejected(422, "a field occurs twice")
    return dict(pairs)


def from_cbor(data: bytes, ignore: Collection[str] = ()) -> Any:
    stream = io.BytesIO(data)
    try:
        value = cbor2.load(stream)
    except (cbor2.CBORDecodeError, ValueError) as exc:
        raise Rejected(400, f"this is not CBOR, use /nlip/ws/text for JSON: {exc}") from None
    if stream.read(1) and "trailing" not in ignore:
        raise Rejected(400, "there are bytes behind the CBOR item")
    if isinstance(value, dict) and any(not isinstance(name, str) for name in value) and "keys" not in ignore:
        raise Rejected(422, "a field name is not text")
    return value


Part = dict[str, Any]
Rule = Callable[[Part], bool]


def _kind(part: Part) -> tuple[str, str]:
    return part["format"], str(part.get("subformat", "")).lower().strip()


def _is_text(part: Part) -> bool:
    return isinstance(part["content"], str)


def _is_base64(content: Any) -> bool:
    return not isinstance(content, str) or bool(re.fullmatch(r"[A-Za-z0-9+/=\s_-]*", content))


def _is_absolute(part: Part) -> bool:
    return bool(re.match(r"[a-z][a-z0-9+.-]*:\S", str(part["content"])))


# The name of each rule of a submessage, and whether a submessage keeps it.
PART_RULES: dict[str, Rule] = {
    "format": lambda part: part.get("format") in FORMATS,
    "subformat": lambda part: isinstance(part.get("subformat", "" if part["format"] == "text" else None), str),
    "content": lambda part: "content" in part and part["content"] is not cbor2.undefined,
    "label": lambda part: isinstance(part.get("label", ""), str | int | None),
    "text content": lambda part: part["format"] != "text" or _is_text(part),
    "binary content": lambda part: part["format"] != "binary" or isinstance(part["content"], str | bytes),
    "base64 content": lambda part: part["format"] != "binary" or _is_base64(part["content"]),
    "xml content": lambda part: _kind(part) != ("structured", "xml") or _is_text(part),
    "uri content": lambda part: _kind(part) != ("structured", "uri") or _is_absolute(part),
    "location subformat": lambda part: part["format"] != "location" or _kind(part)[1] in ("text", "gps"),
}  # fmt: skip


def read(value: Any, ignore: Collection[str] = (), *, strict: bool = False) -> Message:
    """The message in a JSON or CBOR value; ``strict`` wants every required field."""
    if not isinstance(value, dict):
        if "object" not in ignore:
            raise Rejected(422, "a message is an object")
        value = {"format": "text", "subformat": "english", "content": "?"}
    raw = folded(value)
    if not isinstance(raw.get("messagetype", ""), str | None) and "messagetype" not in ignore:
        raise Rejected(422, "messagetype is a string")
    later = raw.get("submessages") or []
    if not isinstance(later, list):
        if "array" not in ignore:
            raise Rejected(422, "submessages is an array")
        later = []
    parts = [_part(raw, ignore, "first ", strict)]
    for item in later:
        if isinstance(item, dict):
            parts.append(_part(folded(item), ignore, "later ", strict))
        elif "submessage" not in ignore:
            raise Rejected(422, "a submessage is an object")
    if sum(part["format"] == "token" for part in parts) > MOST_TOKENS and "many" not in ignore:
        raise Rejected(413, f"more than {MOST_TOKENS} tokens")
    return Message(raw, parts)


def folded(value: dict[Any, Any]) -> dict[str, Any]:
    return {str(name).lower(): item for name, item in value.items()}


def _part(fields: dict[str, Any], ignore: Collection[str], place: str, strict: bool) -> Part:
    part = {name: fields[name] for name in ("format", "subformat", "content", "label") if name in fields}
    if isinstance(part.get("format"), str):
        part["format"] = part["format"].strip().lower()
    for name, keeps in PART_RULES.items():
        if name in ignore or place + name in ignore:
            part.setdefault(name, "text")
            continue
        if not keeps(part) or (strict and name == "subformat" and name not in part):
            raise Rejected(422, f"the {name} of a submessage is missing or invalid")
    return part

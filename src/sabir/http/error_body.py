"""Reads error bodies of any origin: NLIP, problem details, the reference server, or HTML (D-22)."""

from __future__ import annotations

import http
import re
from typing import Any, Final

import msgspec

from sabir.errors import BadInput
from sabir.message import printable
from sabir.protocols.nlip.wire import json as nlip

_LENGTH: Final = 500
_NAMES: Final = ("detail", "message", "error_description", "title", "error", "reason")
_TAGS: Final = re.compile(r"<(script|style)\b.*?(?:</\1\s*>|$)|<[^<>]*>", re.IGNORECASE | re.DOTALL)


def reason_in(body: bytes, status: int) -> str:
    """The reason in words, or the phrase of the status if the body has no readable reason."""
    words = _nlip(body) or _json(body) or _plain(body)
    words = printable(" ".join(words.split()), _LENGTH)
    return f"it answered {status}: {words or _phrase(status)}"


def is_nlip(body: bytes) -> bool:
    """Whether an agent wrote it."""
    try:
        nlip.decode(body)
    except BadInput:
        return False
    return True


def _phrase(status: int) -> str:
    try:
        return http.HTTPStatus(status).phrase
    except ValueError:
        return "no reason given"


def _nlip(body: bytes) -> str:
    try:
        message = nlip.decode(body)
    except BadInput:
        return ""
    # A refusal in a control exchange appears twice: as text, and as a part labelled error (D-12).
    return "\n".join(dict.fromkeys(str(part.content) for part in message.parts if part.format == "text"))


def _json(body: bytes) -> str:
    try:
        return _words(msgspec.json.decode(body))
    except (msgspec.DecodeError, RecursionError, ValueError):
        return ""


def _words(value: Any) -> str:
    match value:
        case str():
            return value
        case dict():
            found = next((value[name] for name in _NAMES if value.get(name)), None)
            if found is not None:
                return _words(found)
            place = ".".join(str(step) for step in value.get("loc") or ())
            return f"{place}: {value.get('msg', '')}" if place else str(value.get("msg", ""))
        case list():
            return "; ".join(words for words in map(_words, value[:5]) if words)
        case _:
            return ""


def _plain(body: bytes) -> str:
    return _TAGS.sub(" ", body[:20_000].decode("utf-8", "replace"))

"""Links that run code or carry a document of their own are neither ingested nor handed on."""

from __future__ import annotations

import re
from typing import Final

from .item import JSON

# Browsers skip these inside a scheme.
_IGNORED: Final = re.compile(r"[\x00-\x20\x7f-\xa0\u200b-\u200f\u2028-\u202f\ufeff]")
_UNSAFE: Final = ("javascript:", "vbscript:", "livescript:", "data:")
_LONGEST_SCHEME: Final = 200  # characters that are looked at, with what browsers skip


def is_unsafe_link(text: str) -> bool:
    """Whether following this address would run code, or show what the address itself holds."""
    start = text[:_LONGEST_SCHEME]
    return ":" in start and _IGNORED.sub("", start).lower().startswith(_UNSAFE)


def without_unsafe_links(value: JSON) -> JSON:
    """The same value without the fields, and the members of lists, that are such addresses; sentences stay."""
    if isinstance(value, dict):
        return {key: without_unsafe_links(item) for key, item in value.items() if not _is_link(item)}
    if isinstance(value, list):
        return [without_unsafe_links(item) for item in value if not _is_link(item)]
    return value


def _is_link(value: JSON) -> bool:
    return isinstance(value, str) and is_unsafe_link(value) and not _is_sentence(value)


def _is_sentence(text: str) -> bool:
    """``Data: the new oil`` is one; ``data: text/html,x`` is none."""
    return text.lstrip()[:5].lower() == "data:" and " " in text.strip() and "," not in text.split(" ", 2)[1]

"""Links that run code or contain a document are neither ingested nor passed on."""

from __future__ import annotations

import re
from typing import Final

from .item import JSON

# Characters that browsers skip inside a scheme.
_IGNORED: Final = re.compile(r"[\x00-\x20\x7f-\xa0\u200b-\u200f\u2028-\u202f\ufeff]")
_UNSAFE: Final = ("javascript:", "vbscript:", "livescript:", "data:")
_LONGEST_SCHEME: Final = 200  # characters that are checked, including those that browsers skip


def is_unsafe_link(text: str) -> bool:
    """Whether following this address would run code, or show content from the address itself."""
    start = text[:_LONGEST_SCHEME]
    return ":" in start and _IGNORED.sub("", start).lower().startswith(_UNSAFE)


def without_unsafe_links(value: JSON) -> JSON:
    """The same value without fields and list members that are such addresses; sentences stay."""
    if isinstance(value, dict):
        return {key: without_unsafe_links(item) for key, item in value.items() if not _is_link(item)}
    if isinstance(value, list):
        return [without_unsafe_links(item) for item in value if not _is_link(item)]
    return value


def _is_link(value: JSON) -> bool:
    return isinstance(value, str) and is_unsafe_link(value) and not _is_sentence(value)


def _is_sentence(text: str) -> bool:
    """Whether it is a sentence: ``Data: the new oil`` is one; ``data: text/html,x`` is not."""
    return text.lstrip()[:5].lower() == "data:" and " " in text.strip() and "," not in text.split(" ", 2)[1]

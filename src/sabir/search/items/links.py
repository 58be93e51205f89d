"""Links that run code or contain a document are neither ingested nor passed on."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from .item import JSON

# Characters that browsers skip inside a scheme.
_IGNORED: Final = re.compile(r"[\x00-\x20\x7f-\xa0\u200b-\u200f\u2028-\u202f\ufeff]")
_UNSAFE: Final = ("javascript:", "vbscript:", "livescript:", "data:")
_LONGEST_SCHEME: Final = 200  # characters that are checked, including those that browsers skip
_dropped: ContextVar[Counter[str] | None] = ContextVar("dropped", default=None)


def is_unsafe_link(text: str) -> bool:
    """Whether following this address would run code, or show content from the address itself."""
    return ":" in text[:_LONGEST_SCHEME] and _plain(text).startswith(_UNSAFE)


@contextmanager
def dropped_links() -> Iterator[Counter[str]]:
    """Counts, by scheme, the links that are dropped inside the block, each once per record."""
    dropped = Counter[str]()
    token = _dropped.set(dropped)
    try:
        yield dropped
    finally:
        _dropped.reset(token)


def without_unsafe_links(value: JSON) -> JSON:
    """The same value without fields and list members that are such addresses; sentences stay."""
    found: set[str] = set()
    kept = _kept(value, found)
    if found and (dropped := _dropped.get()) is not None:
        dropped.update(_plain(link).partition(":")[0] for link in found)
    return kept


def _kept(value: JSON, found: set[str]) -> JSON:
    if isinstance(value, dict):
        return {key: _kept(item, found) for key, item in value.items() if not _is_link(item, found)}
    if isinstance(value, list):
        return [_kept(item, found) for item in value if not _is_link(item, found)]
    return value


def _is_link(value: JSON, found: set[str]) -> bool:
    is_link = isinstance(value, str) and is_unsafe_link(value) and not _is_sentence(value)
    if is_link:
        found.add(str(value))
    return is_link


def _plain(address: str) -> str:
    """The start of an address as a browser reads it."""
    return _IGNORED.sub("", address[:_LONGEST_SCHEME]).lower()


def _is_sentence(text: str) -> bool:
    """Whether it is a sentence: ``Data: the new oil`` is one; ``data: text/html,x`` is not."""
    return text.lstrip()[:5].lower() == "data:" and " " in text.strip() and "," not in text.split(" ", 2)[1]

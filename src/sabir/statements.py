"""The public statements that ECMA-434 requires, from ``ETHICS.md`` and ``SECURITY.md``."""

from __future__ import annotations

from functools import cache
from pathlib import Path

_HERE = Path(__file__).resolve().parent
_PLACES = (_HERE / "statements", _HERE.parent.parent)  # in a wheel; in a checkout


@cache
def statement(name: str) -> str:
    """The text of ``ethics`` or ``security``; empty if it was not shipped."""
    for place in _PLACES:
        path = place / f"{name.upper()}.md"
        if path.is_file():
            return path.read_text(encoding="utf-8")
    return ""

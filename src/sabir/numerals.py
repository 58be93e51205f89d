"""Whole numbers in headers, URLs and identifiers of the other side."""

from __future__ import annotations

from typing import Final

MAX_DIGITS: Final = 18  # so that every database can store the number


def whole_number(text: str) -> int | None:
    """The number that a text of ASCII digits stands for; None for any other text, and for more than 18 digits.

    ``str.isdigit`` is true for ``²`` and for any number of digits, where ``int`` fails.
    """
    return int(text) if text.isascii() and text.isdigit() and len(text) <= MAX_DIGITS else None

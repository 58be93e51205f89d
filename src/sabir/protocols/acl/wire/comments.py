"""JSON with comments, as in the draft's examples: comments become spaces, so line numbers stay."""

from __future__ import annotations

import re
from typing import Final

# A string, a line comment, or a block comment; strings stay unchanged. An unclosed one reaches to the end of the text,
# so that nothing is scanned twice.
_STRING: Final = r'"(?:\\.|[^"\\])*+"?'
_PIECE: Final = re.compile(_STRING + r"|//[^\n]*|/\*(?:[^*]|\*(?!/))*+(?:\*/)?", re.DOTALL)
_COMMA: Final = re.compile(_STRING + r"|,(?=\s*+[}\]])", re.DOTALL)


def without_comments(text: str) -> str:
    """The text with ``//`` and ``/* */`` comments blanked out, and trailing commas removed."""
    blank = _PIECE.sub(_blanked, text)
    return _COMMA.sub(lambda found: found[0] if found[0][0] == '"' else " ", blank)


def _blanked(found: re.Match[str]) -> str:
    piece = found[0]
    is_comment = piece.startswith("//") or (piece.startswith("/*") and len(piece) >= 4 and piece.endswith("*/"))
    return re.sub(r"[^\n]", " ", piece) if is_comment else piece  # an open comment stays, and is a JSON error

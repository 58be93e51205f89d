"""JSON with comments, as the examples of the draft are written: comments become blanks, so lines stay lines."""

from __future__ import annotations

import re
from typing import Final

# A string, a comment to the end of the line, or one between marks; strings stay as they are. One that is never closed
# reaches to the end of the text, so that no place is read twice.
_STRING: Final = r'"(?:\\.|[^"\\])*+"?'
_PIECE: Final = re.compile(_STRING + r"|//[^\n]*|/\*(?:[^*]|\*(?!/))*+(?:\*/)?", re.DOTALL)
_COMMA: Final = re.compile(_STRING + r"|,(?=\s*+[}\]])", re.DOTALL)


def without_comments(text: str) -> str:
    """The text with ``//`` and ``/* */`` comments blanked out, and commas that nothing follows removed."""
    blank = _PIECE.sub(_blanked, text)
    return _COMMA.sub(lambda found: found[0] if found[0][0] == '"' else " ", blank)


def _blanked(found: re.Match[str]) -> str:
    piece = found[0]
    is_comment = piece.startswith("//") or (piece.startswith("/*") and len(piece) >= 4 and piece.endswith("*/"))
    return re.sub(r"[^\n]", " ", piece) if is_comment else piece  # an open comment stays, and is an error in the JSON

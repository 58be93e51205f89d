"""Colour, on terminals only. ``NO_COLOR`` (https://no-color.org) and ``TERM=dumb`` turn it off."""

from __future__ import annotations

import os
from typing import Final, TextIO

DIM: Final = "2"
RED: Final = "31"
YELLOW: Final = "33"


def has_colour(stream: TextIO) -> bool:
    """Whether colour may be written to a stream."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def coloured(text: str, code: str, stream: TextIO) -> str:
    """The text in a colour, or unchanged if the stream has none. The text must be escaped already."""
    return f"\x1b[{code}m{text}\x1b[0m" if has_colour(stream) else text

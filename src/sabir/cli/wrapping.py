"""Long lines broken between words, on terminals only."""

from __future__ import annotations

import shutil
import sys
import textwrap
from typing import Final, TextIO

from sabir.observe.logs import inert

MIN_WIDTH: Final = 40  # columns; a terminal that claims fewer is not wrapped for


def wrapped(text: str, stream: TextIO | None = None, *, indent: str | None = None) -> str:
    """The text with long lines broken between words, where it goes to a terminal; else as it is.

    Args:
        indent: what the rest of a broken line begins with (default: the spaces that the line begins with).
    """
    stream = stream or sys.stdout
    if not stream.isatty():
        return text
    width = max(MIN_WIDTH, shutil.get_terminal_size().columns)
    # Escaped first: what is printed instead of a control character is longer than it.
    return "\n".join(_wrapped_line(line, width, indent) for line in inert(text).split("\n"))


def cut(line: str, stream: TextIO, *, beside: int) -> list[str]:
    """The line in pieces that fit a terminal beside a prefix, cut anywhere; elsewhere, the line itself."""
    if not stream.isatty():
        return [line]
    width = max(MIN_WIDTH, shutil.get_terminal_size().columns) - beside
    return [line[start : start + width] for start in range(0, len(line), width)] or [""]


def _wrapped_line(line: str, width: int, indent: str | None) -> str:
    if len(line) <= width:
        return line
    own = line[: len(line) - len(line.lstrip())] if indent is None else indent
    return textwrap.fill(
        line, width, subsequent_indent=own, break_long_words=False, break_on_hyphens=False, replace_whitespace=False
    )

"""Markdown that is shown while it arrives: finished blocks stay as they are, only the last one is drawn again."""

from __future__ import annotations

import re
from typing import Final

from rich.console import Console
from rich.live import Live
from rich.markdown import Markdown
from rich.text import Text

from sabir.observe.logs import inert

_FENCE: Final = re.compile(r"^ {0,3}(?:```|~~~)", re.MULTILINE)
# A block ends before a blank line, unless the next line continues it: an indented line, a list, a table or a quotation.
_END: Final = re.compile(r"\n[ \t]*\n+(?=[^\s\-*+|>\d])")


class StreamedMarkdown:
    """One answer on a terminal. A terminal cannot redraw what has left the screen, so that is printed once."""

    def __init__(self, console: Console) -> None:
        self._console = console
        # A block that is taller than the screen is cut until it is finished.
        self.live = Live(console=console, refresh_per_second=12, vertical_overflow="ellipsis")
        self._words = ""
        self._printed = 0  # characters of the words

    def add(self, words: str) -> None:
        """Show more words."""
        self._words += words
        end = finished(self._words, self._printed)
        if end > self._printed:
            self._console.print(Markdown(inert(self._words[self._printed : end])), Text(""))
            self._printed = end
        self.live.update(Markdown(inert(self._words[self._printed :])))

    def note(self, line: str) -> None:
        """Show a line, such as progress, until the next words."""
        if not self._words:
            self.live.update(Text(inert(line)))

    def end(self, whole: str) -> None:
        """Show the rest of the whole answer."""
        rest = whole[self._printed :] if whole.startswith(self._words.rstrip()) else whole
        self.live.update(Markdown(inert(rest)) if rest.strip() else Text(""))

    def drop(self) -> None:
        """Show nothing below the finished blocks."""
        self.live.update(Text(""))


def finished(words: str, start: int = 0) -> int:
    """Where the last finished block of a Markdown text ends; what follows may still change."""
    for found in reversed(list(_END.finditer(words, start))):
        if len(_FENCE.findall(words, 0, found.start())) % 2 == 0:  # not inside a block of code
            return found.end()
    return start

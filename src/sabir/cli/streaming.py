"""Markdown that is shown while it arrives: finished blocks stay as they are, only the last one is drawn again."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from rich.console import Console
from rich.live import Live
from rich.markdown import Markdown
from rich.text import Text

from sabir.observe.logs import inert

_FENCE: Final = re.compile(r"^ {0,3}(?:```|~~~)", re.MULTILINE)
_CONTINUES: Final = frozenset(" \t-*+|>0123456789")  # how a line starts that continues what is above a blank line


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
    for end in reversed(list(_ends(words, start))):
        if len(_FENCE.findall(words, 0, end)) % 2 == 0:  # not inside a block of code
            return end
    return start


def _ends(words: str, start: int) -> Iterator[int]:
    """Where a line begins a new block: behind a blank line, unless it continues a list, a table or a quotation."""
    place, is_behind_blank = start, False
    for line in words[start:].split("\n"):
        if line.strip():
            if is_behind_blank and line[0] not in _CONTINUES:
                yield place
            is_behind_blank = False
        else:
            is_behind_blank = True
        place += len(line) + 1

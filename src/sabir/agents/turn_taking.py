"""Several speakers in one stream: whoever starts has the floor until it ends; others wait."""

from __future__ import annotations

from collections.abc import Iterator

from sabir.events import Delta
from sabir.message import text_part


class TurnTaking:
    """Merges the pieces of several answers into one readable stream, each labelled with its source."""

    def __init__(self) -> None:
        self._speaker: str | None = None
        self._waiting: dict[str, list[str]] = {}  # by source, in order of their first piece
        self._ended: set[str] = set()
        self._began: set[str] = set()

    def piece(self, source: str, text: str) -> Iterator[Delta]:
        """Add a piece of an answer; returns what can be sent now."""
        self._waiting.setdefault(source, []).append(text)
        yield from self._flow()

    def end(self, source: str, answer: str | None) -> Iterator[Delta]:
        """End a source; its answer is sent as a whole if it came in one piece. None: it failed."""
        if answer is not None and source not in self._began and source not in self._waiting:
            self._waiting[source] = [answer]
        if source in self._began or source in self._waiting:
            self._ended.add(source)
        yield from self._flow()

    def _flow(self) -> Iterator[Delta]:
        while True:
            if self._speaker is None:
                self._speaker = next(iter(self._waiting), None)
            source = self._speaker
            if source is None:
                return
            if source not in self._began:
                self._began.add(source)
                yield Delta(text_part(f"{source}: ", label=source))
            for text in self._waiting.pop(source, ()):
                yield Delta(text_part(text, label=source))
            if source not in self._ended:
                return
            yield Delta(text_part("\n", label=source))
            self._speaker = None
            if not self._waiting:
                return

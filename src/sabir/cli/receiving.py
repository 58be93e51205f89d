"""Shows an answer as it arrives: text on standard output, progress on one line of the terminal."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable

from sabir.events import Delta, Fault, Progress, Question, Reply
from sabir.message import Message
from sabir.protocols.nlip.wire import json as nlip
from sabir.protocols.peer import Peer

from .printing import readable, say, unsaid

Answer = Callable[[Question], Awaitable[Message]]


class AnswerReceiver:
    """Asks, and shows what arrives before the whole answer."""

    def __init__(self, *, pieces: bool) -> None:
        """``pieces``: whether text is printed as it arrives. Progress is shown on a terminal only."""
        self._pieces = pieces
        self._shows_progress = sys.stderr.isatty()
        self._on_screen = False
        self.began = False  # whether text was printed

    async def ask(self, peer: Peer, message: Message) -> Message:
        """The whole answer.

        Raises:
            SabirError: as ``Peer.ask`` does.
        """
        self.began = False
        if not (self._pieces or self._shows_progress):
            return await peer.ask(message)
        reply = Message.text("")
        try:
            async for event in peer.stream(message):
                match event:
                    case Fault():
                        raise event.error()
                    case Delta(part) if self._pieces and part.format == "text":
                        self.clear()
                        say(part.content, end="", flush=True)
                        self.began = True
                    case Progress() if self._shows_progress and not self.began:
                        self._progress(progress_line(event))
                    case Question():
                        reply = nlip.question_message(event)  # over NLIP, a Reply with the same content follows
                    case Reply():
                        reply = event.message
        finally:
            self.clear()
        return reply

    def end(self, reply: Message) -> None:
        """Print what was not streamed."""
        say("\n".join(["", *unsaid(reply)]) if self.began else readable(reply))

    def paused(self, answer: Answer) -> Answer:
        """The same, with the progress line cleared before a question is asked."""

        async def answered(question: Question) -> Message:
            self.clear()
            return await answer(question)

        return answered

    def _progress(self, text: str) -> None:
        self._on_screen = True
        print("\r\033[K", end="", file=sys.stderr)
        say(text.split("\n")[0][:70], end="", file=sys.stderr, flush=True)

    def clear(self) -> None:
        """Clear the progress line."""
        if self._on_screen:
            self._on_screen = False
            print("\r\033[K", end="", file=sys.stderr, flush=True)


def progress_line(progress: Progress) -> str:
    """``stirring [##########          ]``."""
    if progress.fraction is None:
        return progress.note or "working …"
    filled = round(20 * min(1.0, max(0.0, progress.fraction)))
    return f"{progress.note or 'working'} [{'#' * filled:<20}]"

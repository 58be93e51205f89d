"""A program on a pseudo-terminal, as a person would use it."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import subprocess
import termios
import time
from pathlib import Path

ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07]*\x07|\x1b[=>]|\r")


def _take_terminal() -> None:
    """Let Ctrl-C reach the program, even if the tests run in the background of a shell, which ignores it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


class Terminal:
    """A program on a pseudo-terminal."""

    def __init__(self, command: list[str], folder: Path, **variables: str) -> None:
        self.fd, inner = pty.openpty()
        environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100", "LINES": "40", **variables}
        self.process = subprocess.Popen(
            command,
            cwd=folder,
            stdin=inner,
            stdout=inner,
            stderr=inner,
            env=environment,
            start_new_session=True,
            preexec_fn=_take_terminal,
        )
        os.close(inner)
        self.seen = ""  # without what only acts on a terminal
        self.raw = ""

    def type(self, text: str) -> None:
        os.write(self.fd, text.encode())

    def until(self, words: str, seconds: float = 40.0) -> None:
        """Read until these words are on the screen; what was seen before does not count again."""
        end = time.monotonic() + seconds
        while words not in self.seen:
            assert time.monotonic() < end, self.seen[-2000:]
            if select.select([self.fd], [], [], 0.2)[0]:
                read = os.read(self.fd, 65536).decode(errors="replace")
                self.raw += read
                self.seen += ESCAPES.sub("", read)
        self.seen = self.seen.partition(words)[2]

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.fd)

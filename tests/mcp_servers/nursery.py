"""Programs that begin at once: one process has imported the SDK, and each start of a program is a fork of it.

The gateway starts a program of its own for each session, as always; what it starts hands its standard streams to the
fork, lives as long as that, and takes it along when it is killed. Only the seconds of importing are saved.
"""

from __future__ import annotations

import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

FORKED = Path(__file__).with_name("forked.py")
SDK_SERVER = Path(__file__).with_name("sdk_server.py")


class Nursery:
    """Where programs are forked."""

    def __init__(self, place: Path) -> None:
        self._place = place

    def command(self, script: Path, *arguments: str) -> tuple[str, tuple[str, ...]]:
        """What starts a script: the program and its arguments."""
        return sys.executable, ("-I", "-S", str(FORKED), str(self._place), str(script), *arguments)

    @contextmanager
    def serving(self, script: Path, *options: str) -> Iterator[str]:
        """Runs a script that serves; gives what it prints first, its address."""
        program, arguments = self.command(script, *options)
        process = subprocess.Popen([program, *arguments], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.kill()
            process.wait()
            process.stdout.close()


@contextmanager
def nursery() -> Iterator[Nursery]:
    with TemporaryDirectory(prefix="nursery") as folder:
        place = Path(folder) / "s"
        command = [sys.executable, __file__, str(place)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"here\n"
            yield Nursery(place)  # it ends with its standard input, also if this process is killed


def main(place: str) -> None:
    import mcp.server.lowlevel  # the programs need them; who asks for a nursery does not
    import mcp.server.stdio
    import mcp.server.subscriptions  # noqa: F401
    import uvicorn  # noqa: F401

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(place)
        listening.listen(64)
        print("here", flush=True)
        while select.select((listening, sys.stdin), (), ())[0] == [listening]:
            asking, _ = listening.accept()
            if os.fork() == 0:
                listening.close()
                _become(asking)
            asking.close()


def _become(asking: socket.socket) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    said, streams, _, _ = socket.recv_fds(asking, 65536, 3)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    body = json.loads(said)
    os.chdir(body["folder"])
    sys.argv = body["arguments"]
    threading.Thread(target=_end_with, args=(asking,), daemon=True).start()
    try:
        runpy.run_path(sys.argv[0], run_name="__main__")
    finally:
        os._exit(0)


def _end_with(asking: socket.socket) -> None:
    asking.recv(1)
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1])

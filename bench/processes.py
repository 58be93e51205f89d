"""Server processes that the benchmarks start, and the CPU that they use."""

from __future__ import annotations

import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


@contextmanager
def server(python: str | Path, script: str, *arguments: str, path: str = "/health") -> Iterator[tuple[int, int]]:
    """A script as a process, with its port as the first argument; yields the port and the process id.

    The server is up once it answers at ``path``, with whatever status, or keeps a request open there.
    """
    port = free_port()
    process = subprocess.Popen([str(python), "-c", script, str(port), *arguments], stderr=subprocess.DEVNULL)
    try:
        end = time.monotonic() + 90
        while True:
            try:
                urlopen(f"http://127.0.0.1:{port}{path}", timeout=2).read()
                break
            except (TimeoutError, HTTPError):
                break
            except OSError:
                if time.monotonic() > end or process.poll() is not None:
                    raise SystemExit("a server did not start") from None
                time.sleep(0.05)
        yield port, process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def cpu_of(pid: int) -> float:
    """Seconds of CPU that a process has used, by the clock that Linux keeps for it (``clock_getcpuclockid``)."""
    return time.clock_gettime((~pid << 3) | 2)

"""A program that the gateway starts gets stdin, stdout, stderr and nothing else (issue 11, D13)."""

from __future__ import annotations

import os
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx2
import pytest

from deadline import DEADLINE
from free_ports import free_port

# It tells what it has open, and stays even if its input ends.
CHILD = """
import os, sys, time
folder = sys.argv[1]
fds = "/proc/self/fd"
told = {n: os.readlink(f"{fds}/{n}") for n in os.listdir(fds) if os.path.lexists(f"{fds}/{n}")}
open(f"{folder}/{os.getpid()}.part", "w").write("\\n".join(f"{n} {where}" for n, where in told.items()))
os.rename(f"{folder}/{os.getpid()}.part", f"{folder}/{os.getpid()}.told")
time.sleep(120)
"""


def wait_for(condition: Callable[[], object]) -> None:
    end = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)


@contextmanager
def gateway(folder: Path, port: int, workers: int) -> Iterator[subprocess.Popen[bytes]]:
    """A gateway with an MCP program behind it; whoever started it has left a socket open for it to inherit."""
    (folder / "child.py").write_text(CHILD)
    program = shlex.join([sys.executable, str(folder / "child.py"), str(folder)])
    (folder / "sabir.yaml").write_text(f"agents: [{{id: tools, peer: {f'stdio:{program}'!r}}}]\nsample: false\n")
    ours, theirs = socket.socketpair()
    command = [sys.executable, "-m", "sabir", "serve", "--port", str(port), "--workers", str(workers)]
    with ours, theirs:
        process = subprocess.Popen(command, cwd=folder, pass_fds=[theirs.fileno()], stderr=subprocess.DEVNULL)
        try:
            yield process
        finally:
            process.kill()
            process.wait()


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def ask(port: int) -> None:
    with suppress(httpx2.HTTPError):
        httpx2.post(f"http://127.0.0.1:{port}/nlip", json={"format": "text", "subformat": "english", "content": "hi"})


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
@pytest.mark.parametrize("workers", [1, 2])
def test_a_program_behind_the_gateway_gets_the_standard_streams_only(tmp_path: Path, workers: int) -> None:
    port = free_port()
    with gateway(tmp_path, port, workers) as process:
        wait_for(lambda: listens(port))
        threading.Thread(target=ask, args=(port,), daemon=True).start()
        wait_for(lambda: list(tmp_path.glob("*.told")))
        answer = next(tmp_path.glob("*.told"))
        child = int(answer.stem)
        try:
            listed = dict(line.split(" ", 1) for line in answer.read_text().splitlines())
            # uvloop leaves the program further descriptors of the same three streams; nothing else is open.
            assert set(listed.values()) == {listed["0"], listed["1"], listed["2"]}, listed
            # The program lives on; the port is free as soon as the gateway is gone.
            process.kill()
            process.wait()
            if workers == 1:  # a worker that loses its parent stops its programs
                os.kill(child, 0)
            wait_for(lambda: not listens(port))
            with socket.create_server(("127.0.0.1", port)):
                pass
        finally:
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)

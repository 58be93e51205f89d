"""A nats-server of one's own: a free port, its own folder, to be stopped, killed and started again."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest

from deadline import DEADLINE
from free_ports import free_port


class NatsServer:
    """One server process."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.port = free_port()
        self.folder = folder
        self.options = options or ("-js",)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.port}"

    def __enter__(self) -> NatsServer:
        self.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self.kill()

    def start(self) -> None:
        command = shutil.which("nats-server")
        if command is None:
            pytest.skip("nats-server is not installed: scripts/services installs it")
        self._process = subprocess.Popen(
            [command, "-sd", str(self.folder), "-a", "127.0.0.1", "-p", str(self.port), *self.options],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        end = time.monotonic() + DEADLINE
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                return
            except OSError:
                assert time.monotonic() < end, "nats-server did not start"
                time.sleep(0.01)

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(DEADLINE)
            self._process = None

    def kill(self) -> None:
        self.stop(signal.SIGKILL)

    def pause(self) -> None:
        """Let it stand still: what is sent to it is taken, and nothing is answered."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, which: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(which)

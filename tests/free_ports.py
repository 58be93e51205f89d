"""Ports for servers of other programs, which must be told one, and for those that come back where they were."""

from __future__ import annotations

import itertools
import os
import random
import socket

# Below what the system hands out to whoever asks for just any port, and each process of the suite has its own:
# nobody else is given it in between.
_FIRST = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
_MINE = range(20_000 + _FIRST, 32_000, int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")))
_PORTS = itertools.cycle(random.SystemRandom().sample(_MINE, len(_MINE)))


def free_port() -> int:
    """A port that nobody listens on, and that is not given out again for long."""
    while True:
        with socket.socket() as sock:
            try:
                sock.bind(("127.0.0.1", port := next(_PORTS)))
            except OSError:
                continue
            return port

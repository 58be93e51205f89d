"""Ports for servers of other programs, which must be told one, and for those that come back where they were."""

from __future__ import annotations

import random
import socket

# Below what the system hands out to whoever asks for just any port: nobody else is given it in between.
_PORTS = iter(random.SystemRandom().sample(range(20_000, 32_000), 12_000))


def free_port() -> int:
    """A port that nobody listens on, and that is given out once."""
    while True:
        with socket.socket() as sock:
            try:
                sock.bind(("127.0.0.1", port := next(_PORTS)))
            except OSError:
                continue
            return port

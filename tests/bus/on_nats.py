"""The NATS server that tests share."""

from __future__ import annotations

import os
import socket
from urllib.parse import urlsplit

import pytest

from sabir.bus.nats import RETENTION, NatsBus

NATS = os.environ.get("SABIR_TEST_NATS", "nats://127.0.0.1:4222")


def need_nats() -> None:
    """Skip where the server cannot be had, with the reason that ``scripts/services`` gives."""
    place = urlsplit(NATS)
    with socket.socket() as sock:
        if sock.connect_ex((place.hostname or "127.0.0.1", place.port or 4222)):
            pytest.skip(f"no NATS server at {place.netloc}: scripts/services starts one")


async def remove_streams(server: str, prefix: str) -> None:
    bus = NatsBus(f"{server}?prefix={prefix}")
    await bus.open()
    for kind in RETENTION:
        await bus.remove(kind)
    await bus.close()

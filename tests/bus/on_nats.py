"""The NATS server that tests share."""

from __future__ import annotations

import os

from sabir.bus.nats import RETENTION, NatsBus

NATS = os.environ.get("SABIR_TEST_NATS", "nats://127.0.0.1:4222")


async def remove_streams(server: str, prefix: str) -> None:
    bus = NatsBus(f"{server}?prefix={prefix}")
    await bus.open()
    for kind in RETENTION:
        await bus.remove(kind)
    await bus.close()

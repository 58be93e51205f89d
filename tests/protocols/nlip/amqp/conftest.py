"""A real RabbitMQ with its AMQP 1.0 plugin; where there is no broker these tests are skipped, never faked."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from deadline import DEADLINE
from sabir.agent import Agent
from sabir.gateway.gateway import Gateway
from sabir.guard import Quotas
from sabir.protocols.nlip.door.amqp import NlipAmqp

HOST = os.environ.get("SABIR_TEST_AMQP", "127.0.0.1:5672")
URL = f"amqp://guest:guest@{HOST}"


def _speaks_amqp_1() -> bool:
    """Whether the broker answers the AMQP 1.0 greeting with its own, and not with 0-9-1's."""
    host, _, port = HOST.partition(":")
    with socket.create_connection((host, int(port)), timeout=DEADLINE) as broker:
        broker.sendall(b"AMQP\x03\x01\x00\x00")
        return broker.recv(8) == b"AMQP\x03\x01\x00\x00"


@pytest.fixture(scope="session")
def broker() -> str:
    """The broker's URL, its plugin enabled if it was not."""
    try:
        speaks = _speaks_amqp_1()
    except OSError:
        pytest.skip(f"no broker at {HOST}")
    if not speaks:
        if shutil.which("rabbitmq-plugins") is None:
            pytest.skip(f"the broker at {HOST} speaks no AMQP 1.0, and rabbitmq-plugins is not here")
        subprocess.run(["rabbitmq-plugins", "enable", "rabbitmq_amqp1_0"], check=True, capture_output=True, timeout=600)
        assert _speaks_amqp_1()
    return URL


def rabbitmqctl(*args: str) -> str:
    done = subprocess.run(["rabbitmqctl", "-q", *args], check=True, capture_output=True, timeout=600)
    return done.stdout.decode()


@pytest.fixture(scope="session")
def prefix(broker: str) -> str:
    """What the names of this run's queues begin with; the broker removes them a minute after they were last used."""
    if shutil.which("rabbitmqctl") is not None:
        rabbitmqctl(
            "set_policy", "sabir-tests", "^(t-sabir-|nlip-reply)", '{"expires":60000}', "--apply-to", "queues"
        )  # fmt: skip
    return f"t-sabir-{uuid4().hex[:8]}"


@asynccontextmanager
async def amqp_gateway(
    home: Path, broker: str, address: str, *agents: Agent, url: str = "", quotas: Quotas | None = None, **settings: Any
) -> AsyncIterator[Gateway]:
    """A gateway that is reached over AMQP only."""
    doors = {"nlip-amqp": {"url": url or broker, "address": address, **settings}}
    gateway = Gateway(*agents, home=home, quotas=quotas, doors=doors)
    await gateway.start()
    try:
        await door_of(gateway).ready.wait()
        yield gateway
    finally:
        await gateway.stop()


def door_of(gateway: Gateway) -> NlipAmqp:
    return next(door for door in gateway.doors if isinstance(door, NlipAmqp))
